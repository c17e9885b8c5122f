"""toolbus: any MCP server, any agent, one catalog that stays alive.

Names are loaded when one is first used: importing toolbus costs next to nothing and does nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolbus.public import *  # noqa: F403 - all of it

    __version__: str


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("toolbus.core").version()
    if name == "__all__":
        return sorted([*_load("toolbus.public"), "__version__"])
    if not name.startswith("_"):  # Python, shells and debuggers look for such names
        for module in ("toolbus.core.public", "toolbus.public"):  # most programs need both, some the first
            if name in (names := _load(module)):
                return names[name]
    raise AttributeError(f"module 'toolbus' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __getattr__("__all__")


def _load(module: str) -> dict[str, Any]:
    # pytest, which rewrites the modules of its plug-ins, adds names that begin with an @.
    names = {name: value for name, value in vars(import_module(module)).items() if name[0] not in "_@"}
    globals().update(names)
    return names
