"""The reference of the Python API, from the source and its docstrings."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from textwrap import dedent

import griffe

from tests.adapters.environments import ADAPTERS, OWN
from tests.contract.source import SRC, definition_of
from tests.reference.markup import anchor, page, sentence, table

MODULES = {
    "toolbus": "The names that most programs need; it has every error of `toolbus.errors`.",
    "toolbus.sync": "The bus without asyncio.",
    "toolbus.records": "What the bus takes and returns: definitions, results, states.",
    "toolbus.errors": "The exceptions.",
    "toolbus.events": "The events of a bus.",
    "toolbus.agent": "A complete agent on top of the bus.",
    "toolbus.agent.durable": "Runs of agents that survive a crash.",
    "toolbus.context": "Resources that a model always knows.",
    "toolbus.testing": "Fake servers, scripted models and tapes for your tests.",
    "toolbus.call": "The types of hooks.",
    "toolbus.shape": "Functions that change what a model sees.",
    "toolbus.config": "Configs: reading them, and resolving their secrets.",
    "toolbus.config.schema": "The JSON Schema of a config.",
    "toolbus.extension": "MCP servers in a host application.",
}
"""The public modules, besides the adapters."""
ADAPTER_MODULES = [f"toolbus.adapters.{name}" for name in sorted({*ADAPTERS, *OWN})]
_LINE = 100
Documented = griffe.Class | griffe.Function | griffe.Attribute


@cache
def source() -> griffe.Module:
    """The package, read without importing it."""
    loaded = griffe.load("toolbus", search_paths=[SRC])
    assert isinstance(loaded, griffe.Module)
    return loaded


def names_of(module: str) -> list[str]:
    """The public names of a module, sorted."""
    if module not in ADAPTER_MODULES:  # their frameworks take long to import, if they are installed
        return sorted(import_module(module).__all__)
    tree = ast.parse((SRC / f"{module.replace('.', '/')}.py").read_text("utf-8"))
    [given] = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    return sorted(ast.literal_eval(given))


def documented(module: str, name: str) -> Documented | None:
    """The class, function or value that a public name stands for; None for the version."""
    definition = definition_of(module, name)
    if definition is None or name == "__version__":
        return None
    found = source()[f"{definition.module}.{definition.name}".removeprefix("toolbus.")]
    assert isinstance(found, Documented), found
    return found


def docstring(one: griffe.Object) -> str:
    """The docstring, with the line that says how to fix an error as a paragraph of its own."""
    return re.sub(r"\n+Fix: ", "\n\n**Fix:** ", one.docstring.value.strip()) if one.docstring else ""


def module_page(module: str, known: Mapping[str, str]) -> str:
    """The page of a module; `known` has the module where each definition is documented, by its path."""
    return page(module, *module_parts(module, known, "##"))


def module_parts(module: str, known: Mapping[str, str], level: str) -> Iterator[str]:
    """The description of a module, and a section for each name that is at home there."""
    yield MODULES.get(module, "") or docstring(source()[module.removeprefix("toolbus.")])
    elsewhere: list[str] = []
    for name in names_of(module):
        one = documented(module, name)
        if one is None:
            yield f"{level} `{name}`\n\nThe installed version, a text."
        elif known[one.path] != module:
            elsewhere.append(f"[`{name}`]({place(known[one.path], module)}#{anchor(one.name)})")
        else:
            yield from described(one, name, level, known)
    if elsewhere:
        yield f"{level} Names of other modules\n\n{', '.join(elsewhere)}"


def homes() -> dict[str, str]:
    """The module whose page documents each public definition: the most specific one."""
    found: dict[str, str] = {}
    first = ("toolbus.errors", "toolbus.events", "toolbus", "toolbus.sync")
    for module in dict.fromkeys([*first, *MODULES, *ADAPTER_MODULES]):
        for name in names_of(module):
            if (one := documented(module, name)) is not None:
                found.setdefault(one.path, module)
    return found


def place(module: str, start: str) -> str:
    """The path of a module's page, from the page of another one."""
    special = {"toolbus.errors": "errors.md", "toolbus.events": "events.md"}
    here, there = start in special, special.get(module)
    if there is None:
        name = "toolbus.adapters" if module in ADAPTER_MODULES else module
        return f"{'python/' if here else ''}{name}.md"
    return there if here else f"../{there}"


def described(one: Documented, name: str, level: str, known: Mapping[str, str]) -> Iterator[str]:
    """The sections of a public name: itself, and the methods of a class."""
    yield f"{level} {name}"
    match one:
        case griffe.Class():
            yield from _class(one, name, level, known)
        case griffe.Function():
            yield _code(_signatures(one, name))
            yield docstring(one)
        case _:
            yield _code([f"{name} = {one.value}"])
            yield docstring(one)


def _class(one: griffe.Class, name: str, level: str, known: Mapping[str, str]) -> Iterator[str]:
    members, parents = _members(one, known)
    init = members.pop("__init__", None)
    is_config, is_error = "ConfigModel" in map(str, one.bases), "Exception" in _ancestors(one)
    if is_error:
        yield _code([f"class {name}({', '.join(map(str, one.bases))})"])
    elif isinstance(init, griffe.Function) and "dataclass" not in one.labels and not is_config:
        yield _code(_signatures(init, name))
    yield docstring(one)
    if is_config:
        yield "Its fields are the keys of [the configuration](../configuration.md)."
        return
    if is_error and (own := _assigned(one)):
        yield f"Attributes: {', '.join(f'`{each}`' for each in own)}"
    if links := [
        f"[{each.name}]({place(known[each.path], known[one.path])}#{anchor(each.name)})" for each in parents
    ]:
        yield f"It has everything that {' and '.join(links)} has." if not is_error else ""
    values = {key: each for key, each in members.items() if isinstance(each, griffe.Attribute)}
    rows = [
        (f"`{key}`", _annotation(value), docstring(value))
        for key, value in values.items()
        if docstring(value) or (value.annotation and not is_error)
    ]
    if rows:
        yield table(("attribute", "type", "meaning"), rows)
    for key, member in members.items():
        if isinstance(member, griffe.Function):
            yield f"{level}# {name}.{key}"
            yield _code(_signatures(member, key))
            yield docstring(member)


