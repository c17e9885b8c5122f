"""`toolbus key`: the keys that let clients into the gateway."""

import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from toolbus.cli.command import CommandResult, Invocation, config_command, group
from toolbus.cli.commands.safety.audit import moment
from toolbus.cli.errors import Usage
from toolbus.cli.output.screen import Cell, picked, short_path, visible
from toolbus.core.values.records import JSON

if TYPE_CHECKING:
    from toolbus.config import BusConfig
    from toolbus.config.settings.serve import Serve
    from toolbus.gateway.access.keys import StoredKey, StoredKeys

_SEE_LIST = "; see 'toolbus key list'"
_Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the key, such as who holds it.")]


@group
def key(own: Invocation) -> None:
    """Manage the keys that let clients into toolbus serve."""


@config_command
def add(
    own: Invocation,
    name: _Name,
    views: Annotated[
        list[str] | None,
        typer.Option(
            "--view",
            metavar="VIEW",
            show_default=False,
            help="The view of the config that it gives; default: default_view. Repeat it for views that it "
            "may also use by their paths.",
        ),
    ] = None,
    user: Annotated[
        str,
        typer.Option(
            "--user",
            metavar="USER",
            show_default=False,
            help="Whose logins and secrets its calls use; default: those of the config.",
        ),
    ] = "",
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="TIME", help="When it expires: 12h, 30d, 2027-01-31."),
    ] = None,
) -> int:
    """Make a key and print it; it cannot be shown again.

    toolbus key add ann --view research --expires 30d
    """
    from toolbus.gateway.access.keys import NAME, NAME_RULE, explained

    screen, config = own.screen, _loaded(own)
    serve = _serve(config)
    if not NAME.fullmatch(name):
        raise Usage(NAME_RULE)
    if user and not user.strip():
        raise Usage("--user: expected the name of a user")
    _check_views(serve, views or ())
    until = _expiry(expires)
    with explained():
        secret, made = _stored(config).add(name, views=views or (), user=user, expires=until)
    screen.show({"key": secret, **_facts(made, serve)}, lambda: print(secret))
    screen.note("this key is not shown again; clients send it as 'Authorization: Bearer KEY'")
    if not serve.auth.keys:
        screen.note(f"keys are not used yet; add 'serve: {{auth: {{keys: true}}}}' to {_file(config)}")
    return 0


@config_command
def list_(own: Invocation) -> CommandResult:
    """List the keys, and when each was last used."""
    from toolbus.gateway.access.keys import explained

    screen, config = own.screen, _loaded(own)
    serve = _serve(config)
    with explained():
        stored = _stored(config)
        keys, used = stored.all(), stored.used()

    def lines() -> None:
        if not keys:
            screen.note(f"there are no keys for {_file(config)}; make one with 'toolbus key add NAME'")
            return
        header = ("name", "view", "user", "created", "expires", "last used")
        screen.table(header, [_row(one, serve, used.get(one.digest)) for one in keys])

    listed = [{**_facts(one, serve), "last_used": used.get(one.digest)} for one in keys]
    return CommandResult({"keys": listed}, lines)


@config_command
def revoke(own: Invocation, name: _Name) -> CommandResult:
    """Revoke a key; a gateway refuses it within two seconds."""
    from toolbus.config.location import near_miss
    from toolbus.gateway.access.keys import explained

    config = _loaded(own)
    with explained():
        stored = _stored(config)
        if not stored.revoke(name):
            known = [one.name for one in stored.all()]
            raise Usage(f"no key is named {name!r}{near_miss(name, known) or _SEE_LIST}")
    return CommandResult({"revoked": name}, f"revoked {name}")


def _loaded(own: Invocation) -> "BusConfig":
    """The config. Nothing in it is run, unless the URL of its store has to be looked up."""
    return own.untrusted_config if own.untrusted_config.store is None else own.config


def _serve(config: "BusConfig") -> "Serve":

    return config.gateway


def _stored(config: "BusConfig") -> "StoredKeys":
    from toolbus.bus.engine.stores import store_for_command
    from toolbus.gateway.access.keys import StoredKeys, file_keys

    if (store := store_for_command(config)) is not None:
        return StoredKeys(store)
    assert config.file is not None, "commands read a file"
    return file_keys(config.file)


def _file(config: "BusConfig") -> str:
    return short_path(config.file or "")


def _check_views(serve: "Serve", views: Sequence[str]) -> None:
    from toolbus.config.location import near_miss

    known = list(serve.views) or [serve.default_view]
    for view in views:
        if serve.view(view) is None:
            hint = near_miss(view, known) or f"; views: {', '.join(known)}"
            raise Usage(f"--view: the config has no view named {view!r}{hint}")


def _expiry(text: str | None) -> float | None:
    """The time of `12h`, `30d` or `2027-01-31`, as seconds since the epoch; `Usage` if it is none."""
    if text is None:
        return None
    try:
        then = moment(text, ahead=True)
    except (ValueError, OverflowError):
        raise Usage("--expires: not a time; write such as 12h, 30d or 2027-01-31") from None
    if then.timestamp() <= time.time():
        raise Usage("--expires: is in the past; write such as 12h, 30d or 2027-01-31")
    return then.timestamp()


def _facts(key: "StoredKey", serve: "Serve") -> dict[str, JSON]:
    views = list(key.views or (serve.default_view,))
    return {"name": key.name, "views": views, **picked(key, "user created expires")}


def _row(key: "StoredKey", serve: "Serve", used: float | None) -> list[Cell]:
    is_over = key.expires is not None and key.expires <= time.time()
    expires = "never" if key.expires is None else "expired" if is_over else _day(key.expires)
    return [
        (visible(key.name), "bold"),
        visible(", ".join(key.views or (serve.default_view,))),
        visible(key.user) or "-",
        _day(key.created),
        (expires, "yellow" if is_over else ""),
        "never" if used is None else _day(used),
    ]


def _day(when: float) -> str:
    return datetime.fromtimestamp(when).astimezone().strftime("%Y-%m-%d %H:%M")
