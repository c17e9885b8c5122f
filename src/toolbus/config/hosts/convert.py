"""Convert the servers of another host's file to our format, without any secret left in them.

Nothing is written and nothing is started. A bad entry never stops the others: it is skipped, with a note.
"""

import os.path
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from toolbus.config.hosts.editors import EDITORS, ImportFile, is_toolbus
from toolbus.config.hosts.entry import IGNORED, is_switched_off, long_form
from toolbus.config.hosts.host_auth import with_auth
from toolbus.config.hosts.read import read_document
from toolbus.config.hosts.translate import FILE, SET_IT, HostConfig, disabled_by, host_config, skipped_note
from toolbus.config.load import load_config, load_server, setting
from toolbus.config.location import Location, is_list, is_mapping, near_miss
from toolbus.config.model import ServerConfig
from toolbus.config.secrets.literals import TEXTS, Secret, SecretNames, referenced_names, with_references
from toolbus.config.settings.auth import OAuth
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

# Variables that an editor fills in from its current state.
_EDITOR_ONLY = ("workspaceFolderBasename", "pathSeparator", "fileDirname", "execPath", "selectedText")
# Keys that are already handled.
_HANDLED = ("enabled", "disabled", "connection", "trust", "trust_annotations", "sandbox")
_SANDBOX = frozenset({"sandbox", "sandboxEnabled"})
# Nobody but the user, in a toolbus.yaml, says that a server can be trusted.
_UNUSED = (IGNORED | {"trust", "trust_annotations"}) - _SANDBOX
_NOT_IMPORTED = {
    "naming": "it applies to all servers",
    "context": "it names servers, which may have other names here",
    "tokens": "it applies to all servers",
    "sandbox": "add sandbox: true, and the files that servers need",
    "lock": "the lockfile of this config is another one",
}
_INPUT = r"(?<!\$)\$\{input:([^}:]+)\}"
_ABSOLUTE = re.compile(r"[/\\~$]|[A-Za-z]:")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedServers:
    """The servers of a file in our format, their secrets, and notes on what was skipped or changed."""

    source: ImportFile
    servers: Mapping[str, Mapping[str, JSON]] = field(repr=False)
    secrets: tuple[Secret, ...]
    notes: tuple[str, ...]


def imported(source: ImportFile, *, taken: Mapping[str, str] | None = None) -> ImportedServers:
    """The servers of the file, ready to be written; ConfigError if it cannot be read.

    `taken` are names that already have a value, such as those from files imported before; no reference uses
    one of them for a different value.
    """
    location = Location(file=str(source.path))
    found = host_config(
        read_document(source.path), host=source.editor, folder=source.folder, location=location
    )
    notes = list(found.notes)
    found = replace(found, disabled=found.disabled | _disabled_elsewhere(source, notes))
    plain = _converted(found, source, location, notes)
    names = SecretNames({**(taken or {})})
    referred = {alias: referenced_names(entry) for alias, entry in plain.items()}
    servers: dict[str, Mapping[str, JSON]] = {}
    secrets: list[Secret] = []
    for alias, entry in plain.items():
        others = frozenset[str]().union(*(referred[other] for other in plain if other != alias))
        servers[alias], new = with_references(alias, entry, names, avoid=others)
        secrets += new
    return ImportedServers(source=source, servers=servers, secrets=tuple(secrets), notes=tuple(notes))


def _disabled_elsewhere(source: ImportFile, notes: list[str]) -> frozenset[str]:
    names: set[str] = set()
    for path in source.switches:
        try:
            names |= disabled_by(path, source.folder)
        except ConfigError as error:
            notes.append(f"cannot tell which servers are disabled: {error}")
    return frozenset(names)


def _converted(
    found: HostConfig, source: ImportFile, location: Location, notes: list[str]
) -> dict[str, dict[str, JSON]]:
    """The entries in our format; invalid ones are skipped."""
    settings = {key: value for key, value in found.settings.items() if value is not None}
    notes += _skipped(settings)
    try:
        setting("timeouts", settings.get("timeouts", {}))
    except ConfigError as error:
        raise location.relocated(error, lambda key: key) from None
    enabled = settings.pop("enabled_servers", None)
    wanted = found.entries if enabled is None else location.names(enabled, "enabled_servers")
    lists = location.mapping(settings.pop("tool_allowlist", {}), "tool_allowlist")
    for name in (*wanted, *lists):
        if name not in found.entries:  # a misspelled alias would allow all tools of a server
            raise location.error(f"no server has the alias {name!r}{near_miss(name, found.entries)}")
    result: dict[str, dict[str, JSON]] = {}
    for alias, entry in found.entries.items():
        if is_toolbus(entry):  # with it, the bus would start itself, again and again
            notes.append(f"server {alias!r} was skipped: it is toolbus")
            continue
        here = {**settings, "tool_allowlist": {alias: lists[alias]}} if alias in lists else settings
        try:
            flat = long_form(entry, Location())
            is_off = alias in found.disabled or alias not in wanted or is_switched_off(flat, Location())
            on, sign_in = with_auth(flat, Location(), foreign=True)
            on = {key: value for key, value in on.items() if key not in _HANDLED}
            config = load_config({**here, "servers": {alias: on}}).servers[alias]
        except ConfigError as error:
            notes.append(skipped_note(alias, error))
            continue
        result[alias] = _plain(config, source, found.defaults, notes)
        notes += _prompts(alias, config, found.defaults)
        notes += [f"server {alias!r}: {warning}" for warning in sign_in]
        notes += _remarks(alias, flat, config, source)
        if is_off:
            result[alias]["enabled"] = False
            notes.append(f"server {alias!r} is disabled there, so it has enabled: false here")
    return result


