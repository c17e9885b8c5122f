"""The state of one conversion, and the words for keywords that a provider does not accept."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from toolbus.core.values.records import JSON
from toolbus.schema.keywords import ANNOTATIONS, CHECKS, WITHOUT_EFFECT, quoted
from toolbus.schema.reader import Place, SchemaReader, Work, is_impossible, merged
from toolbus.schema.references import References
from toolbus.schema.values import Node, is_array
from toolbus.shape.dialects.definition import Kind, Report
from toolbus.shape.dialects.rules import PropertyNames, Rules

_LABELS = {"enum": "one of", "const": "always", "allOf": "and", "additionalProperties": "other properties"}


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


def as_object(conversion: SchemaConversion, node: Node, at: Place) -> Node:
    """The node of the top level as one object without alternatives."""
    types = node.get("type", "object")
    if "object" not in (types if is_array(types) else [types]):
        conversion.note("permissive", at, f"the arguments are treated as an object, not as {types!r}", "type")
        node = {key: node[key] for key in ("description", "title") if key in node}
    elif types != "object" or "type" not in node:
        conversion.note("lossless", at, "the arguments are an object", "type")
    node = _without_alternatives(conversion, {**node, "type": "object"}, at)
    if "properties" not in node and not conversion.rules.subset:
        conversion.note("lossless", at, "an empty `properties` was added", "properties")
        node["properties"] = {}
    hidden = [key for key in node if key in conversion.rules.not_at_top]
    words = conversion.in_words(node, hidden, at)
    node = {key: value for key, value in node.items() if key not in hidden}
    describe(node, words)
    return node


def _without_alternatives(conversion: SchemaConversion, node: Node, at: Place) -> Node:
    for key in ("anyOf", "oneOf"):
        if key in node:
            branches = node.pop(key)
            node = _union(conversion, node, branches, at, key)
    return node


def _union(conversion: SchemaConversion, base: Node, branches: Sequence[JSON], at: Place, key: str) -> Node:
    alternatives: list[Node] = []
    for number, branch in enumerate(branches):
        if branch is False:
            continue
        inner, place = conversion.node(branch, at.into(f"{key}/{number}"))
        alternative = merged(base, inner, conversion.work)
        if not is_impossible(alternative):
            alternatives.append(_without_alternatives(conversion, {**alternative, "type": "object"}, place))
    if len(alternatives) == 1:
        conversion.note("lossless", at, f"`{key}` has one possible alternative", key)
        return alternatives[0]
    if not alternatives:
        conversion.note("widened", at, f"no alternative of `{key}` is possible", key)
        return base
    conversion.note(
        "widened",
        at,
        f"{len(alternatives)} alternatives of `{key}` became one object that accepts them all",
        key,
    )
    result: Node = {**base, "properties": _all_properties(conversion, alternatives)}
    if _is_closed(alternatives):
        result["additionalProperties"] = False
    else:
        result.pop("additionalProperties", None)
    conversion.work.spend(sum(len(one) + len(one.get("required", ())) for one in alternatives))
    required = [dict.fromkeys(one.get("required", ())) for one in alternatives]
    common = [n for n in required[0] if all(n in other for other in required)]
    result.pop("required", None)
    if common:
        result["required"] = common
    shared = set(common)
    needs = [", ".join(n for n in one if n not in shared) for one in required]
    if any(needs):
        words = f"give one of these sets: {' | '.join(need or 'none' for need in needs)}"
        conversion.work.spend_text(len(words))
        describe(result, [words])
    return result


def _all_properties(conversion: SchemaConversion, alternatives: Sequence[Node]) -> Node:
    found: dict[str, dict[str, JSON]] = {}
    seen: set[tuple[str, int]] = set()
    for alternative in alternatives:
        for name, schema in alternative.get("properties", {}).items():
            if (name, id(schema)) not in seen:  # most are those of the base
                seen.add((name, id(schema)))
                found.setdefault(name, {}).setdefault(conversion.work.written(schema), schema)
    every = {name: list(known.values()) for name, known in found.items()}
    return {name: known[0] if len(known) == 1 else {"anyOf": known} for name, known in every.items()}


def _is_closed(alternatives: Sequence[Node]) -> bool:
    return all(
        alternative.get("additionalProperties") is False and not alternative.get("allOf")
        for alternative in alternatives
    )
