"""Every server: its state and why, what it wrote to stderr, and the buttons to restart it and to sign in."""

from toolbus.config import ServerConfig
from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.page import Notice, Page, PageRequest
from toolbus.console.trials import SignIn
from toolbus.console.widgets import (
    Tone,
    anchor,
    badge,
    button,
    facts,
    form,
    hidden_fields,
    moment,
    text_field,
    titled,
)
from toolbus.core.text.display import counted
from toolbus.core.values.errors import LoginRequired, ServerNotFound, ToolbusError, problem_of
from toolbus.core.values.records import ServerStatus, State

STDERR_SHOWN = 20
_PASTE = "The URL of the page that it could not open at the end"
_TONES: dict[State, Tone] = {
    "idle": "quiet",
    "connecting": "busy",
    "ready": "good",
    "retrying": "busy",
    "auth_required": "bad",
    "failed": "bad",
    "closed": "quiet",
}
_NAMES: dict[State, str] = {"auth_required": "sign-in needed"}


async def render(console: Console, request: PageRequest) -> Element:
    statuses, configs = console.bus.servers, console.bus.config.servers
    servers = [
        _server(console, configs[alias], status) for alias, status in statuses.items() if alias in configs
    ]
    empty = element("p", "The config has no servers.", class_="empty")
    return element(
        "div",
        live("servers-summary", _summary(statuses, len(console.bus.catalog)), tag="p", role="status"),
        live("servers", servers or empty, class_="cards"),
    )


async def restart(console: Console, request: PageRequest) -> str:
    """End a server's process and connection, and start it again."""
    alias = _named(console, request)
    console.begin(console.bus.restart(alias), f"restart {alias!r}")
    return request.say(f"Restarting {alias}.", _place(alias))


async def sign_in(console: Console, request: PageRequest) -> str:
    """Begin to sign in; the page then shows where."""
    alias = _named(console, request)
    console.sign_ins.begin(alias)
    return _place(alias)


async def finish(console: Console, request: PageRequest) -> str:
    """Take the URL that a browser on another machine ended on."""
    alias = _named(console, request)
    if not console.sign_ins.paste(alias, request.form.get("url").strip()):
        request.notice = Notice(text=f"Nobody is signing in to {alias} any more.", kind="failed")
    return _place(alias)


async def cancel(console: Console, request: PageRequest) -> str:
    alias = _named(console, request)
    console.sign_ins.cancel(alias)
    return _place(alias)


def _named(console: Console, request: PageRequest) -> str:
    alias, known = request.form.get("server"), list(console.bus.config.servers)
    if alias not in known:
        raise ServerNotFound(alias, known)
    return alias


def _place(alias: str) -> str:
    return f"servers#{anchor('server', alias)}"


def _summary(statuses: dict[str, ServerStatus], tools: int) -> str:
    ready = sum(status.state == "ready" for status in statuses.values())
    return f"{ready} of {counted(len(statuses), 'server')} ready, {counted(tools, 'tool')} in the catalog"


def _server(console: Console, config: ServerConfig, status: ServerStatus) -> Element:
    alias = config.alias
    heading = anchor("name", alias)
    return element(
        "article",
        live(anchor("status", alias), _status(console, config, status, heading)),
        live(anchor("sign-in", alias), _sign_in(alias, console.sign_ins.now.get(alias))),
        live(anchor("stderr", alias), _stderr(alias, console.bus.stderr(alias))),
        element("div", _button("Restart", "restart", alias, f"Restart {alias}"), class_="actions"),
        id=anchor("server", alias),
        class_="card",
        aria_labelledby=heading,
    )


def _status(console: Console, config: ServerConfig, status: ServerStatus, heading: str) -> Child:
    alias, error = config.alias, console.bus.failures.get(config.alias)
    needs_sign_in = (
        isinstance(error, LoginRequired) and config.auth is not None and config.auth.type == "oauth"
    )
    known = console.sign_ins.now.get(alias)
    offers_sign_in = needs_sign_in and (known is None or not known.is_waiting)
    era = status.era and (f"{status.era} ({status.protocol})" if status.protocol else status.era)
    return [
        titled("h2", alias, badge(_NAMES.get(status.state, status.state), _TONES[status.state]), key=heading),
        error and element("p", _reason(error), class_="problem"),
        offers_sign_in and _button("Sign in", "sign-in", alias, f"Sign in to {alias}", class_="main"),
        facts(
            {
                "since": moment(status.since),
                "era": era,
                "transport": config.transport,
                "tools": status.tools,
                "restarts": status.restarts,
            }
        ),
    ]


def _button(label: str, action: str, alias: str, hint: str, *, class_: str = "") -> Element:
    return button(label, f"servers/{action}", {"server": alias}, class_=class_, hint=hint)


def _reason(error: ToolbusError) -> str:
    """Why a server cannot be used; a button says more than the command to sign in."""
    return error.reason if isinstance(error, LoginRequired) else problem_of(error)


def _sign_in(alias: str, known: SignIn | None) -> Child:
    if known is None:
        return None
    if not known.is_waiting:
        return element("p", f"The sign-in failed: {known.problem}", class_="problem")
    quit_button = _button("Cancel", "cancel", alias, f"Cancel the sign-in to {alias}")
    if known.request is None:
        return element("div", element("p", f"Asking {alias} where to sign in."), quit_button, class_="panel")
    return element("div", _steps(alias, known), quit_button, class_="panel")


def _steps(alias: str, known: SignIn) -> Child:
    request = known.request
    assert request is not None, "the caller checks it"
    link = element(
        "a",
        f"Sign in to {alias} in a new tab",
        href=request.url,
        target="_blank",
        rel="noopener noreferrer",
        class_="main button",
    )
    if request.code is not None:
        return [element("p", link), element("p", "Enter this code there: ", element("code", request.code))]
    return [
        element("p", link),
        element(
            "details",
            element("summary", "My browser runs on another machine"),
            form(
                "servers/finish",
                hidden_fields({"server": alias}),
                text_field(anchor("url", alias), _PASTE, "url", required=True),
                element("button", "Finish", type="submit"),
            ),
            id=anchor("paste", alias),
        ),
    ]


def _stderr(alias: str, lines: tuple[str, ...]) -> Child:
    shown = lines[-STDERR_SHOWN:]
    if not shown:
        return None
    return element(
        "details",
        element("summary", f"Last {counted(len(shown), 'line')} on stderr"),
        element("pre", "\n".join(shown), tabindex=0, aria_label=f"stderr of {alias}"),
        id=anchor("lines", alias),
    )


PAGE = Page(
    path="servers",
    title="Servers",
    render=render,
    topics={"servers", "catalog"},
    every=2.0,
    actions={"restart": restart, "sign-in": sign_in, "finish": finish, "cancel": cancel},
)
