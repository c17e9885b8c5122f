"""Layers of a config: your own config (`extends: user`), the config, and `toolbus.local.yaml` beside it.

Later files win field by field, and null removes. An entry with a program, a URL or a credential replaces the
whole entry below it. So no file can send the secret of another file to its own target. Your own config stays
in force: other layers can narrow it, never loosen it.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from toolbus.config.base import overriding
from toolbus.config.editing.yaml_json import Steps, line_of
from toolbus.config.find import from_home, local_beside
from toolbus.config.hosts.dialects import SETTINGS, Container, alias_of, container, containers
from toolbus.config.hosts.entry import (
    IGNORED,
    SPELLINGS,
    Defaults,
    is_switched_off,
    long_form,
    server_config,
)
from toolbus.config.hosts.read import document_in, read_content
from toolbus.config.location import Location, Mistakes, ValueOrigin, is_list, is_mapping
from toolbus.config.model import BusConfig, ServerConfig, Timeouts
from toolbus.config.settings.limits import ServerLimits
from toolbus.config.settings.stations import StationEntry
from toolbus.core.files import LOCAL, user_folder
from toolbus.core.text.lookalikes import looks
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

LAUNCH = frozenset(
    (
        *("transport", "command", "args", "env", "env_file", "inherit_env", "cwd", "sandbox"),
        *("url", "headers", "forward_headers", "auth", "verify", "client_cert", "client_key", "server"),
        "openapi",
        "registry",
    )
)
"""Fields that decide what runs and where credentials go; an entry with one of them replaces the one below."""
FREE = frozenset(
    (
        *("required", "mark", "repair", "budget", "timeouts", "max_concurrency", "lazy", "idle_timeout"),
        *("era", "log_level"),
    )
)
"""Fields of your own servers that any other layer may change."""
NARROWED = frozenset(
    (
        *("enabled", "include", "exclude", "trust_annotations", "redact", "baggage", "repeatable", "lock"),
        "per_session",
    )
)
"""Fields of your own servers that other layers may make stricter."""
KEPT = frozenset(("override", "prefix", "limits", "resource_limit"))
"""Fields of your own servers that only your own config may change."""
_TUNING = FREE | NARROWED | KEPT
_NESTED = {"timeouts": 1, "limits": 1, "code": 1, "serve": 1, "override": 2, "profiles": 2, "tools": 1}
"""The depth to which a mapping is merged; all others, such as `env` and `search`, are replaced."""
_STRICTNESS = {"off": 0, "warn": 1, "block": 2}

USERS_WINS = frozenset(("quotas", "audit", "history", "telemetry", "tokens", "roots", "code"))
"""Settings of your own config that a config which extends it cannot change."""
NOT_INHERITED = frozenset(
    (
        *("lock", "policy", "include", "exclude", "profiles", "hooks", "tools"),  # those of both files apply
        *("serve", "store", "search", "extends", "enabled_servers", "tool_allowlist"),
    )
)
"""Settings that a config does not take from your own; most of the others contain targets and secrets."""


# The files


def _of(user: BusConfig) -> str:
    return from_home(user.file)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ConfigFile:
    """One file of a config, or a mapping of a program."""

    document: Mapping[JSON, JSON]
    path: Path | None = None
    content: bytes | None = None

    @classmethod
    def read(cls, path: Path, content: bytes | None = None) -> "ConfigFile":
        """The layer in the file at that path; ConfigError if it cannot be read."""
        content = read_content(path) if content is None else content
        return cls(document=document_in(content, path), path=path, content=content)

    @property
    def location(self) -> Location:
        """Its file."""
        return Location(file=None if self.path is None else str(self.path))

    @property
    def folder(self) -> Path | None:
        """The folder of its file."""
        return None if self.path is None else self.path.absolute().parent

    @property
    def container(self) -> Container:
        """Its servers and settings; a layer above another one needs no servers."""
        is_above = "extends" in self.document or (self.path is not None and self.path.name == LOCAL)
        is_partial = is_above and not any(containers(self.document))
        return container({"servers": {}, **self.document} if is_partial else self.document, self.location)

    def line(self, steps: Steps) -> int | None:
        """The line of a value in its file, if that is YAML or JSON."""
        if not steps or self.content is None or self.path is None or self.path.suffix == ".toml":
            return None
        text = self.content.decode("utf-8-sig", errors="replace")
        return line_of(text, steps, is_json=self.path.suffix not in (".yaml", ".yml"))

    def steps_to(self, server: str) -> Steps:
        """The path of an entry in the document; empty if it has none."""
        for path, holder in containers(self.document):
            entries = holder[path[-1]]
            if is_mapping(entries):
                return (*path, server)
            for index, entry in enumerate(entries if is_list(entries) else ()):
                if alias_of(entry) == server:
                    return (*path, index)
        return ()


@dataclass(frozen=True, kw_only=True, repr=False)
class ConfigFiles:
    """The files of one folder that make up a config: the config, and the local file beside it."""

    layers: Sequence[ConfigFile]

    def stations(self, mistakes: Mistakes) -> tuple[StationEntry, ...]:
        """The entries of `hooks` in all files, in order; null removes the entries of the files below."""
        found: tuple[StationEntry, ...] = ()
        for layer, holder in self._found:
            if "hooks" not in holder.settings:
                continue
            if (value := holder.settings["hooks"]) is None:
                found = ()
                continue
            location = replace(layer.location, origin=partial(_place_in, layer))
            entries: tuple[StationEntry, ...] = ()
            try:
                entries = BusConfig(hooks=value).hooks
            except ConfigError as error:
                mistakes += location.relocated(error, lambda key: key).mistakes
            place = {"file": layer.location.file, "folder": layer.folder}
            found += tuple(
                entry.model_copy(update={**place, "index": index, "line": layer.line(("hooks", index))})
                for index, entry in enumerate(entries)
            )
        return found

    @cached_property
    def _found(self) -> list[tuple[ConfigFile, Container]]:
        return [(layer, layer.container) for layer in self.layers]

    @cached_property
    def container(self) -> Container:
        """Their servers and settings, merged."""
        (_, found), *others = self._found
        for _, above in others:
            found = overlaid(found, above)
        return found

    @cached_property
    def is_layered(self) -> bool:
        """Whether there is more than one file."""
        return len(self.layers) > 1 or self.extends

    @cached_property
    def extends(self) -> bool:
        """Whether the servers of the user's own config are added; ConfigError if that cannot be."""
        asking = [(layer, found) for layer, found in self._found if found.settings.get("extends") == "user"]
        mistakes = Mistakes()
        for layer, found in asking:
            if (problem := _extends_problem(layer, found)) is not None:
                mistakes.append(layer.location.error(problem, "extends"))
        mistakes.raise_any()
        return bool(asking) and self.container.settings.get("extends") == "user"

    def location(self, server: str | None = None) -> Location:
        """The location of mistakes; with several files, each mistake is located in its own."""
        plain = replace(self.layers[0].location, server=server)
        return replace(plain, origin=self.origin) if self.is_layered else plain

    def sets(self, server: str | None, key: str | None) -> bool:
        """Whether one of the files has a server, a key of it, or a setting."""
        if server is not None:
            holder = self.container.entries.get(server)
            return holder is not None and (key is None or _has(_long(holder), (key,)))
        return key in self.container.settings

    def origin(self, server: str | None, key: str | None) -> ValueOrigin:
        """The place of a server, of one of its keys, or of a setting."""
        steps: Steps = tuple((key or "").replace("[", ".[").split(".")) if key else ()
        wanted = steps[: _NESTED.get(str(steps[0]), 0) + 1] if steps else ()
        pairs = self._found
        if server is not None:
            pairs = [pair for pair in pairs if server in pair[1].entries] or pairs[:1]
            whole = [index for index, pair in enumerate(pairs) if _replaces(pair[1].entries.get(server))]
            pairs = pairs[whole[-1] :] if whole else pairs
        for layer, found in reversed(pairs):
            holder = found.settings if server is None else found.entries.get(server)
            if wanted and _has(_long(holder), wanted):
                return _place(layer, server, steps)
        return _place(pairs[0][0], server, steps)


