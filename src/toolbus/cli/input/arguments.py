"""The arguments of a call on the command line: `n=5 tags=a,b point.x=1 text=@file`.

Each is converted to the type that its schema declares. Text stays text, a number must be a number. Without a
declared type, text that is valid JSON is parsed.
"""

import base64
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from toolbus.cli.errors import Usage
from toolbus.cli.terminal import here
from toolbus.core.values.records import JSON, ToolSpec
from toolbus.schema.describe import either, type_words
from toolbus.schema.node import Schema
from toolbus.schema.values import is_array, is_object

_WORDS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}
_MISMATCH: Any = object()
"""The text is not of that type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenArguments:
    """The arguments as given: one JSON object, and single values as text."""

    whole: Mapping[str, JSON]
    single: Sequence[tuple[str, str]]


def given(words: Sequence[str], args: str | None, file: Path | None) -> GivenArguments:
    """The arguments on the command line; `Usage` if they are malformed for any tool."""
    pairs = list(_pairs(words))
    sources = {
        "--args": args,
        "--args-file": None if file is None else lambda: content(str(file), "--args-file"),
        "-": (lambda: content("-", "-")) if "-" in words else None,
    }
    used = [(name, source) for name, source in sources.items() if source is not None]
    if len(used) > 1:
        raise Usage(f"{used[0][0]} and {used[1][0]} exclude each other; keep one")
    return GivenArguments(whole=_object(*used[0]) if used else {}, single=pairs)


def read(given: GivenArguments, tool: ToolSpec, *, complete: bool = True) -> dict[str, JSON]:
    """The arguments for a tool; `Usage` if they are invalid or, with `complete`, some are missing."""
    root = Schema(tool.input_schema)
    single: dict[str, JSON] = {}
    for key, text in given.single:
        _put(single, key, text, root)
    arguments = _merged(given.whole, single)
    if complete:
        _require_all(arguments, tool)
    return arguments


def texts(words: Sequence[str]) -> dict[str, list[str]]:
    """Values that stay text, by name, in the order given; `@FILE` stands for the content of the file."""
    found: dict[str, list[str]] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not (key and equals):
            raise _not_a_pair(word)
        found.setdefault(key, []).append(_text(text, key))
    return found


def described(tool: ToolSpec) -> list[tuple[str, str, bool, str]]:
    """Each argument of a tool: name, type in words, whether it is required, description."""
    root = Schema(tool.input_schema)
    required = root.required({})
    found = {name: root.of(root.properties.get(name, True)) for name in [*root.properties, *required]}
    return [(name, type_words(child), name in required, child.description) for name, child in found.items()]


def hint(name: str, known: Iterable[str], others: str | None = None) -> str:
    """A hint at the name that may have been meant, or else all names."""
    close = get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else others or f"it takes {', '.join(known) or 'none'}"


def facts_by_name(facts: Iterable[tuple[str, str, str]]) -> tuple[str, ...]:
    """A line for each name, with facts and a description."""
    listed = list(facts)
    width = max((len(name) for name, *_ in listed), default=0)
    return tuple(
        f"  {name:{width}}  {known}" + (f": {text}" if (text := " ".join(about.split())) else "")
        for name, known, about in listed
    )


def _merged(whole: Mapping[str, JSON], single: Mapping[str, JSON]) -> dict[str, JSON]:
    """The object with single values added, including in nested objects."""
    result = dict(whole)
    for name, value in single.items():
        below = result.get(name)
        result[name] = _merged(below, value) if is_object(below) and is_object(value) else value
    return result


def _object(name: str, source: str | Callable[[], bytes]) -> Mapping[str, JSON]:
    example = "write an object such as '{\"key\": 1}'"
    try:
        value: JSON = json.loads(source if isinstance(source, str) else source())
    except (ValueError, RecursionError) as error:
        raise Usage(f"{name}: not JSON ({error}); {example}") from None
    if not is_object(value):
        raise Usage(f"{name}: not a JSON object; {example}")
    return value


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        key, equals, text = word.partition("=")
        if equals and all(key.split(".")):
            yield key, text
        elif word != "-":
            raise _not_a_pair(word)


def _not_a_pair(word: str) -> Usage:
    return Usage(f"{word!r} is not KEY=VALUE; write for example text='buy tea'")


def _put(arguments: dict[str, JSON], key: str, text: str, root: Schema) -> None:
    """Set one value; dots in a key lead into nested objects, a repeated key extends a list."""
    holder, schema = arguments, root
    # A property may have a dot in its name.
    *outer, last = [key] if key in root.properties else key.split(".")
    for step in outer:
        schema = _child(schema, step, key)
        if not is_object(holder.setdefault(step, {})):
            raise Usage(f"{key}: {step!r} already has a value that is not an object; keep one")
        holder = cast("dict[str, JSON]", holder[step])
    value = _value(text, _child(schema, last, key), key)
    if last not in holder:
        holder[last] = value
    elif is_array(holder[last]) and is_array(value):
        holder[last] = [*holder[last], *value]
    else:
        raise Usage(f"{key} is given twice, but is not a list; keep one")


def _child(schema: Schema, name: str, key: str) -> Schema:
    child = schema.find(name)
    if child is None:
        known = [known for each in schema.alternatives() for known in each.properties]
        others = f"known arguments: {either(known, 'and')}" if known else "it takes none"
        raise Usage(f"{key}: no such argument; {hint(name, known, others)}")
    return child


def _value(text: str, schema: Schema, key: str) -> JSON:
    """The value for its schema; `@FILE` stands for the content of the file, `@@` for a literal `@`."""
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
    """The content of a file, or of stdin for `-`; `Usage` names the key that it was given for."""
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        return here(Path(os.path.expanduser(path))).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Usage(f"{key}: cannot read {path!r}: {reason}; check the path") from None


def _require_all(arguments: Mapping[str, JSON], tool: ToolSpec) -> None:
    missing = [argument for argument in described(tool) if argument[2] and argument[0] not in arguments]
    if missing:
        lines = facts_by_name((name, kind, about) for name, kind, _, about in missing)
        raise Usage(f"{tool.name} needs {' '.join(f'{name}=...' for name, *_ in missing)}", lines)


# The value that a text stands for


def typed(text: str, schema: Schema, key: str) -> JSON:
    """The value that the text stands for; `Usage` if the schema does not allow it."""
    for value in schema.all_values:
        if text == (value if isinstance(value, str) else json.dumps(value)):
            return value
    types = [kind for kind in schema.all_types if kind != "null"]
    if schema.all_values and (not types or types == ["string"]):
        raise Usage(f"{key}: {text!r} is not allowed; expected {type_words(schema)}")
    if "null" in schema.all_types and text == "null":
        return None
    for kind in ("boolean", "integer", "number", "array", "object"):
        if kind in types and (value := _parsed_as(kind, text, schema, key)) is not _MISMATCH:
            return value
    if "string" in types:
        return text
    if types:
        raise Usage(f"{key}: expected {type_words(schema)}, not {text!r}")
    return text if (value := _json(text)) is _MISMATCH else value


def _parsed_as(kind: str, text: str, schema: Schema, key: str) -> JSON:
    value = _json(text)
    match kind:
        case "boolean":
            # Where nothing else is allowed, other words for it are accepted too.
            alone = set(schema.all_types) <= {"boolean", "null"}
            if alone:
                return _WORDS.get(text.lower(), _MISMATCH)
            return value if isinstance(value, bool) else _MISMATCH
        case "integer" | "number":
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                return _MISMATCH
            return value if kind == "number" else int(value) if value == int(value) else _MISMATCH
        case "object":
            return value if is_object(value) else _MISMATCH
        case _:
            return _parsed_list(text, value, schema, key)


def _parsed_list(text: str, value: JSON, schema: Schema, key: str) -> JSON:
    """A JSON list, or items separated by commas."""
    if is_array(value):
        return value
    if "string" in schema.all_types:
        return _MISMATCH  # text that is not a JSON list stays text
    parts = [text] if is_object(value) else text.split(",") if text else []
    return [typed(part, schema.items, key) for part in parts]


def _json(text: str) -> JSON:
    try:
        return json.loads(text, parse_constant=_reject)
    except (ValueError, RecursionError):
        return _MISMATCH


def _reject(name: str) -> JSON:
    raise ValueError(f"{name} is not JSON, though Python parses it")


def check_out_folder(out: Path | None) -> None:
    """Raise `Usage` if the path is not a folder."""
    if out is not None and here(out).exists() and not here(out).is_dir():
        raise Usage(f"--out {str(out)!r} is a file; name a folder")
