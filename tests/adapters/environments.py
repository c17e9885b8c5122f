"""Where the tests of each adapter run: most in the project's environment, some in one of their own.

python -m tests.adapters.environments                 the tests of all that have their own
python -m tests.adapters.environments langchain       those of one, wherever it lives
python -m tests.adapters.environments --install       make the environments
python -m tests.adapters.environments --resolve       show that every extra resolves with the core
"""

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".adapters"
SHARED = [
    "agent_framework",
    "agno",
    "anthropic",
    "google_genai",
    "langchain",
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
    """What to install it by."""
    return name.replace("_", "-")


def installed(name: str) -> None:
    """Make the environment, or bring it up to date."""
    print(f"setting up .adapters/{name}", flush=True)
    _uv("venv", "--quiet", "--allow-existing", "--python", sys.executable, str(FOLDER / name))
    wanted = [*OWN[name], *TESTING, "--editable", f".[{extra_of(name)}]"]
    # Compiled now: else the warnings of others' code come up at its first import, as errors of a test.
    _uv("pip", "install", "--quiet", "--compile-bytecode", "--python", str(python_of(name)), *wanted)


def tested(name: str, *more: str) -> int:
    """Run the tests of one adapter and its page; gives pytest's exit code."""
    files = [f"tests/adapters/test_{name}.py", "tests/adapters/test_pages.py"]
    command = [python_of(name), "-m", "pytest", "-q", *files, "-k", name, *more]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def typed(name: str) -> int:
    """Check the types of an adapter and its tests where its framework is; gives pyright's exit code."""
    files = [f"src/toolbus/adapters/{name}.py", f"tests/adapters/test_{name}.py"]
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pyright"]
    # A config of its own: the project's leaves these files out, and names another environment.
    own = {**rules, "include": files, "exclude": [], "extraPaths": [".", "src"]}
    own |= {"venvPath": str(FOLDER), "venv": name}
    with tempfile.NamedTemporaryFile("w", suffix=".json", dir=ROOT, prefix=".pyright-") as config:
        json.dump(own, config)
        config.flush()
        command = [sys.executable, "-m", "pyright", "--project", config.name]
        return subprocess.run(command, cwd=ROOT, check=False).returncode


def resolved(name: str) -> str:
    """The versions that the core and one extra agree on; fails loudly when there are none."""
    with tempfile.TemporaryDirectory() as folder:
        pins = Path(folder) / "pins.txt"
        _uv(
            *f"pip compile --quiet --no-header --no-annotate pyproject.toml --extra {extra_of(name)}".split(),
            "-o",
            str(pins),
        )
        lines = pins.read_text().splitlines()
    wanted = [*_requirements(extra_of(name)), "mcp"]
    return ", ".join(line for line in lines if line.partition("==")[0] in wanted)


def extras() -> dict[str, list[str]]:
    """The extras of the project, and what each asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["optional-dependencies"]


def _requirements(extra: str) -> list[str]:
    return [text.partition(">")[0].partition("[")[0] for text in extras()[extra]]


def _uv(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "uv", *arguments], cwd=ROOT, check=True)


def main(arguments: list[str]) -> int:
    """Do what the arguments say; gives the exit code."""
    match arguments:
        case ["--install"]:
            for name in OWN:
                installed(name)
            return 0
        case ["--resolve"]:
            for name in ADAPTERS:
                print(f"toolbus[{extra_of(name)}]: {resolved(name)}", flush=True)
            return 0
        case ["--types"]:
            return max(typed(name) for name in OWN)
        case []:
            return max(tested(name) for name in OWN)
        case [name, *more] if name in ADAPTERS:
            return tested(name, *more)
        case _:
            print(f"which adapter? {', '.join(ADAPTERS)}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
