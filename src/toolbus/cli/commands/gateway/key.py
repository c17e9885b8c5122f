"""`toolbus key add`, `list` and `revoke`: the keys that let clients into the gateway."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from rich.text import Text

from toolbus.bus.engine.stores import store_for_command
from toolbus.cli.commands.safety.audit import AGO, UNITS
from toolbus.cli.errors import Usage
from toolbus.cli.options import SharedOptions
from toolbus.cli.output.screen import Screen, short_path, visible
from toolbus.cli.session import load_trusted_config, load_untrusted_config
from toolbus.config import BusConfig
from toolbus.config.location import near_miss
from toolbus.config.settings.serve import Serve
from toolbus.core.values.records import JSON
from toolbus.gateway.access.keys import NAME, NAME_RULE, StoredKey, StoredKeys, explained, file_keys

_SEE_LIST = "; see 'toolbus key list'"


def add(settings: SharedOptions, name: str, views: Sequence[str], user: str, expires: str | None) -> int:
    """Make a key and print it."""
    screen, config = Screen(settings), _loaded(settings)
    serve = config.serve or Serve()
    if not NAME.fullmatch(name):
        raise Usage(NAME_RULE)
    if user and not user.strip():
        raise Usage("--user: expected the name of a user")
    _check_views(serve, views)
    until = _expiry(expires)
    with explained():
        key, made = _stored(config).add(name, views=views, user=user, expires=until)
    if screen.as_json:
        screen.json({"key": key, **_facts(made, serve)})
    else:
        print(key)
    screen.note("this key is not shown again; clients send it as 'Authorization: Bearer KEY'")
    if not serve.auth.keys:
        screen.note(f"keys are not used yet; add 'serve: {{auth: {{keys: true}}}}' to {_file(config)}")
    return 0


def list_keys(settings: SharedOptions) -> int:
    """Print what is known of each key."""
    screen, config = Screen(settings), _loaded(settings)
    serve = config.serve or Serve()
    with explained():
        stored = _stored(config)
        keys, used = stored.all(), stored.used()
    if screen.as_json:
        screen.json({"keys": [{**_facts(key, serve), "last_used": used.get(key.digest)} for key in keys]})
    elif keys:
        header = ("name", "view", "user", "created", "expires", "last used")
        rows = [_row(key, serve, used.get(key.digest)) for key in keys]
        screen.rows([[Text(name, style="dim") for name in header], *rows], indent=0, max_lines=None)
    else:
        screen.note(f"there are no keys for {_file(config)}; make one with 'toolbus key add NAME'")
    return 0


def revoke(settings: SharedOptions, name: str) -> int:
    """Delete a key; `Usage` if there is none of that name."""
    screen, config = Screen(settings), _loaded(settings)
    with explained():
        stored = _stored(config)
        if not stored.revoke(name):
            known = [key.name for key in stored.all()]
            raise Usage(f"no key is named {name!r}{near_miss(name, known) or _SEE_LIST}")
    if screen.as_json:
        screen.json({"revoked": name})
    else:
        screen.print(Text(visible(f"revoked {name}")))
    return 0


def _loaded(settings: SharedOptions) -> BusConfig:
    """The config. Nothing in it is run, unless the URL of its store has to be looked up."""
    config = load_untrusted_config(settings)
    return config if config.store is None else load_trusted_config(settings)


def _stored(config: BusConfig) -> StoredKeys:
    if (store := store_for_command(config)) is not None:
        return StoredKeys(store)
    assert config.file is not None, "commands read a file"
    return file_keys(config.file)


def _file(config: BusConfig) -> str:
    return short_path(config.file or "")


def _check_views(serve: Serve, views: Sequence[str]) -> None:
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
        if (span := AGO.fullmatch(text.strip())) is not None:
            then = datetime.now(UTC) + timedelta(**{UNITS[span[2]]: float(span[1])})
        else:
            then = datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Usage("--expires: not a time; write such as 12h, 30d or 2027-01-31") from None
    if then.timestamp() <= time.time():
        raise Usage("--expires: is in the past; write such as 12h, 30d or 2027-01-31")
    return then.timestamp()


def _facts(key: StoredKey, serve: Serve) -> dict[str, JSON]:
    return {
        "name": key.name,
        "views": list(key.views or (serve.default_view,)),
        "user": key.user,
        "created": key.created,
        "expires": key.expires,
    }


def _row(key: StoredKey, serve: Serve, used: float | None) -> list[Text]:
    is_over = key.expires is not None and key.expires <= time.time()
    expires = "never" if key.expires is None else "expired" if is_over else _day(key.expires)
    return [
        Text(visible(key.name), style="bold"),
        Text(visible(", ".join(key.views or (serve.default_view,)))),
        Text(visible(key.user) or "-"),
        Text(_day(key.created)),
        Text(expires, style="yellow" if is_over else ""),
        Text("never" if used is None else _day(used)),
    ]


def _day(when: float) -> str:
    return datetime.fromtimestamp(when).astimezone().strftime("%Y-%m-%d %H:%M")
