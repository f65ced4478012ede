"""HTTP servers that answer as a test says, in a thread of the test's own process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


class Answering(BaseHTTPRequestHandler):
    """A handler without a log, which answers with a body in one call."""

    def answer(self, status: int, body: str = "") -> None:
        content = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def asked(self) -> bytes:
        """The request's body."""
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def log_message(self, *_: object) -> None: ...


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a running server, `host:port`."""
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def answering(status: int, body: str = "") -> Iterator[str]:
    """A server that answers every request so."""

    class Always(Answering):
        def _answer(self) -> None:
            self.asked()
            self.answer(status, body)

        do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815 - names that http.server looks for

    with serving(Always) as address:
        yield address
