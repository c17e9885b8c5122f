"""The state of one conversion, and the words for keywords that a provider does not accept."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from toolbus.core.values.records import JSON
from toolbus.schema.keywords import ANNOTATIONS, CHECKS, WITHOUT_EFFECT, quoted
from toolbus.schema.reader import Place, SchemaReader, Work
from toolbus.schema.references import References
from toolbus.schema.values import Node
from toolbus.shape.dialects.definition import Kind, Report
from toolbus.shape.dialects.names import PropertyNames
from toolbus.shape.dialects.rules import Rules

_LABELS = {"enum": "one of", "const": "always", "allOf": "and", "additionalProperties": "other properties"}


def escaped(name: str) -> str:
    """A name as a step of a pointer; a property named `*` differs from the `*` for any item."""
    if name.isidentifier():
        return name
    return name.replace("~", "~0").replace("/", "~1").replace("*", "~2")


@dataclass(slots=True)
class SchemaConversion:
    """The conversion of one schema for one provider."""

    schema: JSON
    rules: Rules
    report: Report
    names: PropertyNames = field(init=False)
    work: Work = field(init=False)
    _reader: SchemaReader = field(init=False)

    def __post_init__(self) -> None:
        self.names = PropertyNames(self.rules.property_names, self.schema)
        self.work = Work(self.schema)
        self._reader = SchemaReader(References(self.schema), self.work, self._note)

    def note(self, kind: Kind, at: Place, what: str, keyword: str = "") -> None:
        """Record a loss."""
        self._note(kind, f"{at.path}/{keyword}" if keyword else at.path, what)

    def _note(self, kind: Kind, path: str, what: str) -> None:
        self.work.spend_text(len(path), len(what))
        self.report.note(kind, path, what)

    def node(self, schema: JSON, at: Place) -> tuple[Node, Place]:
        """The node without references and `allOf`, and its place with the references that were followed."""
        return self._reader.node(schema, at)

    def in_words(self, node: Node, keywords: Iterable[str], at: Place) -> list[str]:
        """The keywords that the result cannot have, in words for the description; each is recorded."""
        words: list[str] = []
        for key in keywords:
            value = node[key]
            if key in ANNOTATIONS:
                if key in ("default", "examples"):
                    words.append(f"{key}: {quoted(value)}")
                self.note("lossless", at, f"`{key}` is not supported here", key)
            elif key not in CHECKS or value in WITHOUT_EFFECT.get(key, ()):
                self.note("lossless", at, f"`{key}` has no effect here", key)
            else:
                # Models do not invent properties; forbidding it in every description only costs tokens.
                is_described = not (key == "additionalProperties" and value is False)
                if is_described:
                    words.append(f"{_LABELS.get(key, key)}: {quoted(value)}")
                where = "; it is in the description" if is_described else ""
                self.note("widened", at, f"`{key}` cannot be expressed here{where}", key)
        return words


def describe(result: Node, words: list[str]) -> None:
    """Add words to the description of a result, in parentheses."""
    if words:
        own = result.get("description")
        added = f"({'; '.join(words)})"
        result["description"] = f"{own} {added}" if own else added
