"""From the fields of a form to the entry of a server, and back; nothing about HTML.

A credential that is already in the file is shown as `***`, and stays what it is unless it is typed again.
"""

import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from toolbus.config.editing.edited import OAUTH, name_problem
from toolbus.config.editing.yaml_json import Steps, json_text, to_yaml
from toolbus.config.hosts.read import document_in
from toolbus.config.layers import field_of
from toolbus.config.location import is_list, is_mapping
from toolbus.config.secrets.literals import credentials_in
from toolbus.config.secrets.reference import MASK
from toolbus.config.target import Target, command_target, target_of, typed_entry
from toolbus.console.editing.fields import Fields
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

SECRET_ROWS = 3
"""Secret variables that the form takes at once."""
_TIMEOUTS = ("connect", "call")


class InvalidForm(ConfigError):
    """A field cannot be used; `key` is its label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedServer:
    """A server as somebody typed it."""

    alias: str
    entry: dict[str, JSON] = field(repr=False)
    secret_env: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    """Variables that are secrets under any name."""


def typed_server(form: Fields) -> TypedServer:
    """The server of the form to add one by URL or command; `ConfigError` if a field is invalid."""
    is_url = form.get("way") == "url"
    target = _url(form) if is_url else _command(form)
    alias = form.get("name").strip() or target.alias
    if (problem := name_problem(alias)) is not None:
        raise InvalidForm(problem)
    entry = typed_entry(target)
    if is_url:
        entry |= _reached(form)
        return TypedServer(alias=alias, entry=entry)
    if cwd := form.get("cwd").strip():
        entry["cwd"] = cwd
    if env := pairs_in(form.get("env"), "=", "Variables"):
        entry["env"] = env
    return TypedServer(alias=alias, entry=entry, secret_env=dict(_secret_rows(form)))


def _url(form: Fields) -> Target:
    url = form.get("url").strip()
    if "://" not in url:
        raise InvalidForm("expected a URL that starts with https:// or http://", key="URL")
    return target_of(url)


def _command(form: Fields) -> Target:
    words = words_in(form.get("command"))
    if not words:
        raise InvalidForm("expected a program and its arguments", key="Command")
    first = words[0]
    is_python = re.search(r"\.py(?::\w+)?$", first) is not None and shutil.which(first) is None
    return target_of(first) if is_python and len(words) == 1 else command_target(words)


def _reached(form: Fields) -> dict[str, JSON]:
    """The settings of a connection to a URL."""
    more: dict[str, JSON] = {}
    if transport := form.get("transport"):
        more["transport"] = transport
    token = form.get("token").strip()
    if form.get("auth") == OAUTH:
        more["auth"] = OAUTH
    elif form.get("auth") == "token":
        if not token:
            raise InvalidForm("expected a token, or a reference such as ${TOKEN}", key="Token")
        more["auth"] = token
    elif token:
        raise InvalidForm("choose 'a token' under Sign-in to use it; type it again", key="Token")
    if headers := pairs_in(form.get("headers"), ":", "Headers"):
        more["headers"] = headers
    return more


def _secret_rows(form: Fields) -> Iterator[tuple[str, str]]:
    for number in range(1, SECRET_ROWS + 1):
        name, value = form.get(f"secret-name-{number}").strip(), form.get(f"secret-value-{number}")
        if bool(name) != bool(value):
            missing = "value" if name else "name"
            raise InvalidForm(f"a secret variable has no {missing}", key="Secret variables")
        if name:
            yield name, value


def words_in(line: str) -> list[str]:
    """The words of a command line; `ConfigError` if a quote is not closed."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise InvalidForm(f"cannot be split into words: {error}", key="Command") from None


def pairs_in(text: str, separator: str, label: str) -> dict[str, JSON]:
    """The pairs in lines such as `NAME=value`; `ConfigError` for a line that is none."""
    pairs: dict[str, JSON] = {}
    for line in lines_in(text):
        name, found, value = line.partition(separator)
        if not found or not name.strip():
            example = "NAME=value" if separator == "=" else "Name: value"
            raise InvalidForm(f"expected one {example} per line", key=label)
        pairs[name.strip()] = value.strip() if separator == ":" else value
    return pairs


def lines_in(text: str) -> list[str]:
    """The lines that are not empty."""
    return [line.strip() for line in text.splitlines() if line.strip()]


# An entry that exists


@dataclass(frozen=True, slots=True)
class MaskedEntry:
    """An entry, and its masked form for pages."""

    entry: JSON = field(repr=False)
    shown: JSON
    originals: Mapping[str, frozenset[str]] = field(repr=False)
    """The texts that show a mask, each with what it may stand for."""

    @classmethod
    def of(cls, entry: JSON) -> "MaskedEntry":
        credentials = sorted(credentials_in(entry), key=len, reverse=True)
        originals: dict[str, frozenset[str]] = {}

        def masked(text: str, steps: Steps) -> str:
            shown = text
            for value in credentials:
                shown = shown.replace(value, MASK)
            if shown != text:
                originals[shown] = originals.get(shown, frozenset()) | {text}
            return shown

        return cls(entry, _rewritten(entry, masked), originals)

    def kept(self, edited: JSON) -> tuple[JSON, dict[str, str]]:
        """The edited entry with a reference for each credential that is kept; and what these stand for."""
        kept: dict[str, str] = {}

        def referring(text: str, steps: Steps) -> str:
            if MASK not in text:
                return text
            known = self.originals.get(text, frozenset())
            here = _at(self.entry, steps)
            if isinstance(here, str) and here in known:
                original = here
            elif len(known) == 1:
                (original,) = known
            else:
                where = ".".join(map(str, steps))
                raise InvalidForm(f"*** stands for a secret that the file has; type it again at {where}")
            name = f"${{TOOLBUS_KEPT_{len(kept)}}}"
            kept[name] = original
            return name

        return _rewritten(edited, referring), kept


