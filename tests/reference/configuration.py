"""The reference of the config, from its JSON Schema."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from tests.reference.markup import anchor, page, table
from toolbus.config.schema import config_schema

Schema = Mapping[str, Any]

INTRODUCTION = """\
All keys of `toolbus.yaml`, with their types and defaults. [Configuration](../configuration.md) explains how
to use them. `toolbus config --schema` prints the JSON Schema from which this page is made.

A key that is set to `null` has its default. Keys that begin with `x-` are yours: toolbus ignores them.
"""
MORE = {
    "timeouts": "configuration.md#timeouts",
    "limits": "limits.md",
    "naming": "configuration.md#names",
    "policy": "policy.md",
    "quotas": "quotas.md",
    "audit": "audit.md",
    "history": "console.md#history",
    "telemetry": "telemetry.md",
    "tokens": "token-store.md",
    "search": "many-tools.md",
    "serve": "gateway.md",
    "code": "scripts.md",
    "store": "replicas.md",
    "registry": "registry.md",
    "extends": "layers.md",
    "profiles": "layers.md",
    "hooks": "hooks.md",
    "tools": "scripts.md",
    "lock": "lock.md",
    "sandbox": "sandbox.md",
    "expose": "many-tools.md",
    "context": "resources.md",
    "skill_tools": "skills.md",
    "servers.NAME.auth": "sign-in.md#the-setting",
    "servers.NAME.openapi": "openapi.md",
    "servers.NAME.override": "models.md",
    "servers.NAME.repeatable": "durable.md",
    "servers.NAME.forward_headers": "identity.md",
    "serve.auth.sign_in": "authorization-server.md",
    "serve.auth.sign_in.oidc": "authorization-server.md",
    "serve.apps": "apps.md",
    "serve.rest": "rest.md",
    "serve.console": "console.md",
    "serve.workers": "gateway-operations.md",
}
"""The page about a key, by its path."""


def configuration() -> str:
    """The page."""
    return page("Configuration reference", INTRODUCTION, *_Reference(config_schema()).sections())


class _Reference:
    """The sections of the page: a table of keys for the config, and for each kind of mapping in it."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._paths: dict[str, str] = {}
        """The path of each kind of mapping, by its name in the schema, in the order of the page."""
        self._find("", schema["properties"])

    def sections(self) -> Iterator[str]:
        yield _described("## The file", self._schema["description"])
        yield self._table("", self._schema["properties"], ["servers"])
        for name, path in self._paths.items():
            kind = self._schema["$defs"][name]
            yield _described(f"## {path}", kind["description"])
            yield self._table(path, kind["properties"], kind.get("required", ()))

    def _find(self, path: str, properties: Schema) -> None:
        """Add the kinds of mappings below a mapping, each at the first path where it is found."""
        found: list[tuple[str, str]] = []
        for key, value in properties.items():
            for name, suffix in _references(value):
                # An entry may be below the key of a server, or be a server itself.
                name = "Entry" if name == "Server" else name
                if name not in self._paths and not value.get("doNotSuggest"):
                    self._paths[name] = self._path(f"{path}.{key}".strip(".") + suffix, name)
                    found.append((name, self._paths[name]))
        for name, below in found:
            self._find(below.partition(" ")[0], self._schema["$defs"][name]["properties"])

    def _path(self, path: str, name: str) -> str:
        kind = self._schema["$defs"][name]["properties"].get("type", {}).get("const")
        return f"{path} of type {kind}" if kind else path

    def _table(self, path: str, properties: Schema, required: Any) -> str:
        own = {key: value for key, value in properties.items() if not value.get("doNotSuggest")}
        return table(
            ("key", "value", "default", "meaning"),
            (
                (
                    f"`{key}`",
                    self._type(value),
                    "required" if key in required else _default(value),
                    _meaning(f"{path.partition(' ')[0]}.{key}".strip("."), value),
                )
                for key, value in own.items()
            ),
        )

    def _type(self, value: Schema) -> str:
        """The type in words; null is left out, because every key may be null."""
        if reference := value.get("$ref"):
            heading = self._paths["Entry" if reference.endswith("/Server") else reference.rpartition("/")[2]]
            label = heading.rpartition(" type ")[2] if " type " in heading else "mapping"
            return f"[{label}](#{anchor(heading)})"
        if "const" in value or "enum" in value:
            return _constants(value.get("enum", [value.get("const")]))
        if "anyOf" in value:
            kinds: list[Schema] = [
                one for one in value["anyOf"] if one != {"type": "null"} and "doNotSuggest" not in one
            ]
            return ", or ".join(dict.fromkeys(self._type(one) for one in kinds))
        given = value.get("type", [])
        types = [given] if isinstance(given, str) else [one for one in given if one != "null"]
        return ", or ".join(self._simple(kind, value) for kind in types) or "any value"

    def _simple(self, kind: str, value: Schema) -> str:
        inner = value.get("additionalProperties")
        match kind:
            case "array":
                return f"list of {self._many(value.get('items', {}))}"
            case "object" if isinstance(inner, Mapping) and inner:
                return f"mapping to {self._many(cast(Schema, inner))}"
            case "object":
                keys = ", ".join(f"`{key}`" for key in value.get("properties", ()))
                return f"mapping with {keys}" if keys else "mapping"
            case "boolean":
                return "`true` or `false`"
            case _:
                return {"integer": "whole number", "string": "text"}.get(kind, kind)

    def _many(self, value: Schema) -> str:
        words = {"text": "texts", "mapping": "mappings", "any value": "any values"}
        kinds = self._type(value).split(", or ")
        return " or ".join(words.get(one, one.replace("[mapping]", "[mappings]")) for one in kinds)


def _references(value: Any, suffix: str = "") -> Iterator[tuple[str, str]]:
    """The kinds of mappings that a value refers to, each with what is added to the path of its key."""
    if not isinstance(value, Mapping):
        return
    schema = cast(Schema, value)
    if reference := schema.get("$ref"):
        yield reference.rpartition("/")[2], suffix
    for one in schema.get("anyOf", ()):
        yield from _references(one, suffix)
    yield from _references(schema.get("additionalProperties"), f"{suffix}.NAME")
    yield from _references(schema.get("items"), f"{suffix}[]")


def _constants(values: Sequence[Any]) -> str:
    """The constants without null, and without other spellings of the same."""
    spelled = {re.sub(r"[-_]", "", str(one)).lower(): one for one in reversed(values) if one is not None}
    return ", ".join(f"`{json.dumps(one).strip(chr(34))}`" for one in reversed(spelled.values()))


def _default(value: Schema) -> str:
    match value.get("default"):
        case None | [] | {} | "":
            return ""
        case {**many}:
            return "`{" + ", ".join(f"{key}: {json.dumps(one)}" for key, one in many.items()) + "}`"
        case str(text):
            return f"`{text}`"
        case bool(flag):
            return f"`{json.dumps(flag)}`"
        case number:
            return f"{number:,}"


def _described(heading: str, text: str) -> str:
    return f"{heading}\n\n{text}"


def _meaning(path: str, value: Schema) -> str:
    text = value.get("description", "")
    text = text if text.endswith((".", ":")) or not text else f"{text}."
    more = MORE.get(path, MORE.get(path.removeprefix("servers.NAME.")))
    return f"{text} [More](../{more})" if more else text
