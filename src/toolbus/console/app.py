"""The console over HTTP: sign-in of browsers, pages, actions, static files, and streams.

It is mounted at `/console`, beside an MCP endpoint or alone. Keys and tokens of MCP clients do not open it.
Pages are at `/console/SECRET/PAGE`, where SECRET is the session's own; each request also needs the cookie of
the session. Links are relative, so that the secret is in no markup; no log or error contains a path.
"""

import asyncio
import json
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, TypeAlias, get_args
from urllib.parse import urlsplit

from toolbus.config.settings.serve import Serve
from toolbus.console.apps.frames import AppPlace
from toolbus.console.apps.sandbox import AppSandbox
from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element
from toolbus.console.layout import THEME_ACTION, Surroundings, Theme, document, navigation, refusal
from toolbus.console.links import is_place
from toolbus.console.page import Fields, Notice, Page, PageRequest
from toolbus.console.pages import BY_PATH, PAGES
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import JSON, JSONObject
from toolbus.gateway.access.hosts import Hosts, HttpPeer, Misdirected
from toolbus.gateway.http.limits import HttpLimits
from toolbus.gateway.http.request import CONSOLE, Headers, HttpRequest, encoded, is_json
from toolbus.gateway.http.streams import KEEPALIVE, woken
from toolbus.schema.values import is_object

TOKEN_SECONDS = 600.0
SESSION_SECONDS = 12 * 3600.0
MOST_TOKENS = 16
MOST_SESSIONS = 64
"""The oldest gives way to one more."""
MOST_NOTICES = 8


class SessionSecrets(NamedTuple):
    """The two secrets of a session."""

    path: str
    """The part of its URLs that follows `/console/`."""
    cookie: str


@dataclass(slots=True, kw_only=True)
class ConsoleSession:
    """A browser with a session."""

    name: str
    """Says nothing about its secrets."""
    cookie: bytes = field(repr=False)
    """The digest of its cookie."""
    ends: float
    notices: list[Notice] = field(default_factory=list[Notice])
    """Notices for its next page."""

    def say(self, notice: Notice | None) -> None:
        """Have the next page say something."""
        if notice is not None:
            self.notices = [*self.notices, notice][-MOST_NOTICES:]

    def take_notices(self) -> list[Notice]:
        taken, self.notices = self.notices, []
        return taken


