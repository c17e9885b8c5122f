"""The REST API over HTTP: paths, bodies and preferences; a request becomes one of the gateway's methods."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import NamedTuple, Protocol

from pydantic_core import from_json

from toolbus.connect.transports.wire.messages import UnreadableMessage, parsed_strictly
from toolbus.core.ask.interactions import Stopwatch
from toolbus.core.text.canonical import digest_of
from toolbus.core.values.errors import StoreError, ToolbusError
from toolbus.core.values.records import JSON, JSONObject
from toolbus.gateway.access.admission import Refusal
from toolbus.gateway.gateway import Gateway
from toolbus.gateway.http.limits import HttpLimits, InFlight
from toolbus.gateway.http.request import (
    JSON_TYPE,
    Headers,
    HttpRequest,
    NoRoom,
    encoded,
    encoded_headers,
    is_json,
)
from toolbus.gateway.metrics import Metrics
from toolbus.gateway.protocol.request import ClientExchange
from toolbus.gateway.protocol.words import MODERN_VERSIONS, RESERVED, ProtocolError, WrongReplica, is_object
from toolbus.gateway.rest.idempotency import AnswersInMemory, IdempotencyKeys
from toolbus.gateway.rest.methods import LONGEST_WAIT, REST
from toolbus.gateway.rest.openapi import DocumentPlace, Documents
from toolbus.gateway.rest.problems import (
    CallProblem,
    RestAnswer,
    problem_answer,
    problem_json,
    problem_of,
    respond,
)

_PATH = re.compile(r"(?:/views/([^/]+))?/(?:(openapi\.json)|(tools|calls)/([^/]+))")
_METHODS = {"openapi.json": ("GET", "HEAD"), "tools": ("POST",), "calls": ("GET", "POST", "DELETE")}
_CALL_METHODS = {"GET": "tasks/get", "POST": "tasks/update", "DELETE": "tasks/cancel"}
_CAPABILITIES: JSONObject = {"elicitation": {"form": {}, "url": {}}}
"""The questions that a REST client can answer: it gets them with 202."""
_WAIT = re.compile(r"wait=\"?(\d{1,9})\"?")
_RETRY: Headers = ((b"retry-after", b"1"),)


class RestPath(NamedTuple):
    """The endpoint that a path names."""

    view: str
    """Empty for the view of the client."""
    kind: str
    name: str

    @property
    def base(self) -> str:
        """The path of the API of its view."""
        return f"/views/{self.view}" if self.view else ""


class OtherReplicas(Protocol):
    """The other replicas, for requests that this process should not answer."""

    is_draining: bool

    async def here_or_elsewhere(
        self, http: HttpRequest, body: bytes, request_id: None, work: Callable[[], Awaitable[None]]
    ) -> None: ...
    async def leave_to_others(self, http: HttpRequest, body: bytes, request_id: None) -> None: ...


class RestFront:
    """Answers the requests to the REST API."""

    def __init__(
        self,
        gateway: Gateway,
        metrics: Metrics,
        limits: HttpLimits,
        in_flight: InFlight,
        others: OtherReplicas,
        public_url: Callable[[], str | None],
    ) -> None:
        self._gateway = gateway
        self._metrics = metrics
        self._limits = limits
        self._in_flight = in_flight
        self._others = others
        self._public_url = public_url
        self._documents = Documents()
        self._ids = count(1)
        replicas = gateway.replicas
        if replicas is None:
            self._keys = IdempotencyKeys(AnswersInMemory())
        else:
            self._keys = IdempotencyKeys(replicas.store, replicas.id, self._has_ended)

    @staticmethod
    def place(path: str) -> RestPath | None:
        """The endpoint of a path; None if the path is not part of the REST API."""
        found = _PATH.fullmatch(path)
        if found is None:
            return None
        view, document, kind, name = found.groups()
        return RestPath(view or "", document or kind, name or "")

    @staticmethod
    async def refuse(http: HttpRequest, refusal: Refusal) -> None:
        """Send a refusal as a problem."""
        detail = from_json(refusal.body)["error_description"]
        code = {401: "unauthorized", 403: "forbidden", 404: "unknown_view", 429: "busy"}.get(
            refusal.status, "refused"
        )
        kept = {name: value for name, value in refusal.headers.items() if name != "content-type"}
        problem = CallProblem(refusal.status, code, detail, sent=False)
        await respond(http, problem_answer(problem, encoded_headers(kept)))

    async def serve(self, http: HttpRequest) -> None:
        """Answer a request that was admitted."""
        place, method = self.place(http.facts.path), http.facts.method
        assert place is not None, "asked only then"
        if method not in (allowed := _METHODS[place.kind]):
            problem = CallProblem(405, "not_allowed", f"{place.kind} takes {', '.join(allowed)}")
            return await respond(http, problem_answer(problem, ((b"allow", ", ".join(allowed).encode()),)))
        status = self._in_flight.take(http.principal)
        if status:
            whose = "you have" if status == 429 else "the gateway has"
            return await self._busy(http, status, f"{whose} too many requests in flight (max_in_flight)")
        try:
            body = await http.body(self._in_flight.reserve)
            self._in_flight.note_size(http)
            if self._others.is_draining:
                return await self._others.leave_to_others(http, body, None)

            async def work() -> None:
                await self._answer(http, place, body)

            return await self._others.here_or_elsewhere(http, body, None, work)
        except NoRoom:
            return await self._busy(http, 429, "too many large requests are in flight (max_body)")
        finally:
            self._in_flight.release(http)

    async def _busy(self, http: HttpRequest, status: int, reason: str) -> None:
        await asyncio.sleep(self._limits.refusal_seconds)
        await respond(http, problem_answer(CallProblem(status, "busy", reason, sent=False, retryAfter=1)))

    async def _answer(self, http: HttpRequest, place: RestPath, body: bytes) -> None:
        try:
            if place.kind == "tools":
                answer = await self._tool(http, place, body)
            elif place.kind == "calls":
                answer = await self._call(http, place, body)
            else:
                answer = await self._document(http, place)
        except ProtocolError as error:
            answer = problem_answer(error)
        await respond(http, answer)

    # Tools

    async def _tool(self, http: HttpRequest, place: RestPath, body: bytes) -> RestAnswer:
        arguments = self._read(http, body)
        params = {"name": place.name, "arguments": arguments, **_wait_of(http)}
        key = http.headers.get("idempotency-key")
        if key is None:
            return await self._called(http, place, params)
        owner = f"{http.principal.owner}\0{http.principal.view}"
        digest = digest_of([place.name, arguments])
        task = self._keys.begin(owner, key.strip(), digest, lambda: self._called(http, place, params))
        try:
            return await asyncio.shield(task)
        finally:
            if not task.done():  # its client has left, and may come back
                self._in_flight.keep(http, task)

    async def _called(self, http: HttpRequest, place: RestPath, params: Mapping[str, JSON]) -> RestAnswer:
        try:
            result = await self._asked(http, "tools/call", params)
        except ProtocolError as error:
            return problem_answer(error)
        if "call" not in result:
            return RestAnswer(200, encoded(result["result"]), (JSON_TYPE,))
        call = result["call"]
        return RestAnswer(202, encoded(call), (JSON_TYPE, *_RETRY, _location(place, call["id"])))

    # Calls that their clients come back for

    async def _call(self, http: HttpRequest, place: RestPath, body: bytes) -> RestAnswer:
        method = http.facts.method
        params: dict[str, JSON] = {"taskId": place.name, **_wait_of(http)}
        if method == "POST":
            params["answers"] = self._read(http, body).get("answers")
        result = await self._asked(http, _CALL_METHODS[method], params)
        if "call" not in result:
            return RestAnswer(204)
        call = result["call"]
        is_over = call["status"] in ("completed", "failed")
        return RestAnswer(200, encoded(call), (JSON_TYPE, *(() if is_over else _RETRY)))

    # The document

    async def _document(self, http: HttpRequest, place: RestPath) -> RestAnswer:
        name, base = self._gateway.settings.name, (self._public_url() or "").rstrip("/")
        about = DocumentPlace(
            title=f"{name}: {place.view}" if place.view else name,
            url=f"{base}{place.base}" or "/",
            is_secured=http.principal.kind != "local",
        )
        found = await self._asked(http, "tools/list", {"documents": self._documents, "place": about})
        tag = found["tag"]
        headers = ((b"etag", tag.encode()), (b"cache-control", b"private, no-cache"))
        known = {one.strip().removeprefix("W/") for one in http.headers.get("if-none-match", "").split(",")}
        if known & {tag, "*"}:
            return RestAnswer(304, b"", headers)
        return RestAnswer(200, found["document"], (JSON_TYPE, *headers))

    # What all have

    async def _asked(self, http: HttpRequest, method: str, params: Mapping[str, JSON]) -> JSONObject:
        """The result of a method of the gateway."""
        exchange = ClientExchange(
            principal=http.principal,
            headers=http.headers,
            era="modern",
            version=MODERN_VERSIONS[-1],
            capabilities=_CAPABILITIES,
            id=next(self._ids),
            channel=_NOBODY,
            meta=_client_of(http),
            size=http.size,
        )
        watch, error = Stopwatch(), "cancelled"
        try:
            result = await self._gateway.answer(exchange, method, params, REST)
            error = None
            return result
        except WrongReplica:
            error = None
            raise
        except ProtocolError as raised:
            cause = raised.__cause__
            problem = problem_of(cause) if isinstance(cause, ToolbusError) else raised
            error = str(problem_json(problem)["code"])
            raise problem from cause
        finally:
            self._metrics.ended(method, watch.seconds, error)

    def _read(self, http: HttpRequest, body: bytes) -> JSONObject:
        """The object in a body. No form, and no text that a page of a browser sends without asking."""
        if not is_json(http.headers.get("content-type", "")):
            raise CallProblem(415, "not_json", "send content-type: application/json", sent=False)
        try:
            value: JSON = parsed_strictly(body, self._limits.values) if body else dict[str, JSON]()
        except (UnreadableMessage, ValueError) as error:
            reason = f": the body {error}" if isinstance(error, UnreadableMessage) else ""
            raise CallProblem(400, "invalid_request", f"the body is not JSON{reason}", sent=False) from None
        if not is_object(value):
            raise CallProblem(400, "invalid_request", "the body must be a JSON object", sent=False)
        return value

    async def _has_ended(self, replica: str) -> bool:
        assert self._gateway.replicas is not None, "asked only then"
        try:
            return await self._gateway.replicas.peers.find(replica) is None
        except StoreError:
            return False


class _NoChannel:
    """No notification reaches a REST client."""

    def send(self, message: JSONObject) -> None: ...


_NOBODY = _NoChannel()


def _location(place: RestPath, call: str) -> tuple[bytes, bytes]:
    return b"location", f"{place.base}/calls/{call}".encode()


def _client_of(http: HttpRequest) -> JSONObject:
    """The `User-Agent` of a client, in the form of MCP."""
    name, _, version = http.headers.get("user-agent", "").partition(" ")[0].partition("/")
    return {f"{RESERVED}clientInfo": {"name": name, "version": version}} if name else {}


def _wait_of(http: HttpRequest) -> JSONObject:
    """The wait that a client prefers (RFC 7240); empty without a `Prefer` header."""
    wanted = [one.strip().lower() for one in http.headers.get("prefer", "").split(",")]
    seconds = next((found[1] for one in wanted if (found := _WAIT.fullmatch(one))), None)
    if seconds is not None:
        return {"wait": min(float(seconds), LONGEST_WAIT)}
    return {"wait": 0.0} if "respond-async" in wanted else {}