def origins(config: BusConfig) -> Callable[[str | None, str | None], ValueOrigin | None]:
    """A function that finds the place of a key of a server, or of a setting; None if no file has it."""
    base = Path(config.file or "")
    files = [base, *([] if (local := local_beside(base)) is None else [local])]
    layers = ConfigFiles(layers=[ConfigFile.read(path) for path in files])
    of_user = None if config.user is None else origins(config.user)

    def find(server: str | None, key: str | None) -> ValueOrigin | None:
        if layers.sets(server, key):
            return layers.origin(server, key)
        return None if of_user is None else of_user(server, key)

    return find


def _steps(key: str | None) -> Steps:
    """The steps of a key such as `env.TOKEN` or `hooks[0]`."""
    words = (key or "").replace("[", ".[").split(".") if key else ()
    return tuple(int(word[1:-1]) if re.fullmatch(r"\[\d+\]", word) else word for word in words)


def _long(entry: JSON) -> JSON:
    try:
        return long_form(entry, Location())
    except ConfigError:
        return entry


def _has(holder: JSON, steps: Steps) -> bool:
    for step in steps:
        keys = holder if is_mapping(holder) else ()
        key = next((key for key in keys if key == step or field_of(key) == step), None)
        if key is None:
            return False
        holder = holder[key]
    return True


