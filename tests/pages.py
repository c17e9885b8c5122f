"""Run the code blocks of a page.

| block | what is checked |
|---|---|
| python | runs, and sees the names of the blocks above it; top-level `await` works |
| python, yaml, json or toml, with a first line such as `# shop.py` | it is saved in that file, not run |
| text | right after a python block: it is exactly what that block printed; otherwise it is not checked |
| mermaid | nothing: a diagram |
| yaml, json, toml | parses; if it is a config with servers, it loads |
| console | each line after `$ ` runs in bash and prints exactly the lines below it |

Every block of README works alone: it runs in an empty folder, without the names of the blocks above it.
"""

import ast
import asyncio
import contextlib
import inspect
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from tests.codeblocks import Block, code_blocks
from tests.patience import PATIENCE
from toolbus.config import load_config
from toolbus.errors import ConfigError

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
STARTS = ("quickstart", "tutorial", "editors", "recipes", "troubleshooting", "faq", "concepts", "safety")
FROM_NOTHING = {README, *(ROOT / "docs" / f"{name}.md" for name in STARTS)}
"""Pages that begin in an empty folder, with a home of their own; the others run in a copy of `examples/`."""
# Commands that set up the project. They are not run; a make target has to exist.
SET_UP = re.compile(r"(make|pip install|uv tool install|git clone|cd|source) .+")
EXTRA = re.compile(r"toolbus\[([\w-]+)\]")
PIP = re.compile(r"(?:pip|llm) install ((?:\"[^\"]+\" ?|[\w-]+ ?)+)")
WORD = re.compile(r"[^\s\"]+")
PACKAGE = re.compile(r"[A-Za-z][\w.-]*(\[[\w,-]+\])?")
INSTALL = re.compile(r"pip install \"toolbus\[([\w-]+)\]")
MISSING = re.compile(r"(File .+\n(    .+\n)*|.*)ModuleNotFoundError: |.*: command not found")
EXTRAS: dict[str, set[str]] = {
    extra: set(packages)
    for extra, packages in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ].items()
}
IMPORT = ast.Import | ast.ImportFrom
TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)
FILE = re.compile(r"# (\w[\w.-]*\.(?:py|yaml|json|toml))\n")
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC")

PARSERS: dict[str, Callable[[str], Any]] = {"yaml": yaml.safe_load, "json": json.loads, "toml": tomllib.loads}
CONTAINERS = [("servers",), ("mcpServers",), ("mcp_servers",), ("services", "mcp"), ("config", "servers")]


class WrongPage(AssertionError):
    """A page shows something that is not true; the message has the page, the line and the problem."""

    def __init__(self, page: Path, line: int, problem: str) -> None:
        super().__init__(f"{page.name}:{line}: {problem}")


def check_page(page: Path, runner: asyncio.Runner | None = None, *, extras: "Extras | None" = None) -> None:
    """Run the blocks of a page from top to bottom in the current folder, on the runner's loop.

    `extras` are those that a page may ask for; without it, all of them are installed.
    """
    if runner is None:
        with asyncio.Runner() as own:
            return check_page(page, own, extras=extras)
    blocks = code_blocks(page.read_text(encoding="utf-8"))
    end = Block(language="end", text="", line=0)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block, following in pairwise([*blocks, end]):
        leave_alone(page, block, names)
        match block.language:
            case "python":
                with extras.sparing(block, names) if extras else contextlib.nullcontext():
                    printed = run_python(page, block, names, runner)
                    if following.language == "text":
                        compare(page, following.line, shown=following.text, real=printed)
            case "console":
                for line, shown, printed in run_console(page, block):
                    if extras is None or not extras.spare(line, shown, printed):
                        compare(page, line, shown=shown, real=printed)
            case "yaml" | "json" | "toml":
                load(page, block)
            case "text" | "mermaid":
                pass
            case other:
                raise WrongPage(page, block.line, f"blocks of language {other!r} cannot be checked")
    return None


def leave_alone(page: Path, block: Block, names: dict[str, Any]) -> None:
    """Give a block of README an empty folder, and no names of the blocks above it."""
    if page == README and block.language != "text":
        names.clear()
        names["__name__"] = "__main__"
        os.chdir(tempfile.mkdtemp(dir=Path.cwd().parent))


def save(block: Block) -> bool:
    """Save a block in the file that its first line names; whether it names one."""
    named = FILE.match(block.text)
    if named:
        Path(named[1]).write_text(block.text, encoding="utf-8")
    return named is not None