class ConsoleEntry:
    """The tokens and sessions of one process. It keeps digests instead of secrets."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.secret = secrets.token_urlsafe(32)
        """The secret for requesting tokens: only the user can read it in the private file."""
        self._clock = clock
        self._tokens: OrderedDict[bytes, float] = OrderedDict()
        """The end of each token."""
        self._sessions: OrderedDict[bytes, ConsoleSession] = OrderedDict()
        """By the digests of their paths, so that the time of a look-up tells nothing about a path."""

    def new_token(self, secret: str) -> str | None:
        """A token for one browser; None if the secret is wrong."""
        if not secrets.compare_digest(secret.encode(errors="replace"), self.secret.encode()):
            return None
        token = secrets.token_urlsafe(32)
        self._tokens[_digest(token)] = self._clock() + TOKEN_SECONDS
        while len(self._tokens) > MOST_TOKENS:
            self._tokens.popitem(last=False)
        return token

    def enter(self, token: str) -> SessionSecrets | None:
        """The secrets of a new session; None if the token is wrong, used or too old."""
        ends = self._tokens.pop(_digest(token), 0.0)
        now = self._clock()
        if now >= ends:
            return None
        given = SessionSecrets(secrets.token_urlsafe(32), secrets.token_urlsafe(32))
        self._sessions[_digest(given.path)] = ConsoleSession(
            name=secrets.token_hex(8), cookie=_digest(given.cookie), ends=now + SESSION_SECONDS
        )
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return given

    def session(self, path: str, cookies: Iterable[str]) -> ConsoleSession | None:
        """The session of a path, if one of the cookies is its own; None if it is not, or the session ended.

        Other programs on the host can add cookies of the same name to a request; they are ignored.
        """
        key = _digest(path)
        found = self._sessions.get(key)
        if found is None or not any(secrets.compare_digest(found.cookie, _digest(one)) for one in cookies):
            return None
        if self._clock() >= found.ends:
            del self._sessions[key]
            return None
        return found


def _digest(secret: str) -> bytes:
    return sha256(secret.encode(errors="replace")).digest()


logger = logging.getLogger("toolbus")

OPEN = (
    "This console is open to other machines, so it cannot add, change, enable or disable servers: that would "
    "start programs here. Set serve.console: edit if everybody who gets in may do that."
)
_COOKIE = "toolbus_console"
_THEME_COOKIE = "toolbus_console_theme"
_THEME_SECONDS = 365 * 24 * 3600
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_CSP = b"content-security-policy"
_SECURE: Headers = (
    (_CSP, _POLICY.encode()),
    # Other origins, such as another port, must not see the secret in the path. Not no-referrer: with it,
    # browsers send `Origin: null` with every form, and we need the origin.
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_NOT_STORED = (b"cache-control", b"no-store")
_HTML = (b"content-type", b"text/html; charset=utf-8")
_FORM = "application/x-www-form-urlencoded"
_TYPES = {
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
}


class ConsoleApp:
    """Serves the pages of a console below `/console`."""

    def __init__(
        self,
        console: Console,
        serve: Serve,
        entry: ConsoleEntry | None = None,
        limits: HttpLimits | None = None,
    ) -> None:
        """`serve` says by which names it is reached; `serve.console` lets other machines in."""
        self.console = console
        if serve.console is True:
            console.server_drafts.refusal = OPEN
        self.entry = entry or ConsoleEntry()
        self.sandbox: AppSandbox | None = None
        """The other origin, which serves apps."""
        self._serve = serve
        self._hosts = Hosts(serve)
        self._streams = Streams(console, (limits or HttpLimits()).keepalive_seconds)
        public = urlsplit(serve.public_url or "")
        self._public_path = f"{public.path.rstrip('/')}{CONSOLE}"
        folder = Path(__file__).parent / "static"
        self._static = {
            file.name: (_TYPES[file.suffix], file.read_bytes())
            for file in folder.iterdir()
            if file.suffix in _TYPES
        }

    def drain(self) -> None:
        """End the streams; pages are served until the connections are closed."""
        self._streams.drain()

    async def serve(self, http: HttpRequest) -> None:
        """Serve a request to `/console` or below."""
        facts = http.facts
        peer = self._hosts.peer(facts)
        try:
            self._hosts.check(peer)
        except Misdirected as misdirected:
            return await self._refuse(http, misdirected.status, "Not here", misdirected.reason)
        if not self._serve.console and self._hosts.comes_from_elsewhere(facts):
            reason = "The console is for this machine alone; set serve.console: true to open it to others."
            return await self._refuse(http, 403, "Not from there", reason)
        if facts.method in ("GET", "HEAD"):
            return await self._get(http, peer)
        if facts.method != "POST":
            return await self._refuse(http, 405, "Not like that", "Pages are read, and forms are posted.")
        if _asked(http) == ("token", ""):
            return await self._new_token(http)
        return await self._post(http, peer)

    # Who is let in

    async def _enter(self, http: HttpRequest, peer: HttpPeer) -> None:
        """Exchange the token in the URL for the secrets of a session, and go to its first page."""
        query = self._fields(http.query)
        if query is None or "token" not in query:
            return await self._stay_out(http)
        given = self.entry.enter(query.get("token"))
        if given is None:
            reason = "That link was used before, is older than 10 minutes, or is for another gateway."
            return await self._stay_out(http, reason)
        # Browsers ignore the port of a cookie, but not its path: nobody else can name this one.
        secure = "; Secure" if peer.scheme == "https" else ""
        where = f"Path={self._public_path}/{given.path}"
        value = f"{_COOKIE}={given.cookie}; {where}; HttpOnly; SameSite=Strict{secure}"
        first = f"{_way_back(http)}{given.path}/{PAGES[0].path}"
        return await self._redirect(http, first, ((b"set-cookie", value.encode()),))

    async def _new_token(self, http: HttpRequest) -> None:
        """Give a token to the user's own command, which is not a web page."""
        scheme, _, secret = http.headers.get("authorization", "").partition(" ")
        token = self.entry.new_token(secret.strip()) if scheme.lower() == "bearer" else None
        if token is None or "origin" in http.headers:
            return await http.respond_json(403, {"error": "forbidden"}, (*_SECURE, _NOT_STORED))
        return await http.respond_json(200, {"token": token}, (*_SECURE, _NOT_STORED))

    def _session(self, http: HttpRequest) -> ConsoleSession | None:
        """The session of a request that has both of its secrets."""
        return self.entry.session(_asked(http)[0], _cookies(http, _COOKIE))

    async def _stay_out(self, http: HttpRequest, reason: str = "") -> None:
        # A browser withholds the cookie if a page of others led here; then it is asked to come by itself.
        is_led = not reason and http.headers.get("sec-fetch-site") == "cross-site"
        command = element("code", "toolbus console")
        lines = (
            reason or "A page opens only by its full address, in the browser that signed in, for 12 hours.",
            ["Run ", command, " to open the console."],
        )
        page = refusal("Not signed in", *lines, assets=_way_back(http), reloads=is_led)
        await self._send_html(http, 401, page)

    # Pages

    async def _get(self, http: HttpRequest, peer: HttpPeer) -> None:
        first, where = _asked(http)
        if not first:
            return await self._enter(http, peer)
        if first == "static" and where in self._static:
            kind, content = self._static[where]
            return await http.respond(200, content, (*_SECURE, _NOT_STORED, (b"content-type", kind)))
        session = self._session(http)
        if session is None:
            return await self._stay_out(http)
        self.console.presence.note_request()
        folder, _, name = where.partition("/")
        is_stream = folder == "events" and http.facts.method == "GET"
        page, query = BY_PATH.get(name if is_stream else where), self._fields(http.query)
        apps = self._app_place(peer)
        if page is None and folder in BY_PATH and name in BY_PATH[folder].downloads and query is not None:
            return await self._download(
                http, BY_PATH[folder], name, PageRequest(session=session.name, query=query)
            )
        if page is None or query is None or not page.is_there(self.console):
            return await self._refuse(http, 404, "Nothing here", "There is no such page.")
        request = PageRequest(session=session.name, query=query, apps=apps)
        if is_stream:
            return await self._stream(http, page, request)
        await self.console.look_at_runs()
        content = await page.render(self.console, request)
        around = Surroundings(
            notices=session.take_notices(),
            place=f"{page.path}?{http.query.decode('ascii')}",
            theme=_theme(http),
        )
        framed = apps.origin if page.shows_apps else ""
        return await self._send_html(http, 200, document(page, self.console, content, around), framed)

    async def _download(self, http: HttpRequest, page: Page, name: str, request: PageRequest) -> None:
        """Send a file of a page."""
        if not page.is_there(self.console):
            return await self._refuse(http, 404, "Nothing here", "There is no such page.")
        try:
            file = await page.downloads[name](self.console, request)
        except ToolbusError as error:
            return await self._refuse(http, 404, "Nothing to export", str(error))
        kind = (b"content-type", file.kind.encode("ascii"))
        saved = (b"content-disposition", f'attachment; filename="{file.name}"'.encode("ascii"))
        return await http.respond(200, file.content, (*_SECURE, _NOT_STORED, kind, saved))

    async def _stream(self, http: HttpRequest, page: Page, request: PageRequest) -> None:
        if self._streams.is_full:
            return await http.respond(503, headers=(*_SECURE, (b"retry-after", b"5")))

        def is_admitted() -> bool:
            return self._session(http) is not None

        with self.console.presence.following():
            return await self._streams.serve(http, page, request, is_admitted, _SECURE)

    async def _post(self, http: HttpRequest, peer: HttpPeer) -> None:
        """Do what a form wants, and go to the page that shows it."""
        if not self._hosts.is_own_page(http.facts):
            return await self._refuse(http, 403, "Not from there", "That form is not of this page.")
        session = self._session(http)
        if session is None:
            return await self._stay_out(http)
        self.console.presence.note_request()
        where = _asked(http)[1]
        path, _, name = where.partition("/")
        if path == "app":
            return await self._answer_app(http, session, self._app_place(peer), name)
        page = BY_PATH.get(path)
        action = None if page is None else page.actions.get(name)
        if where == THEME_ACTION:
            return await self._choose_theme(http, peer)
        if page is None or action is None or not page.is_there(self.console):
            return await self._refuse(http, 404, "Nothing here", "There is no such action.")
        if http.headers.get("content-type", "").split(";")[0].strip().lower() != _FORM:
            return await self._refuse(http, 415, "Not like that", "An action takes a form.")
        form, query = self._fields(await http.body()), self._fields(http.query)
        if form is None or query is None:
            return await self._refuse(http, 400, "Not like that", "That form cannot be read.")
        request = PageRequest(session=session.name, query=query, form=form)
        try:
            goes_to = await action(self.console, request)
        except ToolbusError as error:
            goes_to, request.notice = page.path, Notice(text=str(error), kind="failed")
        session.say(request.notice)
        return await self._redirect(http, f"../{_known(goes_to, page.path)}")

    def _app_place(self, peer: HttpPeer) -> AppPlace:
        return AppPlace() if self.sandbox is None else self.sandbox.place(peer)

    async def _answer_app(
        self, http: HttpRequest, session: ConsoleSession, place: AppPlace, what: str
    ) -> None:
        """Answer the script of a page about the app in its frame."""
        if not is_json(http.headers.get("content-type", "")):
            await self._refuse(http, 415, "Not like that", "An app takes JSON.")
            return
        try:
            given: JSON = json.loads(await http.body())
        except (ValueError, RecursionError):
            given = None
        if not is_object(given):
            await self._refuse(http, 400, "Not like that", "That JSON cannot be read.")
            return
        answer = await self.console.apps.answer(session.name, place, what, given)
        await http.respond_json(200, answer, (*_SECURE, _NOT_STORED))

    async def _choose_theme(self, http: HttpRequest, peer: HttpPeer) -> None:
        """Remember light or dark in the browser, and go back to the page."""
        form = self._fields(await http.body())
        chosen, back = ("", "") if form is None else (form.get("theme"), form.get("back"))
        value, seconds = (chosen, _THEME_SECONDS) if chosen in get_args(Theme) else ("", 0)
        secure = "; Secure" if peer.scheme == "https" else ""
        where = f"Path={self._public_path}; Max-Age={seconds}"
        cookie = f"{_THEME_COOKIE}={value}; {where}; HttpOnly; SameSite=Strict{secure}"
        goes_to = _known(back, PAGES[0].path) if is_place(back) else PAGES[0].path
        await self._redirect(http, f"../{goes_to}", ((b"set-cookie", cookie.encode()),))

    def _fields(self, encoded: bytes) -> Fields | None:
        try:
            return Fields(encoded)
        except ValueError:
            return None

    # Responses

    async def _send_html(self, http: HttpRequest, status: int, page: str, framed: str = "") -> None:
        """Send a page, with frames of one other origin if there is one."""
        policy = f"{_POLICY}; frame-src {framed}" if framed else _POLICY
        headers = ((_CSP, policy.encode("latin-1")), *_SECURE[1:], _NOT_STORED, _HTML)
        await http.respond(status, page.encode(errors="replace"), headers)

    async def _refuse(self, http: HttpRequest, status: int, title: str, *lines: Child) -> None:
        await self._send_html(http, status, refusal(title, *lines, assets=_way_back(http)))

    async def _redirect(self, http: HttpRequest, where: str, headers: Headers = ()) -> None:
        location = (b"location", where.encode("ascii"))
        await http.respond(303, headers=(*_SECURE, _NOT_STORED, location, *headers))


