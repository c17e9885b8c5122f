"""A lockfile that cannot be trusted stops everything, and stays as it is."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import toolbus
from tests.inside.lock import VERSION, Migration, lock_in, upgraded
from tests.lock.place import Place
from toolbus import Toolbus
from toolbus.errors import LockError
from toolbus.records import JSON

Document = dict[str, Any]
EDITED = "was it edited by hand? restore it from version control, or delete it and run 'toolbus lock'"


def edited(change: Callable[[Document], object]) -> Callable[[bytes], bytes]:
    """The file after an editor changed its JSON."""

    def apply(content: bytes) -> bytes:
        document = json.loads(content)
        change(document["servers"]["files"])
        return json.dumps(document, indent=2).encode()

    return apply


def document(change: Callable[[Document], object]) -> Callable[[bytes], bytes]:
    def apply(content: bytes) -> bytes:
        found = json.loads(content)
        change(found)
        return json.dumps(found).encode()

    return apply


def tool(change: Callable[[Document], object]) -> Callable[[bytes], bytes]:
    return edited(lambda server: change(server["tools"]["read"]))


def move(server: Document) -> None:
    server["tools"]["fetch"] = server["tools"].pop("read")


def conflict(content: bytes) -> bytes:
    lines = content.decode().splitlines()
    return "\n".join(
        [*lines[:4], "<<<<<<< HEAD", lines[4], "=======", lines[4], ">>>>>>> other", *lines[5:]]
    ).encode()


BROKEN: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "truncated": (lambda content: content[:-200], "is not complete JSON"),
    "empty": (lambda _: b"", "is not complete JSON (line 1)"),
    "not JSON": (lambda _: b"lock: yes\n", "is not complete JSON (line 1)"),
    "not an object": (lambda _: b"[]", "is not a JSON object"),
    "deep": (lambda _: b"[" * 100_000, "is not JSON that can be read"),
    "not UTF-8": (lambda content: content.replace(b"Read a file", b"Read \xff file"), "is not UTF-8"),
    "UTF-16": (lambda content: content.decode().encode("utf-16"), "is not UTF-8"),
    "NaN": (document(lambda found: found.update(x=float("nan"))), "contains NaN, which is not JSON"),
    "merge conflict": (conflict, "has merge conflicts; take one side"),
    "a key twice": (
        lambda content: content.replace(b'"servers": {', b'"servers": {},\n  "servers": {', 1),
        "has a key twice",
    ),
    "newer": (document(lambda found: found.update(version=VERSION + 1)), "this toolbus reads up to 1"),
    "no version": (document(lambda found: found.pop("version")), "has no version"),
    "version true": (document(lambda found: found.update(version=True)), "has no version"),
    "version 0": (document(lambda found: found.update(version=0)), "has the unknown version 0"),
    "no servers": (document(lambda found: found.pop("servers")), "has no servers"),
    "server is a list": (document(lambda found: found["servers"].update(files=[])), "is incomplete"),
    "description": (
        tool(lambda block: block["definition"].update(description="Send a file.")),
        f"tool 'read' of server 'files' does not match its digest; {EDITED}",
    ),
    "digest": (tool(lambda block: block.update(digest="sha256:0")), "tool 'read' of server 'files'"),
    "no digest": (tool(lambda block: block.pop("digest")), "does not match its digest"),
    "no definition": (tool(lambda block: block.pop("definition")), "does not match its digest"),
    "definition is a text": (tool(lambda block: block.update(definition="x")), "does not match its digest"),
    "tool removed": (edited(lambda s: s["tools"].pop("read")), "server 'files' does not match its digest"),
    "tool moved": (edited(move), "tool 'fetch' of server 'files' does not match its digest"),
    "tools swapped": (
        edited(lambda s: s["tools"].update(read=s["tools"]["write"], write=s["tools"]["read"])),
        "tool 'read' of server 'files' does not match its digest",
    ),
    "prompt": (
        edited(lambda s: s["prompts"]["greet"]["definition"].update(title="Hi")),
        "prompt 'greet' of server 'files' does not match its digest",
    ),
    "prompt removed": (edited(lambda s: s["prompts"].clear()), "server 'files' does not match its digest"),
    "template": (
        edited(lambda s: s["templates"]["note://{name}"]["definition"].update(mimeType="text/html")),
        "template 'note://{name}' of server 'files' does not match its digest",
    ),
    "instructions": (edited(lambda s: s.update(instructions="Obey.")), "server 'files' does not match"),
    "instructions are a list": (edited(lambda s: s.update(instructions=["Obey."])), "does not match"),
    "launch": (edited(lambda s: s["launch"].update(command="evil")), "server 'files' does not match"),
    "package": (edited(lambda s: s.update(package={"name": "x"})), "server 'files' does not match"),
    "package is a text": (edited(lambda s: s.update(package="x")), "server 'files' does not match"),
    "no prompts": (edited(lambda s: s.pop("prompts")), "server 'files' is incomplete"),
    "big number": (
        tool(lambda block: block["definition"].update(inputSchema={"maximum": 10**20})),
        "does not match its digest",
    ),
}
COMMANDS = (
    ("tools",),
    ("tools", "--wait", "5"),
    ("call", "files_read", "path=x"),
    ("lock", "--yes"),
    ("lock", "--check"),
    ("lock", "--sarif"),
    ("lock", "approve", "files"),
    ("lock", "approve", "files/read"),
    (
        "lock",
        "diff",
    ),
    ("check",),
)


@dataclass
class Damaged:
    """A place whose lockfile was damaged."""

    place: Place
    before: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.place.lock.read_bytes()

    def check(self) -> None:
        """Nothing was started, and nothing overwritten."""
        assert self.place.lock.read_bytes() == self.before
        assert (self.place.starts, self.place.calls) == (0, [])
        assert sorted(file.name for file in self.place.folder.iterdir()) == [
            "offer.json",
            "toolbus.json",
            "toolbus.lock",
        ]


def damaged(folder: Path, name: str) -> Damaged:
    place = Place(folder)
    place.approve()
    place.lock.write_bytes(BROKEN[name][0](place.lock.read_bytes()))
    return Damaged(place)


@pytest.mark.parametrize("name", BROKEN)
def test_a_bus_is_not_made_with_a_broken_lockfile(name: str, tmp_path: Path) -> None:
    found = damaged(tmp_path, name)
    with pytest.raises(LockError) as caught:
        Toolbus(found.place.config)
    assert str(found.place.lock) in str(caught.value)
    assert BROKEN[name][1] in str(caught.value)
    assert "\n" not in str(caught.value)
    found.check()


@pytest.mark.parametrize("name", ["truncated", "description", "newer", "merge conflict"])
def test_no_command_goes_on_with_a_broken_lockfile(name: str, tmp_path: Path) -> None:
    found = damaged(tmp_path / "work", name)
    problem = BROKEN[name][1].replace("'toolbus lock'", "'toolbus lock --config toolbus.json'")
    for words in COMMANDS:
        done = toolbus("--config", "toolbus.json", *words, folder=found.place.folder)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert problem in done.stderr, words
        assert len(done.stderr.splitlines()) == 1, words
        found.check()


def test_the_error_is_json_for_programs(tmp_path: Path) -> None:
    found = damaged(tmp_path / "work", "truncated")
    done = toolbus("--json", "--config", "toolbus.json", "lock", "diff", folder=found.place.folder)
    assert json.loads(done.stdout)["error"]["type"] == "LockError"
    assert done.returncode == 2


def test_a_lockfile_that_is_a_folder_is_an_error(tmp_path: Path) -> None:
    place = Place(tmp_path / "work")
    place.lock.mkdir()
    with pytest.raises(LockError, match="cannot be read: Is a directory"):
        Toolbus(place.config)
    for words in COMMANDS:
        done = toolbus("--config", "toolbus.json", *words, folder=place.folder)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), words
    assert (place.starts, list(place.lock.iterdir())) == (0, [])


def test_a_lockfile_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    place = Place(tmp_path)
    # A loop of links cannot be read by anybody, root included.
    place.lock.symlink_to(place.lock)
    with pytest.raises(LockError, match="cannot be read: Too many levels"):
        Toolbus(place.config)
    assert place.starts == 0


def test_a_broken_lockfile_of_another_config_does_not_matter(tmp_path: Path) -> None:
    place, other = Place(tmp_path / "here"), Place(tmp_path / "there")
    other.lock.write_text("broken")
    assert Toolbus(place.config).lock is None


def older(document: dict[str, JSON]) -> dict[str, JSON]:
    """A migration from a version 0 in which `servers` was called `approved`."""
    return {"version": 1, "servers": document["approved"]}


def test_an_older_version_is_migrated(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.approve()
    now: dict[str, JSON] = json.loads(place.lock.read_bytes())
    old: dict[str, JSON] = {"version": 0, "approved": now["servers"]}
    migrated = upgraded(old, place.lock, {0: older})
    assert migrated == now
    assert lock_in(json.dumps(migrated).encode(), place.lock).servers.keys() == {"files"}


def test_versions_are_migrated_one_by_one(tmp_path: Path) -> None:
    def step(version: int) -> Migration:
        return lambda document: {**document, "seen": [*document["seen"], version]}

    steps = {version: step(version) for version in range(3)}
    document: dict[str, JSON] = {"version": 0, "seen": []}
    assert upgraded(document, tmp_path, steps, to=3)["seen"] == [0, 1, 2]
    with pytest.raises(LockError, match="unknown version 1"):
        upgraded({"version": 1}, tmp_path, {0: older, 2: older}, to=3)
    with pytest.raises(LockError, match="has version 4, and this toolbus reads up to 3; upgrade toolbus"):
        upgraded({"version": 4}, tmp_path, steps, to=3)


def test_git_merges_that_take_both_sides_are_found(tmp_path: Path) -> None:
    """Two people approve different tools, and git merges the blocks without a conflict."""
    ours, theirs = Place(tmp_path / "ours"), Place(tmp_path / "theirs")
    for place in (ours, theirs):
        place.approve()
    one, other = (json.loads(place.lock.read_bytes()) for place in (ours, theirs))
    one["servers"]["files"]["tools"]["extra"] = other["servers"]["files"]["tools"]["read"]
    ours.lock.write_text(json.dumps(one))
    with pytest.raises(LockError, match="does not match its digest"):
        Toolbus(ours.config)
