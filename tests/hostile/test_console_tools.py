"""Attacks on the page of tools: by results of servers, by copied calls, and by invalid forms."""

import asyncio
import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.server.lowlevel import Server

from tests.gateway.console.opening import console_over
from tests.inside.console import ArgumentForm, Trial, anchor, as_command, as_program, planned_switch
from tests.inside.core import Origin
from toolbus import BusConfig

pytestmark = pytest.mark.anyio

PAGE = b"<script>alert(document.cookie)</script>"
SHELL = "toolbus() { printf '%s\\0' \"$@\"; }; "
PYTHON = (
    "import sys, types, json\n"
    "class Bus:\n"
    "  def __init__(self, *a, **k): pass\n"
    "  def __enter__(self): return self\n"
    "  def __exit__(self, *a): pass\n"
    "  def call(self, *a): return types.SimpleNamespace(text=json.dumps(a))\n"
    "sys.modules['toolbus'] = types.SimpleNamespace(SyncToolbus=Bus)\n"
)


@settings(max_examples=15, deadline=None)
@given(st.dictionaries(st.text(), st.text() | st.lists(st.text() | st.none()), max_size=3))
def test_a_copied_call_is_this_call_and_nothing_else(arguments: dict[str, Any]) -> None:
    """Quotes, substitutions, line feeds and hidden characters in arguments are data in both copies."""
    trial = Trial(number=1, tool="files_read", typed={}, arguments=arguments)
    config = BusConfig()
    command = as_command(config, trial)
    said = subprocess.run(["sh", "-c", SHELL + command], capture_output=True, check=True, timeout=60).stdout
    words = said.decode().split("\0")[:-1]
    assert words == ["call", *(["--args", json.dumps(arguments)] if arguments else []), "files_read"]
    program = PYTHON + as_program(config, trial)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=60).stdout
    assert json.loads(ran) == ["files_read", arguments]


async def test_a_page_in_a_result_is_saved_and_never_opened() -> None:
    """A server returns HTML as a blob and as text, with a type that browsers run."""

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="page", input_schema={"type": "object"})])

    async def call_tool(ctx: Any, params: Any) -> types.CallToolResult:
        data = base64.b64encode(PAGE).decode("ascii")
        blob = types.BlobResourceContents(uri="x://x", blob=data, mime_type="text/html")
        text = types.TextResourceContents(uri="x://y", text=PAGE.decode(), mime_type="text/html")
        return types.CallToolResult(
            content=[types.EmbeddedResource(resource=blob), types.EmbeddedResource(resource=text)]
        )

    server: Server[Any] = Server("pages", on_list_tools=list_tools, on_call_tool=call_tool)
    async with console_over({"servers": {"x": {"server": server}}}) as opened:
        await opened.enter()
        await opened.post("tools/call", {"name": "x_page"})
        async with opened.stream("tools?tool=x_page") as stream:
            await stream.until(lambda part: 'id="trial"' in part and "done" in part)
        for part in ("part-0", "part-1", "text", "json", "part-9", "part--1", "x"):
            saved = await opened.http.get(f"{opened.home}/tools/result?trial=1&part={part}")
            assert saved.headers["x-content-type-options"] == "nosniff"
            if saved.status_code == 200:
                assert saved.headers["content-disposition"].startswith("attachment; ")
                kind = saved.headers["content-type"].split(";")[0]
                assert kind in ("application/octet-stream", "text/plain", "application/json")
            else:
                assert PAGE.decode() not in saved.text


@pytest.mark.parametrize(
    "mark", ["list:" + ",".join(map(str, range(2000))), "list:-1", "list:1,1,1", "object" * 9]
)
def test_a_form_with_a_shape_that_no_page_has_takes_little_work(mark: str) -> None:
    """Thousands of items of items, marks that contradict each other, and keys of nothing."""
    item: dict[str, Any] = {"type": "array", "items": {"$ref": "#/$defs/item"}}
    schema: dict[str, Any] = {"type": "object", "properties": {"a": item}, "$defs": {"item": item}}
    key = anchor("field", "a")
    typed = {f"{key}-as": [mark], key: ["x"], "root-as": ["json"], "inner-0-as": ["list:1"]}
    form = ArgumentForm(schema, typed)
    assert len(form.by_key) < 300
    form.read()


def _shown(config: BusConfig) -> str:
    """The digest of the change that switches `files/read` off."""
    return planned_switch(config, Origin("files", "read"), "off", [])[0].digest


async def test_a_tool_is_not_switched_by_what_was_shown_of_another(tmp_path: Path) -> None:
    """The digest of one change comes with another tool, another direction, or a server that is not there."""
    config = tmp_path / "toolbus.json"
    entry = {"command": "no-such-command-at-all"}
    config.write_text(json.dumps({"servers": {"files": entry}}))
    before = config.read_bytes()
    async with console_over(str(config)) as opened:
        await opened.enter()
        shown = await asyncio.to_thread(_shown, opened.bus.config)
        for form in (
            {"server": "files", "tool": "write", "to": "off", "digest": shown},
            {"server": "files", "tool": "read", "to": "up", "digest": shown},
            {"server": "../x", "tool": "read", "to": "off", "digest": shown},
            {"server": "files", "tool": "", "to": "off", "digest": ""},
        ):
            assert (await opened.post("tools/switch", form)).status_code == 303
    assert config.read_bytes() == before