def restored(entry: JSON, kept: Mapping[str, str]) -> JSON:
    """The entry with the credentials that were kept."""
    return _rewritten(entry, lambda text, steps: kept.get(text, text))


def _rewritten(value: JSON, rewrite: Callable[[str, Steps], str], steps: Steps = ()) -> JSON:
    if isinstance(value, str):
        return rewrite(value, steps)
    if is_mapping(value):
        return {key: _rewritten(inner, rewrite, (*steps, str(key))) for key, inner in value.items()}
    if is_list(value):
        return [_rewritten(inner, rewrite, (*steps, index)) for index, inner in enumerate(value)]
    return value


def _at(value: JSON, steps: Steps) -> JSON:
    here: JSON = value
    for step in steps:
        if is_list(here) and isinstance(step, int):
            here = here[step] if step < len(here) else None
        else:
            here = here.get(step) if is_mapping(here) else None
    return here


def entry_text(entry: JSON, path: Path) -> str:
    """The entry alone, in the format of its file; for TOML as JSON."""
    whole: JSON = {"url": entry} if isinstance(entry, str) else entry
    return to_yaml(whole) if path.suffix.lower() in (".yaml", ".yml") else json_text(whole)


def entry_from(text: str, path: Path) -> Mapping[JSON, JSON]:
    """The entry in such a text; ConfigError if it cannot be parsed."""
    suffix = path.suffix.lower() if path.suffix.lower() in (".yaml", ".yml") else ".json"
    return document_in(text.encode(errors="replace"), Path(f"entry{suffix}"), top="command or url")


def usual_fields(shown: JSON) -> dict[str, str] | None:
    """The texts of the usual fields of an entry; None for an entry that only its own text can show."""
    if isinstance(shown, str):
        shown = {"url": shown}
    if not is_mapping(shown) or "connection" in shown:
        return None
    command: JSON = shown.get("command")
    args: JSON = shown.get("args") or []
    words = command if is_list(command) else [command] if isinstance(command, str) else []
    texts = [*words, *args] if is_list(args) else []
    if not all(isinstance(one, str) for one in texts) or (command is not None and not words):
        return None
    timeouts: JSON = shown.get("timeouts")
    limits: Mapping[JSON, JSON] = timeouts if is_mapping(timeouts) else {}
    return {
        "command": shlex.join(texts),
        **{name: str(shown.get(_key(shown, name)) or "") for name in ("url", "transport", "cwd")},
        "env": _pair_lines(shown.get("env"), "="),
        "headers": _pair_lines(shown.get("headers"), ": "),
        **{f"timeout-{name}": str(limits.get(name) or "") for name in _TIMEOUTS},
        **{name: _pattern_lines(shown.get(_key(shown, name))) for name in ("include", "exclude")},
    }


def with_fields(shown: JSON, form: Fields) -> dict[str, JSON]:
    """The entry with the fields that were changed; ConfigError if one is invalid."""
    entry: dict[str, JSON] = {"url": shown} if isinstance(shown, str) else {**shown}
    before = usual_fields(shown) or {}
    typed = {name: form.get(name, text).replace("\r\n", "\n").strip() for name, text in before.items()}
    changed = {name: text for name, text in typed.items() if text != before[name].strip()}
    for name, text in changed.items():
        match name:
            case "command":
                _set_command(entry, text)
            case "env" | "headers":
                label, separator = ("Variables", "=") if name == "env" else ("Headers", ":")
                _set(entry, name, pairs_in(text, separator, label))
            case "include" | "exclude":
                _set(entry, name, [_pattern(line, name) for line in lines_in(text)])
            case "timeout-connect" | "timeout-call":
                _set_timeout(entry, name.removeprefix("timeout-"), text)
            case _:
                _set(entry, name, text)
    return entry


def _set(entry: dict[str, JSON], name: str, value: JSON) -> None:
    key = _key(entry, name)
    if value:
        entry[key] = value
    else:
        entry.pop(key, None)


def _set_command(entry: dict[str, JSON], line: str) -> None:
    first, *rest = words_in(line) or [""]
    is_list_of_words = is_list(entry.get("command"))
    if is_list_of_words:
        entry["command"] = [first, *rest]
        return
    _set(entry, "command", first)
    _set(entry, "args", rest)


def _set_timeout(entry: dict[str, JSON], name: str, text: str) -> None:
    limits: dict[str, JSON] = {**(entry.get("timeouts") or {})}
    if not text:
        limits.pop(name, None)
    else:
        try:
            limits[name] = int(text) if text.isdecimal() else float(text)
        except ValueError:
            raise InvalidForm("expected a number of seconds", key=f"timeouts.{name}") from None
    _set(entry, "timeouts", limits)


def _key(entry: Mapping[JSON, JSON], name: str) -> str:
    """The key that the entry has for a field, in any dialect."""
    return next((str(key) for key in entry if field_of(key) == name), name)


def _pair_lines(pairs: JSON, separator: str) -> str:
    found: Mapping[JSON, JSON] = pairs if is_mapping(pairs) else {}
    return "\n".join(f"{name}{separator}{text}" for name, text in found.items())


def _pattern_lines(patterns: JSON) -> str:
    found: Sequence[JSON] = patterns if is_list(patterns) else ()
    return "\n".join(one if isinstance(one, str) else json.dumps(one) for one in found)


def _pattern(line: str, name: str) -> JSON:
    if not line.startswith("{"):
        return line
    try:
        return json.loads(line)
    except ValueError:
        raise InvalidForm('expected a pattern, or JSON such as {"readOnlyHint": true}', key=name) from None
