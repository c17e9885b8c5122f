"""The arguments of a call as they stand on the command line: `n=5 tags=a,b point.x=1 text=@file`."""

import base64
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import cast

from toolbus.cli.input.schema import Schema, either
from toolbus.cli.input.values import typed
from toolbus.cli.outcome import Usage
from toolbus.config.location import is_list, is_mapping
from toolbus.core.records import JSON, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What was given: an object as a whole, and single values as text."""

    whole: Mapping[str, JSON]
    single: Sequence[tuple[str, str]]


def given(words: Sequence[str], args: str | None, file: Path | None) -> Given:
    """What stands on the command line; `Usage` if it is malformed, whatever the tool may be."""
    pairs = list(_pairs(words))
    sources = {
        "--args": args,
        "--args-file": None if file is None else lambda: content(str(file), "--args-file"),
        "-": (lambda: content("-", "-")) if "-" in words else None,
    }
    said = [(name, source) for name, source in sources.items() if source is not None]
    if len(said) > 1:
        raise Usage(f"{said[0][0]} and {said[1][0]} exclude each other; keep one")
    return Given(whole=_object(*said[0]) if said else {}, single=pairs)


def read(given: Given, tool: ToolSpec) -> dict[str, JSON]:
    """The arguments for that tool; `Usage` says what is wrong with them, or missing."""
    root = Schema(tool.input_schema, tool.input_schema)
    single: dict[str, JSON] = {}
    for key, text in given.single:
        _put(single, key, text, root)
    arguments = _merged(given.whole, single)
    _refuse_missing(arguments, tool)
    return arguments


def texts(words: Sequence[str]) -> dict[str, list[str]]:
    """Values that stay text, by their names, each as often as it is given; `@FILE` is what the file holds."""
    found: dict[str, list[str]] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not (key and equals):
            raise _no_pair(word)
        found.setdefault(key, []).append(_text(text, key))
    return found


def described(tool: ToolSpec) -> list[tuple[str, str, bool, str]]:
    """Each argument of a tool: its name, its type in words, whether it is required, what it is for."""
    root = Schema(tool.input_schema, tool.input_schema)
    known = root.properties
    undescribed = {name: Schema({}, {}) for name in root.required if name not in known}
    return [
        (name, child.words, name in root.required, child.description)
        for name, child in {**known, **undescribed}.items()
    ]


def _merged(whole: Mapping[str, JSON], single: Mapping[str, JSON]) -> dict[str, JSON]:
    """Single values on top of the whole, in nested objects too."""
    result = dict(whole)
    for name, value in single.items():
        below = result.get(name)
        result[name] = _merged(below, value) if is_mapping(below) and is_mapping(value) else value
    return result


def _object(name: str, source: str | Callable[[], bytes]) -> Mapping[str, JSON]:
    example = "write an object such as '{\"key\": 1}'"
    try:
        value: JSON = json.loads(source if isinstance(source, str) else source())
    except (ValueError, RecursionError) as error:
        raise Usage(f"{name}: not JSON ({error}); {example}") from None
    if not is_mapping(value):
        raise Usage(f"{name}: not a JSON object; {example}")
    return value


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        key, equals, text = word.partition("=")
        if equals and all(key.split(".")):
            yield key, text
        elif word != "-":
            raise _no_pair(word)


def _no_pair(word: str) -> Usage:
    return Usage(f"{word!r} is not KEY=VALUE; write for example text='buy tea'")


def _put(arguments: dict[str, JSON], key: str, text: str, root: Schema) -> None:
    """Set one value; a key with dots leads into nested objects, a key given twice makes a list."""
    holder, schema = arguments, root
    # A property may have a dot in its name.
    *outer, last = [key] if key in root.properties else key.split(".")
    for step in outer:
        schema = _child(schema, step, key)
        if not is_mapping(holder.setdefault(step, {})):
            raise Usage(f"{key}: {step!r} has a value already, so nothing can be put into it")
        holder = cast("dict[str, JSON]", holder[step])
    value = _value(text, _child(schema, last, key), key)
    if last not in holder:
        holder[last] = value
    elif is_list(holder[last]) and is_list(value):
        holder[last] = [*holder[last], *value]
    else:
        raise Usage(f"{key} is given twice, but is no list; keep one")


def _child(schema: Schema, name: str, key: str) -> Schema:
    child = schema.child(name)
    if child is None:
        known = [known for shape in (schema, *schema.choices) for known in shape.properties]
        close = get_close_matches(name, known, n=1)
        there = f"there is {either(known, 'and')}" if known else "there is none"
        hint = f"did you mean {close[0]!r}?" if close else there
        raise Usage(f"{key}: no such argument; {hint} (--args passes on any name)")
    return child


def _value(text: str, schema: Schema, key: str) -> JSON:
    """By its schema; `@FILE` stands for what the file holds, `@@` for a literal `@`."""
    if not text.startswith("@") or text.startswith("@@"):
        return typed(text.removeprefix("@") if text.startswith("@@") else text, schema, key)
    data = content(text[1:], key)
    if schema.own.get("contentEncoding") == "base64" or schema.own.get("format") in ("byte", "binary"):
        return base64.b64encode(data).decode()
    try:
        return typed(data.decode(), schema, key)
    except UnicodeDecodeError:
        raise Usage(f"{key}: {text[1:]!r} is not UTF-8 text, and the tool does not ask for base64") from None


def _text(text: str, key: str) -> str:
    if not text.startswith("@") or text.startswith("@@"):
        return text.removeprefix("@") if text.startswith("@@") else text
    try:
        return content(text[1:], key).decode()
    except UnicodeDecodeError:
        raise Usage(f"{key}: {text[1:]!r} is not UTF-8 text") from None


def content(path: str, key: str) -> bytes:
    """What a file holds, or stdin for `-`; `Usage` names the key that it was given for."""
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(path).expanduser().read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Usage(f"{key}: cannot read {path!r}: {reason}; check the path") from None


def _refuse_missing(arguments: Mapping[str, JSON], tool: ToolSpec) -> None:
    missing = [argument for argument in described(tool) if argument[2] and argument[0] not in arguments]
    if missing:
        width = max(len(name) for name, *_ in missing)
        lines = tuple(
            f"  {name:{width}}  {kind}" + (f": {' '.join(about.split())}" if about else "")
            for name, kind, _, about in missing
        )
        raise Usage(f"{tool.name} needs {' '.join(f'{name}=...' for name, *_ in missing)}", lines)
