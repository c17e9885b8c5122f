"""Every package that the source imports is declared in pyproject.toml, where users of that file get it."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "toolbus"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# The lowest versions with which SECURITY.md holds, and why; `make matrix` runs its tests with them.
NEEDED = {
    "pyjwt": ((2, 11), "can refuse short keys"),
    "cryptography": ((45,), "its OpenSSL still gets security fixes"),
    "idna": ((3, 7), "takes linear time for a long name (CVE-2024-3651)"),
    "pillow": ((10, 3), "has no known hole in the images it reads (CVE-2024-28219)"),
}
PROVIDERS = packages_distributions()
# Distributions that live in an environment of their own, or share their top-level name with others.
ELSEWHERE = {
    "pydantic_monty": "pydantic-monty",
    "crewai": "crewai",
    "llama_index": "llama-index-core",
    "google.adk": "google-adk",
    "google.genai": "google-genai",
}


def imported(tree: ast.AST) -> Iterator[str]:
    """The dotted names of modules that a file imports, wherever it does."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield from (f"{module}.{alias.name}" for alias in node.names)
            case ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=str(module)), *_]):
                yield module
            case _:
                pass


def distributions(module: str) -> set[str]:
    """The names of the distributions that may provide a module."""
    for prefix, distribution in ELSEWHERE.items():
        if f"{module}.".startswith(f"{prefix}."):
            return {distribution}
    return {normalized(name) for name in PROVIDERS.get(module.split(".")[0], [])}


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def named(requirements: list[str]) -> set[str]:
    return {normalized(re.split(r"[\[<>=!~; ]", requirement)[0]) for requirement in requirements}


def extra_of(file: Path) -> str | None:
    """The extra that users of this file have installed."""
    part, *rest = file.relative_to(SOURCE).parts
    if (part, *rest[:1]) == ("agent", "durable"):
        return "durable"
    if (part, *rest) == ("testing", "plugin.py"):
        return "test"
    if part == "agent" or (part, *rest) == ("testing", "model.py"):
        return "agent"
    if (part, *rest[-1:]) in (("config", "lookup.py"), ("state", "keyring.py")):
        return "keyring"
    if rest in (["store", "backup.py"], ["store", "postgres.py"], ["store", "tables.py"]):
        return "postgres"
    if (part, *rest[:1]) == ("search", "encoders") or rest in (["vectors.py"],):
        return "search"
    if part == "code":
        return "code"
    if part != "adapters":
        return None
    # `pydantic_ai_options.py` belongs to `pydantic-ai`, `openai_agents.py` to itself and not to `openai`.
    name = f"{Path(rest[0]).stem}_".replace("_", "-")
    fitting = [extra for extra in PROJECT["optional-dependencies"] if name.startswith(f"{extra}-")]
    return max(fitting, key=len, default=None)


def test_what_a_file_imports_is_declared() -> None:
    wrong = {
        str(file.relative_to(SOURCE)): names
        for file in SOURCE.rglob("*.py")
        if (names := undeclared(ast.parse(file.read_text()), extra_of(file)))
    }
    assert wrong == {}


def undeclared(tree: ast.AST, extra: str | None) -> list[str]:
    extras: dict[str, list[str]] = PROJECT["optional-dependencies"]
    declared = named(PROJECT["dependencies"]) | named(extras[extra] if extra else [])
    # `_typeshed` exists for type checkers only, which bring it.
    known = {*sys.stdlib_module_names, "_typeshed", "toolbus"}
    foreign = {name for name in imported(tree) if name.split(".")[0] not in known}
    return sorted(name for name in foreign if not distributions(name) & declared)


@pytest.mark.parametrize(
    "source",
    [
        "import sse_starlette",
        "from python_multipart.multipart import parse_options_header",
        "x = import_module('attrs')",
        "import langchain",
    ],
)
def test_an_undeclared_import_is_found(source: str) -> None:
    assert len(undeclared(ast.parse(source), None)) == 1


def test_an_extra_declares_for_its_own_adapter_only() -> None:
    tree = ast.parse("from langgraph.prebuilt import ToolNode")
    assert undeclared(tree, "langchain") == []
    assert undeclared(tree, "smolagents") == ["langgraph.prebuilt.ToolNode"]