def _place(layer: ConfigFile, server: str | None, steps: Steps) -> ValueOrigin:
    start = () if server is None else layer.steps_to(server)
    lines = (layer.line((*start, *steps[:length])) for length in range(len(steps), -1, -1))
    return ValueOrigin(layer.location.file, next((line for line in lines if line is not None), None))


def _place_in(layer: ConfigFile, server: str | None, key: str | None) -> ValueOrigin:
    return _place(layer, server, _steps(key))


def _extends_problem(layer: ConfigFile, found: Container) -> str | None:
    if found.foreign:
        return "a file of an editor cannot extend your config; use toolbus.yaml"
    own = user_folder()
    if layer.path is None or own is None or layer.path.absolute().parent.resolve() != own.resolve():
        return None
    return "this is your own config, so it cannot extend that; remove the line"


# Merging the files of one folder


def overlaid(below: Container, above: Container) -> Container:
    """The container with the entries and settings of the one above it: field by field, null removes."""
    entries, local = dict(below.entries), set(below.local)
    for alias, entry in above.entries.items():
        if entry is None or entries.get(alias) is None or _replaces(entry):
            entries[alias] = entry
            local.add(alias)
        else:
            entries[alias] = _tuned(entries[alias], entry)
    misnamed = {name: one for name, one in below.misnamed.items() if name not in above.entries}
    return replace(
        below,
        entries=entries,
        settings=merged(below.settings, above.settings),
        local=frozenset(local),
        misnamed={**misnamed, **above.misnamed},
        mistakes=Mistakes([*below.mistakes, *above.mistakes]),
        warnings=(*below.warnings, *above.warnings),
    )


def merged(below: Mapping[str, JSON], above: Mapping[str, JSON], depth: int | None = None) -> dict[str, JSON]:
    """Two mappings as one: the values above win, and null removes.

    Mappings in them are merged to this depth; by default each key has its own.
    """
    result = dict(below)
    for key, value in above.items():
        deeper = _NESTED.get(key, 0) if depth is None else depth - 1
        lower = result.get(key)
        if value is None:
            result.pop(key, None)
        elif deeper and is_mapping(value) and is_mapping(lower):
            if key == "timeouts":  # a file may use the old names of its keys
                lower, value = Timeouts.renamed(lower)[0], Timeouts.renamed(value)[0]
            result[key] = merged(lower, value, deeper)
        else:
            result[key] = value
    return result


def field_of(key: JSON) -> str:
    """The field of a server that a key in a file sets."""
    special = {"disabled": "enabled", "timeout": "timeouts", "trust": "trust_annotations"}
    return special.get(str(key)) or SPELLINGS.get(str(key), str(key))


def _replaces(entry: JSON) -> bool:
    """Whether an entry replaces the one below: it has, or may have, a program, a URL or a credential."""
    if not is_mapping(entry):
        return entry is not None  # a URL, or an object
    harmless = IGNORED | {"alias", "name"}
    return any(key not in harmless and field_of(key) not in _TUNING for key in entry)


