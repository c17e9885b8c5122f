"""Convert the arguments of a model back to arguments that fit the server's schema."""

from collections.abc import Mapping

from toolbus.core.values.records import JSON, ToolSpec
from toolbus.schema.values import is_array, is_object
from toolbus.shape.dialects.conversion import escaped
from toolbus.shape.dialects.definition import Definition


def original_arguments(definition: Definition, arguments: Mapping[str, JSON]) -> dict[str, JSON]:
    """The arguments under the server's names, without nulls that only mean "not given"."""
    if not _changes_arguments(definition):
        return dict(arguments)
    steps = {step for pointer in definition.absent for step in _prefixes(pointer)}
    steps.update(step for pointer in definition.renamed_within for step in _prefixes(pointer))
    return _restored(definition, steps, dict(arguments), "")


def restored(spec: ToolSpec, arguments: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """The original arguments, for any dialect of the tool."""
    for definition in spec.definitions.values():
        if _changes_arguments(definition):
            arguments = original_arguments(definition, arguments)
    return arguments


def _changes_arguments(definition: Definition) -> bool:
    return bool(definition.renamed or definition.renamed_within or definition.absent)


def _prefixes(pointer: str) -> list[str]:
    """The pointer and all its prefixes."""
    parts = pointer.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts) + 1)]


def _restored(definition: Definition, steps: set[str], value: JSON, at: str) -> JSON:
    if is_array(value):
        return [_restored(definition, steps, item, f"{at}/*") for item in value]
    if not is_object(value):
        return value
    names = definition.renamed_within.get(at, {}) if at else definition.renamed
    result: dict[str, JSON] = {}
    for name, inner in value.items():
        below = f"{at}/{escaped(name)}"
        if inner is None and below in definition.absent:
            continue
        # A property that the definition does not name follows the path of undeclared ones.
        path = below if below in steps else f"{at}/*"
        result[names.get(name, name)] = _restored(definition, steps, inner, path)
    return result
