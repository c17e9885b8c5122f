"""Public names and signatures, as the source writes them.

Nothing is imported, so neither the version of Python nor an installed framework matters. A class that is not
public but can be reached, such as the type of `bus.scripts`, is recorded under the place where it is reached.
Its own name and module may change.
"""

import ast
from collections.abc import Iterator
from typing import Any

from tests.adapters.environments import ADAPTERS
from tests.contract.source import Definition, definition_of, public_names

MODULES = (
    "toolbus",
    *(f"toolbus.{name}" for name in ("errors", "records", "events", "sync", "context", "testing")),
    *(f"toolbus.{name}" for name in ("agent", "agent.durable", "extension", "shape", "call", "config")),
    *(f"toolbus.adapters.{name}" for name in ADAPTERS),
)
KINDS = ("abstractmethod", "asynccontextmanager", "classmethod", "contextmanager", "overload", "staticmethod")
"""Decorators that users notice."""


def recorded() -> dict[str, str]:
    """Every public name with its signature."""
    return Signatures().recorded


class Signatures:
    """The signatures so far, and the types still to be recorded."""

    def __init__(self) -> None:
        self.recorded: dict[str, str] = {}
        self._places: dict[Definition, str] = {}
        self._open: list[Definition] = []
        for module in MODULES:
            for name in public_names(module):
                self._name(module, name)
        while self._open:
            definition = self._open.pop(0)
            self._record(self._places[definition], definition)

    def _name(self, module: str, name: str) -> None:
        path = f"{module}.{name}"
        definition = definition_of(module, name)
        if definition is None:
            self.recorded[path] = "defined elsewhere"
        elif definition in self._places:
            self.recorded[path] = f"is {self._places[definition]}"
        else:
            self._places[definition] = path
            self._open.append(definition)

    def _record(self, path: str, definition: Definition) -> None:
        match definition.node:
            case ast.ClassDef():
                self._record_class(path, definition)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.recorded[path] = self._functions(path, definition.module, definition.nodes)
            case ast.AnnAssign(annotation=annotation, value=value):
                written = self._type(path, definition.module, annotation)
                self.recorded[path] = written + self._default(path, definition.module, value)
            case ast.Assign(value=value):
                written = self._type(path, definition.module, value)
                self.recorded[path] = f"= {written}" if len(written) < 400 else "= ..."

    def _record_class(self, path: str, definition: Definition) -> None:
        bases = [base for one in self._own_and_hidden(definition) for base in self._visible_bases(one)]
        assert isinstance(definition.node, ast.ClassDef)
        marks = [
            ast.unparse(mark) for mark in definition.node.decorator_list if "dataclass" in ast.unparse(mark)
        ]
        self.recorded[path] = " ".join([*marks, f"class({', '.join(dict.fromkeys(bases))})"])
        for one in reversed(self._own_and_hidden(definition)):
            assert isinstance(one.node, ast.ClassDef)
            for name, nodes in _members(one.node):
                self.recorded[f"{path}.{name}"] = self._functions(
                    f"{path}.{name}", *_source_of(one.module, nodes)
                )

    def _own_and_hidden(self, definition: Definition) -> list[Definition]:
        """A class and its bases that are not public: users see their members as its own."""
        found = [definition]
        assert isinstance(definition.node, ast.ClassDef)
        for base in definition.node.bases:
            other = _class_named(definition.module, base)
            if other is not None and not self._is_public(other):
                found.extend(self._own_and_hidden(other))
        return found

    def _visible_bases(self, definition: Definition) -> Iterator[str]:
        assert isinstance(definition.node, ast.ClassDef)
        for base in definition.node.bases:
            other = _class_named(definition.module, base)
            if other is None:
                yield ast.unparse(base)
            elif self._is_public(other):
                yield self._places[other]

    def _is_public(self, definition: Definition) -> bool:
        return self._places.get(definition, "<").startswith("toolbus")

    def _functions(self, path: str, module: str, nodes: tuple[ast.stmt, ...]) -> str:
        return "; ".join(self._member(path, module, node) for node in nodes)

    def _member(self, path: str, module: str, node: ast.stmt) -> str:
        match node:
            case ast.FunctionDef(decorator_list=marks) | ast.AsyncFunctionDef(decorator_list=marks):
                marked = [ast.unparse(mark).rpartition(".")[2] for mark in marks]
                returns = self._type(path, module, node.returns) if node.returns else "?"
                if any("property" in mark for mark in marked):
                    return f"property: {returns}"
                word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
                kinds = [f"@{mark}" for mark in marked if mark in (*KINDS, "setter")]
                return " ".join(
                    [*kinds, f"{word} ({self._parameters(path, module, node.args)}) -> {returns}"]
                )
            case ast.AnnAssign(annotation=annotation, value=value):
                return f"{self._type(path, module, annotation)}{self._default(path, module, value)}"
            case ast.Assign(value=value):
                return self._default(path, module, value).strip()
            case _:
                return "?"

    def _parameters(self, path: str, module: str, arguments: ast.arguments) -> str:
        copied = ast.parse(f"def f({ast.unparse(arguments)}): ...").body[0]
        assert isinstance(copied, ast.FunctionDef)
        given = copied.args
        for one in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
            if one is not None and one.annotation is not None:
                written = self._type(path, module, one.annotation, is_given=True)
                one.annotation = ast.Name(id=written)
        given.defaults = [_Spelled(self, path, module, True).visit(one) for one in given.defaults]
        given.kw_defaults = [
            one and _Spelled(self, path, module, True).visit(one) for one in given.kw_defaults
        ]
        return ast.unparse(given)

    def _default(self, path: str, module: str, value: ast.expr | None) -> str:
        return "" if value is None else f" = {self._type(path, module, value, is_given=True)}"

    def _type(self, path: str, module: str, node: ast.expr, *, is_given: bool = False) -> str:
        """A type as written, with private types spelled out or replaced by their place."""
        return ast.unparse(_Spelled(self, path, module, is_given).visit(_copied(node)))

    def spelled(self, path: str, module: str, name: str, is_given: bool) -> ast.expr | None:
        """The replacement for a name; None to keep it."""
        definition = definition_of(module, name)
        if definition is None or self._is_public(definition):
            return None
        match definition.node:
            case ast.ClassDef() if definition in self._places:
                return ast.Name(id=self._places[definition])
            case ast.ClassDef(bases=bases):
                is_protocol = any("Protocol" in ast.unparse(base) for base in bases)
                if path.startswith("<") or (is_given and not is_protocol):
                    return ast.Name(id="<internal>")
                self._places[definition] = f"<{path.removeprefix('toolbus.')}>"
                self._open.append(definition)
                return ast.Name(id=self._places[definition])
            case ast.Assign(value=ast.Call()):
                return None  # a type variable
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                return _Spelled(self, path, definition.module, is_given).visit(_copied(value))
            case _:
                return None


