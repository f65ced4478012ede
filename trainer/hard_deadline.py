"""Ends this process at a deadline even while C code holds Python's lock, as TensorFlow's start does.

No Python thread, signal handler or timer runs then, so the C library's own timer calls `_exit`; faulthandler, which
needs no lock either, prints the stacks shortly before. Where the C library has no such timer (macOS), faulthandler ends
the process too, with status 1.
"""

from __future__ import annotations

import ctypes
import faulthandler
from collections.abc import Iterator
from contextlib import contextmanager

_CLOCK_MONOTONIC = 1
_SIGEV_THREAD = 2
_STACKS_BEFORE_END_S = 0.5


class _SignalEvent(ctypes.Structure):
    """`struct sigevent` of <signal.h>, 64 bytes; its value is handed to `function` on a thread of its own."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("function", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("padding", ctypes.c_byte * 32),
    )


class _TimerSpec(ctypes.Structure):
    """`struct itimerspec` of <time.h>."""

    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


@contextmanager
def hard_deadline(timeout_s: float, exit_code: int) -> Iterator[None]:
    """Unless the block ends within `timeout_s`, print all stacks and end the process with `exit_code`."""
    libc = ctypes.CDLL(None, use_errno=True)
    has_timers = hasattr(libc, "timer_create")
    timer = _start_timer(libc, timeout_s, exit_code) if has_timers else None
    faulthandler.dump_traceback_later(max(timeout_s - _STACKS_BEFORE_END_S, 0.1), exit=not has_timers)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        if timer is not None:
            libc.timer_delete(timer)


def _start_timer(libc: ctypes.CDLL, timeout_s: float, exit_code: int) -> ctypes.c_void_p:
    event = _SignalEvent(value=exit_code, notify=_SIGEV_THREAD, function=ctypes.cast(libc._exit, ctypes.c_void_p))
    timer = ctypes.c_void_p()
    _check(libc.timer_create(_CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer)))
    seconds, rest_s = divmod(timeout_s, 1)
    due = _TimerSpec(value_s=int(seconds), value_ns=max(int(rest_s * 1e9), 1))
    _check(libc.timer_settime(timer, 0, ctypes.byref(due), None))
    return timer


def _check(status: int) -> None:
    if status:
        raise OSError(ctypes.get_errno(), "the C library refused a timer")