def _members(
    one: griffe.Class, known: Mapping[str, str]
) -> tuple[dict[str, griffe.Object], list[griffe.Class]]:
    """The public members, with those of bases that no page documents; and the bases that one does."""
    found: dict[str, griffe.Object] = {}
    parents: list[griffe.Class] = []
    for parent in _bases(one):
        if parent.path in known:
            parents.append(parent)
        else:
            inherited, above = _members(parent, known)
            found, parents = found | inherited, parents + above
    for key, member in one.members.items():
        if (key == "__init__" or not key.startswith("_")) and isinstance(member, griffe.Object):
            found[key] = member
    return found, parents


def _bases(one: griffe.Class) -> Iterator[griffe.Class]:
    for base in one.bases:
        path = base if isinstance(base, str) else base.canonical_path
        if path.startswith("toolbus."):
            parent = source()[path.removeprefix("toolbus.")]
            parent = parent.final_target if isinstance(parent, griffe.Alias) else parent
            assert isinstance(parent, griffe.Class)
            yield parent


def _ancestors(one: griffe.Class) -> set[str]:
    return {str(base) for base in one.bases}.union(*map(_ancestors, _bases(one)))


def _assigned(one: griffe.Class) -> list[str]:
    """The public attributes that `__init__` sets, in its order."""
    init = one.members.get("__init__")
    if not isinstance(init, griffe.Function):
        return []
    tree = ast.parse(dedent("\n".join(init.lines)))
    stored = [
        (node.lineno, node.col_offset, node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr[0] != "_"
    ]
    return list(dict.fromkeys(name for _, _, name in sorted(stored) if name != "args"))


def _annotation(value: griffe.Attribute) -> str:
    shown = str(value.annotation or "").strip("\"'")
    default = str(value.value or "")
    if default and "field(" not in default and "property" not in value.labels:
        shown += f" = {default}"
    return f"`{shown}`" if shown else ""


def _signatures(one: griffe.Function, name: str) -> list[str]:
    return [_signature(each, name) for each in (one.overloads or [one])]


def _signature(one: griffe.Function, name: str) -> str:
    prefix = "async " if "async" in one.labels else ""
    shown = list(_parameters(one))
    returned = "" if one.name == "__init__" or one.returns is None else f" -> {one.returns!s}"
    line = f"{prefix}{name}({', '.join(shown)}){returned}".replace('"', "'")
    if len(line) <= _LINE:
        return line
    body = "".join(f"    {part},\n" for part in shown).replace('"', "'")
    return f"{prefix}{name}(\n{body}){returned}"


def _parameters(one: griffe.Function) -> Iterator[str]:
    """Each parameter as it is written, with the marks for positional and keyword parameters."""
    parameters = [each for each in one.parameters if each.name not in ("self", "cls")]
    kinds = [each.kind for each in parameters]
    has_star = False
    for index, each in enumerate(parameters):
        kind = each.kind
        if kind is griffe.ParameterKind.keyword_only and not has_star:
            has_star = True
            if griffe.ParameterKind.var_positional not in kinds:
                yield "*"
        mark = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}
        has_star = has_star or kind is griffe.ParameterKind.var_positional
        text = f"{mark.get(kind, '') if kind else ''}{each.name}"
        if each.annotation is not None:
            text += f": {each.annotation!s}"
        if each.default is not None and not mark.get(kind):  # type: ignore[arg-type]
            text += f" = {each.default!s}" if each.annotation is not None else f"={each.default!s}"
        yield text
        following = kinds[index + 1] if index + 1 < len(kinds) else None
        if kind is griffe.ParameterKind.positional_only is not following:
            yield "/"


def _code(lines: Sequence[str]) -> str:
    return "```text\n" + "\n".join(lines) + "\n```"


def index() -> Iterator[str]:
    """A table for each public module: its names, and what each is, for the page of all names."""
    known = homes()
    for module, about in MODULES.items():
        rows: list[tuple[str, str]] = []
        for name in names_of(module):
            one = documented(module, name)
            home = module if one is None else known[one.path]
            if module != "toolbus" or home != "toolbus.errors":
                what = sentence(docstring(one)) if one is not None else "The installed version"
                link = f"reference/{place(home, 'toolbus.errors')}#{anchor(one.name if one else name)}"
                rows.append((f"`{name}`", f"{what} ([more]({link}))"))
        yield f"## {module}\n\n{about}\n\n{table(('name', 'what it is'), rows)}"
    rows = [
        (f"`{module}`", ", ".join(f"`{name}`" for name in names_of(module))) for module in ADAPTER_MODULES
    ]
    about = (
        "Each framework has a module, with [a page of its own](frameworks/README.md) and "
        "[signatures](reference/python/toolbus.adapters.md)."
    )
    yield f"## toolbus.adapters\n\n{about}\n\n{table(('module', 'names'), rows)}"


def adapters_page(known: Mapping[str, str]) -> str:
    """The page of all adapters."""
    parts: list[str] = []
    for module in ADAPTER_MODULES:
        parts.append(f"## {module}")
        parts += module_parts(module, known, "###")
    return page("toolbus.adapters", "Tools in the types of each framework.", *parts)
