"""The demo's files: one folder is listed, read and written, and nothing else can be reached."""

import os
import subprocess
from pathlib import Path

import pytest

from tests import warm
from tests.demo.running import Servers, arguments, in_two_places
from toolbus import ServerRejected, Toolbus
from toolbus.demo.files import files_server
from toolbus.records import Embedded

pytestmark = pytest.mark.anyio


def bus_on(folder: Path) -> Toolbus:
    return Toolbus({"servers": {"files": {"server": files_server(folder)}}})


@in_two_places
async def test_files_are_written_listed_and_read(servers: Servers, tmp_path: Path) -> None:
    (tmp_path / "first.md").write_text("# first\n")
    async with Toolbus({"servers": {"files": servers.entry("files", str(tmp_path))}}) as bus:
        wrote = await bus.call("files_write", {"path": "new/größe.txt", "text": "one\r\ntwo\n"})
        everything = await bus.call("files_list")
        some = await bus.call("files_list", {"pattern": "*.md"})
        read = await bus.call("files_read", {"path": "new/größe.txt"})
        resource = await bus.read_resource("files", "folder:///new/gr%C3%B6%C3%9Fe.txt")
    first, new = {"path": "first.md", "bytes": 8}, {"path": "new/größe.txt", "bytes": 9}
    assert wrote.text == "wrote 9 bytes to new/größe.txt"
    assert (tmp_path / "new" / "größe.txt").read_bytes() == b"one\r\ntwo\n"
    assert everything.structured == {"files": [first, new]}
    assert some.structured == {"files": [first]}
    assert (read.text, read.is_error) == ("one\r\ntwo\n", False)
    assert resource == (
        Embedded(uri="folder:///new/gr%C3%B6%C3%9Fe.txt", text="one\r\ntwo\n", mime_type="text/plain"),
    )


LEADS_OUT = "points outside the folder; use a path inside it, without '..'"
A_LINK = "goes through a symbolic link, which may point outside the folder"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../secret.txt", LEADS_OUT),
        ("sub/../../secret.txt", LEADS_OUT),
        ("{outside}/secret.txt", LEADS_OUT),
        ("sub\0", LEADS_OUT),
        ("link.txt", A_LINK),
        ("link/secret.txt", A_LINK),
        ("nowhere/new.txt", A_LINK),
    ],
)
async def test_no_path_leaves_the_folder(tmp_path: Path, path: str, reason: str) -> None:
    inside = tmp_path / "inside"
    (inside / "sub").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    (inside / "link.txt").symlink_to(tmp_path / "secret.txt")
    (inside / "link").symlink_to(tmp_path)
    (inside / "nowhere").symlink_to(tmp_path / "not there yet")
    path = path.format(outside=tmp_path)
    async with bus_on(inside) as bus:
        read = await bus.call("files_read", {"path": path})
        wrote = await bus.call("files_write", {"path": path, "text": "changed"})
        listed = await bus.call("files_list", {"pattern": "*"})
    assert (read.is_error, read.text) == (True, f"Error executing tool read: {path!r} {reason}")
    assert (wrote.is_error, wrote.text) == (True, f"Error executing tool write: {path!r} {reason}")
    assert listed.structured == {"files": []}
    assert sorted(os.listdir(tmp_path)) == ["inside", "secret.txt"]
    assert (tmp_path / "secret.txt").read_text() == "secret"


async def test_a_resource_does_not_leave_the_folder_either(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "inside" / "link.txt").symlink_to(tmp_path / "secret.txt")
    async with bus_on(tmp_path / "inside") as bus:
        for path in ("../secret.txt", "%2E%2E/secret.txt", "link.txt", "missing.txt"):
            with pytest.raises(ServerRejected):
                await bus.read_resource("files", f"folder:///{path}")


async def test_what_is_no_text_file_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "image").write_bytes(b"\x89PNG\xff")
    (tmp_path / "large").write_bytes(b"x" * 1_000_001)
    os.mkfifo(tmp_path / "pipe")  # reading it would never end
    async with bus_on(tmp_path) as bus:
        texts = {
            path: (await bus.call("files_read", {"path": path})).text.removeprefix(
                "Error executing tool read: "
            )
            for path in ("sub", "image", "large", "pipe", "x" * 300)
        }
        wrote = await bus.call("files_write", {"path": "sub", "text": ""})
    assert texts == {
        "sub": "'sub' is not a file in this folder; call list to see the files",
        "image": "'image' is not text (UTF-8)",
        "large": "'large' is larger than 1000000 bytes",
        "pipe": "'pipe' is not a file in this folder; call list to see the files",
        "x" * 300: f"{'x' * 300!r} cannot be read: File name too long",
    }
    assert wrote.text.endswith("'sub' is not a regular file; choose another name")


async def test_a_name_that_is_not_utf_8_does_not_break_the_list(tmp_path: Path) -> None:
    (tmp_path / "good").write_text("")
    (tmp_path / os.fsdecode(b"bad\xff")).touch()
    async with bus_on(tmp_path) as bus:
        listed = await bus.call("files_list")
    assert listed.structured == {"files": [{"path": "good", "bytes": 0}]}


async def test_a_list_too_long_to_be_useful_asks_for_a_narrower_pattern(tmp_path: Path) -> None:
    for number in range(1001):
        (tmp_path / f"{number:04}").touch()
    async with bus_on(tmp_path) as bus:
        everything = await bus.call("files_list")
        some = await bus.call("files_list", {"pattern": "100?"})
    assert everything.is_error
    assert everything.text.endswith("1001 files match, more than 1000; use a narrower pattern")
    assert some.structured == {"files": [{"path": "1000", "bytes": 0}]}


def test_what_is_no_folder_ends_the_server_with_the_reason(tmp_path: Path) -> None:
    command = [warm.python(), *arguments("files", "missing")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("error: 'missing' is not a folder\n")