def _tuned(below: JSON, above: Mapping[str, JSON]) -> JSON:
    """An entry with the fields of the one above, which does not replace it."""
    lower = long_form(below, Location())
    given = {field_of(key) for key in above} - {"timeouts"}
    kept = {str(key): value for key, value in lower.items() if key in above or field_of(key) not in given}
    if "timeout" in above and is_mapping(limits := kept.get("timeouts")):  # the same as timeouts.call
        kept["timeouts"] = merged(limits, {"call": None})
    return merged(kept, above)


# Your own config below


def _set(user: BusConfig) -> dict[str, JSON]:
    """The settings of your own config that are not the defaults."""
    known = {name: field.get_default() for name, field in BusConfig.model_fields.items() if name in SETTINGS}
    return {name: getattr(user, name) for name, usual in known.items() if getattr(user, name) != usual}


def inherited(user: BusConfig, own: Mapping[str, JSON]) -> dict[str, JSON]:
    """The settings that a config has from yours, unless it has its own."""
    found: dict[str, JSON] = {}
    for name, value in _set(user).items():
        if isinstance(value, Timeouts | ServerLimits) and is_mapping(own.get(name)):
            found[name] = overriding(value, value.renamed(own[name])[0])
        elif name not in NOT_INHERITED and name not in own:
            found[name] = value
    if "policy" not in own:  # otherwise both decide
        found["policy"] = user.policy
    if "roots" in found:
        found["roots"] = tuple(map(str, user.root_folders))
    if "sandbox" in found and user.sandbox is not None:
        paths = {"read": user.sandbox.read, "write": user.sandbox.write}
        whole = {key: tuple(_located(path, user) for path in some) for key, some in paths.items()}
        found["sandbox"] = user.sandbox.model_copy(update=whole)
    return found


def _located(path: str, user: BusConfig) -> str:
    is_whole = path.startswith(("~", "${")) or user.folder is None
    return path if is_whole else os.path.join(str(user.folder).replace("${", "$${"), path)


def loosened(user: BusConfig, own: Mapping[str, JSON], config: BusConfig, location: Location) -> Mistakes:
    """The settings with which a config would loosen yours."""
    bound = {*_set(user), "tokens"} & USERS_WINS & own.keys()
    changed = sorted(name for name in bound if getattr(config, name) != getattr(user, name))
    mistakes = Mistakes(
        location.error(f"is set by your own config, {_of(user)}, and only there; remove it here", name)
        for name in changed
    )
    if config.store is not None:
        problem = "a config that extends yours cannot have a store, which would keep your logins; remove one"
        mistakes.append(location.error(problem, "store"))
    return mistakes


def profiles_with(user: BusConfig, own: JSON, location: Location) -> JSON:
    """The profiles of a config and yours; one that both have is as narrow as yours, or narrower."""
    if not user.profiles or not (own is None or is_mapping(own)):
        return {} if own is None else own
    found: dict[str, JSON] = dict(user.profiles)
    mistakes = Mistakes()
    for name, profile in (own or {}).items():
        mine = user.profiles.get(name)
        found[name] = profile
        if mine is None or not is_mapping(profile):
            continue
        found[name] = fields = {key: getattr(mine, key) for key in mine.model_fields_set}
        for key, value in profile.items():
            if key == "servers" and is_list(value) and mine.servers is not None:
                fields[key] = [alias for alias in value if alias in mine.servers]
            elif key == "exclude" and is_list(value):
                fields[key] = [*mine.exclude, *value]
            elif key in fields and value != fields[key]:
                problem = f"is set by this profile in your own config, {_of(user)}; name another profile"
                mistakes.append(location.error(problem, f"profiles.{name}.{key}"))
            else:
                fields[key] = value
    mistakes.raise_any()
    return {name: profile for name, profile in found.items() if profile is not None}


def tools_with(user: BusConfig, own: JSON, location: Location) -> JSON:
    """The scripts of a config and yours, as tools; a name that both have is a mistake."""
    if not user.tools or not (own is None or is_mapping(own)):
        return {} if own is None else own
    problem = f"is a tool of your own config, {_of(user)}; choose another name"
    Mistakes(location.error(problem, f"tools.{name}") for name in own or () if name in user.tools).raise_any()
    return {**user.tools, **(own or {})}


def of_user(alias: str, entry: JSON, user: BusConfig) -> bool:
    """Whether a server is one of your own config, which the entry at most tunes."""
    return (alias in user.servers or alias in user.disabled) and not _replaces(entry)


