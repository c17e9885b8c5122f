"""The rules of the architecture that a program can check, each one a test.

Every rule is a function from a source folder to a list of violations, `file:line: problem`. So each rule can
also be tested with a small tree that breaks it.
"""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import pytest

from tests.patience import PATIENCE

PACKAGE = "toolbus"
SOURCE = Path(__file__).resolve().parents[1] / "src" / PACKAGE

TESTS = Path(__file__).parent
STARTED = {
    "adapters/contract.py",  # also runs in the environments of single frameworks
    "auth/token_process.py",
    "durable/crash/worker.py",
    "gateway/waiting_gateway.py",
    "policy/confusables.py",
    "test_docs_names.py",  # the private base of all events
    "warm/process.py",
}
"""Tests, and programs that tests start, which import internal names themselves."""
PATHS = tuple(
    f"toolbus.{path}" for path in ("adapters", "agent.durable", "cli.entry", "config.schema", "demo")
)
"""Modules that users, or the system, know by their path."""

# Which part may import which. A part is a file or folder directly below src/toolbus; a folder below that may
# have a row for what it imports in addition.
STAGES = {"core", "config", "connect", "discover", "shape", "call"}
PUBLIC = {"errors", "records", "events", "sync", "context"}  # public paths of what is in core and bus
FACE = {"core", "config", "shape", "bus"}
FACES = {"adapters", "agent", "extension", "gateway", "console", "background"}
ALLOWED: dict[str, set[str]] = {
    "schema": set(),  # pure: JSON Schema and nothing of ours
    "core": {"schema"},
    "state": {"core"},
    "config": {"core", "schema", "state"},
    "lock": {"core", "config", "schema"},
    "policy": {"core", "config", "schema", "state"},
    "audit": {"core", "config", "state"},
    "telemetry": {"core", "config"},
    "search": {"core", "state"},
    "code": {"core", "config", "schema", "shape", "state"},
    "shape": {"core", "schema"},
    "connect": {"core", "config", "schema", "state"},
    "discover": {"core", "config", "connect"},
    "openapi": {"core", "config", "connect", "schema", "state"},
    "call": {"core", "schema", "shape"},
    "connect.opening": {"openapi"},  # one more transport
    "tape": {"core", "config", "connect", "lock", "schema", "shape"},
    "bus": STAGES | {"lock", "tape", "policy", "audit", "telemetry", "state", "search", "code", "schema"},
    **{part: {"core", "bus", "public"} for part in PUBLIC},
    "records": {"core", "bus", "lock", "search", "tape"},
    "adapters": FACE,
    # Tokens: the fetcher of the sign-in; keys: private files.
    "gateway": FACE | {"connect", "state", "telemetry", "audit", "lock", "schema"},
    "gateway.serve": {"console"},  # and whatever the gateway may
    "gateway.people": {"console"},  # its pages are made of the same elements
    "console": FACE | {"gateway", "connect", "state", "audit", "lock", "policy", "schema"},
    # Commands of its clients run in it.
    "background": FACE | {"cli", "console", "gateway", "state"},
    # Its tools are those of the adapter for pydantic-ai; the store of its runs is a private file, each run
    # has a span, and what it returns fits a schema.
    "agent": FACE | {"adapters", "schema", "state", "telemetry"},
    "testing": FACE | {"adapters", "tape"},
    "extension": FACE | {"adapters"},  # its host takes tools of one framework
    "cli": STAGES
    | FACES
    | {"bus", "lock", "policy", "audit", "schema", "state", "tape", "testing", "search", "code", "__init__"},
    "public": STAGES | {"bus", "lock", "state", "search"},
    "__init__": {"core", "public"},
    "demo": set(),
    "__main__": {"cli"},
}

