"""Processes are ended whole, whatever they do about it, and never mistaken for others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from lockstep.local import service_process
from lockstep.local.probe import HttpProbe
from lockstep.local.service import MARKER, Service
from lockstep.local.service_process import ServiceProcess

STUBBORN = "import signal; [signal.signal(s, signal.SIG_IGN) for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]"
WAIT = "import threading; print('begun', flush=True); threading.Event().wait()"


def started(state_folder: Path, code: str) -> tuple[ServiceProcess, Path]:
    """A service that runs the code, once it has printed `begun`, and its log."""
    service = Service(
        name="test",
        argv=(sys.executable, "-c", code),
        env={"PATH": os.environ["PATH"], MARKER: str(state_folder)},
        cwd=state_folder,
        ready=HttpProbe(url="http://127.0.0.1:1"),
        url="",
    )
    log = state_folder / "test.log"
    process = service_process.start(service, log)
    wait_until(lambda: "begun" in log.read_text())
    return process, log


def wait_until(met: Callable[[], bool], timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_process_that_ignores_being_asked_is_killed(state_folder):
    process, _ = started(state_folder, f"{STUBBORN}\n{WAIT}")
    service_process.end([process], grace_s=0.3)
    assert process.living() is None


def test_children_are_ended_with_their_parent_even_out_of_its_group(state_folder):
    child = f"{STUBBORN}; {WAIT}"
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True).wait()"
    process, _ = started(state_folder, code)
    service_process.end([process], grace_s=0.3)
    assert list(service_process.marked(state_folder)) == []


def test_orphans_are_found_by_the_stack_s_mark(state_folder):
    """SIGKILL leaves children without a parent; their environment still says whose they are."""
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {WAIT!r}], start_new_session=True).wait()"
    process, _ = started(state_folder, code)
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: process.living() is None)
    assert service_process.end_strays(state_folder) == 1
    assert list(service_process.marked(state_folder)) == []


def test_another_stack_s_processes_are_left_alone(state_folder):
    process, _ = started(state_folder, WAIT)
    assert service_process.end_strays(state_folder.parent) == 0
    assert process.living() is not None
    service_process.end([process])


def test_what_is_spared_is_spared_with_its_children(state_folder):
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {WAIT!r}]).wait()"
    process, _ = started(state_folder, code)
    assert service_process.end_strays(state_folder, spared=[process]) == 0
    service_process.end([process])


def test_a_reused_process_id_is_not_taken_for_the_service():
    """The recorded start time differs, so this very process is not the one that was recorded."""
    us = service_process.recorded(psutil.Process(), "")
    assert us.living() is not None
    assert replace(us, started_s=us.started_s - 3600).living() is None


def test_a_corrected_clock_makes_no_stranger_of_a_process(monkeypatch):
    """Linux tells when the system started by the clock, so that every correction moves it, and what is added to it."""
    us = service_process.recorded(psutil.Process(), "")
    began_at = psutil.boot_time() + 3600
    for module in (psutil, psutil._pslinux):
        monkeypatch.setattr(module, "boot_time", lambda: began_at)
    assert psutil.Process().create_time() == pytest.approx(us.created_at + 3600, abs=2)
    assert us.living() is not None


def test_a_zombie_does_not_live():
    child = subprocess.Popen([sys.executable, "-c", ""])
    recorded = service_process.recorded(psutil.Process(child.pid), "")
    wait_until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
    assert recorded.living() is None
    child.wait()


def test_the_log_of_the_last_start_is_kept(state_folder):
    for _ in range(2):
        process, log = started(state_folder, WAIT)
        service_process.end([process])
    assert log.read_text() == "begun\n"
    assert log.with_suffix(".previous.log").read_text() == "begun\n"


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGKILL])
def test_a_service_outlives_whoever_started_it(state_folder, signal_number):
    """`make up` ends, or its terminal is closed; the services stay."""
    code = f"""
import sys, threading
from pathlib import Path
sys.path.insert(0, {str(Path(service_process.__file__).parents[2])!r})
from lockstep.local import service_process
from lockstep.local.probe import HttpProbe
from lockstep.local.service import Service
service = Service(name="x", argv=(sys.executable, "-c", {WAIT!r}), env={{{MARKER!r}: {str(state_folder)!r}}},
                  cwd=Path({str(state_folder)!r}), ready=HttpProbe(url=""), url="")
print(service_process.start(service, Path({str(state_folder / "x.log")!r})).pid, flush=True)
threading.Event().wait()
"""
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    service = psutil.Process(int(starter.stdout.readline()))
    starter.send_signal(signal_number)
    starter.wait()
    starter.stdout.close()
    assert service_process.is_alive(service)
    assert service_process.end_strays(state_folder) == 1