class _Spelled(ast.NodeTransformer):
    def __init__(self, signatures: Signatures, path: str, module: str, is_given: bool) -> None:
        self._signatures, self._path, self._module, self._is_given = signatures, path, module, is_given

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, str) and definition_of(self._module, node.value):
            return self.visit_Name(ast.Name(id=node.value))
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._signatures.spelled(self._path, self._module, node.id, self._is_given) or node


def _copied(node: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(node), mode="eval").body


def _class_named(module: str, base: ast.expr) -> Definition | None:
    """The class of toolbus that a base is, if it is one."""
    written = base.value if isinstance(base, ast.Subscript) else base
    found = definition_of(module, written.id) if isinstance(written, ast.Name) else None
    return found if found is not None and isinstance(found.node, ast.ClassDef) else None


def _members(node: ast.ClassDef) -> Iterator[tuple[str, tuple[ast.stmt, ...]]]:
    """The public members of a class: methods, fields, and what `__init__` puts into the object."""
    found: dict[str, list[ast.stmt]] = {}
    for statement in node.body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.setdefault(name, []).append(statement)
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                found.setdefault(name, []).append(statement)
            case _:
                pass
    for statement in (one for init in found.get("__init__", ()) for one in ast.walk(init)):
        match statement:
            case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name) as target):
                found.setdefault(name, []).append(_attribute(target, statement.annotation))
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name) as target]):
                found.setdefault(name, []).append(_attribute(target, _kind(statement.value)))
            case _:
                pass
    for name, nodes in found.items():
        if name in SPECIAL or not name.startswith(("_", "model_config")):
            yield name, tuple(nodes)


NOTHING = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])


def _source_of(module: str, nodes: tuple[ast.stmt, ...]) -> tuple[str, tuple[ast.stmt, ...]]:
    """The target of a derived method or property, and the module of its types; others as they are."""
    match nodes:
        case (
            ast.Assign(value=ast.Call(func=ast.Name(id="waiting" | "same"), args=[ast.Attribute() as of])),
        ):
            found = _member_of(module, of.value, of.attr)
            return found[0], (_function(found[1].args, found[1].returns),)
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="Shown"), args=[of, *_])),
        ):
            source, node = _member_of(module, of, name)
            kind = node.annotation if isinstance(node, ast.AnnAssign) else node.returns
            return source, (_function(NOTHING, kind, ast.Name("property")),)
        case (
            ast.FunctionDef(
                decorator_list=[ast.Call(func=ast.Name(id="like"), args=[ast.Attribute() as of])]
            ) as own,
        ):
            found = _member_of(module, of.value, of.attr)
            returns = own.returns
            if isinstance(returns, ast.Constant):  # a class that is defined further down
                returns = ast.Name(str(returns.value))
            return found[0], (_function(found[1].args, returns),)
        case _:
            return module, nodes


def _member_of(module: str, kind: ast.expr, name: str) -> tuple[str, Any]:
    """The definition of a member of a class, and its module."""
    found = _class_named(module, kind)
    assert found is not None
    assert isinstance(found.node, ast.ClassDef)
    return found.module, dict(_members(found.node))[name][-1]


def _function(arguments: ast.arguments, returns: ast.expr | None, *marks: ast.expr) -> ast.FunctionDef:
    return ast.FunctionDef("derived", arguments, [], list(marks), returns)


def _attribute(target: ast.Attribute, kind: ast.expr) -> ast.AnnAssign:
    return ast.AnnAssign(target, kind, None, 1)


def _kind(value: ast.expr) -> ast.expr:
    """The class of an object that is made here; otherwise it is only known that there is an attribute."""
    match value:
        case ast.Call(func=ast.Name() as made):
            return made
        case _:
            return ast.Name("attribute")


SPECIAL = (
    *("__init__", "__call__", "__aenter__", "__aexit__", "__enter__", "__exit__", "__await__", "__len__"),
    *("__iter__", "__aiter__", "__anext__", "__next__", "__getitem__", "__contains__"),
)