def _asked(http: HttpRequest) -> tuple[str, str]:
    """The two parts of a path below `/console`: the secret of a session, and a page or action."""
    first, _, rest = http.facts.path.removeprefix(CONSOLE).lstrip("/").partition("/")
    return first, rest


def _cookies(http: HttpRequest, wanted: str) -> list[str]:
    pairs = (pair.strip().partition("=") for pair in http.headers.get("cookie", "").split(";"))
    return [value for name, _, value in pairs if name == wanted]


def _theme(http: HttpRequest) -> Theme | None:
    """The theme of a browser; None for as the system."""
    given = _cookies(http, _THEME_COOKIE)
    return next((theme for theme in get_args(Theme) if theme in given), None)


def _known(place: str, otherwise: str) -> str:
    """The place, unless there is no such page: a form may send a place back."""
    return place if place.partition("#")[0].partition("?")[0] in BY_PATH else otherwise


def _way_back(http: HttpRequest) -> str:
    """The way from a requested path to `/console/`."""
    steps = http.facts.path.removeprefix(CONSOLE).count("/")
    return "../" * (steps - 1) if steps else f"{CONSOLE[1:]}/"


PAUSE = 0.5
"""Seconds between two events of a stream: what changes meanwhile is sent together."""
MOST_STREAMS = 32
"""Open pages that are followed at the same time."""


