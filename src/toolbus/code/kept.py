"""Scripts that ended well: the newest of each config, in the user's state folder, for `toolbus script save`.

A script is kept as it was written, with the names and types of its variables. Their values are not kept.
"""

import ast
import json
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from toolbus.core.values.records import JSON
from toolbus.state.files import config_place, state_folder
from toolbus.state.values import DocumentForm, PrivateValues

logger = logging.getLogger("toolbus")
_KIND = "script"
_ID = 8
"""Characters of the digest by which a script is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptScript:
    """A script that ended well."""

    text: str = field(repr=False)
    at: float
    """The time of its end, in seconds since the epoch."""
    tools: tuple[str, ...]
    """The tools that it calls, `server/tool`."""
    input: Mapping[str, JSON]
    """The types of its variables, in the short form of a config."""
    user: str = ""
    face: str = ""

    @property
    def id(self) -> str:
        """The beginning of a digest of its text."""
        return sha256(self.text.encode()).hexdigest()[:_ID]

    @property
    def date(self) -> str:
        """The time of its end in UTC."""
        return datetime.fromtimestamp(self.at, UTC).isoformat(" ", "seconds").removesuffix("+00:00")

    @classmethod
    def of(
        cls, text: str, tools: Mapping[str, str], types: Mapping[str, JSON], user: str, face: str
    ) -> "KeptScript":
        """A script that just ended; `tools` are the origins of the tools by function."""
        used = names_in(ast.parse(text))
        called = dict.fromkeys(tools[name] for name in sorted(used & tools.keys(), key=text.find))
        own = {name: word for name, word in types.items() if name in used}
        return cls(text=text, at=time.time(), tools=tuple(called), input=own, user=user, face=face)


class KeptScripts:
    """The scripts that are kept for one config file."""

    def __init__(self, config_file: str) -> None:
        form = DocumentForm(path=f"scripts/{config_place(config_file)[1]}.json", is_replaceable=True)
        self._values = PrivateValues(state_folder, {_KIND: form})

    def all(self) -> list[KeptScript]:
        """The scripts, the newest first; OSError or ValueError if they cannot be read."""
        found = self._values.wait(self._values.items(_KIND)).values()
        return sorted(_read(found), key=lambda one: one.at, reverse=True)

    def add(self, script: KeptScript, most: int) -> None:
        """Keep a script instead of the oldest; if the state folder cannot be written, it is not kept."""
        values = self._values
        try:
            values.wait(values.put(_KIND, script.id, json.dumps(asdict(script)).encode()))
            for old in self.all()[most:]:
                values.wait(values.remove(_KIND, old.id))
        except (OSError, ValueError) as error:
            logger.info("a script is not kept: %s", error)


def _read(found: Iterable[bytes]) -> Iterable[KeptScript]:
    for value in found:
        try:
            stored: dict[str, Any] = json.loads(value)
            stored["tools"] = tuple(stored["tools"])
            yield KeptScript(**stored)
        except (KeyError, TypeError, ValueError):
            continue


def names_in(tree: ast.AST) -> set[str]:
    """The names that a script uses."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def variable_types(values: Mapping[str, JSON]) -> dict[str, JSON]:
    """The types of variables, in the short form of a config."""
    return {name: type_word(value) for name, value in values.items()}


def type_word(value: JSON) -> JSON:
    """The type of a value, in the short form of a config."""
    match value:
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"
        case list() if {type(one) for one in value} <= {str}:  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # JSON
            return ["string"]
        case list():
            return "list"
        case dict():
            return "object"
        case _:
            return "any"
