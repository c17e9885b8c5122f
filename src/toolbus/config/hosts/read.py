"""Read a YAML, JSON or TOML file into plain values, and refuse what the parsers would silently accept.

A duplicate key is an error: PyYAML and json keep the last one, and a server would be lost. So are aliases of
aliases that stand for more values than anybody wrote: reading them would never end. JSON may have comments
and trailing commas, as in VS Code. Every failure is a ConfigError that names file and line.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.config.location import Location, is_mapping
from toolbus.core.files import UnreadableFile, read_plain
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

if TYPE_CHECKING:
    import yaml

# A string is matched first, so that `//` in a URL is not a comment. One that is not closed matches as well:
# no part of the text is scanned twice.
_STRING = r'"(?:\\.|[^"\\\n])*+"?'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*(?:.*?\*/|.*)", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)

_LARGEST = 1 << 20
_LARGEST_JSON = 64 << 20
"""Bytes of a file. Hosts keep other things in their JSON files, and those are read much faster."""
_MOST_VALUES = 100_000
"""In a YAML file, with those that aliases stand for."""
_LONGEST_NUMBER = 1000
_MOST_DOTS = 1000
"""The maximum in a line of TOML: parsing time grows with the square of a key's parts."""


def read_document(path: Path) -> Mapping[JSON, JSON]:
    """Read the mapping in the file; its extension determines the format."""
    return document_in(read_content(path), path)


def read_content(path: Path) -> bytes:
    """Read the file's raw content."""
    location = Location(file=str(path))
    if path.is_dir():
        raise location.error("is a folder; name the file in it")
    try:
        is_json = path.suffix.lower().startswith(".json")
        return read_plain(path, _LARGEST_JSON if is_json else _LARGEST)
    except FileNotFoundError:
        raise location.error("no such file; check the path") from None
    except UnreadableFile as error:
        raise location.error(f"{error.strerror}; name another file") from None
    except OSError as error:
        raise location.error(
            f"cannot be read ({type(error).__name__}); check path and permissions"
        ) from error


def document_in(
    content: bytes,
    path: Path,
    *,
    empty: str = "list your servers under 'servers:'",
    top: str = "'servers:' or 'mcpServers'",
) -> Mapping[JSON, JSON]:
    """The mapping in the content of the file at `path`; `empty` and `top` tell what belongs into it."""
    location = Location(file=str(path))
    parse = _PARSERS.get(path.suffix.lower())
    if parse is None:
        raise location.error(f"unknown file format; use one of the extensions {', '.join(_PARSERS)}")
    try:
        # utf-8-sig: editors on Windows add a byte order mark.
        text = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise location.error("is not UTF-8; save it as UTF-8") from None
    try:
        document = parse(text, location)
    except RecursionError:
        raise location.error("is nested too deeply") from None
    except ConfigError:  # it is a ValueError
        raise
    except (ValueError, OverflowError):  # such as a date in month 13, or a number with too many digits
        kind = path.suffix.lower().lstrip(".").upper()
        raise _malformed(kind, "a value that cannot be read", location, None) from None
    if document is None:
        raise location.error(f"is empty; {empty}")
    if not is_mapping(document):
        raise location.error(f"expected a mapping at the top, with {top}")
    return document


def _yaml(text: str, location: Location) -> JSON:
    import yaml

    # All `from None`: the parser's errors quote surrounding text, including secrets.
    try:
        return _constructed(text, location)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _malformed("YAML", error.problem or "", location, mark.line + 1 if mark else None) from None
    except yaml.reader.ReaderError as error:
        raise _malformed("YAML", error.reason, location, text.count("\n", 0, error.position) + 1) from None


def _constructed(text: str, location: Location) -> JSON:
    import yaml

    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _refuse_duplicates(node, location)
        _refuse_endless_values(node, location)
        document: JSON = loader.construct_document(node)  # pyright: ignore[reportUnknownMemberType]  untyped stub
        return document
    finally:
        loader.dispose()


