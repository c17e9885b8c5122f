"""Sign in at the terminal: open the browser or show the URL, and take what the user pastes meanwhile."""

import asyncio
import sys
from collections.abc import Mapping, Set
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from toolbus.cli.errors import SignInCancelled
from toolbus.cli.input.ask import Interrupted
from toolbus.cli.input.paste import PastedLines
from toolbus.cli.output.screen import Screen, one_line, visible
from toolbus.connect.auth.browser import has_browser, is_link, open_browser
from toolbus.core.ask.interactions import LoginRequest
from toolbus.core.text.display import shortened

PROMPT = "> "
WHOLE_URL = "paste the whole URL of the page you end on"
_IN_A_REDIRECT = {"code", "error"}


class WrongPaste(Exception):
    """What was pasted does not end this sign-in; the message says why."""


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
