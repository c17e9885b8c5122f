"""The JSON Schema of a config in our own dialect, for editors.

It is generated on demand from the config models and the tables of the dialects, so that it always matches
this version. Descriptions are the docstrings of the fields.
"""

import ast
import inspect
from collections.abc import Iterator, Mapping
from textwrap import dedent
from typing import get_args

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from toolbus.config.base import ConfigModel, takes_null
from toolbus.config.hosts.dialects import BESIDE_SERVERS, SETTINGS
from toolbus.config.hosts.entry import ALLOWLISTS, IGNORED, KEYS, SPELLINGS, TRANSPORTS
from toolbus.config.hosts.host_auth import SIGN_IN
from toolbus.config.model import HINTS, BusConfig, LockMode
from toolbus.config.settings.audit import KEPT
from toolbus.config.settings.auth import AUTH_TYPES
from toolbus.config.settings.policy import SELECTORS
from toolbus.core.values.records import JSON, LogLevel

__all__ = ["config_schema"]
DRAFT = "https://json-schema.org/draft/2020-12/schema"
_NAMES = {"type": "array", "items": {"type": "string"}}
# In YAML, `off` without quotes is false.
_LOCK: dict[str, JSON] = {"anyOf": [{"enum": [*get_args(LockMode), False]}]}
_SANDBOX: dict[str, JSON] = {"anyOf": [{"type": "boolean"}, {"$ref": "#/$defs/Sandbox"}]}
# Keys of an entry in a file that differ from the fields of ServerConfig.
_ENTRY_KEYS: dict[str, dict[str, JSON]] = {
    "command": {"anyOf": [{"type": "string"}, _NAMES]},
    "transport": {"enum": list(TRANSPORTS)},
    "openapi": {"anyOf": [{"type": "string", "minLength": 1}, {"$ref": "#/$defs/OpenApi"}]},
    "auth": {
        "anyOf": [
            {"const": "oauth"},
            {"type": "string", "minLength": 1},
            *({"$ref": f"#/$defs/{kind.__name__}"} for kind in AUTH_TYPES.values()),
            {"type": "object", "required": ["CLIENT_ID"], "doNotSuggest": True},  # Cursor
        ]
    },
    "disabled": {"type": "boolean", "description": "The opposite of `enabled`."},
    "timeout": {
        "type": "number",
        "exclusiveMinimum": 0,
        "description": "The same as `timeouts.call`; from 1000 on, milliseconds.",
    },
    "connection": {"$ref": "#/$defs/Entry", "description": "More keys of this entry."},
    "lock": _LOCK,
    "sandbox": _SANDBOX,
    "log_level": {"anyOf": [{"enum": [*get_args(LogLevel), "off", False]}]},
    "name": {"description": "The same as `alias`, in a list of servers."},
    "serverName": {"description": "The same as `alias`, in a list of servers."},
}
_BUS_KEYS: dict[str, dict[str, JSON]] = {
    "enabled_servers": {**_NAMES, "description": "The aliases to use; other servers are disabled."},
    "tool_allowlist": {
        "type": "object",
        "additionalProperties": {**_NAMES, "minItems": 1},
        "description": "The tools to include, by alias.",
    },
    "lock": _LOCK,
    "audit": {"anyOf": [{"type": ["string", "boolean"], "minLength": 1}, {"$ref": "#/$defs/Audit"}]},
    "store": {"anyOf": [{"type": "string", "minLength": 1}, {"$ref": "#/$defs/StoreSetting"}]},
    "sandbox": _SANDBOX,
    "history": {"anyOf": [{"type": "boolean"}, {"enum": list(KEPT)}, {"$ref": "#/$defs/History"}]},
    "telemetry": {"anyOf": [{"type": "boolean"}, {"$ref": "#/$defs/Telemetry"}]},
}
# A disabled entry is not checked.
_SWITCHED_OFF = {
    "anyOf": [
        {"required": [key], "properties": {key: {"const": value}}}
        for key, value in (("enabled", False), ("disabled", True))
    ]
}


