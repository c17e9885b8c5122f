"""MCP Apps: user interfaces of servers, and tools that only these may call, not a model."""

from toolbus.schema.values import JSON, JSONObject, entries_of, is_array

APPS = "io.modelcontextprotocol/ui"
"""The extension, as clients and servers declare it."""
APP_MIME = "text/html;profile=mcp-app"
"""The only kind of user interface that the extension has so far."""
APPS_SETTINGS: dict[str, JSON] = {"mimeTypes": [APP_MIME]}
APP_SCHEME = "ui://"
FLAT_VISIBILITY = "ui/visibility"
FLAT_URI = "ui/resourceUri"
"""Keys of an early draft, which some servers still use."""


def is_app_only(meta: JSONObject) -> bool:
    """Whether the `_meta` of a tool hides it from models: `ui.visibility` names others only."""
    given = _visibility(meta)
    return given == "app" or (is_array(given) and "model" not in given)


def is_for_apps(meta: JSONObject) -> bool:
    """Whether the user interface of a server may call a tool with this `_meta`; by default, it may."""
    given = _visibility(meta)
    return "app" in given if is_array(given) else given != "model"


def _visibility(meta: JSONObject) -> JSON:
    return entries_of(meta.get("ui")).get("visibility", meta.get(FLAT_VISIBILITY))


def interface_uri(meta: JSONObject) -> str | None:
    """The resource with the user interface of a tool, which its server need not list."""
    uri = entries_of(meta.get("ui")).get("resourceUri", meta.get(FLAT_URI))
    return uri if isinstance(uri, str) else None


def app_of(meta: JSONObject) -> str | None:
    """The URI of the app of a tool with this `_meta`."""
    uri = interface_uri(meta)
    return uri if uri is not None and is_interface(uri) else None


def without_interface(meta: JSONObject) -> JSONObject:
    """The `_meta` of a tool for a client that shows no user interfaces."""
    return {key: value for key, value in meta.items() if key != "ui" and not key.startswith("ui/")}


def is_interface(uri: str) -> bool:
    """Whether a URI is one of a user interface."""
    return uri[: len(APP_SCHEME)].lower() == APP_SCHEME


def knows_apps(capabilities: JSONObject) -> bool:
    """Whether a client declared the extension, with the kind of user interface that it has."""
    mime_types = entries_of(entries_of(capabilities.get("extensions")).get(APPS)).get("mimeTypes")
    return is_array(mime_types) and APP_MIME in mime_types
