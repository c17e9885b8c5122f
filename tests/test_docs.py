"""Every code block of README, CONTRIBUTING and docs works and prints what its page shows.

| block | what is checked |
|---|---|
| python | runs, and sees the names of the blocks above it; top-level `await` works |
| text | right after a python block: it is exactly what that block printed; otherwise it is not checked |
| yaml, json, toml | parses; if it is a config with servers, it loads |
| console | each line after `$ ` runs in bash and prints exactly the lines below it |

A page runs in a copy of `examples/`, with the project's environment first on the PATH. Links between
files of the repository must lead somewhere, too.
"""

import ast
import asyncio
import contextlib
import inspect
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import warm
from tests.adapters.environments import ADAPTERS
from tests.codeblocks import Block, code_blocks
from tests.patience import PATIENCE
from tests.sandbox.place import sandbox_problem
from toolbus.config import load_config
from toolbus.errors import ConfigError

ROOT = Path(__file__).resolve().parents[1]
# The page of an adapter needs its framework: tests/adapters/test_pages.py.
OF_ADAPTERS = {ROOT / "docs" / "frameworks" / f"{name}.md" for name in ADAPTERS}
PAGES = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md"),
    *sorted(set((ROOT / "docs").rglob("*.md")) - OF_ADAPTERS),
]
LINKED = [*PAGES, *sorted(OF_ADAPTERS)]

# Commands that set up the project. They are not run; a make target has to exist.
SET_UP = re.compile(r"(make|pip install|git clone|cd|source) .+")
TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)

PARSERS: dict[str, Callable[[str], Any]] = {"yaml": yaml.safe_load, "json": json.loads, "toml": tomllib.loads}
CONTAINERS = [("servers",), ("mcpServers",), ("mcp_servers",), ("services", "mcp"), ("config", "servers")]


class WrongPage(AssertionError):
    """A page shows something that is not true; the message has the page, the line and the problem."""

    def __init__(self, page: Path, line: int, problem: str) -> None:
        super().__init__(f"{page.name}:{line}: {problem}")


def check_page(page: Path, runner: asyncio.Runner | None = None) -> None:
    """Run the blocks of a page from top to bottom in the current folder, on the runner's loop."""
    if runner is None:
        with asyncio.Runner() as own:
            return check_page(page, own)
    blocks = code_blocks(page.read_text(encoding="utf-8"))
    end = Block(language="end", text="", line=0)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block, following in pairwise([*blocks, end]):
        match block.language:
            case "python":
                printed = run_python(page, block, names, runner)
                if following.language == "text":
                    compare(page, following.line, shown=following.text, real=printed)
            case "console":
                run_console(page, block)
            case "yaml" | "json" | "toml":
                load(page, block)
            case "text":
                pass
            case other:
                raise WrongPage(page, block.line, f"blocks of language {other!r} cannot be checked")
    return None


def run_python(page: Path, block: Block, names: dict[str, Any], runner: asyncio.Runner) -> str:
    """Run a block with `names` as its globals; return what it printed."""
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
    """Parse a block, and load it when it is a config with servers."""
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


def run_console(page: Path, block: Block) -> None:
    """Run each command of a block; compare its output and errors with the lines below it."""
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
        compare(page, line, shown=shown, real=done.stdout)


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
    """Raise unless both are equal, apart from trailing white space."""
    plain_shown, plain_real = (
        "\n".join(text.rstrip() for text in side.rstrip().splitlines()) for side in (shown, real)
    )
    if plain_shown != plain_real:
        raise WrongPage(page, line, f"the page shows\n{plain_shown}\nbut the output is\n{plain_real}")


@pytest.fixture(autouse=True)
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of `examples/`, as the current folder."""
    return in_examples(tmp_path, monkeypatch)


def in_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a copy of `examples/`, with the project's environment first on the PATH."""
    folder = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(folder)
    programs = (warm.folder(), Path(sys.executable).parent, os.environ["PATH"])
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, programs)))
    monkeypatch.setattr(sys, "executable", warm.python())  # for servers that a page starts by it
    # The output of a command must not depend on the terminal that runs the tests.
    for name, value in {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    # Configs that the user of this machine trusts must not matter.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return folder


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES])
def test_the_page_is_true(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page.name == "gateway.md":  # it changes files of editors
        monkeypatch.setenv("HOME", str(tmp_path))
    if page.name == "sandbox.md" and (problem := sandbox_problem()):
        pytest.skip(problem)
    check_page(page)


LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get on GitHub."""
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=[page.relative_to(ROOT).as_posix() for page in LINKED])
def test_every_link_to_a_file_of_the_repository_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_first_screen_of_the_readme_has_code_its_output_and_a_command() -> None:
    first = [block for block in code_blocks((ROOT / "README.md").read_text()) if block.line <= 30]
    assert [block.language for block in first] == ["console", "python", "text", "console"]


GOOD_PAGE = """
```python
async def double(x):
    return 2 * x

print(await double(4), __name__)
```
It prints:
```text
8 __main__
```
```python
import asyncio
asyncio.run(double(1))
print(asyncio.run(double(5)))
```
```text
10
```
```text
A drawing.
```
```json
{"any": "document"}
```
```console
$ make test && cd somewhere
...
$ echo one; \\
  echo two >&2
one
two
$ python -c 'import sys; print(sys.prefix != sys.base_prefix)'
True
```
"""


def test_a_true_page_passes(tmp_path: Path) -> None:
    page = tmp_path / "good.md"
    page.write_text(GOOD_PAGE)
    check_page(page)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```python\nprint(1)\n```\n```text\n2\n```", "page.md:4: the page shows\n2\nbut the output is\n1"),
        ("```python\nprint(1)\n```\n```text\n...\n```", "page.md:4: the page shows\n...\nbut"),
        ("\n```bash\nls\n```", "page.md:2: blocks of language 'bash' cannot be checked"),
        ("```\nls\n```", "page.md:1: blocks of language '' cannot be checked"),
        ("```console\n$ echo a\na\n$ echo b\nc\n```", "page.md:4: the page shows\nc\nbut the output is\nb"),
        ("```console\n$ make test\n$ make tea\n```", "page.md:3: the Makefile has no target 'tea'"),
        ("```console\necho a\n```", "page.md:1: a console block starts with a command"),
        ("```json\n{\n```", "page.md:1: this json cannot be parsed"),
        ("```yaml\na: [\n```", "page.md:1: this yaml cannot be parsed"),
        ("```toml\na\n```", "page.md:1: this toml cannot be parsed"),
    ],
)
def test_a_false_page_fails_and_names_page_and_line(text: str, message: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(WrongPage, match=re.escape(message)):
        check_page(page)


def test_an_error_in_a_block_shows_the_line_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("text\n\n```python\nx = 1\nx / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as caught:
        check_page(page)
    last = caught.traceback[-1]
    assert (Path(last.path).name, last.lineno + 1) == ("page.md", 5)


@pytest.mark.parametrize("container", ["servers", "mcpServers", "mcp_servers"])
def test_a_config_that_cannot_be_loaded_fails(container: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```yaml\n{container}:\n  files: {{command: x, no_such_key: 1}}\n```\n")
    with pytest.raises(ConfigError, match="no_such_key"):
        check_page(page)