# Which parts may import a package of others. Packages not named here are free.
SDK_PARTS = {"connect", "discover", "openapi", "tape", "gateway", "testing", "demo"}
FRAMEWORKS = [
    "agent_framework",
    "agents",
    "agno",
    "anthropic",
    "crewai",
    "google",
    "langchain",
    "langchain_core",
    "langgraph",
    "llm",
    "llama_index",
    "openai",
    "smolagents",
    "strands",
]
FOREIGN: dict[str, set[str]] = {
    "mcp": SDK_PARTS,
    "mcp_types": SDK_PARTS,
    "httpx2": SDK_PARTS,
    "httptools": {"connect", "gateway"},
    "openapi_pydantic": {"openapi"},
    "starlette": {"gateway"},
    "pydantic_monty": {"code"},
    "psycopg": {"state", "agent"},
    "sqlalchemy": {"agent"},
    "dbos": {"agent"},
    "typer": {"cli"},
    "rich": {"cli"},
    "pydantic_ai": {"agent", "adapters", "testing"},
    **{name: {"adapters"} for name in FRAMEWORKS},
    "google": {"adapters", "search"},  # in search only google.protobuf, which reads the model
}

PRINTING = ("cli", "background")

MAX_FILE_LINES = 600
MAX_FOLDER_FILES = 14
SMALL_FILE_LINES = 40
FREE_NAMES = {"adapters"}
"""Parts whose file names and classes are public: each framework has its own."""
ENTRY = ("cli", "entry")
"""The module that the command `toolbus` runs, and `python -m toolbus`."""
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 7
FACING = {"toolbus/agent/agent.py", "toolbus/bus/toolbus.py", "toolbus/bus/view.py"}
"""Files whose functions take as many parameters as users need; so do commands and adapters."""
STILL_WIDE = {
    "toolbus/bus/calls.py": "forward",
    "toolbus/gateway/gateway.py": "__init__",
    "toolbus/telemetry/spans.py": "__init__",
}
"""Functions from before the limit; this list only gets shorter."""
BANNED_NAMES = {"utils", "helpers", "common", "misc", "manager"}
SLOW_IMPORTS = {"mcp", "mcp_types", "pydantic", "httpx2", "yaml", "jsonschema_rs"}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Node = Function | ast.Import | ast.ImportFrom | ast.Call | ast.Attribute | ast.alias


class Module(NamedTuple):
    """A parsed source file: its dotted name inside the package, split ("" is the package itself)."""

    path: str
    name: tuple[str, ...]
    is_package: bool
    text: str
    tree: ast.Module
    nodes: list[Node]
    """The nodes of `ast.walk` that the rules look at."""

    @property
    def part(self) -> str:
        return self.name[0] if self.name else "__init__"


class Import(NamedTuple):
    """The imported module, absolute and split, and the line of the import."""

    target: tuple[str, ...]
    line: int


@cache
def modules_of(folder: Path) -> list[Module]:
    found: list[Module] = []
    for path in sorted(folder.rglob("*.py")):
        relative = path.relative_to(folder)
        name = relative.with_suffix("").parts
        is_package = name[-1] == "__init__"
        text = path.read_text(encoding="utf-8")
        shown = f"{PACKAGE}/{relative.as_posix()}"
        dotted = name[:-1] if is_package else name
        tree = ast.parse(text, shown)
        nodes = [node for node in ast.walk(tree) if isinstance(node, Node)]
        found.append(Module(shown, dotted, is_package, text, tree, nodes))
    return found


def imports_of(module: Module) -> Iterator[Import]:
    """Every import of a module: at the top, in functions, under TYPE_CHECKING, by import_module("...")."""
    for node in module.nodes:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield Import(tuple(alias.name.split(".")), node.lineno)
            case ast.ImportFrom(names=names):
                origin = _origin(module, node)
                for alias in names:
                    yield Import((*origin, alias.name), node.lineno)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield Import(tuple(name.split(".")), node.lineno)
            case _:
                pass


def _origin(module: Module, node: ast.ImportFrom) -> tuple[str, ...]:
    """The absolute module that a `from ... import` names."""
    named = tuple(node.module.split(".")) if node.module else ()
    if node.level == 0:
        return named
    package = (PACKAGE, *module.name) if module.is_package else (PACKAGE, *module.name[:-1])
    return package[: len(package) - (node.level - 1)] + named


