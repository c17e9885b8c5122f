"""The environments for the tests of each adapter: the project's own, or a separate one.

python -m tests.adapters.environments langchain       the tests of one, wherever it lives

`proven.py` decides when the adapters with an environment of their own have to run.
"""

import fcntl
import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".adapters"
SHARED = [
    "agent_framework",
    "agno",
    "anthropic",
    "google_genai",
    "langchain",
    "llm",
    "openai",
    "openai_agents",
    "pydantic_ai",
    "smolagents",
]
# What cannot live beside the others, and why; with the provider client that its tests need.
OWN: dict[str, list[str]] = {
    "crewai": ["crewai[litellm]"],  # an old openai
    "google_adk": [],  # wants google-genai before 3
    "llama_index": ["llama-index-llms-openai"],  # wants openai before 3
}
ADAPTERS = sorted([*SHARED, *OWN])
TESTING = ["pytest>=9", "pytest-timeout>=2.4", "types-PyYAML"]


def python_of(name: str) -> Path:
    """The interpreter that has the framework."""
    return (FOLDER / name if name in OWN else ROOT / ".venv") / "bin" / "python"


def living_here() -> list[str]:
    """The adapters whose framework this interpreter has."""
    prefix = Path(sys.prefix)
    return [prefix.name] if prefix.parent == FOLDER else SHARED


def extra_of(name: str) -> str:
    """The name of its extra."""
    return name.replace("_", "-")


def wanted(name: str) -> list[str]:
    """The packages of its environment besides the project and its extra."""
    return [*OWN[name], *TESTING]


def install(name: str) -> None:
    """Make its environment, or bring it up to date; does nothing if that was done already."""
    FOLDER.mkdir(exist_ok=True)
    stamp = FOLDER / name / ".installed"
    content = "\n".join([*wanted(name), *dependencies(), *extras()[extra_of(name)]])
    # `make check` and `make test` may run side by side.
    with (FOLDER / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.is_file() and stamp.read_text(encoding="utf-8") == content:
            return
        print(f"setting up .adapters/{name}", flush=True)
        stamp.unlink(missing_ok=True)
        _uv("venv", "--quiet", "--allow-existing", "--python", sys.executable, str(FOLDER / name))
        packages = [*wanted(name), "--editable", f".[{extra_of(name)}]"]
        # Compiled now: else the warnings of others' code come up at its first import, as errors of a test.
        _uv("pip", "install", "--quiet", "--compile-bytecode", "--python", str(python_of(name)), *packages)
        stamp.write_text(content, encoding="utf-8")


def run_tests(name: str, *more: str) -> bool:
    """Run the tests of one adapter and its page; returns whether they passed."""
    if name in OWN:
        install(name)
    files = [f"tests/adapters/test_{name}.py", "tests/adapters/test_pages.py"]
    return _passes(python_of(name), "-m", "pytest", "-q", *files, "-k", name, *more)


def check_types(name: str) -> bool:
    """Check the types of an adapter and its tests where its framework is; returns whether they are right."""
    install(name)
    files = [f"src/toolbus/adapters/{name}.py", f"tests/adapters/test_{name}.py"]
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pyright"]
    # A config of its own: the project's leaves these files out, and names another environment.
    own = {**rules, "include": files, "exclude": [], "extraPaths": [".", "src"]}
    own |= {"venvPath": str(FOLDER), "venv": name}
    with tempfile.NamedTemporaryFile("w", suffix=".json", dir=ROOT, prefix=".pyright-") as config:
        json.dump(own, config)
        config.flush()
        return _passes(sys.executable, "-m", "pyright", "--project", config.name)


def resolve(name: str) -> bool:
    """Print the versions that the core and one extra agree on; returns whether there are any."""
    with tempfile.TemporaryDirectory() as folder:
        pins = Path(folder) / "pins.txt"
        command = (
            f"uv pip compile -q --no-header --no-annotate pyproject.toml --extra {extra_of(name)} -o {pins}"
        )
        if not _passes(sys.executable, "-m", *command.split()):
            return False
        lines = pins.read_text().splitlines()
    shown = [*_requirements(extra_of(name)), "mcp"]
    found = ", ".join(line for line in lines if line.partition("==")[0] in shown)
    print(f"toolbus[{extra_of(name)}]: {found}", flush=True)
    return True


def dependencies() -> list[str]:
    """The dependencies of the core of the project."""
    return _project()["dependencies"]


def extras() -> dict[str, list[str]]:
    """The extras of the project, and what each asks for."""
    return _project()["optional-dependencies"]


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _requirements(extra: str) -> list[str]:
    return [text.partition(">")[0].partition("[")[0] for text in extras()[extra]]


def _uv(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "uv", *arguments], cwd=ROOT, check=True)


def _passes(*command: str | Path) -> bool:
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def main(arguments: list[str]) -> int:
    """Run the tests of the adapter that the arguments name; returns the exit code."""
    match arguments:
        case [name, *more] if name in ADAPTERS:
            return 0 if run_tests(name, *more) else 1
        case _:
            print(f"which adapter? {', '.join(ADAPTERS)}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
