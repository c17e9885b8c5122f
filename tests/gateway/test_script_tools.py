"""Scripts as tools of `toolbus serve`: clients of both eras and of the REST API answer their questions."""

import asyncio
import json
import re
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.cli.running import environment, toolbus
from tests.code.support import written
from tests.code.test_script_tools import ASK, keeping
from tests.gateway.serving import gateway
from tests.patience import PATIENCE

MODES = {"modern": "2026-07-28", "legacy": "legacy"}
SERVE = {"rest": True, "auth": {"keys": True}, "views": {"default": {"include": ["keep"]}}}


@contextmanager
def served(folder: Path, *users: str) -> Generator[tuple[str, dict[str, dict[str, str]]]]:
    """A gateway that shows only the script, whose writes need approval; its URL and each user's headers."""
    config = keeping(folder, policy=ASK, serve=SERVE, audit=str(folder / "audit.jsonl"))
    headers: dict[str, dict[str, str]] = {}
    for user in users:
        words = ("key", "add", user, "--view", "default", "--json", "--config", str(config))
        made = toolbus(*words, folder=folder, env=environment(folder))
        headers[user] = {"authorization": f"Bearer {json.loads(made.stdout)['key']}"}
    with gateway(config) as url:
        yield url, headers


def steps(folder: Path) -> dict[str, list[tuple[str, str]]]:
    """The calls of each user: `script` or `step`, and the tool. A step names a script of the same user."""
    lines = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
    calls = {line["id"]: line for line in lines if line.get("outcome") == "ok"}
    scripts = {line["id"]: line["user"] for line in lines if line.get("tool") == "keep"}
    found: dict[str, list[tuple[str, str]]] = {}
    for line in calls.values():
        during = line.get("during")
        assert during is None or scripts[during] == line["user"], line
        found.setdefault(line["user"], []).append(("script" if during is None else "step", line["tool"]))
    return found


async def called(url: str, headers: dict[str, str], mode: Any, lines: list[str], has_forms: bool) -> Any:
    """The result of the script for a client of the SDK, and the questions that it was asked."""
    asked: list[str] = []

    async def allowed(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"answer": "once"})

    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=PATIENCE))
        answer = allowed if has_forms else None
        transport = streamable_http_client(url, http_client=http)
        client = await stack.enter_async_context(Client(transport, mode=mode, elicitation_callback=answer))
        assert [tool.name for tool in (await client.list_tools()).tools] == ["keep"]
        return await client.call_tool("keep", {"lines": lines}), asked


@pytest.mark.anyio
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
async def test_two_users_answer_the_questions_of_their_own_steps(mode: str, tmp_path: Path) -> None:
    with served(tmp_path, "ann", "ben") as (url, headers):
        both = [called(url, headers[user], mode, [f"{user} 1", f"{user} 2"], True) for user in headers]
        ends = await asyncio.gather(*both)
    for user, (result, asked) in zip(headers, ends, strict=True):
        assert not result.is_error, result
        assert result.structured_content == {"kept": 2, "names": ["row 0"]}
        assert [f"> {user} {number}" in question for number, question in enumerate(asked, 1)] == [True] * 2
    assert sorted(written(tmp_path)) == ["> ann 1", "> ann 2", "> ben 1", "> ben 2"]
    found = steps(tmp_path)
    assert {*found} == {"key:ann", "key:ben"}
    for calls in found.values():
        assert [tool for kind, tool in calls if kind == "step"] == ["write", "write", "rows"]
        assert ("script", "keep") in calls


@pytest.mark.anyio
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
async def test_a_client_without_forms_reads_the_question(mode: str, tmp_path: Path) -> None:
    with served(tmp_path, "ann") as (url, headers):
        result, _ = await called(url, headers["ann"], mode, ["a"], False)
    assert result.is_error
    assert "this client cannot show the question" in result.content[0].text
    assert 'call "ledger_write" with {"line": "> a"}' in result.content[0].text
    assert written(tmp_path) == []


def test_a_client_of_the_rest_api_answers_each_step_once(tmp_path: Path) -> None:
    with (
        served(tmp_path, "ann", "eve") as (url, headers),
        httpx2.Client(base_url=re.sub("/mcp$", "", url), timeout=PATIENCE) as http,
    ):
        response = http.post("/tools/keep", json={"lines": ["a", "b"]}, headers=headers["ann"])
        place = response.headers["location"]
        for expected in ([], ["> a"]):
            assert response.status_code in (200, 202), response.text
            state = response.json()
            assert state["status"] == "input_required", state
            assert written(tmp_path) == expected
            [name] = state["questions"]
            answers = {"answers": {name: {"action": "accept", "content": {"answer": "once"}}}}
            stranger = http.post(place, json=answers, headers=headers["eve"])
            assert stranger.status_code == 404
            response = http.post(place, json=answers, headers=headers["ann"])
        assert (response.status_code, response.json()["status"]) == (200, "completed"), response.text
        assert json.loads(response.json()["result"]["content"][0]["text"]) == {"kept": 2, "names": ["row 0"]}
        again = http.post(place, json=answers, headers=headers["ann"])
        assert again.status_code >= 400, again.text
    assert written(tmp_path) == ["> a", "> b"]
    assert [call for call in steps(tmp_path)["key:ann"] if call[0] == "step"] == [
        ("step", "write"),
        ("step", "write"),
        ("step", "rows"),
    ]