def _functions(module: Module) -> Iterator[Function]:
    for node in module.nodes:
        if isinstance(node, Function):
            yield node


def wrong_own_imports(folder: Path) -> list[str]:
    modules = modules_of(folder)
    parts = {module.part for module in modules}
    found = [
        f"{module.path}:1: {module.part!r} has no row in ALLOWED; say what it may import"
        for module in modules
        if module.part not in ALLOWED
    ]
    for module in modules:
        allowed = (
            ALLOWED.get(module.part, set[str]())
            | ALLOWED.get(".".join(module.name[:2]), set())
            | {module.part}
        )
        for item in imports_of(module):
            if item.target[0] != PACKAGE:
                continue
            # `from toolbus import Tool` and `import toolbus` go through the package's own file.
            part = item.target[1] if len(item.target) > 1 else "__init__"
            if len(item.target) == 2 and part not in parts | ALLOWED.keys():
                part = "__init__"
            if part not in allowed:
                found.append(f"{module.path}:{item.line}: {module.part!r} may not import {part!r}")
    return list(dict.fromkeys(found))


def wrong_foreign_imports(folder: Path) -> list[str]:
    return [
        f"{module.path}:{item.line}: {item.target[0]!r} only in {sorted(FOREIGN[item.target[0]])}"
        for module in modules_of(folder)
        for item in imports_of(module)
        if module.part not in FOREIGN.get(item.target[0], {module.part})
    ]


def eager_imports(folder: Path) -> list[str]:
    """Imports of our own that `import toolbus` would run."""
    return [
        f"{module.path}:{node.lineno}: the package imports its parts lazily, not when it is imported"
        for module in modules_of(folder)
        if module.part == "__init__"
        for node in module.tree.body
        if (isinstance(node, ast.ImportFrom) and _origin(module, node)[:1] == (PACKAGE,))
        or (isinstance(node, ast.Import) and any(a.name.split(".")[0] == PACKAGE for a in node.names))
    ]


def import_cycles(folder: Path) -> list[str]:
    modules = {module.name: module for module in modules_of(folder)}
    graph: dict[tuple[str, ...], dict[tuple[str, ...], int]] = {}
    for name, module in modules.items():
        edges = graph.setdefault(name, {})
        for item in imports_of(module):
            target = item.target[1:]
            # The longest prefix that is a file of ours: the rest is a name inside it.
            while target and target not in modules:
                target = target[:-1]
            if item.target[0] == PACKAGE and target in modules and target != name:
                edges.setdefault(target, item.line)
    found: list[str] = []
    finished: set[tuple[str, ...]] = set()

    def visit(name: tuple[str, ...], path: list[tuple[str, ...]]) -> None:
        if name in path:
            circle = [*path[path.index(name) :], name]
            way = " -> ".join(".".join(step) or PACKAGE for step in circle)
            found.append(f"{modules[name].path}:{graph[name][circle[1]]}: import cycle {way}")
        elif name not in finished:
            for target in graph[name]:
                visit(target, [*path, name])
            finished.add(name)

    for name in graph:
        visit(name, [])
    return found


def long_files(folder: Path) -> list[str]:
    return [
        f"{module.path}:{count}: {count} lines; a file has at most {MAX_FILE_LINES}"
        for module in modules_of(folder)
        if (count := len(module.text.splitlines())) > MAX_FILE_LINES
    ]


def full_folders(folder: Path) -> list[str]:
    files = Counter(
        PurePosixPath(module.path).parent.as_posix()
        for module in modules_of(folder)
        if not module.is_package and module.part not in FREE_NAMES
    )
    return [
        f"{path}: {count} files; a folder has at most {MAX_FOLDER_FILES}"
        for path, count in files.items()
        if count > MAX_FOLDER_FILES
    ]


