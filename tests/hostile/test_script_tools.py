"""A script of the config is a tool: it gets no further than its steps, and its arguments stay values."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import toolbus
from tests.cli.test_cli_trust import PENDING, USING
from tests.code.support import config, written
from tests.code.test_escapes import ESCAPES
from tests.code.test_script_tools import saved
from toolbus import Toolbus
from toolbus.errors import CallDenied

SECRET = "a-secret-of-the-ledger"
BOMBS = {"memory", "list bomb", "power bomb", "string bomb", "loop", "regex", "sleep", "sleeps", "print"}
REACHES = {
    "toolbus": "import toolbus\ntoolbus.Toolbus",
    "environment of the bus": "import os\nos.environ['LEDGER_TOKEN']",
    "procfs": "open('/proc/self/environ').read()",
    "path read": "from pathlib import Path\nPath('toolbus.yaml').read_text()",
    "globals of a tool": "ledger_write.__globals__",
    "owner of a tool": "ledger_write.__self__",
    "closure of a tool": "ledger_write.__closure__",
    "frame of a call": "ledger_rows(count=1).cr_frame",
    "format": "'{0.__globals__}'.format(ledger_write)",
    "secret by argument": "await ledger_rows(count='${LEDGER_TOKEN}')",
}
INSIDE = {**{name: text for name, text in ESCAPES.items() if name not in BOMBS}, **REACHES}
TEXTS = [
    "'\"",
    '"""\nawait ledger_write(line=\'injected\')\n"""',
    "x\nawait ledger_write(line='injected')",
    "'; __import__('os').system('touch escaped'); '",
    "__import__('os').getcwd()",
    "${LEDGER_TOKEN}",
    "{ledger_write}",
    "\\",
    "\u2028await ledger_write(line='injected')",
    "\t",
]


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("LEDGER_TOKEN", SECRET)
    monkeypatch.chdir(tmp_path)


def with_secret(folder: Path) -> dict[str, Any]:
    """The settings of a config whose server has a secret in its environment."""
    servers = config(folder)["servers"]
    return {"servers": {"ledger": {**servers["ledger"], "env": {"TOKEN": "${LEDGER_TOKEN}"}}}}


@pytest.mark.anyio
async def test_a_script_reads_no_file_variable_or_secret(tmp_path: Path) -> None:
    """Each attempt is an error of that call, without the secret of the server."""
    scripts = {name.replace(" ", "_"): text for name, text in INSIDE.items()}
    async with Toolbus(saved(tmp_path, scripts, with_secret(tmp_path))) as bus:
        for name in scripts:
            result = await bus.call(f"tools/{name}")
            assert result.is_error, (name, result.text)
            assert SECRET not in result.text
    assert not (tmp_path / "escaped").exists()
    assert written(tmp_path) == []


@pytest.mark.anyio
async def test_the_text_of_an_argument_stays_a_value(tmp_path: Path) -> None:
    """Quotes, line breaks, code and references arrive as they are, in the script and in its steps."""
    text = """
for text in texts:
    await ledger_write(line=text.replace("\\n", " "))
{"back": texts, "keys": [key for key in more if more[key] == key]}
"""
    schema = {"texts": ["string"], "more": "object"}
    async with Toolbus(saved(tmp_path, {"back": text}, with_secret(tmp_path), back={"input": schema})) as bus:
        result = await bus.call("back", {"texts": TEXTS, "more": {text: text for text in TEXTS}})
    assert result.structured == {"back": TEXTS, "keys": TEXTS}
    assert not (tmp_path / "escaped").exists()
    kept = (tmp_path / "ledger.txt").read_text()
    assert kept == "".join(text.replace("\n", " ") + "\n" for text in TEXTS)


@pytest.mark.anyio
async def test_an_argument_that_was_not_declared_replaces_nothing(tmp_path: Path) -> None:
    """A model may send any name: of a tool, a builtin or a keyword. It is left out."""
    schema = {"type": "object", "properties": {"line": {"type": "string"}}, "additionalProperties": True}
    text = "await ledger_write(line=line)\nlen([line])"
    names = ["ledger_write", "len", "print", "class", "__import__", "__builtins__", "x = 1\ny"]
    async with Toolbus(saved(tmp_path, {"keep": text}, keep={"input": schema})) as bus:
        result = await bus.call("keep", {"line": "a", **dict.fromkeys(names, "injected")})
        await bus.reload(saved(tmp_path, {"keep": text}, keep={"input": {"line": "string"}}))
        closed = await bus.call("keep", {"line": "b", **dict.fromkeys(names, "injected")})
    assert [(one.text, one.is_error) for one in (result, closed)] == [("1", False)] * 2
    assert written(tmp_path) == ["a", "b"]


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["ledger_write", "len", "class", "await", "__import__", "1; x", "a\nb"])
async def test_an_odd_name_of_an_argument_is_a_variable_at_most(name: str, tmp_path: Path) -> None:
    """It is never code: the script runs with the value, or is refused."""
    injected = "await ledger_write(line='injected')"
    async with Toolbus(saved(tmp_path, {"odd": "'ran'"}, odd={"input": {name: "string"}})) as bus:
        result = await bus.call("odd", {name: injected})
    assert result.is_error or result.text == "ran"
    assert written(tmp_path) == []


