"""The pages for people on a real socket, and a browser without a screen in front of them."""

import re
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
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
    SignInServer,
    SignInState,
    access_of,
    grant_files,
    listening_socket,
    person_files,
)
from tests.inside.state import Seal
from tests.patience import PATIENCE

REDIRECT = "https://client.example.com/back"
VIEWS: dict[str, Any] = {"default": {}, "research": {}}


@dataclass
class Requests:
    """Clients that send somebody to the pages, and what became of their requests."""

    origin: str
    server: SignInServer
    http: httpx2.AsyncClient

    async def ask(
        self, *views: str, name: str = "Desk", redirect_uri: str = REDIRECT, resource: str = "/mcp"
    ) -> str:
        """A new client asks for views, `default` if it names none; returns its sealed request."""
        metadata = {
            "client_name": name,
            "redirect_uris": [redirect_uri],
            "token_endpoint_auth_method": "none",
        }
        registered = await self.http.post(f"{self.origin}/register", json=metadata)
        assert registered.status_code == 201, registered.text
        query = {
            "response_type": "code",
            "client_id": registered.json()["client_id"],
            "redirect_uri": redirect_uri,
            "code_challenge": "x" * 43,
            "code_challenge_method": "S256",
            "resource": f"{self.origin}{resource}",
            "scope": " ".join(views or ("default",)),
        }
        sent = await self.http.get(f"{self.origin}/authorize", params=query)
        assert sent.status_code == 302, sent.text
        return query_of(sent.headers["location"])["request"]

    @property
    def approved(self) -> list[tuple[Person, tuple[str, ...]]]:
        """The people who allowed a client, and the views that they gave."""
        grants = self.server.state.grants.all()
        return [(Person(name=one.person, user=one.user), one.views) for one in grants]


@dataclass
class Door:
    """The pages, as one browser sees them."""

    url: str
    """`http://127.0.0.1:PORT/sign-in`."""
    registry: PersonRegistry
    requests: Requests
    http: httpx2.AsyncClient
    """Follows no redirects, and keeps cookies."""
    notes: list[str]
    """The lines for the log of the gateway."""

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
    registry = PersonRegistry(person_files(folder / "toolbus.yaml"))
    provider = None
    assert made.auth.sign_in is not None
    if made.auth.sign_in.oidc is not None:
        back = f"{made.public_url}/sign-in/callback"
        provider = OidcProvider(made.auth.sign_in.oidc, Secrets(), Seal(bytes(32)), back)
    state, notes = SignInState(grant_files(folder / "toolbus.yaml")), list[str]()
    state.note = notes.append
    server = SignInServer(state, made)
    async with gateway_over({"servers": {}}, serve=made) as gateway:
        pages = PeoplePages(made, registry, server, provider, notes.append)
        server.show = pages.refuse_client
        config = gateway.bus.config.model_copy(update={"serve": made})
        app = App(gateway, access_of(config, sign_in=state), beside=[server, pages])
        http_server = HttpServer(app)
        await http_server.start(sock)
        try:
            async with httpx2.AsyncClient(timeout=PATIENCE) as http:
                yield Door(f"{origin}/sign-in", registry, Requests(origin, server, http), http, notes)
        finally:
            await http_server.close()
            sock.close()
