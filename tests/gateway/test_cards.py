"""Server cards and their catalog, before a client connects."""

import json
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import pytest

from tests.gateway.serving import gateway
from toolbus import connect_mcp

pytestmark = pytest.mark.anyio

CARD_TYPE = "application/mcp-server-card+json"
DRAFT: dict[str, Any] = {
    "type": "object",
    "required": ["$schema", "name", "version", "description"],
    "properties": {
        "$schema": {"const": "https://static.modelcontextprotocol.io/schemas/v2/server-card.schema.json"},
        "name": {"pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$", "maxLength": 200},
        "version": {"type": "string", "maxLength": 255},
        "description": {"minLength": 1, "maxLength": 100},
        "title": {"minLength": 1, "maxLength": 100},
        "remotes": {"items": {"required": ["type", "url"]}},
    },
    "additionalProperties": False,
}
"""The draft's schema of the members that we send."""
SERVERS: dict[str, Any] = {
    "notes": {"command": "python", "args": ["-m", "toolbus.demo.notes"], "env": {"TOKEN": "s3cr3t-of-notes"}},
    "my files": {"command": "python", "args": ["-m", "toolbus.demo.files", "."]},
}


def config(folder: Path, **serve: Any) -> Path:
    file = folder / "toolbus.json"
    file.write_text(json.dumps({"servers": SERVERS, "serve": {"cards": True, **serve}}))
    return file


def valid(card: Any) -> Any:
    """A card, which follows the schema of the draft."""
    validator: Any = jsonschema.Draft202012Validator(DRAFT)
    validator.validate(card)
    return card


async def test_a_client_finds_every_address_that_it_may_use_without_credentials(tmp_path: Path) -> None:
    views = {"default": {}, "writing": {"servers": ["notes"]}}
    with gateway(config(tmp_path, views=views)) as url:
        async with httpx2.AsyncClient() as http:
            found = await http.get(url.removesuffix("/mcp") + "/.well-known/ai-catalog.json")
            assert found.headers["content-type"] == "application/ai-catalog+json"
            entries = found.json()["entries"]
            urls = [entry["url"].removeprefix(url) for entry in entries]
            paths = ["", "/default", "/writing", "/notes", "/my%20files"]
            assert urls == [f"{path}/server-card" for path in paths]
            assert len({entry["identifier"] for entry in entries}) == len(entries)
            cards = [await http.get(entry["url"]) for entry in entries]
            assert {card.headers["content-type"] for card in cards} == {CARD_TYPE}
            assert {card.headers["cache-control"] for card in cards} == {"no-store"}
            remotes = [valid(card.json())["remotes"][0]["url"] for card in cards]
            assert remotes == [f"{url}{path}" for path in paths]
            assert "s3cr3t" not in "".join(card.text for card in cards)
            assert (await http.head(entries[0]["url"])).content == b""
            assert (await http.post(entries[0]["url"])).status_code == 405
            for path in ("/gone", "/notes/more", ""):
                assert (await http.get(f"{url}{path}//server-card")).status_code in (404, 405)
        async with await connect_mcp(remotes[-1]) as files:
            assert "read" in "".join(tool.name for tool in await files.list_tools())


async def test_behind_authentication_there_is_one_card(tmp_path: Path) -> None:
    views = {"default": {}, "writing": {"servers": ["notes"]}}
    settings = {"auth": {"keys": True}, "views": views, "public_url": "https://tools.example.com"}
    with gateway(config(tmp_path, **settings)) as url:
        async with httpx2.AsyncClient() as http:
            page = {"origin": "https://elsewhere.example"}
            found = await http.get(url.removesuffix("/mcp") + "/.well-known/ai-catalog.json", headers=page)
            assert found.headers["access-control-allow-origin"] == "*"
            assert found.headers["cache-control"] == "public, max-age=3600"
            assert found.json() == {
                "specVersion": "1.0",
                "entries": [
                    {
                        "identifier": "urn:air:tools.example.com:mcp:toolbus",
                        "type": CARD_TYPE,
                        "url": "https://tools.example.com/mcp/server-card",
                    }
                ],
            }
            card = valid((await http.get(f"{url}/server-card", headers=page)).json())
            assert card["name"] == "com.example.tools/toolbus"
            [remote] = card["remotes"]
            assert remote["url"] == "https://tools.example.com/mcp"
            assert remote["headers"][0]["isRequired"] is True
            for name in ("writing", "notes", "gone"):
                assert (await http.get(f"{url}/{name}/server-card")).status_code == 404
            preflight = await http.options(f"{url}/server-card", headers=page)
            assert preflight.headers["access-control-allow-methods"] == "GET"


async def test_without_the_setting_there_is_none(tmp_path: Path) -> None:
    with gateway(config(tmp_path, cards=False)) as url:
        async with httpx2.AsyncClient() as http:
            for path in ("/.well-known/ai-catalog.json", "/mcp/server-card", "/mcp/notes/server-card"):
                found = await http.get(url.removesuffix("/mcp") + path)
                assert found.status_code == 404, path