class Streams:
    """The streams of all open pages."""

    def __init__(self, console: Console, keepalive_seconds: float) -> None:
        self._console = console
        self._keepalive = keepalive_seconds
        self._open: set[asyncio.Event] = set()
        self._is_draining = False

    @property
    def is_full(self) -> bool:
        """Whether one more would be too many."""
        return self._is_draining or len(self._open) >= MOST_STREAMS

    def drain(self) -> None:
        self._is_draining = True
        for wake in self._open:
            wake.set()

    async def serve(
        self,
        http: HttpRequest,
        page: Page,
        request: PageRequest,
        is_admitted: Callable[[], bool],
        headers: Headers,
    ) -> None:
        """Write what changes on the page until the client leaves, or is not admitted any more."""
        wake, elements = asyncio.Event(), LiveElements()
        topics = frozenset(page.topics).union(*(one.topics for one in PAGES if one.count is not None))
        unwatch = self._console.watch(topics, wake.set)
        self._open.add(wake)
        try:
            await http.start_stream(headers)
            while is_admitted() and not self._is_draining:
                wake.clear()
                await self._console.look_at_runs()
                content = await page.render(self._console, request)
                whole = element("div", navigation(page, self._console), content)
                changes = b"".join(map(_event, elements.changes(whole)))
                await http.write(changes or KEEPALIVE)
                await asyncio.sleep(PAUSE)
                await woken(wake, page.every or self._keepalive)
            await http.end_stream()
        finally:
            unwatch()
            self._open.discard(wake)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedChange:
    """The rows of a list that came, changed and went."""

    id: str
    added: Sequence[tuple[str, str]]
    """New rows that follow each other, and the id of the row behind them; empty at the end of the list."""
    changed: Sequence[str]
    gone: Sequence[str]
    """Their ids."""


