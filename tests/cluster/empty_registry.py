"""A registry of images that has none: it answers, and what is asked for is not found."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def empty_registry() -> Iterator[str]:
    """Its name, as it stands before the image's; containers' runtimes speak plain HTTP with localhost."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _NotFound) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"localhost:{server.server_port}"
        server.shutdown()


class _NotFound(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""
