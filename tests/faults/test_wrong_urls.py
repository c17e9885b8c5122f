"""A URL that is not an MCP server's: each answer is told apart, and the next step fits it."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple

import pytest

from tests.conftest import plain
from toolbus import CallTimeout, ConnectFailed, connect_mcp

pytestmark = pytest.mark.anyio


class Reply(NamedTuple):
    """The web server's answer to every request for one path."""

    status: int
    kind: str = ""
    body: bytes = b""
    location: str = ""
    challenge: str = ""


PAGE = b"<!doctype html><title>Sign in</title>"
REPLIES = {
    "/page": Reply(200, "text/html; charset=utf-8", PAGE),
    "/text": Reply(200, "text/plain", b"It works!"),
    "/other": Reply(200, "application/json", b'{"status": "up"}'),
    "/nothing": Reply(204),
    "/400": Reply(400),
    "/refusal": Reply(400, "application/json", b'{"error": {"code": -32000, "message": "no tenant"}}'),
    "/expired": Reply(
        403, "application/json", b'{"error": "invalid", "error_description": "a trial\\nended"}'
    ),
    "/scope": Reply(403, challenge='Bearer error="insufficient", error_description="needs \\"write\\""'),
    "/detail": Reply(401, "application/json", b'{"detail": "the key sk-s3cr3t is unknown"}'),
    "/phrase": Reply(400, "application/json", b'{"error": "Bad Request", "error_description": 1}'),
    "/404": Reply(404, "text/html", PAGE),
    "/405": Reply(405),
    "/429": Reply(429),
    "/502": Reply(502, "text/html", PAGE),
    "/moved": Reply(307, location="https://other.example/mcp?token=s3cr3t"),
    "/signin": Reply(302, location="/page"),
    "/loop": Reply(307, location="/loop"),
}

PATH = "check the path of the URL (many servers are at /mcp or /sse)"
IS_IT = "check that it is the URL of an MCP server"
LOGIN = "if it is a login page, add credentials; else put the server's own URL into the config"
WEBSITE = "check the URL: it is a website or a login page"
TOLD = {
    "/page": f"the server's response is a web page (text/html); {WEBSITE}",
    "/text": f"the server's response (text/plain) contains no message; {IS_IT}",
    "/other": f"the server's response (application/json) contains no message; {IS_IT}",
    "/nothing": f"the server's response (HTTP 204 No Content) contains no message; {IS_IT}",
    "/400": f"HTTP 400 Bad Request; {IS_IT}",
    "/404": f"HTTP 404 Not Found; {PATH}",
    "/405": f"HTTP 405 Method Not Allowed; that path does not take MCP requests: {PATH}",
    "/429": "HTTP 429 Too Many Requests; wait and retry",
    "/502": "HTTP 502 Bad Gateway; check the server's log, or retry later",
    "/moved": (
        "HTTP 307 redirects to https://other.example/mcp, another origin, which is not followed; "
        "if you trust it, put that URL into the config"
    ),
    "/loop": f"HTTP 307 redirects to {{origin}}/loop, which is not followed; {LOGIN}",
}


class Answer(BaseHTTPRequestHandler):
    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        reply = REPLIES[self.path.partition("?")[0]]
        self.send_response(reply.status)
        for name, value in (
            ("content-type", reply.kind),
            ("location", reply.location),
            ("www-authenticate", reply.challenge),
        ):
            if value:
                self.send_header(name, value)
        self.send_header("content-length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    do_GET = do_POST = do_DELETE = answer  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


async def failure(**config: Any) -> ConnectFailed:
    with pytest.raises(ConnectFailed) as caught:
        await connect_mcp(alias="a", **config)
    return caught.value


@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize("path", TOLD)
async def test_an_answer_that_is_none_is_named_with_a_next_step_that_fits(
    origin: str, path: str, transport: str
) -> None:
    error = await failure(url=f"{origin}{path}?token=s3cr3t", transport=transport)
    told = TOLD[path].format(origin=origin)
    assert error.problem == f"{error.phase} failed: {told}"
    assert error.phase == ("connect" if transport == "sse" else "handshake")
    assert error.hint


async def test_a_redirect_that_turns_a_message_into_a_visit_is_taken_for_a_login(origin: str) -> None:
    posted = await failure(url=f"{origin}/signin")
    assert posted.cause == f"HTTP 302 redirects to {origin}/page, which is not followed"
    assert posted.hint == LOGIN
    assert (await failure(url=f"{origin}/signin", transport="sse")).hint == WEBSITE


REASONS = {
    "/expired": "HTTP 403 Forbidden: a trial ended",
    "/scope": 'HTTP 403 Forbidden: needs "write"',
    "/detail": "HTTP 401 Unauthorized: the key *** is unknown",
    "/phrase": "HTTP 400 Bad Request",
}


@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize("path", REASONS)
async def test_the_reason_in_the_body_or_the_challenge_of_a_refusal_is_shown(
    origin: str, path: str, transport: str
) -> None:
    error = await failure(url=f"{origin}{path}", transport=transport, headers={"X-Key": "sk-s3cr3t"})
    assert error.cause == REASONS[path]
    assert error.problem == f"{error.phase} failed: {REASONS[path]}; {error.hint}"
    assert error.hint


async def test_the_reason_that_a_server_gives_beside_the_status_is_kept(origin: str) -> None:
    error = await failure(url=f"{origin}/refusal")
    assert (error.status, error.cause) == (400, "HTTP 400 Bad Request: no tenant")


def test_a_time_is_rounded_to_be_read() -> None:
    told = [
        str(CallTimeout("a", "it", seconds)).split(" after ")[1] for seconds in (4.99999, 0.5, 300.0, 0.0012)
    ]
    assert told == ["5 s", "0.5 s", "300 s", "0.0012 s"]


async def test_silence_of_a_process_is_another_matter_than_silence_of_a_url() -> None:
    process = await failure(**plain("never_answer", timeouts={"connect": 0.3333333}))
    # On a busy machine, starting the process may take all of the time.
    assert process.problem == (
        f"{process.phase} failed: timed out after 0.33 s: it did not answer, so toolbus ended it; "
        "if it starts slowly, as with a first download, raise timeouts.connect"
    )