def lookalike(alias: str, user: BusConfig, location: Location) -> ConfigError | None:
    """The error for an alias that looks like the alias of one of your own servers."""
    known = (one for one in (*user.servers, *user.disabled) if one != alias)
    like = next((one for one in known if looks(one)[1] == looks(alias)[1]), None)
    if like is None or alias in user.servers:
        return None
    problem = f"looks like {like!r} of your own config, {_of(user)}; choose another alias"
    return location.error(problem, "alias")


def is_off(alias: str, entry: Mapping[JSON, JSON] | None, user: BusConfig, location: Location) -> bool:
    """Whether one of your own servers is disabled, by your config or another layer.

    ConfigError if another layer would enable it.
    """
    if is_switched_off(entry, location):
        return True
    if alias in user.disabled and entry is not None and is_switched_on(entry):
        raise location.error(f"is disabled in your own config, {_of(user)}; enable it there", "enabled")
    return alias in user.disabled


def is_switched_on(entry: Mapping[JSON, JSON]) -> bool:
    """Whether the entry sets `enabled: true` or `disabled: false`."""
    return bool(entry.get("enabled")) or entry.get("disabled") is False


def narrowed(
    alias: str, entry: Mapping[JSON, JSON] | None, user: BusConfig, location: Location
) -> ServerConfig:
    """One of your own servers, as another layer tunes it; ConfigError if the layer would loosen it."""
    server = user.switch(alias, on=True).servers[alias]
    server = server.model_copy(update={"file": server.file or user.file, "folder": user.folder})
    given = {key: value for key, value in (entry or {}).items() if field_of(key) != "enabled"}
    return server if server.mistake or not given else _narrowed(server, given, user, location)


def _narrowed(
    server: ServerConfig, entry: Mapping[JSON, JSON], user: BusConfig, location: Location
) -> ServerConfig:
    given = {field_of(key): value for key, value in entry.items() if field_of(key) in _TUNING}
    mistakes = Mistakes(_only_yours(name, user, location) for name in sorted(given.keys() & KEPT))
    drafted = server
    with mistakes.collected():
        usual = Defaults(timeouts=server.timeouts, budget=server.budget)
        drafted = server_config(server.alias, {**entry, "command": "x"}, location=location, defaults=usual)
    update: dict[str, object] = {name: getattr(drafted, name) for name in given.keys() & FREE}
    for name in sorted(given.keys() & _STRICTER.keys()):
        if given[name] is None:
            is_looser = getattr(server, name) != ServerConfig.model_fields[name].default
        else:
            is_looser = not _STRICTER[name](server, drafted, user)
            update |= _combined(name, server, drafted)
        if is_looser:
            mistakes.append(_only_yours(name, user, location))
    mistakes.raise_any()
    return server.model_copy(update=update)


def _combined(name: str, server: ServerConfig, drafted: ServerConfig) -> dict[str, object]:
    if name == "exclude":
        return {"exclude": (*server.exclude, *drafted.exclude)}
    if name == "include" and server.include:
        return {"also_include": drafted.include}
    return {name: getattr(drafted, name)}


_STRICTER: Mapping[str, Callable[[ServerConfig, ServerConfig, BusConfig], bool]] = {
    "include": lambda mine, other, user: bool(other.include) or not mine.include,
    "exclude": lambda mine, other, user: True,
    "trust_annotations": lambda mine, other, user: mine.trust_annotations or not other.trust_annotations,
    "redact": lambda mine, other, user: other.redact or not mine.redact,
    "baggage": lambda mine, other, user: mine.baggage or not other.baggage,
    "per_session": lambda mine, other, user: other.per_session or not mine.per_session,
    "repeatable": lambda mine, other, user: set(other.repeatable) <= set(mine.repeatable),
    "lock": lambda mine, other, user: (
        _STRICTNESS[other.lock or "block"] >= _STRICTNESS[mine.lock or user.lock or "block"]
    ),
}
"""Whether another layer keeps a field as strict as mine, or makes it stricter."""


def _only_yours(name: str, user: BusConfig, location: Location) -> ConfigError:
    return location.error(f"would loosen this server of your own config; only {_of(user)} can", name)
