"""`toolbus config`: the config as toolbus reads it, without secrets."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

import typer

from toolbus.cli.command import CommandResult, Invocation, command
from toolbus.cli.output.screen import Screen, short_path, visible
from toolbus.config import Auth, BusConfig, Resolved, Secrets, ServerConfig, resolved
from toolbus.config.find import from_home
from toolbus.config.layers import origins
from toolbus.config.location import ValueOrigin, is_list, is_mapping
from toolbus.config.script_tools.entry import has_scripts
from toolbus.config.secrets.literals import literal_secrets
from toolbus.config.secrets.redact import names_credential, redacted, shown_url, spellings
from toolbus.config.secrets.reference import MASK
from toolbus.config.settings.auth import SECRET_KEYS
from toolbus.config.settings.openapi import OpenApi
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import JSON

_DEFAULT = re.compile(r"(\$\{[^}]*?:-)[^}]*\}")


@command
def config(
    own: Invocation,
    expanded: Annotated[
        bool, typer.Option("--redacted", help="Resolve every ${...}; show secrets as ***.")
    ] = False,
    origin: Annotated[
        bool, typer.Option("--origin", help="Show the file and line that each value comes from.")
    ] = False,
    stations: Annotated[
        bool, typer.Option("--stations", help="List what every call passes, in order, with your hooks.")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of toolbus.yaml, for editors.")
    ] = False,
) -> CommandResult | int:
    """Show the config as toolbus reads it, without secrets."""
    if schema:
        from toolbus.config.schema import config_schema

        print(json.dumps(config_schema(), indent=2))
        return 0
    if stations:
        from toolbus.cli.commands.config.stations import stations_of

        return asyncio.run(stations_of(own))
    if origin:
        rows = list(_origins(own.untrusted_config))
        document = [{"key": key, "value": value, "file": at.file, "line": at.line} for key, value, at in rows]
        return CommandResult(document, lambda: _print_origins(own.screen, rows))
    # Without expansion nothing in it is used, so it can be shown before it is trusted.
    shown = asyncio.run(_config_json(own.config if expanded else own.untrusted_config, expanded))
    return CommandResult(shown, lambda: _print_yaml(shown))


def _print_yaml(shown: JSON) -> None:
    import yaml

    text = yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=100)
    if visible(text) != text:
        text = yaml.safe_dump(shown, sort_keys=False, allow_unicode=False, width=100)
    print(text, end="")


def _origins(config: BusConfig) -> Iterator[tuple[str, JSON, ValueOrigin]]:
    """Each value that a file sets, with its place."""
    if config.file is None:
        return
    find = origins(config)
    shown = asyncio.run(_config_json(config, expanded=False))
    for key, value in shown.items():
        if key == "servers":
            for alias, server in value.items():
                for name, one in server.items():
                    if (at := find(alias, None if name == "problem" else name)) is not None:
                        yield f"servers.{alias}.{name}", one, at
        elif key != "file" and (at := find(None, key)) is not None:
            yield key, value, at


def _print_origins(screen: Screen, rows: Sequence[tuple[str, JSON, ValueOrigin]]) -> None:
    for key, value, at in rows:
        place = f"{from_home(short_path(at.file or ''))}{'' if at.line is None else f':{at.line}'}"
        screen.line(visible(f"{key}: {json.dumps(value, ensure_ascii=False)}"), "  ", (visible(place), "dim"))


async def _config_json(config: BusConfig, expanded: bool) -> JSON:
    secrets = Secrets(None, config.folder, config.reviewed)
    servers = {
        alias: await _expanded(server, secrets) if expanded else _as_written(server)
        for alias, server in config.servers.items()
        if not has_scripts(server.server)
    }
    others = config.model_dump(
        mode="json", exclude_defaults=True, exclude={"file", "folder", "naming", "servers"}
    )
    return {"file": config.file, "naming": config.naming, **others, "servers": servers}


def _as_written(server: ServerConfig) -> JSON:
    """The values as written in the file, with literal credentials masked."""
    if server.mistake is not None:
        return {"problem": str(server.mistake)}
    values = _non_default_values(server)
    if server.auth is not None:
        values["auth"] = server.auth.as_written()
    for holder in (values, values.get("openapi", {})):
        for name in {"env", "headers", "auth", "query"} & holder.keys():
            holder[name] = {
                key: _without_default(key, text) if isinstance(text, str) else text
                for key, text in holder[name].items()
            }
    hidden = spellings(secret.value for secret in literal_secrets(server))
    return _map_strings(values, lambda text: redacted(text, hidden))


async def _expanded(server: ServerConfig, secrets: Secrets) -> JSON:
    """The values with references resolved and secrets masked, or the problem."""
    try:
        real = await resolved(server, secrets)
    except ToolbusError as error:
        return {**_as_written(server), "problem": str(error)}
    values = _non_default_values(server)
    for name in ("command", "url", "cwd"):
        if (text := getattr(real, name)) is not None and (name != "url" or server.url is not None):
            values[name] = real.redacted(shown_url(text) if name == "url" else text)
    if real.args:
        values["args"] = [real.redacted(text) for text in real.args]
    for name, mapping in (("env", real.env), ("headers", real.headers)):
        if mapping:
            values[name] = {
                key: MASK if names_credential(key) else real.redacted(text) for key, text in mapping.items()
            }
    if server.openapi is not None:
        values["openapi"] |= _expanded_api(server.openapi, real)
    if server.auth is not None and server.auth.type != "bearer":
        values["auth"] = _expanded_auth(server.auth, real)
    return values


def _expanded_api(api: OpenApi, real: Resolved) -> dict[str, JSON]:
    """The texts of `openapi`, with references resolved and secrets masked."""
    texts = {key: real.redacted(text) for key, text in real.openapi.items()}
    shown: dict[str, JSON] = {key: shown_url(texts[key]) for key in ("document", "base_url") if key in texts}
    query = {name: MASK if names_credential(name) else texts[f"query.{name}"] for name in api.query}
    return {**shown, **({"query": query} if query else {})}


def _expanded_auth(auth: Auth, real: Resolved) -> dict[str, JSON]:
    """The keys of `auth` that are set, with references resolved and secrets masked."""
    texts = {key: real.redacted(text) for key, text in real.auth.items()}
    shown = {key: texts.get(key, value) for key, value in auth.as_written().items()}
    return {key: MASK if key in SECRET_KEYS else value for key, value in shown.items()}


def _without_default(key: str, text: str) -> str:
    """Mask the default of a reference under a credential's name: it may be a credential."""
    is_secret = names_credential(key) or key in SECRET_KEYS
    return _DEFAULT.sub(rf"\g<1>{MASK}}}", text) if is_secret else text


def _non_default_values(server: ServerConfig) -> dict[str, JSON]:
    """The settings that differ from the defaults."""
    own = server.model_dump(exclude_defaults=True, exclude={"alias", "transport", "server", "auth"})
    plain = {name: list(value) if is_list(value) else value for name, value in own.items()}
    return {"transport": server.transport, **plain}


def _map_strings(value: JSON, change: Callable[[str], str]) -> JSON:
    if is_mapping(value):
        return {key: _map_strings(inner, change) for key, inner in value.items()}
    if is_list(value):
        return [_map_strings(inner, change) for inner in value]
    return change(value) if isinstance(value, str) else value