def run_python(page: Path, block: Block, names: dict[str, Any], runner: asyncio.Runner) -> str:
    """Run a block with `names` as its globals; return what it printed. A file is saved, not run."""
    if save(block):
        return ""
    # The empty lines make a traceback show the page, at the line of the page.
    source = "\n" * block.line + block.text
    code = compile(source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)

    async def awaited() -> None:
        await eval(code, names)

    with contextlib.redirect_stdout(io.StringIO()) as printed:
        if code.co_flags & inspect.CO_COROUTINE:
            runner.run(awaited())
        else:
            # Outside the loop, so that a block may call asyncio.run itself.
            exec(code, names)
    return printed.getvalue()


def load(page: Path, block: Block) -> None:
    """Parse a block, save it if it names its file, and load it when it is a config with servers."""
    save(block)
    try:
        data = PARSERS[block.language](block.text)
    except (ValueError, yaml.YAMLError) as error:
        raise WrongPage(page, block.line, f"this {block.language} cannot be parsed: {error}") from error
    if any(_holds(data, path) for path in CONTAINERS):
        file = Path(f"block-{block.line}.{block.language}")
        file.write_text(block.text, encoding="utf-8")
        for server in load_config(file).servers.values():
            if server.warnings:
                raise ConfigError(server.warnings[0], file=str(file), server=server.alias)


