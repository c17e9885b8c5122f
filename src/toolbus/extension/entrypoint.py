"""Make an extension from its manifest alone, or from the class that the manifest names."""

import sys
from hashlib import sha256
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

from toolbus.config.location import near_miss
from toolbus.core.errors import ConfigError
from toolbus.extension.bridge import McpBridgeExtension
from toolbus.extension.manifest import load_manifest


@runtime_checkable
class Extension(Protocol):
    """What a host does with an extension."""

    async def initialize(self, context: Any, /) -> None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def health_check(self) -> bool: ...

    def get_tools(self) -> list[Any]: ...


def load_extension(source: str | Path) -> Extension:
    """The extension of a manifest, or of the folder it is in; without an `entrypoint`, toolbus's own.

    An entrypoint `module:Class` is a file beside the manifest, else an installed module. Its class is made
    with the manifest if it is a `McpBridgeExtension`, else without arguments.
    """
    if not isinstance(source, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass what they like
        given = type(source).__name__
        raise TypeError(
            f"load_extension takes the path of a manifest, not a {given}; pass it to McpBridgeExtension"
        )
    manifest = load_manifest(source)
    assert manifest.path is not None, "it was read from a file"
    kind = McpBridgeExtension if manifest.entrypoint is None else _named(manifest.entrypoint, manifest.path)
    made = kind(manifest.path) if issubclass(kind, McpBridgeExtension) else kind()
    if not isinstance(made, Extension):
        wanted = "initialize, start, stop, health_check and get_tools"
        raise _wrong(manifest.path, f"{kind.__name__} is not an extension; it needs {wanted}")
    return made


def _named(entrypoint: str, manifest: Path) -> type[Any]:
    module_name, colon, class_name = entrypoint.partition(":")
    if not colon or not class_name or not all(map(str.isidentifier, module_name.split("."))):
        raise _wrong(manifest, "expected 'module:Class'; remove it to use the built-in extension")
    module = _module(module_name, manifest)
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        hint = near_miss(class_name, dir(module))
        raise _wrong(manifest, f"module {module_name!r} has no class {class_name!r}{hint}")
    return found


def _module(name: str, manifest: Path) -> ModuleType:
    file = manifest.parent.absolute().joinpath(*name.split(".")).with_suffix(".py")
    if file.is_file():
        return _from_file(file)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there, and misses something itself
        problem = f"found neither {file.name} next to the manifest nor an installed module {name!r}"
        raise _wrong(manifest, f"{problem}; remove it to use the built-in extension") from error


def _from_file(file: Path) -> ModuleType:
    # By its place: every extension has a `main`, and none may take the other's.
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


def _wrong(manifest: Path, problem: str) -> ConfigError:
    return ConfigError(problem, file=str(manifest), key="entrypoint")
