"""The source of toolbus, read without importing it: which definition a name stands for."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

SRC = Path(__file__).resolve().parents[2] / "src"

Node: TypeAlias = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True)
class Imported:
    """A name that another module defines; no name: the module itself."""

    module: str
    name: str | None


@dataclass(frozen=True)
class Definition:
    """A definition, and the module whose names it uses; overloads come before what they overload."""

    module: str
    name: str
    nodes: tuple[Node, ...]

    @property
    def node(self) -> Node:
        return self.nodes[-1]


@dataclass
class Module:
    """The top-level names of one module."""

    name: str
    defined: dict[str, list[Node]]
    imported: dict[str, Imported]
    passed_on: list[str]
    """The names that are imported for others: `from a import b as b`."""
    stars: list[str]


def _path_of(module: str) -> Path | None:
    place = SRC.joinpath(*module.split("."))
    candidates = (place / "__init__.py", place.with_suffix(".py"))
    return next((path for path in candidates if path.is_file()), None)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, also those below `if TYPE_CHECKING` and `try`."""
    for statement in body:
        if isinstance(statement, ast.If | ast.Try):
            yield from _statements(statement.body)
            yield from _statements(statement.orelse)
        else:
            yield statement


@cache
def module_of(name: str) -> Module | None:
    """A module of toolbus; None for all others."""
    path = _path_of(name)
    if path is None:
        return None
    module = Module(name, {}, {}, [], [])
    for statement in _statements(ast.parse(path.read_text(encoding="utf-8")).body):
        match statement:
            case ast.ImportFrom(module=str(source), names=names, level=0):
                for alias in names:
                    if alias.name == "*":
                        module.stars.append(source)
                    else:
                        module.imported[alias.asname or alias.name] = Imported(source, alias.name)
                        module.passed_on += [alias.name] if alias.asname == alias.name else []
            case ast.Import(names=names):
                for alias in names:
                    module.imported[alias.asname or alias.name] = Imported(alias.name, None)
            case (
                ast.ClassDef(name=defined)
                | ast.FunctionDef(name=defined)
                | ast.AsyncFunctionDef(name=defined)
            ):
                module.defined.setdefault(defined, []).append(statement)
            case ast.Assign(targets=[ast.Name(id=defined)]) | ast.AnnAssign(target=ast.Name(id=defined)):
                module.defined.setdefault(defined, []).append(statement)
            case _:
                pass
    return module


@cache
def definition_of(module: str, name: str) -> Definition | None:
    """The definition of a name in a module, through all imports; None if toolbus does not define it."""
    found = module_of(module)
    if found is None:
        return None
    if name in found.defined:
        nodes = tuple(found.defined[name])
        match nodes[-1]:
            case ast.Assign(value=ast.Name(id=other)) if other != name and definition_of(module, other):
                return definition_of(module, other)
            case _:
                return Definition(module, name, nodes)
    if name in found.imported:
        source = found.imported[name]
        return None if source.name is None else definition_of(source.module, source.name)
    return next((one for star in found.stars if (one := definition_of(star, name))), None)


def public_names(module: str) -> list[str]:
    """The names of `__all__`, or else all names without an underscore that a module defines or re-exports."""
    found = module_of(module)
    assert found is not None, f"there is no module {module}"
    match found.defined.get("__all__"):
        case [ast.Assign(value=value)]:
            return sorted(ast.literal_eval(value))
        case _:
            pass
    names = {name for star in found.stars for name in (*public_names(star), *_passed_on(star))}
    return sorted(
        name
        for name in names | set(found.passed_on) | set(found.defined)
        if (not name.startswith("_") or name == "__version__") and definition_of(module, name)
    )


def _passed_on(module: str) -> list[str]:
    """The public names that a star import finds in a module although it does not define them."""
    found, lists = module_of(module), map(module_of, ("toolbus.public", "toolbus.core.public"))
    public = {name for each in lists if each is not None for name in each.passed_on}
    return sorted(set(found.imported if found else ()) & public)
