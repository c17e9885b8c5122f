"""Create an extension from its manifest, or from the class that the manifest names."""

import sys
from hashlib import sha256
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

from toolbus.config.location import near_miss
from toolbus.core.values.errors import ConfigError
from toolbus.extension.bridge import McpBridgeExtension
from toolbus.extension.manifest import load_manifest


@runtime_checkable
class Extension(Protocol):
    """The methods that a host calls on an extension."""

    async def initialize(self, context: Any, /) -> None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def health_check(self) -> bool: ...

    def get_tools(self) -> list[Any]: ...


def load_extension(source: str | Path) -> Extension:
    """Load the extension of a manifest, or of its folder; without an `entrypoint`, the built-in one.

    In an entrypoint `module:Class`, the module is a file next to the manifest, or an installed module. The
    class gets the manifest if it is a `McpBridgeExtension`, otherwise no arguments.
    """
    if not isinstance(source, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass anything
        given = type(source).__name__
        raise TypeError(
            f"load_extension takes the path of a manifest, not a {given}; pass it to McpBridgeExtension"
        )
    manifest = load_manifest(source)
    assert manifest.path is not None, "it was read from a file"
    extension_class = (
        McpBridgeExtension if manifest.entrypoint is None else _load_class(manifest.entrypoint, manifest.path)
    )
    is_bridge = issubclass(extension_class, McpBridgeExtension)
    extension = extension_class(manifest.path) if is_bridge else extension_class()
    if not isinstance(extension, Extension):
        methods = "initialize, start, stop, health_check and get_tools"
        raise _entrypoint_error(
            manifest.path, f"{extension_class.__name__} is not an extension; it needs {methods}"
        )
    return extension


def _load_class(entrypoint: str, manifest: Path) -> type[Any]:
    module_name, colon, class_name = entrypoint.partition(":")
    if not colon or not class_name or not all(map(str.isidentifier, module_name.split("."))):
        raise _entrypoint_error(manifest, "expected 'module:Class'; remove it to use the built-in extension")
    module = _load_module(module_name, manifest)
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        hint = near_miss(class_name, dir(module))
        raise _entrypoint_error(manifest, f"module {module_name!r} has no class {class_name!r}{hint}")
    return found


def _load_module(name: str, manifest: Path) -> ModuleType:
    file = manifest.parent.absolute().joinpath(*name.split(".")).with_suffix(".py")
    if file.is_file():
        return _load_file(file)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module exists, but an import inside it failed
        problem = f"found neither {file.name} next to the manifest nor an installed module {name!r}"
        raise _entrypoint_error(manifest, f"{problem}; remove it to use the built-in extension") from error


def _load_file(file: Path) -> ModuleType:
    # Named by its path: many extensions have a `main`, and they must not share one module.
    name = f"_toolbus_extension_{sha256(str(file).encode()).hexdigest()[:12]}"
    spec = spec_from_file_location(name, file)
    loader = spec and spec.loader
    assert spec is not None, "a file that ends in .py has a loader"
    assert loader is not None, "likewise"
    module = module_from_spec(spec)
    sys.modules[name] = module  # before it runs: dataclasses and pickle look there
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _entrypoint_error(manifest: Path, problem: str) -> ConfigError:
    return ConfigError(problem, file=str(manifest), key="entrypoint")
