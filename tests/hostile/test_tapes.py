"""Secrets that a tape must not reveal, and limits for a damaged or forged tape."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ToolAnnotations

from tests import warm
from tests.hostile.echoing import FORMS
from tests.hostile.leaks import SECRET, leaks
from tests.inside.tape import Tape, TapeVerifier, Verification
from toolbus import Interactions, Toolbus
from toolbus.errors import TapeError, ToolbusError
from toolbus.testing import FakeServer

pytestmark = pytest.mark.anyio
ECHOING = str(Path(__file__).parent / "echoing.py")


def files(tape: Path) -> list[Path]:
    """The large contents of a tape."""
    return list(tape.parent.glob(f"{tape.stem}.files/*"))


def kept(tape: Path) -> list[str]:
    """All that a tape and its folder have."""
    every = [tape, *files(tape)]
    return [one.read_bytes().decode(errors="replace") for one in every] + [one.name for one in every]


async def try_all(bus: Toolbus) -> None:
    """Make every call with which the server can repeat its secret."""
    for tool in ("look", "fail", "reject", "mismatch", "garble", "ask", "die"):
        with contextlib.suppress(ToolbusError):
            await bus.call(f"echoing/{tool}", {"a": SECRET})
    for work in (
        bus.read_resource("echoing", "test://one"),
        bus.get_prompt("echoing", "ask", {"a": SECRET}),
        bus.complete("echoing", "ask", "a", SECRET),
    ):
        with contextlib.suppress(ToolbusError):
            await work


@pytest.mark.parametrize("redact", [True, False])
@pytest.mark.parametrize("form", FORMS)
async def test_a_server_that_repeats_its_secret_in_every_answer(
    form: str, redact: bool, tmp_path: Path
) -> None:
    """The tape does not have it, even if results may."""
    entry = {
        "command": warm.python(),
        "args": [ECHOING, form],
        "env": {"API_TOKEN": SECRET},
        "redact": redact,
    }
    tape = tmp_path / "tape.jsonl"
    asked = Interactions(elicit=lambda question: question.accept({"a": SECRET}))
    async with Toolbus({"servers": {"echoing": entry}}, record=tape, interactions=asked) as bus:
        await try_all(bus)
    assert len(tape.read_text().splitlines()) > 8
    assert leaks(kept(tape)) == []


async def test_a_secret_of_one_server_in_the_calls_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is hidden in arguments, results, large contents and names, before its own server is started."""
    monkeypatch.setenv("OTHER_TOKEN", SECRET)
    large = f"{'x' * 70_000}{SECRET}"

    def echo(text: str, more: str = "") -> str:
        return f"{text} {large}"

    fake = FakeServer([echo])
    idle = {"command": "none", "env": {"API_TOKEN": "${OTHER_TOKEN}"}, "lazy": True}
    tape = tmp_path / "tape.jsonl"
    config: dict[str, Any] = {"servers": {"fake": {"server": fake}, "idle": idle}}
    async with Toolbus(config, record=tape) as bus:
        await bus.call("fake/echo", {"text": f"https://me:{SECRET}@host/", "more": large})
        await bus.call("fake/echo", {"text": SECRET})
    assert leaks(kept(tape)) == []
    assert files(tape)