def _holds(data: Any, path: tuple[str, ...]) -> bool:
    for key in path:
        try:
            data = data[key]
        except (KeyError, TypeError):
            return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page that tells users what to install for the blocks in it, below all of its headings."""

    start: int
    end: int
    extras: frozenset[str]
    """Extras of toolbus."""
    others: frozenset[str]
    """Packages that toolbus has no extra for."""

    @property
    def reason(self) -> str:
        """The packages, as a reason for a skipped block."""
        return "needs " + ", ".join(
            [*(f"toolbus[{one}]" for one in sorted(self.extras)), *sorted(self.others)]
        )


def installing_sections(text: str) -> list[Section]:
    """The sections that have a `pip install`; above the first `##` it is meant for the whole page."""
    lines = text.splitlines()
    fenced = {
        line
        for block in code_blocks(text)
        for line in range(block.line, block.line + block.text.count("\n") + 2)
    }
    headings = [
        (number, len(line) - len(line.lstrip("#")))
        for number, line in enumerate(lines, start=1)
        if line.startswith("#") and number not in fenced
    ]
    found: list[Section] = []
    for number, line in enumerate(lines, start=1):
        if number in fenced and not line.startswith("$ "):
            continue  # output
        named = [word for words in PIP.findall(line) for word in WORD.findall(words)]
        extras = {extra for word in named for extra in EXTRA.findall(word)}
        others = {word for word in named if PACKAGE.fullmatch(word) and not word.startswith("toolbus")}
        if extras or others:
            level = next((depth for at, depth in reversed(headings) if at <= number), 1)
            end = next((at for at, depth in headings if at > number and depth <= level), len(lines) + 1)
            found.append(Section(start=number, end=end, extras=frozenset(extras), others=frozenset(others)))
    return found


class Extras:
    """The packages that a page tells users to install; in a base install, only they may be missing.

    A block that needs one is skipped, with the reason in `skipped`. A block after it in the same section that
    differs because of that is skipped as well.
    """

    def __init__(self, page: Path) -> None:
        self._page = page
        self._sections = installing_sections(page.read_text(encoding="utf-8"))
        self._lacking: set[Section] = set()
        """Sections in which a block was skipped."""
        self._unbound: dict[str, int] = {}
        """Names that a skipped block would have bound, and the line of the block."""
        self.skipped: dict[int, str] = {}
        """The reason why a line was skipped."""

    @contextlib.contextmanager
    def sparing(self, block: Block, names: dict[str, Any]) -> Generator[None]:
        """Pass over a block that lacks something; `WrongPage` if its section does not say what to install."""
        try:
            yield
        except (ImportError, NameError) as error:
            if isinstance(error, NameError) and error.name in self._unbound:
                made = self._unbound[error.name]
                above = [
                    one for one in self._around(block.line) if self._around(made)[-1].extras <= one.extras
                ]
                if not above:
                    problem = f"{error.name!r} needs an extra that is named only above line {made}"
                    raise WrongPage(self._page, block.line, problem) from error
                self._lacking.add(above[-1])
                self.skipped[block.line] = f"follows a block that {above[-1].reason}"
            elif not self.spare(block.line, "", "".join(traceback.format_exception(error))):
                raise
            self._unbound |= dict.fromkeys(_bound(block.text) - names.keys(), block.line)

    def spare(self, line: int, shown: str, printed: str) -> bool:
        """Whether a difference comes from something that is missing, which `WrongPage` says is not named."""
        sections = self._around(line)
        lacking = set(INSTALL.findall(printed)) - set(INSTALL.findall(shown))
        named = {one for section in sections for extra in section.extras for one in _includes(extra)}
        if unnamed := sorted(lacking - named):
            problem = f"it needs toolbus[{unnamed[0]}], which its section does not name"
            raise WrongPage(self._page, line, problem)
        missing = not lacking and MISSING.search(printed)
        # What a program imports itself, its page has to name; for what toolbus imports, we name an extra.
        if missing and (not sections or "toolbus" in missing[0]):
            raise WrongPage(self._page, line, f"in a base install:\n{printed}")
        if lacking or missing:
            self._lacking |= set(sections)
            self.skipped[line] = sections[-1].reason
            return True
        return self._follows(line)

    def _around(self, line: int) -> list[Section]:
        return [section for section in self._sections if section.start <= line < section.end]

    def _follows(self, line: int) -> bool:
        """Whether a block above in the same section was skipped; then this one is, if it differs."""
        above = [section for section in self._around(line) if section in self._lacking]
        if above:
            self.skipped[line] = f"follows a block that {above[-1].reason}"
        return bool(above)


def _includes(extra: str) -> set[str]:
    """The extras whose packages an extra brings, and itself."""
    return {one for one in EXTRAS if EXTRAS[one] <= EXTRAS.get(extra, set())} | {extra}


def _bound(source: str) -> set[str]:
    """The names that a block binds."""
    tree = list(ast.walk(ast.parse(source)))
    imported = {
        alias.asname or alias.name for node in tree if isinstance(node, IMPORT) for alias in node.names
    }
    return imported | {
        node.id for node in tree if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def run_console(page: Path, block: Block) -> Iterator[tuple[int, str, str]]:
    """Run each command of a block; yields its line, the lines below it, and its output with errors."""
    for line, command, shown in _commands(page, block):
        parts = [part.strip() for part in command.split("&&")]
        if all(SET_UP.fullmatch(part) for part in parts):
            for part in parts:
                _check_target(page, line, part)
            continue
        done = subprocess.run(
            ["bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        yield line, shown, done.stdout


def _commands(page: Path, block: Block) -> Iterator[tuple[int, str, str]]:
    """Yield line, command and shown output; a backslash at the end of a line continues the command."""
    lines = block.text.splitlines()
    starts = [index for index, line in enumerate(lines) if line.startswith("$ ")]
    if starts[:1] != [0]:
        raise WrongPage(page, block.line, "a console block starts with a command after `$ `")
    for start, stop in pairwise([*starts, len(lines)]):
        end = start + 1
        while end < stop and lines[end - 1].endswith("\\"):
            end += 1
        command = "\n".join([lines[start].removeprefix("$ "), *lines[start + 1 : end]])
        yield block.line + 1 + start, command, "\n".join(lines[end:stop])


def _check_target(page: Path, line: int, command: str) -> None:
    match command.split():
        case ["make", target, *_] if target not in TARGET.findall((ROOT / "Makefile").read_text()):
            raise WrongPage(page, line, f"the Makefile has no target {target!r}")
        case _:
            pass


def compare(page: Path, line: int, *, shown: str, real: str) -> None:
    """Raise unless both are equal, apart from trailing white space and times."""
    plain_shown, plain_real = (
        _TIME.sub("TIME", "\n".join(text.rstrip() for text in side.rstrip().splitlines()))
        for side in (shown, real)
    )
    if plain_shown != plain_real:
        raise WrongPage(page, line, f"the page shows\n{plain_shown}\nbut the output is\n{plain_real}")


if __name__ == "__main__":
    missing = Extras(Path(sys.argv[1]))
    check_page(Path(sys.argv[1]), extras=missing)
    print(json.dumps({f"{Path(sys.argv[1]).name}:{line}": why for line, why in missing.skipped.items()}))