def _refuse_duplicates(root: "yaml.Node", location: Location) -> None:
    """ConfigError if any mapping below has a duplicate key."""
    import yaml

    # On the nodes, before merge keys are resolved: overriding a key from `<<` is not a duplicate.
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:  # reached by an alias
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            keys: set[tuple[str, str]] = set()
            for key, value in node.value:
                waiting.append(value)
                if not isinstance(key, yaml.ScalarNode):
                    continue
                if (key.tag, key.value) in keys:
                    raise _given_twice(key.value, location, key.start_mark.line + 1)
                keys.add((key.tag, key.value))


def _refuse_endless_values(root: "yaml.Node", location: Location) -> None:
    """ConfigError if the document, with every alias written out, is larger than any that is meant.

    So is a long number: a number to the base of 60, such as `1:30:00`, takes the square of its digits.
    """
    import yaml

    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        if id(node) not in sizes:
            sizes[id(node)] = _MOST_VALUES + 1  # for an alias inside of what it stands for
            match node:
                case yaml.SequenceNode():
                    parts = list(node.value)
                case yaml.MappingNode():
                    parts = [part for pair in node.value for part in pair]
                case _:
                    parts = []
                    if node.tag.endswith((":int", ":float")) and len(node.value) > _LONGEST_NUMBER:
                        line = node.start_mark.line + 1
                        raise _malformed("YAML", "a number with too many digits", location, line)
            sizes[id(node)] = 1 + sum(map(size, parts))
        return sizes[id(node)]

    if size(root) > _MOST_VALUES:
        raise location.error(
            f"has more than {_MOST_VALUES:,} values, with those that its aliases (*) stand for; remove some"
        )


def _json(text: str, location: Location) -> JSON:
    import json

    def mapping(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
        result: dict[str, JSON] = {}
        for key, value in pairs:
            if key in result:
                raise _given_twice(key, location, None)
            result[key] = value
        return result

    if not text.strip():
        return None
    try:
        return json.loads(without_comments(text), object_pairs_hook=mapping)
    except json.JSONDecodeError as error:  # it holds the whole text, so `from None`
        raise _malformed("JSON", error.msg, location, error.lineno) from None


def without_comments(text: str) -> str:
    """The text of a JSON file with its comments and trailing commas replaced by spaces."""
    return _TRAILING_COMMA.sub(_blank, _COMMENT.sub(_blank, text))


def has_comments(text: str) -> bool:
    """Whether the text of a JSON file contains comments."""
    return bool(comments(text))


def comments(text: str) -> list[str]:
    """The comments in the text of a JSON file, in order."""
    return [found.group() for found in _COMMENT.finditer(text) if not found.group().startswith('"')]


def _blank(match: re.Match[str]) -> str:
    """Spaces for a comment or comma, so that line numbers stay the same; strings are unchanged."""
    found = match.group()
    is_open = found.startswith("/*") and not found.endswith("*/", 2)  # which is then an error
    return found if is_open or found.startswith('"') else re.sub(r"[^\n]", " ", found)


def _toml(text: str, location: Location) -> JSON:
    import tomllib

    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > _MOST_DOTS:
            raise _malformed("TOML", "a line with too many dots", location, number)
    try:
        return tomllib.loads(text) or None
    except tomllib.TOMLDecodeError as error:
        # The message ends in "(at line 3, column 7)" or "(at end of document)".
        reason, _, position = str(error).partition(" (at ")
        line = re.match(r"line (\d+)", position)
        number = int(line[1]) if line else text.count("\n") + 1
        raise _malformed("TOML", reason, location, number) from None


def _given_twice(key: str, location: Location, line: int | None) -> ConfigError:
    where = f"line {line}: " if line else ""
    return location.error(f"{where}key {key!r} is given twice; keep one", key)


def _malformed(file_format: str, reason: str, location: Location, line: int | None) -> ConfigError:
    where = f"line {line}: " if line else ""
    return location.error(f"{where}not valid {file_format}: {' '.join(reason.split())}")


_PARSERS: dict[str, Callable[[str, Location], JSON]] = {
    ".yaml": _yaml,
    ".yml": _yaml,
    ".json": _json,
    ".jsonc": _json,
    ".toml": _toml,
}
