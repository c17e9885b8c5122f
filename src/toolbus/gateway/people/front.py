"""The pages for people over HTTP: sign-in by link or OIDC provider, consent, and sign-out.

A form is refused unless one of these pages sent it. Consent also needs a token, which is bound to the session
of the browser and to the request of the client. No other page can show these in a frame.
"""

import hmac
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qs, urlencode, urlsplit

import toolbus.console.elements as console
from toolbus.config.settings.serve import Serve
from toolbus.console.editing.fields import Fields
from toolbus.core.values.errors import StoreError
from toolbus.gateway.access.admission import Admission
from toolbus.gateway.access.hosts import Hosts
from toolbus.gateway.http.request import Headers, HttpRequest, NoRoom
from toolbus.gateway.people.oidc import FLOW_SECONDS, OidcProvider, OidcRefused
from toolbus.gateway.people.pages import STYLE, SignInPages, granted
from toolbus.gateway.people.registry import BROWSER, BROWSER_SECONDS, INVITE, PersonEntry, PersonRegistry
from toolbus.gateway.sign_in.request import REQUEST, SIGN_IN, AuthorizationRequests, Person, WaitingRequest

logger = logging.getLogger("toolbus")

Answer: TypeAlias = Callable[[HttpRequest, Fields], Awaitable[None]]
_MOST_WRONG = 10
"""The wrong links that are noted in a minute; anyone can send one."""
_FORM = "application/x-www-form-urlencoded"
_HTML = (b"content-type", b"text/html; charset=utf-8")
_SESSION, _FLOW = "toolbus_person", "toolbus_flow"
"""Cookies: who is signed in, and what an OIDC provider has to send back."""
_POLICY = "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'"
_SECURE: Headers = (
    (b"x-frame-options", b"DENY"),
    # Not no-referrer: with it, browsers send `Origin: null` with every form, and we need the origin.
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_GONE = "Go back to your client, and connect again: its request has expired, or is not for this gateway."
_SPENT = "That link was used before, has expired, or is for another gateway. Ask for another one."


class PeoplePages:
    """Serves the pages for people, beside the MCP endpoint."""

    def __init__(
        self,
        serve: Serve,
        registry: PersonRegistry,
        requests: AuthorizationRequests,
        provider: OidcProvider | None = None,
        note: Callable[[str], None] = logger.info,
    ) -> None:
        """`note` reports what people do, and never a secret."""
        assert serve.public_url is not None, "checked with the config"
        assert serve.resource is not None, "it has a public URL"
        settings = serve.auth.sign_in
        assert settings is not None, "there are no pages without it"
        public = urlsplit(serve.public_url)
        self._hosts = Hosts(serve)
        self._registry = registry
        self._requests = requests
        self._provider = provider
        self._note = note
        self._wrong: deque[float] = deque(maxlen=_MOST_WRONG)
        """The times of the wrong links that were noted."""
        self._base = f"{public.path.rstrip('/')}{SIGN_IN}"
        self._is_secure = public.scheme == "https"
        self._pages = SignInPages(
            base=self._base,
            endpoint=serve.resource,
            provider="" if provider is None else provider.host,
            has_invites=settings.invites,
            scopes=serve.scopes,
        )
        self._style = (Path(console.__file__).parent / "static" / STYLE).read_bytes()
        self._get: dict[str, Answer] = {"": self._start, "/invite": self._show_invite}
        self._post: dict[str, Answer] = {"/consent": self._consent, "/out": self._sign_out}
        if settings.invites:
            self._post["/invite"] = self._use_invite
        if provider is not None:
            self._get |= {"/oidc": self._to_provider, "/callback": self._from_provider}

    def covers(self, path: str) -> bool:
        """Whether it serves a path."""
        return path == SIGN_IN or path.startswith(f"{SIGN_IN}/")

    async def serve(self, http: HttpRequest, access: Admission) -> None:
        """Answer a request to one of the pages."""
        facts = http.facts
        where, is_read = facts.path.removeprefix(SIGN_IN), facts.method in ("GET", "HEAD")
        if where == f"/{STYLE}" and is_read:
            return await http.respond(
                200, self._style, (*_SECURE, (b"content-type", b"text/css; charset=utf-8"))
            )
        answer = (self._get if is_read else self._post).get(where)
        if answer is None or facts.method not in ("GET", "HEAD", "POST"):
            return await self._refuse(http, 404, "Nothing here", "There is no such page.")
        try:
            fields = Fields(http.query if is_read else await self._form(http))
        except ValueError:
            return await self._refuse(http, 400, "Not like that", "That form cannot be read.")
        except NoRoom:
            return await self._refuse(http, 413, "Not like that", "That form is too large.")
        except PermissionError:
            return await self._refuse(http, 403, "Not from there", "That form is not of this page.")
        try:
            await self._requests.open()
            await answer(http, fields)
        except (OSError, ValueError, StoreError) as error:
            logger.warning("nobody can sign in now: %s", error)
            await self._refuse(http, 503, "Not now", "People cannot sign in at the moment. Try again later.")

    async def _form(self, http: HttpRequest) -> bytes:
        """A form of one of our pages; PermissionError if another page sent it, `NoRoom` if it is large."""
        if not self._hosts.is_own_page(http.facts):
            raise PermissionError
        if http.headers.get("content-type", "").split(";")[0].strip().lower() != _FORM:
            raise ValueError
        return await http.body(lambda _: False)

    # Who it is

    async def _start(self, http: HttpRequest, fields: Fields) -> None:
        sealed = fields.get(REQUEST)
        waiting = self._requests.waiting(sealed) if sealed else None
        if sealed and waiting is None:
            return await self._refuse(http, 400, "Too late", _GONE)
        secret, entry = await self._browser(http)
        if entry is None:
            return await self._send(http, 200, self._pages.who(sealed, waiting))
        token = _token(secret, sealed)
        if waiting is None:
            return await self._send(http, 200, self._pages.home(entry, token))
        page = self._pages.consent(sealed, waiting, entry, token)
        return await self._send(http, 200, page, _source(waiting.redirect_uri))

    async def _show_invite(self, http: HttpRequest, fields: Fields) -> None:
        code = fields.get("code")
        found = await self._registry.find(INVITE, code)
        if found is None:
            return await self._send(http, 400, self._pages.who("", None, _SPENT))
        return await self._send(http, 200, self._pages.invited(code, found))

    async def _use_invite(self, http: HttpRequest, fields: Fields) -> None:
        sealed, given = fields.get(REQUEST), fields.get("code").strip()
        # A person may paste the whole link.
        code = parse_qs(urlsplit(given).query).get("code", [given])[0]
        found = await self._registry.use(code)
        if found is None:
            self._note_wrong(http)
            waiting = self._requests.waiting(sealed) if sealed else None
            return await self._send(http, 400, self._pages.who(sealed, waiting, _SPENT))
        self._note(f"{found.person.name!r} signed in with a link")
        return await self._sign_in(http, found.person, found.views, sealed)

    def _note_wrong(self, http: HttpRequest) -> None:
        now = time.monotonic()
        if len(self._wrong) < _MOST_WRONG or now - self._wrong[0] > 60:
            self._wrong.append(now)
            where = self._hosts.peer(http.facts).address or "a local socket"
            self._note(f"somebody at {where} came with a link that is used or wrong")

    async def _sign_in(self, http: HttpRequest, person: Person, views: Sequence[str], sealed: str) -> None:
        """Give the browser a new session, and go on with the request that it came for."""
        before, _ = await self._browser(http)
        secret = await self._registry.sign_in(person, views, before)
        return await self._go_on(http, sealed, self._cookie(_SESSION, secret, BROWSER_SECONDS))

    async def _sign_out(self, http: HttpRequest, fields: Fields) -> None:
        sealed = fields.get(REQUEST)
        secret, _ = await self._browser(http)
        if not _is_token(fields, secret, sealed):
            return await self._refuse(http, 403, "Not from there", "That form is not of this browser.")
        await self._registry.sign_out(secret)
        return await self._go_on(http, sealed, self._cookie(_SESSION, "", 0))

    async def _to_provider(self, http: HttpRequest, fields: Fields) -> None:
        """Send the browser to the OIDC provider; a cookie says what it has to bring back."""
        assert self._provider is not None, "the path is there only with one"
        sealed = fields.get(REQUEST)
        if sealed and self._requests.waiting(sealed) is None:
            return await self._refuse(http, 400, "Too late", _GONE)
        try:
            url, flow = await self._provider.begin(sealed)
        except OidcRefused as refused:
            return await self._refuse(http, 502, "Not signed in", str(refused))
        return await self._redirect(http, url, self._cookie(_FLOW, flow, FLOW_SECONDS))

    async def _from_provider(self, http: HttpRequest, fields: Fields) -> None:
        """Sign in a person whom the OIDC provider has sent back."""
        assert self._provider is not None, "the path is there only with one"
        flow = next(iter(_cookies(http, self._cookie_name(_FLOW))), "")
        try:
            found = await self._provider.finish(flow, fields)
        except OidcRefused as refused:
            logger.warning("a sign-in at %s was refused: %s", self._provider.host, refused)
            return await self._refuse(http, 403, "Not signed in", str(refused))
        self._note(f"{found.person.name!r} signed in")
        return await self._sign_in(http, found.person, found.views, found.request)

    async def _browser(self, http: HttpRequest) -> tuple[str, PersonEntry | None]:
        """The secret of a browser, with the person who is signed in there; nobody if that has ended."""
        for secret in _cookies(http, self._cookie_name(_SESSION)):
            if (found := await self._registry.find(BROWSER, secret)) is not None:
                return secret, found
        return "", None

    # What a client wants

    async def _consent(self, http: HttpRequest, fields: Fields) -> None:
        sealed = fields.get(REQUEST)
        waiting = self._requests.waiting(sealed)
        if waiting is None:
            return await self._refuse(http, 400, "Too late", _GONE)
        secret, entry = await self._browser(http)
        if entry is None:
            return await self._send(http, 401, self._pages.who(sealed, waiting))
        if not _is_token(fields, secret, sealed):
            return await self._refuse(http, 403, "Not from there", "That form is not of this browser.")
        if fields.get("choice") != "allow":
            self._note(f"{entry.person.name!r} refused {_client(waiting)}")
            return await self._redirect(http, self._requests.refuse(waiting))
        views = [view for view in granted(waiting, entry) if view in fields.all("view")]
        try:
            where = await self._requests.approve(waiting, entry.person, views)
        except ValueError:
            return await self._refuse(http, 400, "Not allowed", "Choose at least one of the views.")
        self._note(f"{entry.person.name!r} allowed {_client(waiting)} to use {', '.join(views)}")
        return await self._redirect(http, where)

    # Responses

    def _cookie_name(self, name: str) -> str:
        # A browser takes such a name only over HTTPS and from this very host: no neighbor can set it.
        return f"__Host-{name}" if self._is_secure else name

    def _cookie(self, name: str, value: str, seconds: float) -> Headers:
        secure = "; Secure" if self._is_secure else ""
        rules = f"Path=/; Max-Age={seconds:.0f}; HttpOnly; SameSite=Lax{secure}"
        return ((b"set-cookie", f"{self._cookie_name(name)}={value}; {rules}".encode("ascii")),)

    async def _send(self, http: HttpRequest, status: int, page: str, goes_to: str = "") -> None:
        """Send a page, whose forms may lead to `goes_to` in the end."""
        policy = f"{_POLICY}; form-action 'self' {goes_to}".strip()
        headers = (*_SECURE, _HTML, (b"content-security-policy", policy.encode("ascii")))
        await http.respond(status, page.encode(errors="replace"), headers)

    async def refuse_client(self, http: HttpRequest, status: int, reason: str) -> None:
        """Tell a person that their client cannot connect."""
        advice = "Nothing was allowed. Add the gateway to the client again, or tell its developer."
        page = self._pages.refusal("This client cannot connect", f"The gateway says: {reason}.", advice)
        await self._send(http, status, page)

    async def _refuse(self, http: HttpRequest, status: int, title: str, line: str) -> None:
        await self._send(http, status, self._pages.refusal(title, line))

    async def _go_on(self, http: HttpRequest, sealed: str, headers: Headers) -> None:
        query = f"?{urlencode({REQUEST: sealed})}" if sealed else ""
        await self._redirect(http, f"{self._base}{query}", headers)

    async def _redirect(self, http: HttpRequest, where: str, headers: Headers = ()) -> None:
        await http.respond(303, headers=(*_SECURE, (b"location", where.encode("ascii")), *headers))


def _client(waiting: WaitingRequest) -> str:
    return f"{waiting.client_name!r} ({waiting.redirect_host})"


def _token(secret: str, sealed: str) -> str:
    """The token of a form: bound to the session of the browser and to the request of the client."""
    return hmac.new(secret.encode(), f"form {sealed}".encode(), sha256).hexdigest()


def _is_token(fields: Fields, secret: str, sealed: str) -> bool:
    given = fields.get("token").encode(errors="replace")
    return bool(secret) and hmac.compare_digest(given, _token(secret, sealed).encode())


def _cookies(http: HttpRequest, wanted: str) -> list[str]:
    pairs = (pair.strip().partition("=") for pair in http.headers.get("cookie", "").split(";"))
    return [value for name, _, value in pairs if name == wanted]


def _source(url: str) -> str:
    """The source expression for a redirect of a form; a policy cannot name an IPv6 address."""
    parts = urlsplit(url)
    is_named = parts.scheme in ("http", "https") and "[" not in parts.netloc
    return f"{parts.scheme}://{parts.netloc}" if is_named else f"{parts.scheme}:"