def _skipped(settings: dict[str, JSON]) -> Iterator[str]:
    """Remove the settings that are not imported; notes say why."""
    settings.pop("context_budget", None)
    for key, reason in _NOT_IMPORTED.items():
        if settings.pop(key, "auto") not in ("auto", [], (), False):
            yield f"{key} was skipped: {reason}"


def _plain(
    config: ServerConfig, source: ImportFile, defaults: Mapping[str, str], notes: list[str]
) -> dict[str, JSON]:
    """The server as a person would write it: without defaults and inferred values."""
    dumped = config.model_dump(mode="json", exclude_defaults=True, exclude={"alias", "server"})
    entry: dict[str, JSON] = {key: _whole_numbers(value) for key, value in dumped.items()}
    if config.auth is not None:
        entry["auth"] = config.auth.as_written()
    transport = entry.pop("transport")
    if load_server(entry, alias=config.alias).transport != transport:
        entry = {"transport": transport, **entry}
    if isinstance(verify := entry.get("verify"), str):
        entry["verify"] = os.path.join(source.path.absolute().parent, verify)
    if source.editor in EDITORS and EDITORS[source.editor].fills_in_dollars:
        braced = {key: _mapped(entry[key], _braced) for key in TEXTS if key in entry}
        if (auth := entry.get("auth")) and "scopes" in auth:  # they are not texts with references
            braced["auth"]["scopes"] = auth["scopes"]
        if any(braced[key] != entry[key] for key in braced):
            notes.append(f"server {config.alias!r}: $NAME became ${{NAME}}")
        entry |= braced
    return {**entry, **{key: _mapped(entry[key], _defaulting(defaults)) for key in TEXTS if key in entry}}


def _remarks(
    alias: str, entry: Mapping[JSON, JSON], config: ServerConfig, source: ImportFile
) -> Iterator[str]:
    if unused := [key for key, value in entry.items() if key in _UNUSED and value]:
        yield f"server {alias!r}: ignored keys without a meaning here: {', '.join(unused)}"
    if any(entry.get(key) for key in _SANDBOX):
        yield f"server {alias!r}: its sandbox was not imported; add sandbox: true, and the files it needs"
    if isinstance(config.auth, OAuth):
        yield from _sign_in_remarks(alias, config.auth)
    texts = " ".join(text for _, text in config.texts())
    for name in dict.fromkeys(re.findall(r"(?<!\$)\$\{(\w+)\}", texts)):
        if name in _EDITOR_ONLY:
            yield f"server {alias!r}: ${{{name}}} only exists inside an editor; replace it with its value"
    for key, path in (("cwd", config.cwd), ("env_file", config.env_file)):
        if source.editor == FILE and path and not _ABSOLUTE.match(path):
            yield f"server {alias!r}: {key} is a relative path, now relative to the folder of the new file"


def _whole_numbers(value: JSON) -> JSON:
    """30 for 30.0, also inside mappings."""
    if is_mapping(value):
        return {key: _whole_numbers(inner) for key, inner in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _sign_in_remarks(alias: str, auth: OAuth) -> Iterator[str]:
    yield f"server {alias!r}: sign in: toolbus login {shlex.quote(alias)}"
    if auth.client_id is not None and auth.callback is None:
        yield (
            f"server {alias!r}: its client is registered for the callback of another host; "
            "set auth.callback to one that is registered for it"
        )


def _prompts(alias: str, config: ServerConfig, defaults: Mapping[str, str]) -> Iterator[str]:
    texts = " ".join(text for _, text in config.texts())
    for name in dict.fromkeys(re.findall(_INPUT, texts)):
        otherwise = ", or its default is used" if _is_usable(defaults.get(name)) else ""
        yield f"server {alias!r}: the editor prompts for {name!r}; {SET_IT}{otherwise}"


def _is_usable(default: str | None) -> bool:
    """Whether it can be used in a reference, which ends at the first brace."""
    return bool(default) and not re.search(r"\}|\$\{", default)


def _defaulting(defaults: Mapping[str, str]) -> Callable[[str], str]:
    """Returns a function that adds the editor's defaults to references to its inputs."""

    def filled(found: re.Match[str]) -> str:
        default = defaults.get(found[1])
        return f"${{input:{found[1]}:-{default}}}" if _is_usable(default) else found[0]

    return lambda text: re.sub(_INPUT, filled, text)


def _mapped(value: JSON, change: Callable[[str], str]) -> JSON:
    """The value with `change` applied to every string in it."""
    if is_mapping(value):
        return {key: _mapped(inner, change) for key, inner in value.items()}
    if is_list(value):
        return [_mapped(inner, change) for inner in value]
    return change(value) if isinstance(value, str) else value


def _braced(text: str) -> str:
    """The text with `${NAME}` for `$NAME`."""
    return re.sub(
        r"\$\$\{|\$\{[^}]*\}|(?<!\$)\$([A-Za-z_]\w*)", lambda m: _variable(m[1]) if m[1] else m[0], text
    )


def _variable(name: str) -> str:
    return "${env:user}" if name == "user" else f"${{{name}}}"  # `${user}` is the user of the bus
