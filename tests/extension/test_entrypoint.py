"""A manifest alone is an extension; one that names a class gets that class."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.extension.hosts import Context, desk, manifest
from tests.patience import PATIENCE
from toolbus import ConfigError
from toolbus.extension import Extension, McpBridgeExtension, load_extension

pytestmark = pytest.mark.anyio


def with_entrypoint(folder: Path, entrypoint: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = manifest(folder, desk(tool_allowlist=["echo"]))
    path.write_text(path.read_text() + f"entrypoint: {entrypoint}\n")
    return path


async def test_a_folder_with_a_manifest_and_no_code_is_a_working_extension(tmp_path: Path) -> None:
    manifest(tmp_path, desk(tool_allowlist=["echo"]))
    extension: Extension = load_extension(tmp_path)
    await extension.initialize(Context())
    await extension.start()
    assert [tool.name for tool in extension.get_tools()] == ["mcp_desk_echo"]
    await extension.stop()
    own: Extension = McpBridgeExtension()  # pyright holds this line to the protocol
    assert type(extension) is type(own)


async def test_a_file_beside_the_manifest_comes_first_and_each_folder_has_its_own(tmp_path: Path) -> None:
    names: list[str] = []
    for folder in ("one", "two"):
        path = with_entrypoint(tmp_path / folder, "main:McpBridgeExtension")
        path.with_name("main.py").write_text(
            "from toolbus.extension import McpBridgeExtension as Base\n"
            f"class McpBridgeExtension(Base):\n    place = {folder!r}\n"
        )
        extension = load_extension(path)
        assert isinstance(extension, McpBridgeExtension)
        await extension.initialize(Context())  # it has the manifest
        names.append(type(extension).__dict__["place"])
    assert names == ["one", "two"]
    assert "main" not in sys.modules


async def test_an_installed_class_is_found_by_its_module(tmp_path: Path) -> None:
    extension = load_extension(with_entrypoint(tmp_path, "toolbus.extension:McpBridgeExtension"))
    await extension.initialize(Context())
    assert type(extension) is McpBridgeExtension


OTHER = """
class Other:
    async def initialize(self, context): ...
    async def start(self): ...
    async def stop(self): ...
    async def health_check(self): return True
    def get_tools(self): return ["a tool"]
"""


async def test_a_class_of_another_kind_is_made_without_arguments(tmp_path: Path) -> None:
    path = with_entrypoint(tmp_path, "main:Other")
    path.with_name("main.py").write_text(OTHER)
    assert load_extension(tmp_path).get_tools() == ["a tool"]


@pytest.mark.parametrize(
    ("entrypoint", "problem"),
    [
        ("absent:Thing", "found neither absent.py next to the manifest nor an installed module 'absent'"),
        ("toolbus.absent:Thing", "nor an installed module 'toolbus.absent'"),
        ("main:Othr", "module 'main' has no class 'Othr'; did you mean 'Other'?"),
        ("main:Half", "Half is not an extension; it needs initialize, start, stop"),
        ("main", "expected 'module:Class'"),
        ("../main:Other", "expected 'module:Class'"),
    ],
)
async def test_an_entrypoint_that_leads_nowhere_is_told(
    entrypoint: str, problem: str, tmp_path: Path
) -> None:
    path = with_entrypoint(tmp_path, entrypoint)
    path.with_name("main.py").write_text(f"{OTHER}\nclass Half:\n    async def start(self): ...\n")
    with pytest.raises(ConfigError) as caught:
        load_extension(path)
    assert (caught.value.file, caught.value.key) == (str(path), "entrypoint")
    assert problem in caught.value.problem


async def test_what_the_code_of_an_extension_lacks_itself_is_its_own_error(tmp_path: Path) -> None:
    path = with_entrypoint(tmp_path, "main:Other")
    path.with_name("main.py").write_text("import no_such_package_of_mine\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_package_of_mine"):
        load_extension(path)


WITHOUT_AGENTS = """
import sys
sys.modules["agents"] = None  # as if it were not installed
from toolbus.extension import discover_and_register, load_manifest
try:
    from toolbus.extension import McpBridgeExtension
except ImportError as error:
    print(error)
"""


def test_only_the_extension_itself_needs_the_framework_and_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_AGENTS], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert done.stdout.endswith('pip install "toolbus[openai-agents]"\n')


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file or folder") as caught:
        load_extension(tmp_path / "nowhere")
    assert caught.value.file == str(tmp_path / "nowhere")


def test_what_is_no_path_is_refused() -> None:
    with pytest.raises(TypeError, match="takes the path of a manifest, not a dict"):
        load_extension({"config": {}})  # pyright: ignore[reportArgumentType]  # the point
