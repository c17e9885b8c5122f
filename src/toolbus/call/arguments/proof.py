"""Prove in about a microsecond that a value fits a common, simple schema.

A proof says yes, or nothing: "no" means that it cannot tell, and jsonschema has to. So whatever is
rare or unknown here is left alone, and a proof is never wrong, only silent.
"""

from toolbus.call.arguments.scalars import (
    Proof,
    all_of,
    among,
    anything,
    bounds,
    is_string,
    number,
    one_of,
    silent,
    string,
    type_of,
)
from toolbus.call.arguments.values import entries_of, is_array, is_names, is_object
from toolbus.core.records import JSON

_REF_ALONE = {f"http://json-schema.org/draft-0{number}/schema{end}" for number in (6, 7) for end in ("", "#")}
"""The drafts in which whatever stands beside a reference does not count."""
_MODERN = {f"https://json-schema.org/draft/{name}/schema" for name in ("2019-09", "2020-12")}
_NOT_CHECKED = {
    "title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly",
    "format", "$comment", "$defs", "definitions", "contentEncoding", "contentMediaType",
}  # fmt: skip
_BY_KIND = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "minItems", "maxItems"},
    "string": {"minLength", "maxLength", "pattern"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    "integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
}
_KNOWN = _NOT_CHECKED.union({"type", "enum", "const", "anyOf", "allOf", "$ref"}, *_BY_KIND.values())


def proof(schema: JSON) -> Proof:
    """The proof for a whole schema; `silent` if it has no use for one."""
    if not is_object(schema):
        return silent
    draft = schema.get("$schema")
    if draft is not None and (not isinstance(draft, str) or draft not in _REF_ALONE | _MODERN):
        return silent
    root = {key: value for key, value in schema.items() if key != "$schema"}
    return _Proofs(root, draft in _REF_ALONE).of(root)


class _Proofs:
    """Builds the proofs of one document."""

    def __init__(self, document: dict[str, JSON], ref_alone: bool) -> None:
        self._document = document
        self._ref_alone = ref_alone
        self._referred: dict[str, Proof] = {}

    def of(self, schema: JSON) -> Proof:
        if schema is True:
            return anything
        if not is_object(schema) or not all(key in _KNOWN or key.startswith("x-") for key in schema):
            return silent
        own = schema
        if "$ref" in own and self._ref_alone:
            return self._target(own["$ref"])
        parts = [self._kinds(own)]
        if "enum" in own:
            parts.append(among(own["enum"]))
            if parts[0] is is_string and is_names(own["enum"]):
                parts[0] = anything  # said by the list already
        if "const" in own:
            parts.append(among([own["const"]]))
        if "anyOf" in own:
            parts.append(one_of(self._each(own["anyOf"])))
        if "allOf" in own:
            parts += self._each(own["allOf"])
        if "$ref" in own:
            parts.append(self._target(own["$ref"]))
        return all_of([part for part in parts if part is not anything])

    def _each(self, schemas: JSON) -> list[Proof]:
        return [self.of(schema) for schema in schemas] if is_array(schemas) and schemas else [silent]

    def _target(self, reference: JSON) -> Proof:
        """The proof of what a reference names; only the plain forms, in which no `$id` can lie on the way."""
        if not isinstance(reference, str):
            return silent
        known = self._referred.get(reference)
        if known is not None:
            return known
        # Found here by the references inside it, while it is being built.
        self._referred[reference] = lambda value: self._referred[reference](value)
        match reference.split("/"):
            case ["#"]:
                target: JSON = self._document
            case ["#", "$defs" | "definitions" as place, name] if not set(name) & {"~", "%"}:
                target = entries_of(self._document.get(place)).get(name)
            case _:
                target = None
        self._referred[reference] = built = self.of(target)
        return built

    def _kinds(self, own: dict[str, JSON]) -> Proof:
        said = own.get("type")
        if said is None:
            # Other kinds of values would fit too: about those it stays silent.
            implied = [kind for kind, keys in _BY_KIND.items() if not keys.isdisjoint(own)]
            return one_of([self._kind(kind, own) for kind in implied]) if implied else anything
        return one_of([self._kind(kind, own) for kind in (said if is_array(said) else [said])])

    def _kind(self, kind: JSON, own: dict[str, JSON]) -> Proof:
        match kind:
            case "object":
                return self._object(own)
            case "array":
                return self._array(own)
            case "string":
                return string(own)
            case "integer" | "number":
                return number(own, whole=kind == "integer")
            case "boolean":
                return lambda value: value is True or value is False
            case "null":
                return lambda value: value is None
            case _:
                return silent

    def _object(self, own: dict[str, JSON]) -> Proof:
        properties = own.get("properties", {})
        required = own.get("required", [])
        if not is_object(properties) or not is_names(required):
            return silent
        proof_of = {name: self.of(schema) for name, schema in properties.items()}.get
        needed = tuple(required)
        other = self.of(own.get("additionalProperties", True))

        def proven(value: JSON) -> bool:
            if type_of(value) is not dict:
                return False
            for name in needed:
                if name not in value:
                    return False
            for name, item in value.items():  # noqa: SIM110  # a generator would cost a third of the time
                if not proof_of(name, other)(item):
                    return False
            return True

        return proven

    def _array(self, own: dict[str, JSON]) -> Proof:
        item = self.of(own.get("items", True))
        limits = bounds(own.get("minItems"), own.get("maxItems"))
        if limits is None:
            return silent
        low, high = limits

        def proven(value: JSON) -> bool:
            return type_of(value) is list and low <= len(value) <= high and all(map(item, value))

        return proven
