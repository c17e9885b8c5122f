"""The buttons of a server, on its own page and in the table."""

from collections.abc import Callable, Mapping

from toolbus.console.console import Console
from toolbus.console.page import Action, Notice, PageRequest
from toolbus.core.values.errors import ServerNotFound


def actions_of(place: Callable[[str], str]) -> Mapping[str, Action]:
    """The actions of a page; `place` is where the browser goes afterwards, by alias."""

    async def restart(console: Console, request: PageRequest) -> str:
        """End a server's process and connection, and start it again."""
        alias = _named(console, request)
        console.begin(console.bus.restart(alias), f"restart {alias!r}")
        return request.say(f"Restarting {alias}.", place(alias))

    async def sign_in(console: Console, request: PageRequest) -> str:
        """Begin to sign in; the page then shows where."""
        alias = _named(console, request)
        console.sign_ins.begin(alias)
        return place(alias)

    async def finish(console: Console, request: PageRequest) -> str:
        """Take the URL that a browser on another machine ended on."""
        alias = _named(console, request)
        if not console.sign_ins.paste(alias, request.form.get("url").strip()):
            request.notice = Notice(text=f"Nobody is signing in to {alias} any more.", kind="failed")
        return place(alias)

    async def cancel(console: Console, request: PageRequest) -> str:
        alias = _named(console, request)
        console.sign_ins.cancel(alias)
        return place(alias)

    return {"restart": restart, "sign-in": sign_in, "finish": finish, "cancel": cancel}


def _named(console: Console, request: PageRequest) -> str:
    alias, known = request.form.get("server"), list(console.bus.config.servers)
    if alias not in known:
        raise ServerNotFound(alias, known)
    return alias