@pytest.mark.parametrize("words", [*USING.values(), ["call", "keep"], ["script", "keep.py"]], ids=" ".join)
def test_no_command_runs_a_script_of_a_config_that_nobody_trusts(words: list[str], tmp_path: Path) -> None:
    """A clone brings a tool; neither the script nor the server of its step is started."""
    clone = tmp_path / "home" / "clone"
    clone.mkdir(parents=True)
    saved(clone, {"keep": 'await ledger_write(line="x")'})
    (clone / "call.json").write_text(PENDING.to_json())
    run = toolbus(*words, folder=clone)
    assert (run.returncode, run.stdout) == (2, "")
    assert "is not trusted yet" in run.stderr
    assert written(clone) == []


def test_a_script_that_changes_after_trust_is_not_run(tmp_path: Path) -> None:
    """An update of the clone changes the script alone."""
    clone = tmp_path / "home" / "clone"
    clone.mkdir(parents=True)
    saved(clone, {"keep": "'mine'"})
    assert toolbus("trust", "--yes", folder=clone).returncode == 0
    assert "mine" in toolbus("call", "keep", folder=clone).stdout
    (clone / "keep.py").write_text('await ledger_write(line="x")')
    run = toolbus("call", "keep", folder=clone)
    assert run.returncode == 2, run.stdout
    assert "keep.py" in run.stderr
    assert written(clone) == []


@pytest.mark.anyio
@pytest.mark.parametrize("uses", [["ledger/write"], ["*"], None], ids=str)
async def test_a_denied_step_stays_denied(uses: list[str] | None, tmp_path: Path) -> None:
    """Neither `uses`, a `try` nor a second script between opens what the policy denies."""
    text = "try:\n    await ledger_write(line='x')\nexcept RuntimeError:\n    pass\nawait {}(line='y')"
    scripts = {"tries": text.format("ledger_write"), "outer": "await tries()"}
    more: dict[str, Any] = {} if uses is None else {"tries": {"uses": uses}}
    rules = [{"tools": "ledger/write", "do": "deny", "reason": "closed"}]
    file = saved(tmp_path, scripts, {"policy": rules}, **more)
    async with Toolbus(file) as bus:
        ends = [await bus.call("tries"), await bus.call("outer")]
        with pytest.raises(CallDenied):
            await bus.call("ledger_write", {"line": "z"})
    assert all(end.is_error and "closed" in end.text for end in ends)
    assert written(tmp_path) == []


@pytest.mark.anyio
@pytest.mark.parametrize("expose", ["search", "code"])
async def test_no_tool_of_the_bus_leads_around_uses(expose: str, tmp_path: Path) -> None:
    """A step cannot call another tool through `call_tool` or `run_code`."""
    inner = "await ledger_write(line='x')"
    scripts = {
        "by_code": f'await run_code(script="{inner}")',
        "by_name": "await call_tool(name='ledger_write', arguments={'line': 'x'})",
    }
    for uses in (["ledger/rows"], ["ledger/rows", "toolbus/*"]):
        file = saved(tmp_path, scripts, {"expose": expose}, **{name: {"uses": uses} for name in scripts})
        async with Toolbus(file) as bus:
            assert all([(await bus.call(f"tools/{name}")).is_error for name in scripts])
    assert written(tmp_path) == []


@pytest.mark.anyio
@pytest.mark.parametrize("setting", [{"exclude": ["write"]}, {"include": ["rows"]}], ids=str)
async def test_a_step_reaches_no_tool_that_its_server_leaves_out(
    setting: dict[str, list[str]], tmp_path: Path
) -> None:
    """A step may be a tool that `expose` or a view hides, but none that the server's entry removes."""
    server = {**config(tmp_path)["servers"]["ledger"], **setting}
    scripts = {"writes": "await ledger_write(line='x')", "reads": "await ledger_rows(count=1)"}
    uses = {name: {"uses": ["ledger/*"]} for name in scripts}
    settings = {"servers": {"ledger": server}, "expose": "search"}
    async with Toolbus(saved(tmp_path, scripts, settings, **uses)) as bus:
        view = bus.view(include=["writes", "reads"])
        assert not (await view.call("reads")).is_error
        assert (await view.call("writes")).is_error
    assert written(tmp_path) == []