def fragments(folder: Path) -> list[str]:
    """Short files that only one other file imports; those below the package itself are public paths."""
    importers: dict[tuple[str, ...], set[str]] = {module.name: set() for module in modules_of(folder)}
    for module in modules_of(folder):
        for item in imports_of(module):
            for target in (item.target[1:], item.target[1:-1]):
                if item.target[0] == PACKAGE and target in importers and target != module.name:
                    importers[target].add(module.path)
    return [
        f"{module.path}:{count}: {count} lines and one importer; it belongs there"
        for module in modules_of(folder)
        if not module.is_package
        and len(module.name) > 1
        and module.part not in FREE_NAMES
        and (count := len(module.text.splitlines())) < SMALL_FILE_LINES
        and len(importers[module.name]) == 1
        and module.name != ENTRY
    ]


def repeated_classes(folder: Path) -> list[str]:
    """Two classes of one name, leaving out private ones."""
    first: dict[str, str] = {}
    found: list[str] = []
    for module in modules_of(folder):
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and node.name[0] != "_" and module.part not in FREE_NAMES:
                if node.name in first:
                    found.append(
                        f"{module.path}:{node.lineno}: {first[node.name]} also has a class {node.name}"
                    )
                first.setdefault(node.name, module.path)
    return found


def long_functions(folder: Path) -> list[str]:
    return [
        f"{module.path}:{node.lineno}: {count} lines; a function has at most {MAX_FUNCTION_LINES}"
        for module in modules_of(folder)
        for node in _functions(module)
        if (count := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]


def wide_functions(folder: Path) -> list[str]:
    found: list[str] = []
    for module in modules_of(folder):
        if module.part in ("cli", "adapters") or module.path in FACING:
            continue
        wide = {
            node.name: (node, count)
            for node in _functions(module)
            if (count := _parameters(node)) > MAX_PARAMETERS
        }
        known = STILL_WIDE.get(module.path)
        if known is not None and wide.pop(known, None) is None:
            found.append(f"{module.path}:1: {known} is narrow now: remove it from STILL_WIDE")
        for name, (node, count) in wide.items():
            rule = f"{name} takes {count} parameters; more than {MAX_PARAMETERS} want a record"
            found.append(f"{module.path}:{node.lineno}: {rule}")
    return found


def _parameters(node: Function) -> int:
    given = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len(given) - (given[:1] in (["self"], ["cls"]))


def empty_names(folder: Path) -> list[str]:
    return [
        f"{module.path}:1: {word!r} says nothing; name a module by its concept"
        for module in modules_of(folder)
        for word in sorted(BANNED_NAMES & set(module.name))
    ]


def prints(folder: Path) -> list[str]:
    return [
        f"{module.path}:{node.lineno}: print() only in {' and '.join(PRINTING)}"
        for module in modules_of(folder)
        if module.part not in PRINTING
        for node in module.nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]


def logging_setups(folder: Path) -> list[str]:
    return [
        f"{module.path}:{node.lineno}: a library does not set up logging (basicConfig)"
        for module in modules_of(folder)
        for node in module.nodes
        if (isinstance(node, ast.Attribute) and node.attr == "basicConfig")
        or (isinstance(node, ast.alias) and node.name == "basicConfig")
    ]


# The rules, each with a tree that breaks it (file -> text) and the violations it has to find there.
Rule = Callable[[Path], list[str]]
LONG_BODY = "    pass\n" * MAX_FUNCTION_LINES
SEVEN = "a, b, *, c, d, e, f, g"
BROKEN: list[tuple[Rule, dict[str, str], list[str]]] = [
    (
        wrong_own_imports,
        {
            "core/records.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n  from .. import bus\n",
            "core/loop.py": "import importlib\nimportlib.import_module('toolbus.config')\n",
            "shape/naming.py": "from ..connect.link import Link\nfrom .select import chosen\n",
            "shape/__init__.py": "from ..core import errors\ndef late():\n    from ..config import load\n",
            "call/path.py": "import toolbus\nimport toolbus.core.catalog\nimport toolbus.discover.watch\n",
            "agent/loop.py": "from toolbus.bus import Toolbus\nfrom toolbus import gateway, Tool\n",
            "surprise.py": "",
        },
        [
            "toolbus/surprise.py:1: 'surprise' has no row in ALLOWED; say what it may import",
            "toolbus/agent/loop.py:2: 'agent' may not import 'gateway'",
            "toolbus/agent/loop.py:2: 'agent' may not import '__init__'",
            "toolbus/call/path.py:1: 'call' may not import '__init__'",
            "toolbus/call/path.py:3: 'call' may not import 'discover'",
            "toolbus/core/loop.py:2: 'core' may not import 'config'",
            "toolbus/core/records.py:3: 'core' may not import 'bus'",
            "toolbus/shape/__init__.py:3: 'shape' may not import 'config'",
            "toolbus/shape/naming.py:1: 'shape' may not import 'connect'",
        ],
    ),
    (
        wrong_foreign_imports,
        {
            "connect/wire.py": "import mcp.types\nimport httpx2\n",
            "bus.py": "def late():\n    from mcp.types import Tool\n    from . import mcp\n",
            "cli/main.py": "import typer\n",
            "gateway/page.py": "from rich import print\n",
        },
        [
            f"toolbus/bus.py:2: 'mcp' only in {sorted(SDK_PARTS)}",
            "toolbus/gateway/page.py:1: 'rich' only in ['cli']",
        ],
    ),
    (
        eager_imports,
        {
            "__init__.py": (
                "import sys\nfrom typing import Any\nfrom .bus import Toolbus\nimport toolbus.errors\n"
                "if TYPE_CHECKING:\n    from .records import Origin\n"
            ),
            "shape/__init__.py": "from .naming import named\n",
        },
        [
            "toolbus/__init__.py:3: the package imports its parts lazily, not when it is imported",
            "toolbus/__init__.py:4: the package imports its parts lazily, not when it is imported",
        ],
    ),
    (
        import_cycles,
        {
            "call/a.py": "from .b import x\n",
            "call/b.py": "def late():\n    from toolbus.call import c\n",
            "call/c.py": "import toolbus.errors\nfrom ..call.a import x\n",
            "call/__init__.py": "from .a import x\n",
            "errors.py": "",
        },
        ["toolbus/call/a.py:1: import cycle call.a -> call.b -> call.c -> call.a"],
    ),
    (
        long_files,
        {"bus.py": "x = 1\n" * (MAX_FILE_LINES + 1), "sync.py": "x = 1\n" * MAX_FILE_LINES},
        ["toolbus/bus.py:601: 601 lines; a file has at most 600"],
    ),
    (
        full_folders,
        {f"{part}/{number}.py": "" for part in ("call", "adapters") for number in range(15)}
        | {f"core/{number}.py": "" for number in range(14)}
        | {"core/__init__.py": ""},
        ["toolbus/call: 15 files; a folder has at most 14"],
    ),
    (
        fragments,
        {
            "call/one.py": "x = 1\n",
            "call/two.py": "x = 1\n",
            "call/long.py": "x = 1\n" * SMALL_FILE_LINES,
            "call/path.py": "from .one import x\nfrom . import two, long\n",
            "call/other.py": "from .two import x\n",
        },
        ["toolbus/call/one.py:1: 1 lines and one importer; it belongs there"],
    ),
    (
        repeated_classes,
        {
            "bus.py": "class Tasks: ...\nclass _Row: ...\n",
            "gateway/tasks.py": "class Tasks: ...\nclass _Row: ...\n",
            "adapters/a.py": "class BusTool: ...\n",
            "adapters/b.py": "class BusTool: ...\n",
        },
        ["toolbus/gateway/tasks.py:1: toolbus/bus.py also has a class Tasks"],
    ),
    (
        long_functions,
        {"bus.py": f"class Bus:\n  async def start(self):\n{LONG_BODY}"},
        ["toolbus/bus.py:2: 61 lines; a function has at most 60"],
    ),
    (
        wide_functions,
        {
            "bus.py": f"class Bus:\n    def __init__(self, {SEVEN}): ...\ndef wide({SEVEN}, j): ...\n",
            "bus/calls.py": f"def forward({SEVEN}): ...\n",
            "bus/view.py": f"def call({SEVEN}, j): ...\n",
            "cli/app.py": f"def call({SEVEN}, j): ...\n",
        },
        [
            "toolbus/bus/calls.py:1: forward is narrow now: remove it from STILL_WIDE",
            "toolbus/bus.py:3: wide takes 8 parameters; more than 7 want a record",
        ],
    ),
    (
        empty_names,
        {"call/utils.py": "", "helpers/__init__.py": "", "call/utility.py": ""},
        [
            "toolbus/call/utils.py:1: 'utils' says nothing; name a module by its concept",
            "toolbus/helpers/__init__.py:1: 'helpers' says nothing; name a module by its concept",
        ],
    ),
    (
        prints,
        {"bus.py": "# print(1)\n'print(2)'\nprint(3)\n", "cli/main.py": "print(4)\n"},
        ["toolbus/bus.py:3: print() only in cli and background"],
    ),
    (
        logging_setups,
        {"cli/main.py": "from logging import basicConfig\nimport logging\nlogging.basicConfig()\n"},
        [
            "toolbus/cli/main.py:1: a library does not set up logging (basicConfig)",
            "toolbus/cli/main.py:3: a library does not set up logging (basicConfig)",
        ],
    ),
]


RULES = [rule for rule, _, _ in BROKEN]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_source_holds(rule: Rule) -> None:
    assert modules_of(SOURCE), f"no source below {SOURCE}"
    violations = rule(SOURCE)
    assert not violations, "\n" + "\n".join(violations)


def test_importing_the_package_imports_nothing_slow() -> None:
    program = f"import sys, {PACKAGE}; print(*sorted({SLOW_IMPORTS!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stdout.split() == [], f"`import {PACKAGE}` imports {done.stdout}"


def test_a_bus_shows_its_config_and_servers_without_the_sdk() -> None:
    program = (
        "import sys; from toolbus import Toolbus\n"
        "bus = Toolbus({'servers': {'a': {'url': 'https://a.test'}}})\n"
        "print(bus.servers['a'].state, len(bus.catalog), bus.resources(), bus.failures)\n"
        "print(*sorted({'mcp', 'mcp_types', 'httpx2', 'anyio', 'idna'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stdout.split("\n") == ["idle 0 [] {}", "", ""]


@pytest.mark.parametrize(("rule", "tree", "expected"), BROKEN, ids=[case[0].__name__ for case in BROKEN])
def test_a_broken_tree_is_found(
    rule: Rule, tree: dict[str, str], expected: list[str], tmp_path: Path
) -> None:
    for name, text in tree.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert rule(tmp_path) == expected


def test_tests_reach_internal_names_through_one_module_per_part() -> None:
    """Programs that tests start are exempt: they must not load more than they need."""
    direct = {
        path.relative_to(TESTS).as_posix()
        for path in TESTS.rglob("*.py")
        if path.parent.name != "inside" and any(map(_is_internal, ast.parse(path.read_text("utf-8")).body))
    }
    assert direct == STARTED


def _is_internal(node: ast.stmt) -> bool:
    match node:
        case ast.ImportFrom(module=str(module)):
            names = [module]
        case ast.Import(names=aliases):
            names = [alias.name for alias in aliases]
        case _:
            return False
    public = (
        f"{PACKAGE}.adapters.",
        f"{PACKAGE}.demo.",
        "toolbus.agent.durable",
        "toolbus.config.schema",
        "toolbus.cli.entry",
    )
    return any(
        name.count(".") > 1 and name.startswith(f"{PACKAGE}.") and not name.startswith(public)
        for name in names
    )
