"""The comparison of calls with recorded ones: by server, method, name and arguments."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeAlias

from toolbus.config.secrets.reference import MASK
from toolbus.core.text.canonical import NotCanonical, canonical
from toolbus.core.text.display import shortened
from toolbus.core.values.records import JSON, JSONObject
from toolbus.schema.values import is_array, is_object

TapeMode: TypeAlias = Literal["once", "all", "new_episodes", "none"]
"""The modes of VCR. `once` records if there is no tape, and otherwise replays it. `all` always records.
`new_episodes` replays, and records calls that the tape lacks. `none` only replays."""
_MOST_SHOWN = 80
"""Characters of a value in a difference."""
_IGNORED = "..."
_ABSENT = object()


class CallTarget(NamedTuple):
    """The target of a call."""

    server: str
    method: str
    name: str

    def __str__(self) -> str:
        kind = {"tools/call": "tool", "resources/read": "resource", "prompts/get": "prompt"}
        return f"{kind.get(self.method, self.method)} {self.name!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """The rules by which calls are compared with recorded ones.

    A path names an argument, with dots for nested values: `path`, `filter.since`, `items.*.id`. There, `*` is
    any name or position.
    """

    ignore: tuple[str, ...] = ()
    """Paths of arguments that are not compared."""
    patterns: Mapping[str, str] = field(default_factory=dict[str, str])
    """Globs by path: all values that match are treated as equal, such as `{"file": "/tmp/*.txt"}`."""
    in_order: bool = False
    """Whether the calls to a server must come in the recorded order."""

    def __post_init__(self) -> None:
        if isinstance(self.ignore, str):
            raise TypeError("ignore takes a list of paths, not one string")
        object.__setattr__(self, "ignore", tuple(self.ignore))

    def compared(self, arguments: JSONObject) -> JSON:
        """The arguments as they are compared."""
        if not self.ignore and not self.patterns:
            return arguments
        ignored = [tuple(path.split(".")) for path in self.ignore]
        globs = {tuple(path.split(".")): glob for path, glob in self.patterns.items()}
        return _compared(arguments, (), ignored, globs)

    def key(self, server: str, method: str, name: str, arguments: JSONObject) -> int:
        """A number that equal calls share."""
        target = json.dumps([server, method, name]).encode()
        value = self.compared(arguments)
        try:
            text = canonical(value)
        except NotCanonical:
            text = json.dumps(value, sort_keys=True, default=repr).encode()
        return int.from_bytes(blake2b(target + b"\0" + text, digest_size=7).digest())


def _compared(
    value: JSON, path: tuple[str, ...], ignored: list[tuple[str, ...]], globs: dict[tuple[str, ...], str]
) -> JSON:
    if any(_fits(path, one) for one in ignored):
        return _IGNORED
    for one, glob in globs.items():
        if _fits(path, one) and fnmatchcase(value if isinstance(value, str) else json.dumps(value), glob):
            return glob
    if is_object(value):
        found = {key: _compared(item, (*path, key), ignored, globs) for key, item in value.items()}
        # An ignored argument may also be missing.
        return {key: item for key, item in found.items() if item is not _IGNORED}
    if is_array(value):
        return [_compared(item, (*path, str(index)), ignored, globs) for index, item in enumerate(value)]
    return value


def _fits(path: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    return len(path) == len(pattern) and all(
        want in ("*", have) for have, want in zip(path, pattern, strict=True)
    )


def fits_masked(recorded: JSON, given: JSON) -> bool:
    """Whether a value is the recorded one, where `***` stands for any text."""
    if isinstance(recorded, str) and MASK in recorded:
        escaped = "*".join(_escaped(part) for part in recorded.split(MASK))
        return fnmatchcase(given if isinstance(given, str) else json.dumps(given), escaped)
    if is_array(recorded) and is_array(given):
        return len(recorded) == len(given) and all(map(fits_masked, recorded, given))
    if is_object(recorded) and is_object(given):
        return recorded.keys() == given.keys() and all(
            fits_masked(item, given[key]) for key, item in recorded.items()
        )
    return type(recorded) is type(given) and recorded == given


def _escaped(text: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)


def differences(recorded: JSON, given: JSON, path: str = "") -> Iterator[str]:
    """The differences of two values, each in one readable line: `text: 'tea' was recorded, not 'milk'`."""
    if is_object(recorded) and is_object(given):
        for key in dict.fromkeys([*recorded, *given]):
            inner = f"{path}.{key}" if path else key
            yield from differences(recorded.get(key, _ABSENT), given.get(key, _ABSENT), inner)
    elif is_array(recorded) and is_array(given) and len(recorded) == len(given):
        for index, (one, other) in enumerate(zip(recorded, given, strict=True)):
            yield from differences(one, other, f"{path}.{index}" if path else str(index))
    elif given is _ABSENT:
        yield f"{path}: {_shown(recorded)} was recorded, and is missing"
    elif recorded is _ABSENT:
        yield f"{path}: {_shown(given)} was not recorded"
    elif type(recorded) is not type(given) or recorded != given:
        yield f"{path or 'value'}: {_shown(recorded)} was recorded, not {_shown(given)}"


def _shown(value: object) -> str:
    return shortened(json.dumps(value, ensure_ascii=False, default=str), _MOST_SHOWN)