def lowest(requirement: str) -> tuple[int, ...]:
    """The lowest version that a requirement allows; empty for any."""
    bound = re.search(r">=([\d.]+)", requirement)
    return tuple(int(number) for number in bound[1].split(".")) if bound else ()


def test_no_version_is_allowed_that_breaks_a_promise_of_security() -> None:
    extras: dict[str, list[str]] = PROJECT["optional-dependencies"]
    for requirement in [*PROJECT["dependencies"], *(one for extra in extras.values() for one in extra)]:
        [name] = named([requirement])
        needed, reason = NEEDED.get(name, ((), ""))
        assert lowest(requirement) >= needed, f"{requirement}: only {needed} and later {reason}"
    assert set(NEEDED) <= named([*PROJECT["dependencies"], *extras["smolagents"]])


def test_every_dependency_of_the_core_has_a_lowest_version() -> None:
    unbounded = [requirement for requirement in PROJECT["dependencies"] if not lowest(requirement)]
    assert unbounded == ["pydantic-core"]  # pydantic chooses it


# Every private name of other packages that the source uses, and the package; each has an upper bound.
BOUNDED = {
    "adapters/langchain.py _llm_type": "langchain-core",
    "agent/durable/store/dbos_private.py _check_owner_txn": "dbos",
    "agent/durable/store/dbos_private.py _context": "dbos",
    "agent/durable/store/dbos_private.py _dbos": "dbos",
    "agent/durable/store/dbos_private.py _dbos_context_var": "dbos",
    "agent/durable/store/dbos_private.py _dbos_global_instance": "dbos",
    "agent/durable/store/dbos_private.py _listening_queues": "dbos",
    "agent/durable/store/dbos_private.py _now_ms_sql": "dbos",
    "agent/durable/store/dbos_private.py _schemas": "dbos",
    "agent/durable/store/dbos_private.py _serialization": "dbos",
    "agent/durable/store/dbos_private.py _sys_db": "dbos",
    "agent/durable/store/dbos_private.py _utils": "dbos",
    "cli/command.py _adapters": "typer",
    "connect/sdk/client.py _connect": "mcp",
    "connect/sdk/fast_call.py _stamp": "mcp",
}
# Those that may be gone one day: the code works without them.
GUARDED = {
    "connect/opening/establish.py _mcp_server",
    "cli/completion.py _completion_scripts",
    "telemetry/providers.py _METER_PROVIDER",
    "telemetry/providers.py _TRACER_PROVIDER",
    "testing/plugin.py _fixtureinfo",
}
# Of the standard library, where they are documented or imported as modules.
STANDARD = {"_asdict", "_ctypes", "_exit", "_replace", "_socket", "_typeshed"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def private_names(text: str) -> Iterator[str]:
    """The private names of others that a file uses: in imports, as attributes, and as texts.

    pyright finds attributes of known types, and wants a comment; attributes of other values are found here.
    """
    tree = ast.parse(text)
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    fields = {
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    used: list[str] = []
    for node in ast.walk(tree):
        match node:
            case (
                ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name)
                | ast.AnnAssign(target=ast.Name(id=name))
            ):
                own.add(name)
            case ast.Attribute(attr=name):
                used.append(name)
            case ast.Call(
                func=ast.Name(id="getattr" | "setattr" | "hasattr"),
                args=[_, ast.Constant(value=str(name)), *_],
            ):
                yield name
            case _:
                pass
    yield from (name for name in used if name not in own)
    for line in text.splitlines():
        if "reportPrivateUsage" in line:
            yield from (name for name in re.findall(r"(?<!self)\.(_[a-z]\w+)", line) if name not in fields)
    yield from (
        part for name in imported(tree) if not name.startswith("toolbus.") for part in name.split(".")
    )


def test_private_names_of_other_packages_are_known_and_bounded() -> None:
    found = {
        f"{file.relative_to(SOURCE).as_posix()} {name}"
        for file in SOURCE.rglob("*.py")
        for name in private_names(file.read_text(encoding="utf-8"))
        if is_private(name) and name not in STANDARD
    }
    assert found == BOUNDED.keys() | GUARDED
    asked = [
        *PROJECT["dependencies"],
        *(one for extra in PROJECT["optional-dependencies"].values() for one in extra),
    ]
    bounded = named([requirement for requirement in asked if "<" in requirement])
    assert set(BOUNDED.values()) <= bounded
