"""Problems of a script before it runs: certain failures refuse it, everything else is a note.

A type checker cannot know the content of a result, that `re.search` finds something, or that a loop sets a
variable that began as None. So only wrong tool calls and unknown names refuse a script.
"""

import ast
import builtins
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from toolbus.code.stubs import Stub

_LINE = re.compile(r"[^:]+:(?P<line>\d+):(?P<column>\d+): \w+\[(?P<rule>[\w-]+)\] (?P<text>.*)")
_NAME = re.compile(r"`(\w+)`")
_WRONG_CALL = ("missing-argument", "unknown-argument", "too-many-positional-arguments")
_LITERAL = (ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set)
_USES = (ast.Attribute, ast.Subscript, ast.BinOp, ast.Compare, ast.FormattedValue, ast.For, ast.comprehension)
"""The expressions that cannot contain a call that is not awaited."""
_MOST_NOTES = 5


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings of a check."""

    refusals: tuple[str, ...] = ()
    """Certain failures, each with a fix."""
    notes: tuple[str, ...] = ()
    """Possible failures."""

    @property
    def as_notes(self) -> str:
        """The notes for a script that has failed; they may say why."""
        left = len(self.notes) - _MOST_NOTES
        more = [f"... and {left} more"] if left > 0 else []
        lines = "\n".join([*self.notes[:_MOST_NOTES], *more])
        return f"The type check noted before:\n{lines}" if lines else ""


def forgotten_awaits(script: str, stubs: Mapping[str, Stub]) -> Findings:
    """The calls of tools that would never be made, because nothing awaits them."""
    try:
        tree = ast.parse(script)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Findings()  # the interpreter says it better
    own = bound(tree)
    found = {
        node.lineno: _awaited(node.lineno, node.func.id)
        for node in _unawaited(tree)
        if isinstance(node.func, ast.Name) and node.func.id in stubs and node.func.id not in own
    }
    return Findings(tuple(found[line] for line in sorted(found)))


def judged(script: str, diagnostics: str, stubs: Mapping[str, Stub]) -> Findings:
    """The messages of the type checker: those about what must fail, and the others."""
    tree = ast.parse(script)
    refusals, notes, hints = list[str](), list[str](), dict[str, None]()
    for line in diagnostics.splitlines():
        message = _LINE.fullmatch(line)
        if message is None or not (reasons := _must_fail(message, tree, stubs)):
            notes.append(line)
            continue
        refusals.append(line)
        hints |= dict.fromkeys(reason for reason in reasons if reason)
    return Findings((*refusals, *hints), tuple(notes))


def _must_fail(message: re.Match[str], tree: ast.Module, stubs: Mapping[str, Stub]) -> list[str]:
    """The fix for a certain failure, an empty text if it is obvious; an empty list if the code may work."""
    line, rule, text = int(message["line"]), message["rule"], message["text"]
    names = _NAME.findall(text)
    if rule == "unresolved-reference":
        known = bound(tree) | set(dir(builtins))
        return [""] if names and names[0] not in known else []
    if rule == "unresolved-import":  # one in a function or a `try` may never be reached
        return [""] if any(node.lineno == line for node in tree.body) else []
    if "`CoroutineType[" in text:
        return [_forgotten(tree, line)]
    tool = next((stubs[name] for name in reversed(names) if name in stubs), None)
    if tool is None or tool.name in bound(tree):
        return []
    if rule in _WRONG_CALL:
        return [_by_name(tree, line, tool)]
    return [""] if rule == "invalid-argument-type" and _is_literal(message, tree, tool) else []


def _by_name(tree: ast.Module, line: int, tool: Stub) -> str:
    """The fix for a call of a tool on that line with an argument without its name."""
    calls = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args and node.lineno == line
    ]
    is_it = any(isinstance(node.func, ast.Name) and node.func.id == tool.name for node in calls)
    first = next(iter(tool.arguments), "")
    return f"line {line}: pass it by name: {tool.name}({first}=...)" if is_it and first else ""


def _is_literal(message: re.Match[str], tree: ast.Module, tool: Stub) -> bool:
    """Whether an argument is written in the call; the None of an optional one is left out of the call."""
    place = int(message["line"]), int(message["column"]) - 1
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and (node.lineno, node.col_offset) == place:
            is_none = isinstance(node.value, ast.Constant) and node.value.value is None
            return tool.is_required(node.arg or "") if is_none else isinstance(node.value, _LITERAL)
    return False


def _unawaited(tree: ast.Module) -> Iterator[ast.Call]:
    """The calls whose own value is used, or nothing of them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            children: list[ast.AST] = [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in dir(builtins):
            children = [*node.args]
        else:
            children = list(ast.iter_child_nodes(node)) if isinstance(node, _USES) else []
        yield from (child for child in children if isinstance(child, ast.Call))


def _forgotten(tree: ast.Module, line: int) -> str:
    """The place where await is missing, if a line uses a call, or a name that stands for one."""
    nodes = [node for node in ast.walk(tree) if getattr(node, "lineno", 0) == line]
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    assigned = (node for node in ast.walk(tree) if isinstance(node, ast.Assign))
    for node in assigned:
        if any(isinstance(one, ast.Name) and one.id in used for one in node.targets):
            nodes = [*ast.walk(node.value), *nodes]
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return _awaited(node.lineno, node.func.id)
    return f"line {line}: await is missing before the call"


def _awaited(line: int, name: str) -> str:
    return f"line {line}: await is missing: await {name}(...)"


def bound(tree: ast.Module) -> set[str]:
    """The names that a script binds itself."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(ctx=ast.Store() | ast.Del()):
                found.add(node.id)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.arg():
                found.add(node.arg)
            case ast.alias():
                found.add((node.asname or node.name).partition(".")[0])
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                found.add(name)
            case _:
                pass
    return found
