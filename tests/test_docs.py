"""Every code block of README, CONTRIBUTING and docs works and prints what its page shows (`tests/pages.py`).

A page runs in a copy of `examples/`, and a page for newcomers in an empty folder. The project's environment
comes first on the PATH. Links between files of the repository must also lead somewhere.
"""

import os
import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from tests import warm
from tests.adapters.environments import ADAPTERS
from tests.adapters.speech import playing, scripted
from tests.codeblocks import code_blocks
from tests.pages import FROM_NOTHING, README, ROOT, WrongPage, check_page
from tests.sandbox.place import sandbox_problem
from toolbus.errors import ConfigError

# The page of an adapter needs its framework: tests/adapters/test_pages.py.
OF_ADAPTERS = {ROOT / "docs" / "frameworks" / f"{name}.md" for name in ADAPTERS}
# The examples in docstrings: tests/test_docstrings.py.
OF_API = set((ROOT / "docs" / "reference" / "python").glob("*.md"))
PAGES = [
    *(README, ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md"),
    *sorted(set((ROOT / "docs").rglob("*.md")) - OF_ADAPTERS - OF_API),
]
LINKED = [
    *PAGES,
    *sorted(OF_ADAPTERS | OF_API),
    *(ROOT / name for name in ("llms.txt", "CHANGELOG.md", "RELEASING.md")),
]


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
    # These change files of editors, and the user's own config.
    if page in {*FROM_NOTHING, ROOT / "docs" / "gateway.md", ROOT / "docs" / "layers.md"}:
        monkeypatch.setenv("HOME", str(tmp_path))
    if page.name == "sandbox.md" and (problem := sandbox_problem()):
        pytest.skip(problem)
    if page in FROM_NOTHING:
        (tmp_path / "project").mkdir()
        monkeypatch.chdir(tmp_path / "project")
    if page == README:  # its agent needs a model
        with playing("langchain", scripted) as provider:
            for name, value in provider.environment.items():
                monkeypatch.setenv(name, value)
            check_page(page)
        return
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


def test_the_first_screen_of_the_readme_says_what_it_is_and_shows_it() -> None:
    text = README.read_text(encoding="utf-8")
    assert [block.language for block in code_blocks(text) if block.line <= 30] == ["mermaid", "console"]
    first = "\n".join(text.splitlines()[:30])
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["description"] in first
    pages = ("docs/gateway.md", "docs/policy.md", "docs/lock.md", "docs/audit.md", "SECURITY.md")
    assert {*pages, "docs/recovery.svg"} <= set(LINK.findall(first))


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / link).resolve() for link in LINK.findall(index.read_text(encoding="utf-8"))}
    sections = {ROOT / "docs" / "frameworks", ROOT / "docs" / "reference"}
    examples = ROOT / "examples" / "README.md"
    assert {page for page in PAGES if page.parent not in sections} - listed == {index, examples}
    assert {section / "README.md" for section in sections} <= listed


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
```python
# program.py
raise SystemExit("run")
```
```console
$ python program.py
run
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
