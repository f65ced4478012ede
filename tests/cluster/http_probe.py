"""Asking a component over HTTP whether it is ready. Certificates are checked; no answer counts as no."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.cluster.certificates import KeyPair

ANSWER_WITHIN_S = 2.0


def answers(url: str, authority: Path | None = None, pair: KeyPair | None = None) -> Callable[[], bool]:
    """A question to ask again and again: does `url` answer 200?"""
    return partial(_answers, url, authority, pair)


def _answers(url: str, authority: Path | None, pair: KeyPair | None) -> bool:
    context = ssl.create_default_context(cafile=authority) if authority else None
    if context and pair:
        context.load_cert_chain(pair.certificate, pair.key)
    try:
        handlers: list[urllib.request.BaseHandler] = [
            urllib.request.ProxyHandler({})
        ]  # a proxy of the machine's has no business on loopback
        if context:
            handlers.append(urllib.request.HTTPSHandler(context=context))
        with urllib.request.build_opener(*handlers).open(url, timeout=ANSWER_WITHIN_S) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
