"""`toolbus key`: the keys that let clients into the gateway, and the people who may allow clients."""

import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from toolbus.cli.command import CommandResult, Invocation, config_command, group
from toolbus.cli.commands.safety.audit import moment
from toolbus.cli.errors import Usage
from toolbus.cli.output.screen import Cell, picked, short_path, visible
from toolbus.cli.parameters import duration
from toolbus.core.text.display import counted
from toolbus.core.values.records import JSON

if TYPE_CHECKING:
    from toolbus.config import BusConfig
    from toolbus.config.settings.serve import Serve
    from toolbus.gateway.access.keys import StoredKey, StoredKeys
    from toolbus.gateway.people.registry import PersonEntry, PersonRegistry
    from toolbus.gateway.sign_in.grants import Grant, StoredGrants

_ENDED = {"keys": "key", "invites": "invite", "browsers": "signed-in browser", "clients": "allowed client"}
"""The names that messages use for what a revocation ends."""
_ID = 8
"""The characters of an ID that are shown; 'key revoke' needs no more."""
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
            help="The user whose logins and secrets its calls use; default: the config's own.",
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
def invite(
    own: Invocation,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the person.")],
    views: Annotated[
        list[str] | None,
        typer.Option(
            "--view",
            metavar="VIEW",
            show_default=False,
            help="The view that the person may give to clients; default: default_view. Repeat it for others.",
        ),
    ] = None,
    user: Annotated[
        str,
        typer.Option(
            "--user",
            metavar="USER",
            show_default=False,
            help="The user whose logins and secrets the calls use; default: NAME.",
        ),
    ] = "",
    expires: Annotated[
        str, typer.Option("--expires", metavar="TIME", help="When the link expires: 12h, 7d, 2027-01-31.")
    ] = "24h",
) -> int:
    """Print a one-time link with which a person signs in.

    toolbus key invite ann --view research
    """
    from toolbus.gateway.access.keys import NAME, NAME_RULE, explained
    from toolbus.gateway.sign_in.request import SIGN_IN, Person

    screen, config = own.screen, _loaded(own)
    serve = config.gateway
    if not NAME.fullmatch(name):
        raise Usage(NAME_RULE)
    if serve.auth.sign_in is not None and not serve.auth.sign_in.invites:
        off = f"serve.auth.sign_in.invites is false in {_file(config)}"
        raise Usage(f"{off}, so links let nobody in; people sign in at the OIDC provider")
    if serve.auth.sign_in is None or serve.public_url is None:
        needed = "serve: {public_url: ..., auth: {sign_in: {}}}"
        raise Usage(f"people cannot sign in with a link; add '{needed}' to {_file(config)}")
    _check_views(serve, views or ())
    for view in views or [serve.default_view]:
        if view not in serve.scopes.values():
            step = "add one to serve.auth.sign_in.scopes, or choose another view"
            raise Usage(f"--view: no scope gives the view {view!r}, so no client could use it; {step}")
    people, person = _people(config), Person(name=name, user=user or name)
    with explained("invites"):
        work = people.invite(person, views or [serve.default_view], _expiry(expires))
        code, made = people.values.wait(work)
    link = f"{serve.public_url.rstrip('/')}{SIGN_IN}/invite?code={code}"
    screen.show({"link": link, **_person_facts(made)}, lambda: print(link))
    screen.note(f"this link works once, and is not shown again; send it to {name} alone")
    return 0


@config_command
def list_(own: Invocation) -> CommandResult:
    """List keys, people, and the clients that people allowed."""
    from toolbus.gateway.access.keys import explained
    from toolbus.gateway.people.registry import BROWSER, INVITE

    screen, config = own.screen, _loaded(own)
    serve = config.gateway
    with explained():
        stored = _stored(config)
        keys, used = stored.all(), stored.used()
    people, grants = _people(config), _grants(config)
    with explained("invites and sign-ins"):
        invites, browsers = (people.values.wait(people.all(kind)) for kind in (INVITE, BROWSER))
        allowed, renewed = grants.all(), grants.values.wait(grants.renewed())

    def lines() -> None:
        if not keys and serve.auth.sign_in is None:
            screen.note(f"there are no keys for {_file(config)}; make one with 'toolbus key add NAME'")
        if keys:
            header = ("name", "view", "user", "created", "expires", "last used")
            screen.table(header, [_row(one, serve, used.get(one.digest)) for one in keys])
        for what, entries in (("invited", invites), ("signed in", browsers)):
            if entries:
                screen.table((what, "views", "user", "since", "expires"), map(_person_row, entries))
        if allowed:
            header = ("client", "id", "of", "views", "user", "since", "renewed", "expires")
            rows = [_grant_row(one, serve, renewed.get(one.id)) for one in allowed]
            screen.table(header, rows)

    shown: dict[str, JSON] = {
        "keys": [{**_facts(one, serve), "last_used": used.get(one.digest)} for one in keys],
        "invites": [_person_facts(one) for one in invites],
        "browsers": [_person_facts(one) for one in browsers],
        "clients": [_grant_facts(one, serve, renewed.get(one.id)) for one in allowed],
    }
    return CommandResult(shown, lines)


