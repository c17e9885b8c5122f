"""The pages for people on a real socket, and a browser without a screen in front of them."""

import re
import socket
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2

from tests.gateway.console.opening import Markup
from tests.gateway.driving import gateway_over
from tests.inside.config import Secrets, Serve
from tests.inside.gateway import (
    App,
    HttpServer,
    OidcProvider,
    PeoplePages,
    Person,
    PersonRegistry,
    WaitingRequest,
    access_of,
    listening_socket,
    person_files,
)
from tests.inside.state import Seal
from tests.patience import PATIENCE

REDIRECT = "https://client.example.com/back"
VIEWS: dict[str, Any] = {"default": {}, "research": {}}


@dataclass
class Requests:
    """The requests of clients, and what became of them."""

    waits: dict[str, WaitingRequest] = field(default_factory=dict[str, WaitingRequest])
    approved: list[tuple[Person, tuple[str, ...]]] = field(default_factory=list[Any])
    refused: list[str] = field(default_factory=list[str])

    def ask(self, **changes: Any) -> str:
        """A client sends somebody; returns its sealed request."""
        name = f"request{len(self.waits)}"
        usual: dict[str, Any] = {
            "id": name,
            "client_id": "abc",
            "client_name": "Desk",
            "client_host": "",
            "redirect_uri": REDIRECT,
            "resource": "https://tools.example.com/mcp",
            "scopes": ("tools",),
            "views": ("default",),
            "state": None,
            "code_challenge": "",
            "expires": time.time() + 600,
        }
        self.waits[name] = WaitingRequest(**{**usual, **changes})
        return name

    def waiting(self, sealed: str) -> WaitingRequest | None:
        return self.waits.get(sealed)

    async def approve(self, waiting: WaitingRequest, person: Person, views: Sequence[str]) -> str:
        if not views or not set(views) <= set(waiting.views):
            raise ValueError
        self.approved.append((person, tuple(views)))
        return f"{waiting.redirect_uri}?code=c0de"

    def refuse(self, waiting: WaitingRequest) -> str:
        self.refused.append(waiting.id)
        return f"{waiting.redirect_uri}?error=access_denied"


@dataclass
class Door:
    """The pages, as one browser sees them."""

    url: str
    """`http://127.0.0.1:PORT/sign-in`."""
    registry: PersonRegistry
    requests: Requests
    http: httpx2.AsyncClient
    """Follows no redirects, and keeps cookies."""

    @property
    def origin(self) -> str:
        return self.url.removesuffix("/sign-in")

    async def invite(self, name: str = "ann", *views: str) -> str:
        """The code of an invite."""
        person = Person(name=name, user=name)
        return (await self.registry.invite(person, views or ["default"]))[0]

    async def get(self, path: str = "", **query: str) -> httpx2.Response:
        return await self.http.get(f"{self.url}{path}", params=query)

    async def post(self, path: str, form: Mapping[str, str | list[str]], **headers: str) -> httpx2.Response:
        """Send a form as one of the pages does; `headers` replace those that it would send."""
        sent = {"origin": self.origin, "sec-fetch-site": "same-origin", **headers}
        kept = {name: value for name, value in sent.items() if value}
        return await self.http.post(f"{self.url}{path}", data=dict(form), headers=kept)

    async def enter(self, name: str = "ann", *views: str) -> None:
        """Sign in with an invite."""
        answered = await self.post("/invite", {"code": await self.invite(name, *views)})
        assert answered.status_code == 303, answered.text

    async def consent(self, request: str, choice: str = "allow", **changes: Any) -> httpx2.Response:
        """Answer the consent page with what its form has, and `changes`."""
        page = await self.get(request=request)
        form = fields_of(page.text, "/consent")
        return await self.post("/consent", {**form, "choice": choice, **changes})


def fields_of(page: str, action: str) -> dict[str, list[str]]:
    """The fields of the form that goes to `action`, as a browser would send them."""
    [form] = re.findall(rf'<form[^>]*action="[^"]*{action}".*?</form>', page, re.DOTALL)
    fields: dict[str, list[str]] = {}
    for one in Markup(form).named("input"):
        if name := one.get("name"):
            fields.setdefault(name, []).append(one.get("value") or "")
    return fields


def query_of(url: str) -> dict[str, str]:
    """The parameters of a URL."""
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


@asynccontextmanager
async def door(
    folder: Path, oidc: Mapping[str, Any] | None = None, sock: socket.socket | None = None, **serve: Any
) -> AsyncGenerator[Door]:
    """Serve the pages on a free port, or at a socket; `oidc` is its setting."""
    sock = sock or listening_socket("127.0.0.1", 0)
    origin = f"http://127.0.0.1:{sock.getsockname()[1]}"
    sign_in = {} if oidc is None else {"oidc": oidc}
    values: dict[str, Any] = {"public_url": origin, "views": VIEWS, "auth": {"sign_in": sign_in}, **serve}
    made = Serve(**values)
    registry, requests = PersonRegistry(person_files(folder / "toolbus.yaml")), Requests()
    provider = None
    assert made.auth.sign_in is not None
    if made.auth.sign_in.oidc is not None:
        back = f"{made.public_url}/sign-in/callback"
        provider = OidcProvider(made.auth.sign_in.oidc, Secrets(), Seal(bytes(32)), back)
    async with gateway_over({"servers": {}}, serve=made) as gateway:
        pages = PeoplePages(made, registry, requests, provider)
        config = gateway.bus.config.model_copy(update={"serve": made})
        server = HttpServer(App(gateway, access_of(config), beside=[pages]))
        await server.start(sock)
        try:
            async with httpx2.AsyncClient(timeout=PATIENCE) as http:
                yield Door(f"{origin}/sign-in", registry, requests, http)
        finally:
            await server.close()
            sock.close()