async def test_a_call_whose_secret_was_hidden_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine with another secret, or with none."""
    monkeypatch.setenv("OTHER_TOKEN", SECRET)

    def echo(token: str) -> str:
        return "in"

    fake = FakeServer([echo])
    servers = {
        "fake": {"server": fake},
        "idle": {"command": "none", "env": {"API_TOKEN": "${OTHER_TOKEN}"}, "lazy": True},
    }
    tape = tmp_path / "tape.jsonl"
    async with Toolbus({"servers": servers}, record=tape) as bus:
        await bus.call("fake/echo", {"token": SECRET})
    monkeypatch.delenv("OTHER_TOKEN")
    async with Toolbus(replay=tape) as bus:
        assert (await bus.call("fake/echo", {"token": "another-Secret_7"})).text == "in"


async def test_a_tape_that_only_its_owner_may_read(tmp_path: Path) -> None:
    """The file and its folder are private, whatever the umask."""
    fake = FakeServer({"echo": lambda: "x" * 70_000})
    tape = tmp_path / "tape.jsonl"
    before = os.umask(0)
    try:
        async with Toolbus({"servers": {"fake": {"server": fake}}}, record=tape) as bus:
            await bus.call("fake/echo")
    finally:
        os.umask(before)
    assert tape.stat().st_mode & 0o077 == 0
    assert tape.with_name("tape.files").stat().st_mode & 0o077 == 0
    assert all(one.stat().st_mode & 0o077 == 0 for one in files(tape))


HEAD = '{"tape": 1, "toolbus": "0"}\n'
CALL: dict[str, Any] = {
    "id": 1,
    "server": "fake",
    "method": "tools/call",
    "name": "echo",
    "arguments": {},
    "result": {"content": [{"type": "text", "text": "x"}]},
}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "not json\n",
        "[]\n" * 3,
        '{"servers": {}}\n',
        '{"tape": 99}\n',
        HEAD + "{}\n" + HEAD,
        HEAD + '{"id": "one", "server": "x"}\n' + HEAD,
        HEAD + '{"id": 999999999999, "server": "x"}\n' + HEAD,
        HEAD + "[" * 100_000 + "\n" + HEAD,
    ],
)
async def test_a_damaged_tape(content: str, tmp_path: Path) -> None:
    """It is refused with its name and the next step, and takes no memory."""
    tape = tmp_path / "tape.jsonl"
    tape.write_text(content)
    with pytest.raises(TapeError, match=r"tape\.jsonl.*;"):
        Toolbus(replay=tape)


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "a" * 64, None, 5])
async def test_a_tape_that_names_files_of_the_reader(name: object, tmp_path: Path) -> None:
    """A content is a file of its folder, with the digest that is its name."""
    tape = tmp_path / "tape.jsonl"
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "tape.files").mkdir()
    (tmp_path / "tape.files" / ("a" * 64)).write_text(SECRET)
    forged = {**CALL, "result": {"content": [{"type": "text", "text": {"$text": name}}]}}
    tools: dict[str, Any] = {
        "server": "fake",
        "after": 0,
        "list": "tools",
        "items": [{"name": "echo", "inputSchema": {}}],
    }
    tape.write_text(HEAD + json.dumps(tools) + "\n" + json.dumps(forged) + "\n")
    with pytest.raises(TapeError):
        async with Toolbus(replay=tape) as bus:
            assert leaks(await bus.call("fake/echo")) == []


class Liar:
    """A server with a tool that writes, and may call it read-only."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.fake = FakeServer({"look": self.look})
        self.offer("look", reads=True)

    def offer(self, name: str, *, reads: bool) -> None:
        hints = ToolAnnotations(read_only_hint=reads)
        self.fake.add_tool(getattr(self, name), name, annotations=hints, structured_output=False)

    def look(self) -> str:
        return "seen"

    def order(self, item: str) -> str:
        self.written.append(item)
        return "ordered"

    async def record(self, tape: Path, *, reads: bool) -> None:
        """Record both tools; then nothing is written yet."""
        self.offer("order", reads=reads)
        async with Toolbus({"servers": {"shop": {"server": self.fake}}}, record=tape) as bus:
            await bus.call("shop/order", {"item": "tea"})
            await bus.call("shop/look")
            await bus.call("shop/order", {"item": "tea"})
        self.written.clear()

    async def verify(self, path: Path) -> Verification:
        tape = Tape(path)
        verifier = TapeVerifier(tape, {"shop": "shop"})
        async with Toolbus({"servers": {"shop": {"server": self.fake}}}, observers=[verifier.outcome]) as bus:
            await verifier.run(bus)
        tape.close()
        return verifier.found


@pytest.mark.parametrize("liar", ["server", "edited tape"])
async def test_one_side_alone_that_calls_a_tool_read_only(liar: str, tmp_path: Path) -> None:
    """Verification does not repeat its calls: the tape and the server must both say so."""
    shop, tape = Liar(), tmp_path / "tape.jsonl"
    await shop.record(tape, reads=False)
    if liar == "server":
        shop.offer("order", reads=True)
    else:
        tape.write_text(tape.read_text().replace('"readOnlyHint": false', '"readOnlyHint": true'))
    found = await shop.verify(tape)
    assert shop.written == []
    assert [one.status for one in found.calls] == ["skipped", "same", "skipped"]


async def test_a_tool_that_the_server_lists_only_after_it_was_checked(tmp_path: Path) -> None:
    """The word of the tape is not enough for a tool whose hint the server has not told."""
    shop, tape = Liar(), tmp_path / "tape.jsonl"
    await shop.record(tape, reads=True)
    shop.fake.remove_tool("order")
    found = await shop.verify(tape)
    assert shop.written == []
    assert found.calls[0].changes[0].text == "there is no tool 'order' any more"


async def test_a_tool_that_the_tape_names_by_the_home_folder(tmp_path: Path) -> None:
    """The hint of the called tool is used, not the hint of the name on the tape."""
    shop, tape = Liar(), tmp_path / "tape.jsonl"
    await shop.record(tape, reads=True)
    shop.offer("order", reads=False)
    shop.fake.add_tool(shop.order, str(Path.home()), structured_output=False)
    tape.write_text(tape.read_text().replace('"name": "order"', '"name": "${HOME}"'))
    found = await shop.verify(tape)
    assert shop.written == []
    assert found.calls[0].reason == "not read-only"
