"""HTTP APIs on the command line: added, checked, shown and called."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from tests.cli.running import Done, toolbus, write_config
from tests.openapi.api import ApiServer, Received, api_server, http_response

pytestmark = pytest.mark.anyio
DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1"},
    "paths": {"/pets": {"get": {"operationId": "listPets"}}},
}


@pytest.fixture
async def api() -> AsyncGenerator[ApiServer]:
    async def answer(writer: Any, request: Received) -> None:
        value = DOCUMENT if request.target == "/openapi.json" else {"target": request.target}
        writer.write(http_response(json.dumps(value).encode()))

    async with api_server() as server:
        server.answer = answer
        yield server


async def run(folder: Path, *words: str, **env: str) -> Done:
    return await anyio.to_thread.run_sync(lambda: toolbus(*words, folder=folder, env=env))


def entry(api: ApiServer, folder: Path, **more: Any) -> dict[str, Any]:
    (folder / "pets.json").write_text(json.dumps(DOCUMENT))
    return {"openapi": {"document": "pets.json", "base_url": api.url, **more}}


async def test_a_check_names_what_is_sent_with_each_call(api: ApiServer, tmp_path: Path) -> None:
    key = entry(api, tmp_path, query={"key": "${KEY}"}) | {"headers": {"X-Team": "red"}}
    write_config(tmp_path, {"keyed": key, "open": entry(api, tmp_path)})
    text = (await run(tmp_path, "check", KEY="s3cr3t")).stdout
    assert "header X-Team, query parameter key: sent with each call, not tried yet" in text
    assert "none is sent with calls" in text
    assert api.received == []


async def test_the_whole_config_fills_in_the_references_of_an_api(api: ApiServer, tmp_path: Path) -> None:
    query = {"key": "${KEY}", "page": "${PAGE:-1}", "token": "${NONE:-s3cr3t-two}"}
    changed = entry(api, tmp_path, query=query)
    changed["openapi"] |= {"document": "${NAME}.json", "base_url": "https://${HOST}/v1"}
    write_config(tmp_path, {"pets": changed})
    filled = {"KEY": "s3cr3t-one", "NAME": "pets", "HOST": "api.example.com"}
    done = await run(tmp_path, "config", "--redacted", "--json", **filled)
    assert json.loads(done.stdout)["servers"]["pets"] == {
        "transport": "openapi",
        "openapi": {
            "document": "***.json",  # what comes from the environment is a secret, as in `url`
            "base_url": "https://***/v1",
            "query": {"key": "***", "page": "1", "token": "***"},
        },
    }
    plain = await run(tmp_path, "config", "--json", **filled)
    assert json.loads(plain.stdout)["servers"]["pets"]["openapi"]["query"]["key"] == "${KEY}"
    assert "s3cr3t" not in done.stdout + plain.stdout


async def test_a_document_is_added_by_its_file_or_url_and_called(api: ApiServer, tmp_path: Path) -> None:
    (tmp_path / "toolbus.yaml").write_text("servers: {}\n")
    (tmp_path / "pets.json").write_text(json.dumps({**DOCUMENT, "servers": [{"url": api.url}]}))
    for alias, target in (("file", "pets.json"), ("web", f"{api.url}/openapi.json")):
        added = await run(tmp_path, "add", alias, target)
        assert added.returncode == 0, added.stderr
    assert (await run(tmp_path, "trust", "--yes")).returncode == 0
    shown = json.loads((await run(tmp_path, "config", "--json")).stdout)["servers"]
    assert shown["file"]["openapi"] == {"document": "pets.json"}
    assert shown["web"]["openapi"] == {"document": f"{api.url}/openapi.json"}
    called = await run(tmp_path, "call", "web_listPets", "--json")
    assert '"target": "/pets"' in called.stdout, called.stdout + called.stderr
    # The file names a private address, which only the config can allow.
    refused = await run(tmp_path, "call", "file_listPets")
    assert f"set openapi.base_url to a URL of {api.url}" in refused.stdout + refused.stderr
    direct = await run(tmp_path, "tools", "--server", f"{api.url}/openapi.json")
    assert "listPets" in direct.stdout
