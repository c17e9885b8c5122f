"""Open WebUI's reading of an OpenAPI document, by the rules of its `utils/tools.py` of July 2026.

It offers each operation with an id to a model: parameters of any place and properties of the body are one
object of arguments. A call is a request with all of them as its JSON body, at the URL that a person typed.
"""

from typing import Any, cast

JSON = dict[str, Any]
_COMPOSED = ("oneOf", "anyOf", "allOf")


def offered(document: JSON) -> dict[str, JSON]:
    """The tools by name, as a model is offered them."""
    return {
        operation["operationId"]: _tool(operation, document.get("components", {}))
        for methods in document["paths"].values()
        for operation in methods.values()
        if _id(operation) is not None
    }


def path_of(document: JSON, name: str) -> str:
    """The path that a call of a tool goes to."""
    found = document["paths"].items()
    return next(path for path, methods in found for one in methods.values() if _id(one) == name)


def _id(operation: Any) -> str | None:
    return cast("JSON", operation).get("operationId") if isinstance(operation, dict) else None


def _tool(operation: JSON, components: JSON) -> JSON:
    parameters = operation.get("parameters", [])
    properties: JSON = {one["name"]: one["schema"] for one in parameters}
    required: list[str] = [one["name"] for one in parameters if one.get("required")]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    resolved = _resolved(body, components, set())
    properties |= resolved.get("properties", {})
    required += resolved.get("required", [])
    return {
        "description": operation.get("description", operation.get("summary", "No description available.")),
        "parameters": {"type": "object", "properties": properties, "required": required},
    }


def _resolved(schema: JSON, components: JSON, seen: set[str]) -> JSON:
    if not schema:
        return {}
    if "$ref" in schema:
        name = schema["$ref"].split("/")[-1]
        if name in seen:
            return {}
        seen.add(name)
        target: JSON = components
        for part in schema["$ref"].strip("#/").split("/")[1:]:
            target = target.get(part, {})
        return _resolved(target, components, seen)
    found = dict(schema)
    if "properties" in found:
        found["properties"] = {
            name: _resolved(one, components, set()) for name, one in found["properties"].items()
        }
    if "items" in found:
        found["items"] = _resolved(found["items"], components, set())
    for key in _COMPOSED:
        if isinstance(found.get(key), list):
            found[key] = [_resolved(one, components, seen) for one in found[key]]
    return found
