"""Sign in to a server of a config at the terminal, for `login`, `chat` and `watch`.

The browser is opened, or the URL is shown, and what the user pastes meanwhile is taken.
"""

import asyncio
import shlex
import sys
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from toolbus.bus.engine.stores import sign_in as bus_sign_in
from toolbus.cli.errors import NoSignIn, SignInCancelled
from toolbus.cli.input.ask import Interrupted
from toolbus.cli.input.paste import PastedLines
from toolbus.cli.output.event_lines import clock
from toolbus.cli.output.screen import Screen, one_line, short_path, visible
from toolbus.cli.session import BUS
from toolbus.config import BusConfig, Secrets, ServerConfig
from toolbus.connect.auth.browser import has_browser, is_link, open_browser
from toolbus.connect.auth.credentials import LinkOwner
from toolbus.core.ask.interactions import LoginHandler, LoginRequest
from toolbus.core.text.display import shortened
from toolbus.core.values.errors import ConfigError, LoginRequired
from toolbus.state.tokens.tokens import TokenSource

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus
    from toolbus.connect.auth.flow import OAuthClient
    from toolbus.state.tokens.tokens import Login

RETRY_SECONDS = 1.0
PROMPT = "> "
WHOLE_URL = "paste the whole URL of the page you end on"
_IN_A_REDIRECT = {"code", "error"}
_LINES = {
    ".json": '"auth": "oauth"',
    ".jsonc": '"auth": "oauth"',
    ".toml": 'auth = "oauth"',
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginOptions:
    """The options of `toolbus login`."""

    user: str = ""
    opens_browser: bool = True
    scopes: Sequence[str] = ()
    device: bool = False


def signs_in_by_itself(server: ServerConfig) -> bool:
    """Whether it gets its tokens without a person."""
    return server.auth is not None and server.auth.type not in ("oauth", "bearer")


def check_sign_in(config: BusConfig, alias: str) -> None:
    """Raise `NoSignIn` unless a person can sign in to the server, with what to change."""
    server = config.servers[alias]
    if server.mistake is not None:
        raise server.mistake
    if server.auth is not None and server.auth.type == "oauth":
        return
    if server.url is None and server.openapi is None:
        raise NoSignIn(f"server {alias!r} is a process, and has no sign-in; pass it credentials with env")
    if server.auth is not None or any(name.lower() == "authorization" for name in server.headers):
        raise NoSignIn(
            f"server {alias!r} has its credentials in the config; to sign in instead, replace them with "
            "auth: oauth"
        )
    suffix = "" if config.file is None else config.file[config.file.rfind(".") :].lower()
    where = f" in {short_path(config.file)}" if config.file else ""
    line = _LINES.get(suffix, "auth: oauth")
    key = "url" if server.openapi is None else "openapi"
    raise NoSignIn(f"server {alias!r} has no auth: oauth{where}: add it next to its {key}", (f"    {line}",))


def tokens_of(config: BusConfig) -> TokenSource:
    """The token store of the config; in the background bus, the one that it uses."""
    return BUS.get().tokens(config)


def tokens_after(change: BusConfig, config: BusConfig, tokens: TokenSource) -> TokenSource:
    """The token store after a change of the config: the same one, unless `tokens` has changed."""
    return tokens if change.tokens == config.tokens else tokens_of(change)


def lasting_tokens(config: BusConfig) -> TokenSource:
    """The token store, for a command that ends at once; ConfigError if it would keep nothing."""
    if config.tokens == "memory":
        problem = "tokens: memory keeps nothing when a command ends; use auto, keyring or file:DIR"
        raise ConfigError(problem, file=config.file)
    return tokens_of(config)


async def oauth_client(config: BusConfig, alias: str, tokens: TokenSource, user: str = "") -> "OAuthClient":
    """The client that signs this user in and out; raises if a secret of the entry is missing."""
    # Imported here: it takes the SDK with it.
    from toolbus.connect.auth.flow import OAuthClient
    from toolbus.connect.opening.attempt import resolve

    server = config.servers[alias]
    secrets = Secrets(None, config.folder, config.reviewed, user)
    owner = LinkOwner(secrets=secrets, tokens=tokens, user=user)
    return OAuthClient(server, await resolve(server, secrets), owner)


async def sign_in(
    config: BusConfig, alias: str, tokens: TokenSource, handler: LoginHandler, options: LoginOptions
) -> "Login":
    """Let a person sign in; `SignInFailed` if that fails, or takes too long."""
    secrets = Secrets(None, config.folder, config.reviewed, options.user)
    identity = LinkOwner(secrets=secrets, tokens=tokens, user=options.user)
    return await bus_sign_in(
        config.servers[alias], identity, handler, scopes=options.scopes, device=options.device
    )


def signed_in_line(alias: str, login: "Login", place: str) -> str:
    """The outcome: who, until when, and where the tokens are."""
    who = f" as {login.user}" if login.user else ""
    until = "" if login.expires_at is None else f" until {clock(login.expires_at)}"
    renewed = " (renewed automatically)" if login.refresh else ", not renewed"
    return f"signed in to {alias}{who}{until}{renewed if until else ''}; tokens are in {place}"


def waiting_for_sign_in(bus: "Toolbus") -> list[str]:
    """The servers that wait for somebody to sign in."""
    return [alias for alias, error in bus.failures.items() if isinstance(error, LoginRequired)]


def needed_scopes(error: str, server: str) -> tuple[str, ...] | None:
    """The scopes of the login that an error asks for; None if it does not ask for one."""
    try:
        words = shlex.split(error.rpartition("sign in: ")[2])
    except ValueError:
        return None
    if words[:3] != ["toolbus", "login", server] or "--user" in words:
        return None
    return tuple(" ".join(words[4:]).split()) if words[3:4] == ["--scopes"] else ()


async def connect_signed_in(bus: "Toolbus", alias: str) -> None:
    """Connect a server after somebody has signed in to it."""
    try:
        await bus.connect(alias)
    except LoginRequired:
        # It was tried in the second before, and is not tried more often than that.
        await asyncio.sleep(RETRY_SECONDS)
        await bus.connect(alias)


class WrongPaste(Exception):
    """The pasted text does not end this sign-in; the message gives the reason."""


class LoginPrompt:
    """A login handler for the terminal; raises `SignInCancelled` on Ctrl-C and at the end of the input."""

    def __init__(self, screen: Screen, *, opens_browser: bool = True, interrupt_hint: str = "cancel") -> None:
        self._screen = screen
        self._opens_browser = opens_browser and has_browser()
        self._interrupt_hint = interrupt_hint

    async def __call__(self, request: LoginRequest) -> str | None:
        """Show the page and wait; cancelled when the browser has come back by itself."""
        if not is_link(request.url):
            self._screen.note("the sign-in page is not an http or https URL; nothing was opened")
            return None
        with self._screen.without_spinner():
            opening: asyncio.Task[None] | None = None
            try:
                with PastedLines() as lines:
                    self._show(request)
                    opening = asyncio.create_task(self._open(request.url))
                    return await self._answer(lines, request)
            except (Interrupted, EOFError):
                self._screen.note("")
                raise SignInCancelled(request.server, request.user) from None
            finally:
                if opening is not None:
                    opening.cancel()

    async def _open(self, url: str) -> None:
        if self._opens_browser and not await open_browser(url):
            self._screen.note("\nthe browser did not open; open the URL above yourself")

    def _show(self, request: LoginRequest) -> None:
        who = f" as {one_line(request.user)}" if request.user else ""
        what = f"sign in to {one_line(request.server)}{who}"
        if self._opens_browser:
            self._screen.note(f"opening your browser to {what}; if it does not open, visit:")
        else:
            device = " on any device" if request.code is not None else " in a browser"
            self._screen.note(f"to {what}, open this URL{device}:")
        # Not wrapped: it has to be copied in one piece.
        print(visible(request.url), file=sys.stderr, flush=True)
        self._screen.note(_what_is_waited_for(request) + f" (Ctrl-C to {self._interrupt_hint})")

    async def _answer(self, lines: PastedLines, request: LoginRequest) -> str | None:
        if request.code is not None:
            return await lines.interrupted()
        while True:
            if lines.is_terminal:
                print(PROMPT, end="", file=sys.stderr, flush=True)
            try:
                line = await lines.next()
            except EOFError:
                if lines.is_terminal or not _comes_back(request):
                    raise
                return await lines.interrupted()  # only the browser is left
            except asyncio.CancelledError:
                if lines.is_terminal:
                    self._screen.note("")
                raise
            if not line.strip():
                continue
            try:
                return redirect_in(line, request)
            except WrongPaste as error:
                self._screen.note(f"{error}; try again")


def _what_is_waited_for(request: LoginRequest) -> str:
    if request.code is not None:
        return f"enter the code {visible(request.code)} there; waiting until you have signed in"
    if _comes_back(request):
        code = "" if request.names_issuer else ", or the code in it"
        return (
            "waiting for the browser to come back; if it runs on another machine, paste the URL of the page "
            f"that it cannot open{code}"
        )
    code = "" if request.names_issuer else ", or the code that it shows"
    return f"when you have signed in, paste the URL of the page you end on{code}"


def _what_is_expected(request: LoginRequest) -> str:
    code = "" if request.names_issuer else ", or the code in it"
    return f"expected the URL of the page you end on{code}"


def _comes_back(request: LoginRequest) -> bool:
    """Whether the browser can reach us by itself."""
    return urlsplit(request.redirect_uri).scheme == "http"


def redirect_in(text: str, request: LoginRequest) -> str:
    """The redirect URL that was pasted whole or in part, or the bare code; `WrongPaste` if it is neither."""
    text = text.strip().strip("<>\"'")
    expected = dict(parse_qsl(urlsplit(request.url).query)).get("state")
    if "://" in text:
        query = _query_of(text, request)
    elif _IN_A_REDIRECT & _names(text):
        query = text.rpartition("?")[2]
    elif not text.isascii() or not text.isprintable() or " " in text:
        what = "URL" if request.names_issuer else "code"
        raise WrongPaste(f"that is not a {what}; {_what_is_expected(request)}")
    elif request.names_issuer:
        raise WrongPaste(f"a code alone does not say who issued it; {WHOLE_URL}")
    else:
        code = unquote(text)
        # A code that could be taken for a part of a URL.
        as_query = expected is not None and {"=", "/", "?"} & set(code.rstrip("="))
        query = urlencode({"code": code, "state": expected}) if as_query else ""
        if not query:
            return code
    _check(query, expected, names_issuer=request.names_issuer)
    return f"{request.redirect_uri.partition('?')[0]}?{query}"


def _names(text: str) -> Set[str]:
    """The names of the parameters in a query, with or without what precedes it."""
    return {pair.partition("=")[0] for pair in text.rpartition("?")[2].split("&") if "=" in pair}


def _query_of(text: str, request: LoginRequest) -> str:
    """The query of the redirect URL; WrongPaste for a URL of another page."""
    redirect = urlsplit(request.redirect_uri)
    try:
        parts = urlsplit(text)
    except ValueError:
        raise WrongPaste(f"that is not a URL; {_what_is_expected(request)}") from None
    if (parts.scheme, parts.netloc, parts.path or "/") != (
        redirect.scheme,
        redirect.netloc,
        redirect.path or "/",
    ):
        begin, other = redirect._replace(query="").geturl(), one_line(shortened(parts.netloc, 80))
        raise WrongPaste(f"that is a page of {other}; the one you end on begins with {begin}")
    return parts.query


def _check(query: str, expected: str | None, *, names_issuer: bool) -> None:
    pairs = parse_qsl(query, keep_blank_values=True)
    found: Mapping[str, str] = dict(pairs)
    if len(found) != len(pairs):
        raise WrongPaste("that URL has a parameter twice")
    if expected is not None and found.get("state") != expected:
        reason = "belongs to another attempt" if found.get("state") else "is not complete"
        raise WrongPaste(f"that URL {reason}; paste the URL that this sign-in ended on")
    if "error" in found:
        reason = found.get("error_description") or found["error"]
        raise WrongPaste(f"the sign-in was refused: {one_line(shortened(reason, 200))}; open the URL again")
    if not found.get("code"):
        raise WrongPaste("that URL has no code")
    if names_issuer and not found.get("iss"):
        raise WrongPaste(f"that URL does not say who issued the code (iss); {WHOLE_URL}")
