"""The provider: every wire format at its own address, one script behind them all."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.wire.answer import Answer, Unsendable
from tests.wire.asked import Arrival, Asked, asked
from tests.wire.chat import CHAT
from tests.wire.dialect import Dialect
from tests.wire.google import GOOGLE
from tests.wire.messages import MESSAGES
from tests.wire.outage import Broken, Silent
from tests.wire.published import type_errors
from tests.wire.responses import RESPONSES
from tests.wire.script import REFUSED, Script
from tests.wire.server import ThreadedServer
from tests.wire.turn import JSON, Fault, Turn

logger = logging.getLogger(__name__)

KEY = "scripted"
MODELS = {
    "object": "list",
    "data": [{"id": "scripted", "object": "model", "created": 1700000000, "owned_by": "tests"}],
}
GOOGLE_METHODS = {"generateContent": False, "streamGenerateContent": True}


class Provider:
    """Plays a script to any client, over HTTP, for as long as the block runs.

    A function instead of a list is called in the server's thread, for one request at a time.
    """

    def __init__(self, script: Sequence[Turn] | Callable[[Asked], Turn]) -> None:
        self._script = Script(script)
        bodied = ((CHAT, "/v1/chat/completions"), (RESPONSES, "/v1/responses"), (MESSAGES, "/v1/messages"))
        routes = [Route(path, self._endpoint(dialect), methods=["POST"]) for dialect, path in bodied]
        routes.append(Route("/v1/models", _models))
        routes.append(Route("/{version}/{target:path}", self._google, methods=["POST"]))
        self._server = ThreadedServer(Starlette(routes=routes))

    @property
    def url(self) -> str:
        """The address without a version."""
        return self._server.url

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead the providers' packages, and frameworks using them, to this provider."""
        return {
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_BASE": f"{self.url}/v1",
            "OPENAI_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": self.url,
            "GOOGLE_API_KEY": KEY,  # and not GEMINI_API_KEY: with both, Google's package warns
        }

    @property
    def asked(self) -> list[Asked]:
        """Every request for an answer so far, in order."""
        return self._script.asked

    @property
    def left(self) -> list[Turn]:
        """The turns of the script not yet played."""
        return self._script.left

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.__exit__(kind, error, trace)

    def _endpoint(self, dialect: Dialect) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            body: JSON = await request.json()
            model, streamed = str(body.get("model")), bool(body.get("stream"))
            return self._served(dialect, request, _arrival(dialect, request, body, model, streamed))

        return endpoint

    async def _google(self, request: Request) -> Response:
        name, _, method = request.path_params["target"].rpartition("/")[2].partition(":")
        if method not in GOOGLE_METHODS:
            return JSONResponse(GOOGLE.error(Fault(404, f"no such address: {request.url.path}")), 404)
        body: JSON = await request.json()
        arrival = _arrival(GOOGLE, request, body, name, GOOGLE_METHODS[method])
        return self._served(GOOGLE, request, arrival)

    def _served(self, dialect: Dialect, request: Request, arrival: Arrival) -> Response:
        try:
            if wrong := self._errors(dialect, arrival):
                return _failed(dialect, Fault(REFUSED, "; ".join(wrong)))
            conversation = dialect.read(arrival.body)
            answer = self._script.answer(asked(arrival, conversation, self._script.called))
            if isinstance(answer, Fault):
                return _failed(dialect, answer)
            return self._answered(dialect, request, answer)
        except Unsendable as error:
            return _failed(dialect, Fault(REFUSED, str(error)))
        except Exception as error:  # of a body that cannot be read, or of the script's function
            logger.exception("the scripted provider could not answer")
            return _failed(dialect, Fault(REFUSED, f"the scripted provider could not answer: {error!r}"))

    def _errors(self, dialect: Dialect, arrival: Arrival) -> list[str]:
        """The reasons for which the real provider would refuse this request."""
        beta = "anthropic-beta" in arrival.headers
        wrong = type_errors(dialect.wire, arrival.body, beta=beta)
        return wrong or list(dialect.errors(arrival.body, self._script.called))

    def _answered(self, dialect: Dialect, request: Request, answer: Answer) -> Response:
        if answer.breaks:
            assert request.client is not None
            client = (request.client.host, request.client.port)
            events = dialect.stream(answer) if answer.asked.streamed else None
            return Broken(events, lambda: self._server.lose_client(client))
        if answer.asked.streamed:
            # Written before the first is sent: what cannot be sent is an error and not half a stream.
            events = list(dialect.stream(answer))
            return StreamingResponse(_each(events), media_type="text/event-stream")
        return JSONResponse(dialect.plain(answer))


def _arrival(dialect: Dialect, request: Request, body: JSON, model: str, streamed: bool) -> Arrival:
    headers = dict(request.headers)
    return Arrival(wire=dialect.wire, model=model, streamed=streamed, body=body, headers=headers)


async def _each(events: list[str]) -> AsyncIterator[str]:
    for event in events:
        yield event


async def _models(_: Request) -> Response:
    return JSONResponse(MODELS)


def _failed(dialect: Dialect, fault: Fault) -> Response:
    if fault.hangs:
        return Silent()
    wait = {} if fault.retry_after is None else {"retry-after": f"{fault.retry_after:g}"}
    return JSONResponse(dialect.error(fault), fault.status, wait)