@config_command
def revoke(
    own: Invocation,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The name of a key or a person, or the ID of a client.")
    ],
) -> CommandResult:
    """Revoke a key, a client, or all that a person has."""
    from toolbus.config.location import near_miss
    from toolbus.gateway.access.keys import explained
    from toolbus.gateway.people.registry import BROWSER, INVITE

    config = _loaded(own)
    with explained():
        stored = _stored(config)
        found: dict[str, int] = {"keys": int(stored.revoke(name))}
    people, grants = _people(config), _grants(config)
    with explained("invites and sign-ins"):
        # First the ways to get more, then what they gave.
        found["invites"] = people.values.wait(people.revoke(INVITE, name))
        found["browsers"] = people.values.wait(people.revoke(BROWSER, name))
        known_grants = grants.all()
        ended = [one for one in known_grants if one.person == name]
        if not ended and not any(found.values()) and len(name) >= _ID:
            ended = [one for one in known_grants if one.id.startswith(name)]
        found["clients"] = sum(grants.revoke(one.id) for one in ended)
        if not any(found.values()):
            entries = [one for kind in (INVITE, BROWSER) for one in people.values.wait(people.all(kind))]
            known = {one.name for one in stored.all()} | {one.person.name for one in entries}
            known |= {one.person for one in known_grants}
            raise Usage(f"no key or person is named {name!r}{near_miss(name, sorted(known)) or _SEE_LIST}")
    parts = [counted(number, _ENDED[what]) for what, number in found.items() if number]
    said = "" if parts == [counted(1, _ENDED["keys"])] else f": {', '.join(parts)}"
    return CommandResult({"revoked": name, **found}, f"revoked {name}{said}")


@config_command
def rotate(
    own: Invocation,
    keep: Annotated[
        float | None,
        typer.Option(
            "--keep",
            metavar="TIME",
            parser=duration,
            help="How long to accept what the old secret signed, such as 1h; 0 signs everyone out. Default: "
            "grant_seconds, 30 days.",
        ),
    ] = None,
) -> CommandResult:
    """Replace the secret that signs tokens and client IDs."""
    from toolbus.gateway.access.keys import explained
    from toolbus.gateway.sign_in.keys import rotate as rotated

    config = _loaded(own)
    sign_in, values = config.gateway.auth.sign_in, _grants(config).values
    if sign_in is None:
        raise Usage(f"there is no secret to replace; serve.auth.sign_in is not set in {_file(config)}")
    with explained("the secret"):
        until = values.wait(rotated(values, sign_in.grant_seconds if keep is None else keep))
    if keep == 0:
        said = "replaced the secret; everyone has to sign in again"
    else:
        said = f"replaced the secret; what the old one signed is accepted until {_day(until)}"
    return CommandResult({"accepted_until": until}, said)


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


def _people(config: "BusConfig") -> "PersonRegistry":
    from toolbus.bus.engine.stores import store_for_command
    from toolbus.gateway.people.registry import PersonRegistry, person_files

    return PersonRegistry(store_for_command(config) or person_files(config.file or ""))


def _grants(config: "BusConfig") -> "StoredGrants":
    from toolbus.bus.engine.stores import store_for_command
    from toolbus.gateway.sign_in.grants import StoredGrants, grant_files

    return StoredGrants(store_for_command(config) or grant_files(config.file or ""))


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


def _person_facts(entry: "PersonEntry") -> dict[str, JSON]:
    facts = picked(entry, "created expires")
    return {"name": entry.person.name, "views": list(entry.views), "user": entry.person.user, **facts}


def _person_row(entry: "PersonEntry") -> list[Cell]:
    who, times = entry.person, (_day(entry.created), _day(entry.expires))
    return [(visible(who.name), "bold"), visible(", ".join(entry.views)), visible(who.user), *times]


def _grant_facts(grant: "Grant", serve: "Serve", renewed: float | None) -> dict[str, JSON]:
    facts = picked(grant, "id person user created expires client_id resource")
    is_usable = grant.is_for(serve.resource or "")
    own = {"client": grant.client_name, "views": list(grant.views)}
    return {**own, **facts, "renewed": renewed or None, "usable": is_usable}


def _grant_row(grant: "Grant", serve: "Serve", renewed: float | None) -> list[Cell]:
    texts = (grant.id[:_ID], grant.person, ", ".join(grant.views), grant.user)
    shown = (visible(text) or "-" for text in texts)
    is_usable = grant.is_for(serve.resource or "")
    expires = _day(grant.expires) if is_usable else ("unusable: for another URL", "yellow")
    times = (_day(grant.created), _day(renewed) if renewed else "never", expires)
    return [(visible(grant.client_name), "bold"), *shown, *times]


def _day(when: float) -> str:
    return datetime.fromtimestamp(when).astimezone().strftime("%Y-%m-%d %H:%M")
