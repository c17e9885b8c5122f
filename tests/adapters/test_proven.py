"""A slow proof runs again exactly when one of its inputs changed."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from tests.adapters.environments import OWN, ROOT
from tests.adapters.proven import RECORD, changed, files_of, fingerprints, imports, write_record

PACKAGES = {"alpha": ["client"], "beta": []}
PROJECT = """
[project]
dependencies = ["mcp>=2", "anyio>=4"]
[project.optional-dependencies]
alpha = ["alpha>=1"]
beta = ["beta>=1"]
dev = ["pytest"]
[tool.ruff]
line-length = 110
"""
FILES = {
    "pyproject.toml": PROJECT,
    "src/toolbus/bus.py": "class Toolbus: ...",
    "src/toolbus/adapters/__init__.py": "",
    "src/toolbus/adapters/alpha.py": "from toolbus.adapters import media\nfrom toolbus.bus import Toolbus",
    "src/toolbus/adapters/beta.py": "",
    "src/toolbus/adapters/media.py": "def late():\n    from toolbus.adapters.deep import thing",
    "src/toolbus/adapters/deep.py": "thing = 1",
    "tests/conftest.py": "from tests.adapters.environments import OWN",
    "tests/adapters/conftest.py": "",
    "tests/adapters/environments.py": "OWN = {}",
    "tests/adapters/test_pages.py": "import tests.pages",
    "tests/adapters/test_alpha.py": "from tests.wire.chat import CHAT",
    "tests/adapters/test_beta.py": "",
    "tests/pages.py": "",
    "tests/wire/__init__.py": "",
    "tests/wire/chat.py": "CHAT = 1",
    "tests/wire/other.py": "",
    "docs/frameworks/alpha.md": "",
    "docs/frameworks/beta.md": "",
    "examples/notes.py": "",
    "examples/toolbus.yaml": "",
}
ALL = {"alpha", "beta", "resolve"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small project with two adapters, all of it proven."""
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    write_record(tmp_path, fingerprints(tmp_path, PACKAGES))
    return tmp_path


def unproven(root: Path) -> set[str]:
    return changed(root, fingerprints(root, PACKAGES))


def test_nothing_runs_again_when_nothing_changed(root: Path) -> None:
    assert unproven(root) == set()


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("src/toolbus/adapters/alpha.py", {"alpha"}),
        ("src/toolbus/adapters/media.py", {"alpha"}),
        ("src/toolbus/adapters/deep.py", {"alpha"}),
        ("src/toolbus/adapters/beta.py", {"beta"}),
        ("src/toolbus/adapters/__init__.py", {"alpha"}),
        ("tests/adapters/test_alpha.py", {"alpha"}),
        ("tests/wire/chat.py", {"alpha"}),
        ("tests/wire/__init__.py", {"alpha"}),
        ("tests/conftest.py", {"alpha", "beta"}),
        ("tests/adapters/conftest.py", {"alpha", "beta"}),
        ("tests/pages.py", {"alpha", "beta"}),
        ("docs/frameworks/beta.md", {"beta"}),
        ("examples/notes.py", {"alpha", "beta"}),
        ("tests/adapters/environments.py", {"resolve"}),
        ("src/toolbus/bus.py", set[str]()),
        ("tests/wire/other.py", set[str]()),
    ],
)
def test_an_edited_file_changes_what_depends_on_it(root: Path, path: str, names: set[str]) -> None:
    (root / path).write_text(FILES[path] + "\n# edited\n")
    assert unproven(root) == names


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ('"mcp>=2", "anyio>=4"', '"mcp>=2", "anyio>=5"', ALL),
        ('"alpha>=1"', '"alpha>=2"', {"alpha", "resolve"}),
        ('"pytest"', '"pytest>=9"', {"resolve"}),
        ('"mcp>=2", "anyio>=4"', '"anyio>=4",\n  "mcp>=2",  # sorted\n', set[str]()),
        ('alpha = ["alpha>=1"]\nbeta = ["beta>=1"]', 'beta = ["beta>=1"]\nalpha = ["alpha>=1"]', set[str]()),
        ("line-length = 110", "line-length = 90", set[str]()),
    ],
)
def test_only_requirements_of_the_project_count(root: Path, old: str, new: str, names: set[str]) -> None:
    assert old in PROJECT
    (root / "pyproject.toml").write_text(PROJECT.replace(old, new))
    assert unproven(root) == names


def test_other_packages_of_an_environment_change_its_adapter(root: Path) -> None:
    assert changed(root, fingerprints(root, PACKAGES | {"beta": ["client"]})) == {"beta"}


def test_without_a_readable_record_everything_runs(root: Path) -> None:
    (root / RECORD).write_text("<<<<<<< ours\n")
    assert unproven(root) == ALL
    (root / RECORD).unlink()
    assert unproven(root) == ALL


def test_the_record_is_sorted_and_ends_with_a_newline(root: Path) -> None:
    write_record(root, {"b": "2", "a": "1"})
    assert (root / RECORD).read_text() == '{\n  "a": "1",\n  "b": "2"\n}\n'


@pytest.mark.parametrize("name", OWN)
def test_what_an_adapter_uses_of_toolbus_exists(name: str) -> None:
    """Its own environment would also notice, but does not run when only the core changed."""
    files = [ROOT / path for path in files_of(ROOT, name) if path.endswith(".py")]
    used = {found for file in files for found in imports(file) if found[1].split(".")[0] == "toolbus"}
    elsewhere = {f"toolbus.adapters.{other}" for other in OWN}
    missing = [whole for whole, module in used if module not in elsewhere and not _exists(whole, module)]
    assert not missing


def _exists(whole: str, module: str) -> bool:
    found: ModuleType = import_module(module)
    return whole == module or hasattr(found, whole.removeprefix(f"{module}.")) or find_spec(whole) is not None
