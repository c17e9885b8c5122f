"""Literals of a script that become its inputs."""

import ast
from collections.abc import Iterable
from keyword import iskeyword
from typing import Any

from toolbus.code.check import bound
from toolbus.code.kept import names_in, type_word
from toolbus.core.values.records import JSON


class NotReplaced(ValueError):
    """A literal cannot become an input."""


def with_input(text: str, name: str, literal: str) -> tuple[str, JSON]:
    """The script with the variable in place of a literal, and the type of the variable.

    `literal` is the text of a string, or a Python literal.
    """
    tree = ast.parse(text)
    if not name.isidentifier() or iskeyword(name) or name in names_in(tree) | bound(tree):
        raise NotReplaced(f"{name!r} cannot be a variable of the script; choose another name")
    literals = list(_literals(tree))
    found = {
        repr(value): [node for node in literals if repr(_value(node)) == repr(value)]
        for value in _meanings(literal)
    }
    matching = {spelling: nodes for spelling, nodes in found.items() if nodes}
    if not matching:
        raise NotReplaced(f"the script has no literal {literal}")
    if len(matching) > 1:
        raise NotReplaced(f"the script has {' and '.join(matching)}; put one of them in quotes")
    [nodes] = matching.values()
    return _replaced(text, nodes, name), type_word(_value(nodes[0]))


def _meanings(literal: str) -> list[JSON]:
    try:
        return [literal, ast.literal_eval(literal)]
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return [literal]


def _literals(tree: ast.AST) -> Iterable[ast.expr]:
    """The expressions that a variable can stand in for: no pattern, annotation or part of an f-string."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, (ast.pattern, ast.JoinedStr)):
            continue
        if child in (getattr(tree, "annotation", None), getattr(tree, "returns", None)):
            continue
        if isinstance(child, ast.expr) and _value(child) is not _NONE:
            yield child
        yield from _literals(child)


_NONE: Any = object()


def _value(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, MemoryError, RecursionError):
        return _NONE


def _replaced(text: str, nodes: list[ast.expr], name: str) -> str:
    lines = text.encode().splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]
    content = text.encode()
    for node in sorted(nodes, key=lambda one: (one.lineno, one.col_offset), reverse=True):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        content = content[:begin] + name.encode() + content[end:]
    return content.decode()