_Changes: TypeAlias = list[Element | FeedChange]


def _event(changed: Element | FeedChange) -> bytes:
    if isinstance(changed, FeedChange):
        return b"event: rows\ndata: %s\n\n" % encoded(asdict(changed))
    replaced: JSONObject = {"id": changed.id, "html": str(changed)}
    return b"event: replace\ndata: %s\n\n" % encoded(replaced)


class LiveElements:
    """The live elements that one reader has, by their digests."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sent: dict[str, str] = {}
        self._rows: dict[str, dict[str, str]] = {}
        """The digests of the rows of each list."""
        self._at: dict[str, float] = {}
        """The times at which elements with a pace were sent."""

    def changes(self, page: Element) -> _Changes:
        """The elements to send; of an element and those within it, the innermost that changed."""
        sent, changed = dict[str, str](), _Changes()
        for one in page.live_below():
            self._compare(one, sent, changed)
        self._sent = sent
        self._rows = {key: rows for key, rows in self._rows.items() if key in sent}
        return changed

    def _compare(self, element: Element, sent: dict[str, str], changed: _Changes) -> None:
        before = self._sent.get(element.id)
        is_same = before == element.digest
        if element.is_feed:
            self._compare_rows(element, changed, is_known=is_same)
            sent[element.id] = element.digest
            return
        if not is_same and not self._is_due(element):
            sent[element.id] = before or ""  # later
            return
        if not is_same:
            changed.append(element)
        sent[element.id] = element.digest
        for inner in element.live_below():
            # What is within a changed element is sent with it.
            self._compare(inner, sent, changed if is_same else [])

    def _is_due(self, element: Element) -> bool:
        if not element.pace:
            return True
        now = self._clock()
        if now < self._at.get(element.id, -element.pace) + element.pace:
            return False
        self._at[element.id] = now
        return True

    def _compare_rows(self, feed: Element, changed: _Changes, *, is_known: bool) -> None:
        """Add the rows that the reader does not have, or the whole list if it has none."""
        known, rows = self._rows.get(feed.id), list(feed.rows)
        now = self._rows[feed.id] = {row.id: row.digest for row in rows}
        if known is None or not is_known:
            changed.append(feed)
            return
        added, behind = list[tuple[str, str]](), ""
        for row in reversed(rows):
            if row.id in known:
                behind = row.id
            elif added and added[-1][1] == behind:
                added[-1] = f"{row}{added[-1][0]}", behind
            else:
                added.append((str(row), behind))
        other = [str(row) for row in rows if known.get(row.id, row.digest) != row.digest]
        gone = [key for key in known if key not in now]
        if added or other or gone:
            changed.append(FeedChange(id=feed.id, added=added, changed=other, gone=gone))
