"""Links between pages: each server, tool, call and run leads to its page, by these functions alone."""

import re
from urllib.parse import urlencode

from toolbus.console.elements import Child, Element, element

_PLACE = re.compile(r"[a-z-]+(?:\?[!-~]*)?")


def is_place(text: str) -> bool:
    """Whether a text that a form sent is a page of the console, as these functions write it."""
    return _PLACE.fullmatch(text) is not None


def server_url(alias: str) -> str:
    """The page of a server."""
    return f"server?{urlencode({'name': alias})}"


def tool_url(name: str, **more: str | int) -> str:
    """The tool among the others; `trial` is one call of it from the console."""
    return f"tools?{urlencode({'tool': name, **more})}"


def call_url(call: str) -> str:
    """The page of a call, by its id in the log and the history."""
    return f"call?{urlencode({'id': call})}"


def run_url(run: str) -> str:
    """The page of a durable run."""
    return f"run?{urlencode({'id': run})}"


def held_url(server: str = "", page: int = 1) -> str:
    """The held changes, of one server or of all."""
    fields = {"server": server, "page": page if page > 1 else ""}
    given = urlencode({name: value for name, value in fields.items() if value})
    return f"held?{given}" if given else "held"


def switch_url(server: str, tool: str = "", *, on: bool = False, back: str = "") -> str:
    """The page that switches a server or a tool in the config; `tool` is the server's own name for it."""
    fields = {"server": server, "tool": tool, "to": "on" if on else "", "back": back}
    return f"switch?{urlencode({name: value for name, value in fields.items() if value})}"


def server_link(alias: str) -> Element:
    return element("a", alias, href=server_url(alias))


def tool_link(name: str) -> Element:
    return element("a", name, href=tool_url(name))


def call_link(call: str, text: Child) -> Element:
    return element("a", text, href=call_url(call))


def run_link(run: str) -> Element:
    return element("a", run, href=run_url(run))
