"""`context` and `context_budget`: which resources an agent is told before it begins."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.inside.config import ImportFile, imported
from toolbus import Toolbus
from toolbus.config import ContextSource, load_config
from toolbus.context import ContextProvider
from toolbus.errors import ConfigError

SERVERS = {"docs": {"command": "docs-server"}, "notes": {"command": "notes-server"}}
GUIDE = {"server": "docs", "uri": "file:///guide.md"}


def test_sources_are_kept_in_their_order() -> None:
    config = load_config(
        {
            "servers": SERVERS,
            "context": [{"server": "notes", "uri": "memo://*"}, GUIDE],
            "context_budget": 900,
        }
    )
    assert config.context == (ContextSource(server="notes", uri="memo://*"), ContextSource(**GUIDE))
    assert config.context_budget == 900


@pytest.mark.parametrize("context", [None, [], "absent"])
def test_without_any_there_are_none(context: Any) -> None:
    settings = {} if context == "absent" else {"context": context}
    config = load_config({"servers": SERVERS, **settings})
    assert (config.context, config.context_budget) == ((), 8_000)


@pytest.mark.parametrize("off", [{"enabled_servers": ["notes"]}, {"servers": {"docs": {"enabled": False}}}])
def test_of_a_server_that_is_switched_off_there_is_nothing_to_read(off: dict[str, Any]) -> None:
    """The source stays, because a program may enable its server; `ContextProvider` skips it until then."""
    config = load_config({"servers": SERVERS, "context": [GUIDE], **off})
    assert (config.context, config.disabled) == ((ContextSource(**GUIDE),), ("docs",))
    found = asyncio.run(ContextProvider(Toolbus(config)).text())
    assert found == ""


@pytest.mark.parametrize(
    ("settings", "key", "problem"),
    [
        ({"context": GUIDE}, "context", "expected a list of {server: ..., uri: ...}"),
        ({"context": ["file:///guide.md"]}, "context[0]", "expected a mapping"),
        ({"context": [GUIDE, {"server": "docs"}]}, "context[1].uri", "is missing"),
        ({"context": [{**GUIDE, "uri": 7}]}, "context[0].uri", "expected a string"),
        ({"context": [{**GUIDE, "uri": ""}]}, "context[0].uri", "expected a non-empty string"),
        ({"context": [{**GUIDE, "url": "x"}]}, "context[0].url", "unknown key; did you mean 'uri'?"),
        (
            {"context": [{**GUIDE, "server": "doc"}]},
            "context[0].server",
            "no server has the alias 'doc'; did you mean 'docs'?",
        ),
        ({"context_budget": 20}, "context_budget", "expected a number of tokens, at least 200"),
        ({"context_budget": True}, "context_budget", "expected a number of tokens, at least 200"),
        ({"context_budget": "4k"}, "context_budget", "expected a number of tokens, at least 200"),
        ({"contxt": [GUIDE]}, "contxt", "unknown key; did you mean 'context'?"),
    ],
)
def test_what_is_wrong_is_told_with_its_key(settings: dict[str, Any], key: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({"servers": SERVERS, **settings})
    assert caught.value.key == key
    assert problem in caught.value.problem


HOSTS = [("mcpServers",), ("mcp", "servers"), ("mcp_servers",), ("services", "mcp")]


def hosted(path: tuple[str, ...], **beside: Any) -> dict[str, Any]:
    document: dict[str, Any] = {path[-1]: SERVERS}
    for key in reversed(path[:-1]):
        document = {key: document}
    return {**document, **beside}


@pytest.mark.parametrize("path", HOSTS, ids=".".join)
def test_in_a_hosts_file_it_is_honoured_unless_it_is_the_hosts_own(path: tuple[str, ...]) -> None:
    assert load_config(hosted(path, context=[GUIDE])).context == (ContextSource(**GUIDE),)
    # Gemini CLI, and Continue.
    for foreign in ({"fileName": "GEMINI.md"}, [{"provider": "file"}]):
        assert load_config(hosted(path, context=foreign)).context == ()


def test_in_a_manifest_it_stands_in_the_config() -> None:
    servers = [{"alias": alias, **entry} for alias, entry in SERVERS.items()]
    assert load_config({"config": {"servers": servers, "context": [GUIDE]}}).context == (
        ContextSource(**GUIDE),
    )


def test_an_import_leaves_it_behind_with_a_note(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    for context, notes in [('[{"server": "docs", "uri": "a://b"}]', 1), ('{"fileName": "GEMINI.md"}', 0)]:
        file.write_text(
            '{"mcpServers": {"docs": {"command": "docs-server"}, "notes": {"command": "notes-server"}}, '
            f'"context_budget": 500, "context": {context}}}'
        )
        found = imported(ImportFile(editor="file", path=file, folder=tmp_path))
        assert list(found.servers) == ["docs", "notes"]
        assert len([note for note in found.notes if note.startswith("context was skipped")]) == notes
