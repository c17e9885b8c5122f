"""toolbus inside a host application: as an extension with a manifest, or filling a tool registry.

Names are imported on first use: a registry does not need the dependencies of the extension.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolbus.extension.bridge import McpBridgeExtension
    from toolbus.extension.discover import discover_and_register
    from toolbus.extension.entrypoint import Extension, load_extension
    from toolbus.extension.manifest import Manifest, load_manifest

_MODULES = {
    "Extension": "entrypoint",
    "Manifest": "manifest",
    "McpBridgeExtension": "bridge",
    "discover_and_register": "discover",
    "load_extension": "entrypoint",
    "load_manifest": "manifest",
}

__all__ = [
    "Extension",
    "Manifest",
    "McpBridgeExtension",
    "discover_and_register",
    "load_extension",
    "load_manifest",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'toolbus.extension' has no attribute {name!r}")
    value = getattr(import_module(f"toolbus.extension.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
