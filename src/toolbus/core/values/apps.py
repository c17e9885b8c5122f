"""MCP Apps: tools that only the user interface of a server may call, not a model."""

from toolbus.schema.values import JSON, JSONObject, entries_of, is_array

APPS = "io.modelcontextprotocol/ui"
"""The extension, as clients and servers declare it."""
APPS_SETTINGS: dict[str, JSON] = {"mimeTypes": ["text/html;profile=mcp-app"]}
FLAT_VISIBILITY = "ui/visibility"
"""The key of an early draft, which some servers still use."""


def is_app_only(meta: JSONObject) -> bool:
    """Whether the `_meta` of a tool hides it from models: `ui.visibility` names others only."""
    ui = entries_of(meta.get("ui"))
    given = ui.get("visibility", meta.get(FLAT_VISIBILITY))
    return given == "app" or (is_array(given) and "model" not in given)


def interface_uri(meta: JSONObject) -> str | None:
    """The resource with the user interface of a tool, which its server need not list."""
    uri = entries_of(meta.get("ui")).get("resourceUri", meta.get("ui/resourceUri"))
    return uri if isinstance(uri, str) else None


def knows_apps(capabilities: JSONObject) -> bool:
    """Whether a client declared the extension."""
    return APPS in entries_of(capabilities.get("extensions"))