def config_schema() -> dict[str, JSON]:
    """The JSON Schema, draft 2020-12, of `toolbus.yaml`; unknown keys are invalid, as in `load_config`."""
    made = BusConfig.model_json_schema(schema_generator=_Generator)
    defined: dict[str, JSON] = made["$defs"]
    for model in _models(ConfigModel):
        if model is BusConfig or model.__name__ in defined:
            _describe(made if model is BusConfig else defined[model.__name__], model)
    defined["Entry"] = _entry(defined.pop("ServerConfig")["properties"])
    defined["Server"] = {
        "description": "How to reach a server and which tools to use; a string is its URL.",
        "type": ["object", "string"],
        "if": _SWITCHED_OFF,
        "else": {"$ref": "#/$defs/Entry"},
    }
    views = defined["Serve"]["properties"]["views"]
    views["additionalProperties"] = _or_null(views["additionalProperties"])
    for key in SELECTORS:
        del defined["PolicyRule"]["properties"][key]["default"]  # an editor would insert it, and it is wrong
    defined["TokenExchange"]["required"].append("issuer")
    defined["ClientCredentials"]["anyOf"] = [{"required": [key]} for key in ("client_secret", "key")]
    return {
        "$schema": DRAFT,
        "title": "toolbus.yaml",
        "description": "The MCP servers that toolbus connects to, and the settings for all of them.",
        "type": "object",
        "properties": _top(made["properties"]),
        "patternProperties": {"^x-": {"description": "Custom keys, ignored by toolbus."}},
        "additionalProperties": False,
        "required": ["servers"],
        "$defs": dict(sorted(defined.items())),
    }


def _models(base: type[ConfigModel]) -> Iterator[type[ConfigModel]]:
    for model in base.__subclasses__():
        yield model
        yield from _models(model)


class _Generator(GenerateJsonSchema):
    def handle_invalid_for_json_schema(self, schema: object, error_info: str) -> JsonSchemaValue:
        """An empty schema: a field that only code can set is not in any file."""
        return {}


def _top(fields: Mapping[str, JSON]) -> dict[str, JSON]:
    servers = {
        "description": fields["servers"]["description"],
        "type": ["object", "array"],
        "additionalProperties": {"$ref": "#/$defs/Server"},
        "items": {"$ref": "#/$defs/Server", "type": "object"},
    }
    settings = {key: _or_null({**fields.get(key, {}), **_BUS_KEYS.get(key, {})}) for key in SETTINGS}
    beside = {key: _foreign("For editors and other hosts; ignored by toolbus.") for key in BESIDE_SERVERS}
    return {"servers": servers, **settings, **beside}


def _entry(fields: Mapping[str, JSON]) -> dict[str, JSON]:
    own = {key: {**fields.get(key, {}), **_ENTRY_KEYS.get(key, {})} for key in KEYS if key != "server"}
    for word, name in SPELLINGS.items():
        said = {**_NAMES, "minItems": 1} if word in ALLOWLISTS else own[name]
        own[word] = {**said, **_foreign(f"Another host's name for `{name}`.")}
    unused = {key: _foreign("A key of another host; ignored.") for key in sorted(IGNORED)}
    unused |= {key: _foreign("Another host's settings for `auth`.") for key in SIGN_IN}
    return {
        "description": "One server: how to reach it and which tools to use.",
        "properties": {**{key: _or_null(value) for key, value in own.items()}, **unused},
        "additionalProperties": False,
    }


def _foreign(description: str) -> dict[str, JSON]:
    """A key that is accepted but not suggested; `doNotSuggest` is a VS Code extension."""
    return {"description": description, "doNotSuggest": True}


def _or_null(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """The schema, or null, which means not set."""
    result, null = dict(schema), {"type": "null"}
    if reference := result.pop("$ref", None):
        return {**result, "anyOf": [{"$ref": reference}, null]}
    if "anyOf" in result:
        return {**result, "anyOf": [*(one for one in result["anyOf"] if one != null), null]}
    if "enum" in result:
        result["enum"] = [*result["enum"], None]
    if isinstance(result.get("type"), str):
        result["type"] = [result["type"], "null"]
    return result


def _describe(schema: Mapping[str, JSON], model: type[ConfigModel]) -> None:
    """Set each property's description, and drop the title that pydantic derives from its name."""
    descriptions = _docstrings(model)
    for name, field in model.model_fields.items():
        found = schema["properties"][field.alias or name]
        found.pop("title", None)
        if found.get("default") is None or "$ref" in found:
            found.pop("default", None)
        found["description"] = descriptions[name]
        for pattern in found.get("items", {}).get("anyOf", ()) if name in ("include", "exclude") else ():
            if pattern["type"] == "object":
                pattern["propertyNames"] = {"enum": list(HINTS)}
        if takes_null(model) and not field.is_required():
            schema["properties"][field.alias or name] = _or_null(found)


def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The docstring of each field: the string that follows it."""
    base = model.__base__
    inherited = _docstrings(base) if base is not None and issubclass(base, ConfigModel) else {}
    return {**inherited, **_own_docstrings(model)}


def _own_docstrings(model: type[BaseModel]) -> dict[str, str]:
    (defined,) = ast.parse(dedent(inspect.getsource(model))).body
    assert isinstance(defined, ast.ClassDef)
    found: dict[str, str] = {}
    for field, following in zip(defined.body, defined.body[1:], strict=False):
        match field, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = inspect.cleandoc(text)
            case _:
                pass
    return found
