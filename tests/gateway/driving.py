"""Clients of both eras that talk to a gateway without a wire."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Literal, Protocol

from tests.inside.config import Serve
from tests.inside.core import Interactions, QuestionRouting
from tests.inside.gateway import (
    LOCAL,
    ClientExchange,
    ClientSession,
    Gateway,
    GatewayLimits,
    Principal,
    Replicas,
    Views,
)
from tests.inside.state import Seal
from tests.patience import PATIENCE
from toolbus import Toolbus

VERSION = "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"
FORWARDS = Interactions(_routing=QuestionRouting(forwards=True))
Era = Literal["modern", "legacy"]
JSON = dict[str, Any]
Answers = dict[str, Callable[[JSON], JSON]]
"""The answers of a client, by method."""

MODERN_CAPABILITIES: JSON = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
LEGACY_CAPABILITIES: JSON = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {},
    "roots": {"listChanged": True},
}
_ids = count(1)


class Heard:
    """A stream of messages to a client."""

    def __init__(self, take: Callable[[JSON], None] | None = None) -> None:
        self.messages: list[JSON] = []
        self._take = take
        self._came = asyncio.Event()

    def send(self, message: Any) -> None:
        self.messages.append(message)
        self._came.set()
        if self._take is not None:
            self._take(message)

    def of(self, method: str) -> list[JSON]:
        """The params of the notifications of a method."""
        return [one.get("params", {}) for one in self.messages if one.get("method") == method]

    async def wait_for(self, method: str, times: int = 1) -> list[JSON]:
        """Wait until so many notifications of a method have come."""
        async with asyncio.timeout(PATIENCE):
            while len(self.of(method)) < times:
                self._came.clear()
                await self._came.wait()
        return self.of(method)


class Client(Protocol):
    """A client of either era."""

    heard: Heard
    """The messages on the streams of its requests."""
    answers: Answers
    asked: list[tuple[str, JSON]]
    """The questions that it was asked."""

    async def request(self, method: str, params: JSON | None = None, meta: JSON | None = None) -> JSON: ...


class ModernClient:
    """A modern client: every request has all that is to be known; questions are answered by another one."""

    def __init__(
        self,
        gateway: Gateway,
        capabilities: JSON | None = None,
        answers: Answers | None = None,
        principal: Principal = LOCAL,
    ) -> None:
        self.gateway = gateway
        self.capabilities = MODERN_CAPABILITIES if capabilities is None else capabilities
        self.answers = answers or {}
        self.principal = principal
        self.heard = Heard()
        self.asked: list[tuple[str, JSON]] = []

    async def once(
        self, method: str, params: JSON | None = None, meta: JSON | None = None, number: int | None = None
    ) -> JSON:
        """One request; what it needs is not answered."""
        meta = meta or {}
        exchange = ClientExchange(
            principal=self.principal,
            era="modern",
            version=VERSION,
            capabilities=self.capabilities,
            id=next(_ids) if number is None else number,
            channel=self.heard,
            meta=meta,
            log_level=meta.get("io.modelcontextprotocol/logLevel"),
        )
        async with asyncio.timeout(PATIENCE):
            return dict(await self.gateway.answer(exchange, method, params))

    async def request(self, method: str, params: JSON | None = None, meta: JSON | None = None) -> JSON:
        """A request, in as many rounds as it takes."""
        result = await self.once(method, params, meta)
        while result.get("resultType") == "input_required":
            retry = {**(params or {}), **self.answered(result)}
            result = await self.once(method, retry, meta)
        return result

    def answered(self, result: JSON) -> JSON:
        """The params of the next round."""
        responses: JSON = {}
        for key, asked in result.get("inputRequests", {}).items():
            self.asked.append((asked["method"], asked.get("params", {})))
            responses[key] = self.answers[asked["method"]](asked.get("params", {}))
        return {"inputResponses": responses, "requestState": result["requestState"]}


class LegacyClient:
    """A legacy client: has a session, and is asked on the streams of its requests."""

    def __init__(self, gateway: Gateway, session: ClientSession, answers: Answers | None = None) -> None:
        self.gateway = gateway
        self.session = session
        self.answers = answers or {}
        self.heard = Heard(self._answer)
        self.standalone = Heard()
        session.standalone = self.standalone
        self.asked: list[tuple[str, JSON]] = []

    @classmethod
    async def opened(
        cls,
        gateway: Gateway,
        capabilities: JSON | None = None,
        answers: Answers | None = None,
        principal: Principal = LOCAL,
        version: str = "2025-11-25",
    ) -> "LegacyClient":
        declared = LEGACY_CAPABILITIES if capabilities is None else capabilities
        info = {"name": "test", "version": "1"}
        params = {"protocolVersion": version, "capabilities": declared, "clientInfo": info}
        session, _ = await gateway.initialize(principal, params)
        return cls(gateway, session, answers)

    def _answer(self, message: JSON) -> None:
        if "id" in message and "method" in message:
            self.asked.append((message["method"], message.get("params", {})))
            answer = self.answers.get(message["method"])
            if answer is not None:
                result = answer(message.get("params", {}))
                asyncio.get_running_loop().call_soon(
                    self.session.answered, {"jsonrpc": "2.0", "id": message["id"], "result": result}
                )

    async def request(
        self, method: str, params: JSON | None = None, meta: JSON | None = None, number: int | None = None
    ) -> JSON:
        exchange = ClientExchange(
            principal=self.session.principal,
            era="legacy",
            version=self.session.version,
            capabilities=self.session.capabilities,
            id=next(_ids) if number is None else number,
            channel=self.heard,
            meta=meta or {},
            session=self.session,
        )
        async with asyncio.timeout(PATIENCE):
            return dict(await self.gateway.answer(exchange, method, params))


@asynccontextmanager
async def gateway_over(
    config: JSON,
    settings: GatewayLimits | None = None,
    seal: Seal | None = None,
    interactions: Interactions = FORWARDS,
    serve: Serve | None = None,
    replicas: Replicas | None = None,
    **more: Any,
) -> AsyncGenerator[Gateway]:
    """A gateway over the servers of a config; `serve` has the views of clients."""
    bus = Toolbus(config, interactions=interactions, **more)
    views = Views(bus, serve)
    shown: dict[str, Any] = {} if serve is None else {"view_of": views.view_of, "budget_of": views.budget_of}
    async with bus, Gateway(bus, settings, seal=seal, replicas=replicas, **shown) as gateway:
        yield gateway


async def client_of(
    era: Era, gateway: Gateway, answers: Answers | None = None, capabilities: JSON | None = None
) -> ModernClient | LegacyClient:
    """A client of an era."""
    if era == "modern":
        return ModernClient(gateway, capabilities, answers)
    return await LegacyClient.opened(gateway, capabilities, answers)


def text_of(result: JSON) -> str:
    """The text of a tool's result."""
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
