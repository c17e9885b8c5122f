"""Secrets come from the host; a missing one costs its server only, and none is ever shown."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.extension.hosts import Context, broken, desk, initialized, manifest, run
from toolbus import SecretMissing
from toolbus.extension import McpBridgeExtension

pytestmark = pytest.mark.anyio

SECRET = "s3cr3t-of-the-desk"
REMOTE = {"alias": "remote", "transport": "sse", "url": "https://x.test/sse"}
LACKING = {**REMOTE, "headers": {"Authorization": "Bearer ${ABSENT_TOKEN}"}}


def plainly(name: str) -> str | None:
    return {"DESK_TOKEN": SECRET}.get(name)


async def awaited(name: str) -> str | None:
    return plainly(name)


def raising(name: str) -> str | None:
    if (value := plainly(name)) is None:
        raise KeyError(name)
    return value


@pytest.mark.parametrize("get_secret", [plainly, awaited, raising])
async def test_a_missing_secret_skips_its_server_and_is_named_while_the_others_go_on(
    get_secret: Callable[[str], str | Awaitable[str | None] | None], caplog: pytest.LogCaptureFixture
) -> None:
    servers = [LACKING, desk(env={"TOKEN": "${DESK_TOKEN}"}, redact=False)]
    chosen = [{"server": "remote", "uri": "a://b"}, {"server": "desk", "uri": "memo://greeting"}]
    extension = McpBridgeExtension({"config": {"servers": servers, "context": chosen}})
    with caplog.at_level(logging.WARNING, "toolbus"):
        await extension.initialize(SimpleNamespace(get_secret=get_secret))
        await extension.start()
    try:
        assert await run(extension, "mcp_desk_environment", name="TOKEN") == SECRET
        assert extension.get_tools(server="remote") == []
        assert await extension.health_check(), "who is skipped should not be up"
        assert list(await extension.health()) == ["desk"]
        greeting = '<resource server="desk" uri="memo://greeting">\nhello\n</resource>'
        assert await extension.get_context() == greeting
    finally:
        await extension.stop()
    assert list(extension.skipped) == ["remote"]
    [warning] = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warning.startswith("server 'remote': headers.Authorization: secret 'ABSENT_TOKEN' is not set")
    assert warning.endswith("; the server is skipped")


async def test_every_secret_that_is_missing_is_told_and_nothing_is_connected_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lacking = [desk("one", env={"T": "${ABSENT_ONE}"}), {**REMOTE, "url": "https://x.test/${ABSENT_TWO}"}]
    extension = await initialized(None, *lacking)
    await extension.start()
    await extension.stop()
    assert [
        name for name in ("ABSENT_ONE", "ABSENT_TWO") if f"secret '{name}' is not set" in caplog.text
    ] == [
        "ABSENT_ONE",
        "ABSENT_TWO",
    ]


async def test_a_server_that_is_required_is_not_skipped() -> None:
    with pytest.raises(SecretMissing) as caught:
        await initialized(None, {**LACKING, "required": True}, desk())
    assert (caught.value.server, caught.value.reference) == ("remote", "ABSENT_TOKEN")


async def test_the_names_of_other_tools_do_not_depend_on_a_secret() -> None:
    """`linger_reading` of `desk` spells a name that belongs to `desk_linger`."""
    servers = [desk(tool_allowlist=["linger_reading"]), desk("desk_linger", env={"T": "${DESK_TOKEN}"})]
    names: list[list[str]] = []
    for secrets in ({"DESK_TOKEN": SECRET}, {}):
        extension = await initialized(Context(secrets=secrets), *servers)
        await extension.start()
        names.append([tool.name for tool in extension.get_tools(server="desk")])
        await extension.stop()
    assert names[0] == names[1]


async def test_defaults_and_the_env_file_beside_the_manifest_count_too(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("FROM_FILE=one\n")
    path = manifest(tmp_path, desk(env={"A": "${FROM_FILE}", "B": "${ABSENT_TOKEN:-two}"}))
    extension = McpBridgeExtension(path)
    await extension.initialize(Context())
    await extension.start()
    try:
        assert await run(extension, "mcp_desk_environment", name="A") == "one"
        assert await run(extension, "mcp_desk_environment", name="B") == "two"
    finally:
        await extension.stop()


async def test_a_secret_that_cannot_be_used_skips_its_server_too(caplog: pytest.LogCaptureFixture) -> None:
    extension = await initialized(Context(secrets={"ABSENT_TOKEN": f"{SECRET}\nmore"}), LACKING)
    await extension.stop()
    assert list(extension.skipped) == ["remote"]
    assert "headers.Authorization: holds a line break" in caplog.text
    assert SECRET not in caplog.text


async def test_no_secret_is_in_a_log_a_repr_an_event_or_an_error(
    web_ports: dict[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    web: dict[str, Any] = {
        "alias": "web",
        "transport": "streamable-http",
        "url": f"http://127.0.0.1:{web_ports['http']}/mcp?key=${{DESK_TOKEN}}",
        "headers": {"Authorization": "Bearer ${DESK_TOKEN}"},
    }
    down = {**broken(), "args": ["--token", "${DESK_TOKEN}"], "env": {"TOKEN": "${DESK_TOKEN}"}}
    context = Context(secrets={"DESK_TOKEN": SECRET})
    with caplog.at_level(logging.DEBUG):
        extension = await initialized(context, web, down, desk(env={"TOKEN": "${DESK_TOKEN}"}))
        await extension.start()
        await run(extension, "mcp_web_echo", text="hello")
        await run(extension, "mcp_desk_fail", reason=f"no entry for {SECRET}")
        shown = [extension, extension.servers, await extension.health(), extension.get_tools()]
        await extension.stop()
    assert [name for name, _ in context.told] == ["mcp.tool_called", "mcp.tool_failed"]
    ours = "".join(record.getMessage() for record in caplog.records if record.name == "toolbus")
    assert SECRET not in ours + repr(shown) + repr(context.told)
    assert f"Bearer {SECRET}" not in caplog.text
    assert f"key={SECRET}" not in caplog.text
