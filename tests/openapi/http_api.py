"""An HTTP API for tests, in a thread of its own: it keeps what it was asked, and answers what a test says."""

import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that arrived."""

    method: str
    target: str
    key: str | None
    body: bytes


@dataclass(slots=True)
class HttpApi:
    """What an API was asked, and what it answers."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list[Asked])
    answers: dict[str, tuple[int, str, bytes]] = field(default_factory=dict[str, tuple[int, str, bytes]])
    """Status, content type and body by path; any other path gets an empty list."""


@asynccontextmanager
async def http_api() -> AsyncGenerator[HttpApi]:
    """An API on a free port."""
    api = HttpApi()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            api.asked.append(Asked(self.command, self.path, self.headers.get("x-key"), body))
            status, kind, answer = api.answers.get(
                self.path.partition("?")[0], (200, "application/json", b"[]")
            )
            self.send_response(status)
            if status != 204:
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    api.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
