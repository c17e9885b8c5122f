"""The table of `make hostile` is complete."""

import ast
from pathlib import Path


def test_an_attack_without_a_promise() -> None:
    """Every attack in this folder states what it must not break."""
    silent = [
        f"{file.name}: {node.name}"
        for file in Path(__file__).parent.glob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert silent == []
