"""Attacks of web pages, strangers and other clients on the REST API of the gateway."""

import asyncio
import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.cli.running import environment, toolbus
from tests.gateway.rest.desk import served_desk
from tests.gateway.serving import gateway
from tests.inside.gateway import HttpLimits
from tests.patience import PATIENCE
from tests.warm import python

FOREIGN = {"origin": "https://evil.example"}
LISTED = "https://app.example.com"
PATHS = ("/openapi.json", "/tools/add", "/calls/x", "/views/default/openapi.json", "/views/default/tools/add")
SERVER = Path(__file__).parents[1] / "gateway" / "rest" / "desk.py"


def method_of(path: str) -> str:
    return "POST" if "/tools/" in path else "GET"


@pytest.mark.anyio
async def test_a_foreign_page() -> None:
    """Refused at every path, even before it asks; nothing is called and nothing can be read."""
    async with served_desk(origins=[LISTED]) as desk:
        for path in PATHS:
            sent = {**FOREIGN, "content-type": "application/json"}
            asked = await desk.http.request(
                "OPTIONS", desk.base + path, headers={**FOREIGN, "access-control-request-method": "POST"}
            )
            got = await desk.http.request(method_of(path), desk.base + path, headers=sent, content=b"{}")
            assert (asked.status_code, got.status_code) == (403, 403), path
            assert not [name for name in (*asked.headers, *got.headers) if name.startswith("access-control")]
        assert desk.made == []


@pytest.mark.anyio
async def test_a_listed_page() -> None:
    """It may use the API, and no origin but its own is named."""
    async with served_desk(origins=[LISTED]) as desk:
        wanted = {"access-control-request-headers": "content-type, idempotency-key, prefer"}
        url = f"{desk.base}/tools/add"
        asked = await desk.http.request("OPTIONS", url, headers={"origin": LISTED, **wanted})
        bare = await desk.http.request("OPTIONS", f"{desk.base}/calls/x", headers={"origin": LISTED})
        called = await desk.http.post(url, json={"a": 1, "b": 2}, headers={"origin": LISTED})
    assert asked.status_code == 204
    assert asked.headers["access-control-allow-headers"] == wanted["access-control-request-headers"]
    assert called.json() == {"result": 3}
    assert called.headers["access-control-allow-origin"] == LISTED
    assert {"location", "idempotent-replayed"} <= set(
        called.headers["access-control-expose-headers"].split(", ")
    )
    assert "DELETE" in bare.headers["access-control-allow-methods"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "text/json"],
)
async def test_a_body_that_a_page_sends_without_asking(kind: str) -> None:
    """Only JSON that says so is read, so a browser asks first."""
    async with served_desk() as desk:
        for path in ("/tools/add", "/calls/x"):
            headers = {"content-type": kind} if kind else {}
            sent = await desk.http.post(desk.base + path, content=b'{"a": 1, "b": 2}', headers=headers)
            assert (sent.status_code, sent.json()["code"]) == (415, "not_json")
        assert desk.made == []


@pytest.mark.anyio
async def test_another_name_of_this_machine() -> None:
    """A page whose name points here (DNS rebinding) gets 421."""
    async with served_desk() as desk:
        for path in PATHS:
            got = await desk.http.request(
                method_of(path), desk.base + path, headers={"host": "evil.example"}, json={}
            )
            assert got.status_code == 421, path
        assert desk.made == []


@pytest.mark.anyio
async def test_names_that_lead_elsewhere() -> None:
    """A name is one name: no path, no other endpoint, no tool that the view leaves out."""
    views = {"default": {"include": ["greet"]}, "all": {}}
    names = [
        *("..%2fmcp", "%2e%2e", "..;", "greet%2f..%2fadd", "greet%00", "%252e%252e", "add", "desk%2fadd"),
        *(
            "a" * 5000,
            "%ff%fe",
            "greet%0d%0aSet-Cookie:x",
            "{name}",
            "call_tool",
            "search_tools",
            "__proto__",
        ),
    ]
    async with served_desk(views=views) as desk:
        for name in names:
            raw = f"POST /tools/{name} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            answer = await _raw(
                desk.port, f"{raw}content-length: 2\r\nconnection: close\r\n\r\n{{}}".encode()
            )
            assert answer.startswith(b"HTTP/1.1 404"), (name, answer[:200])
            assert b"\r\nset-cookie" not in answer.lower()
        assert desk.made == []


async def _raw(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        async with asyncio.timeout(PATIENCE):
            return await reader.read()
    finally:
        writer.close()


@pytest.mark.anyio
async def test_bodies_without_end() -> None:
    """They have the limits of MCP requests, including answers."""
    limits = HttpLimits(body_bytes=10_000, values=100)
    async with served_desk(limits=limits) as desk:
        for path in ("/tools/add", "/calls/x"):
            head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            declared = await _raw(desk.port, f"{head}content-length: 99999999\r\n\r\n".encode())
            body = b"2710\r\n" + b" " * 10_000 + b"\r\n" + b"2710\r\n" + b" " * 10_000 + b"\r\n0\r\n\r\n"
            chunked = await _raw(desk.port, f"{head}transfer-encoding: chunked\r\n\r\n".encode() + body)
            nested = await desk.http.post(
                desk.base + path, content=b'{"a":' * 5000, headers={"content-type": "application/json"}
            )
            assert (declared[9:12], chunked[9:12], nested.status_code) == (b"413", b"413", 413), path
            many = await desk.http.post(desk.base + path, json={"a": [1] * 1000})
            assert many.status_code == 400
        assert desk.made == []


@pytest.mark.anyio
async def test_preferences_and_tags_that_are_odd() -> None:
    """They are ignored; nothing waits longer than a minute."""
    async with served_desk() as desk:
        for prefer in (
            "wait=-1",
            "wait=1e9",
            "wait=" + "9" * 400,
            "wait",
            ",,,",
            "respond-async;wait=x",
        ):
            got = await desk.http.post(
                f"{desk.base}/tools/add", json={"a": 1, "b": 2}, headers={"prefer": prefer}
            )
            assert got.status_code in (200, 202), prefer
        got = await desk.get("/openapi.json", **{"if-none-match": '"' + "x" * 5000})
        assert got.status_code == 200


# Other clients of the same gateway


@contextmanager
def with_keys(folder: Path, **keys: str) -> Generator[tuple[str, dict[str, httpx2.Client]]]:
    """A gateway with a client for each key; a key has the view that is named."""
    config = folder / "toolbus.yaml"
    entry = {"command": python(), "args": [str(SERVER)], "prefix": "", "era": "legacy"}
    serve = {"rest": True, "auth": {"keys": True}, "views": {"default": {}, "few": {"include": ["greet"]}}}
    config.write_text(json.dumps({"servers": {"desk": entry}, "serve": serve}))
    secrets: dict[str, str] = {}
    for name, view in keys.items():
        words = ("key", "add", name, "--view", view, "--json", "--config", str(config))
        made = toolbus(*words, folder=folder, env=environment(folder))
        secrets[name] = json.loads(made.stdout)["key"]
    with gateway(config) as url:
        base = re.sub("/mcp$", "", url)
        clients = {
            name: httpx2.Client(base_url=base, headers={"authorization": f"Bearer {key}"}, timeout=PATIENCE)
            for name, key in secrets.items()
        }
        try:
            yield base, clients
        finally:
            for client in clients.values():
                client.close()


def test_the_calls_of_somebody_else(tmp_path: Path) -> None:
    """An id that was overheard is nobody's but its owner's: not to read, to answer or to cancel."""
    with with_keys(tmp_path, ann="default", eve="default") as (base, clients):
        ann, eve = clients["ann"], clients["eve"]
        place = ann.post("/tools/book", json={}).headers["location"]
        (name,) = ann.get(place).json()["questions"]
        answers = {"answers": {name: {"action": "accept", "content": {"row": 666}}}}
        tried = [eve.get(place), eve.post(place, json=answers), eve.delete(place)]
        stranger = httpx2.get(base + place)
        state = ann.get(place).json()
        done = ann.post(place, json={"answers": {name: {"action": "accept", "content": {"row": 1}}}}).json()
    assert [(one.status_code, one.json()["code"]) for one in tried] == [(404, "unknown_call")] * 3
    assert stranger.status_code == 401
    assert (state["status"], done["result"]) == ("input_required", {"result": "row 1"})


def test_the_idempotency_keys_of_somebody_else(tmp_path: Path) -> None:
    """The same key of another client is another key: it tells nothing and blocks nobody."""
    with with_keys(tmp_path, ann="default", eve="default") as (_, clients):
        sent = {"idempotency-key": "order-1"}
        first = clients["eve"].post("/tools/greet", json={"name": "Eve"}, headers=sent)
        second = clients["ann"].post("/tools/greet", json={"name": "Ann"}, headers=sent)
    assert "Eve" in first.text
    assert "Ann" in second.text
    assert "idempotent-replayed" not in second.headers


def test_without_a_key_and_beyond_a_view(tmp_path: Path) -> None:
    """401 or 403 with the way in, at every path; a path never gives more than the key."""
    with with_keys(tmp_path, bob="few") as (base, clients):
        for path in PATHS:
            refused = httpx2.request(method_of(path), base + path, json={})
            assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized"), path
            assert refused.headers["www-authenticate"].startswith("Bearer")
            assert refused.headers["content-type"] == "application/problem+json"
        bob = clients["bob"]
        beyond = bob.post("/views/default/tools/add", json={"a": 1, "b": 2})
        within = [bob.post(path, json={"a": 1, "b": 2}) for path in ("/tools/add", "/views/few/tools/add")]
        shown: Any = bob.get("/openapi.json").json()
    assert (beyond.status_code, beyond.json()["code"]) == (403, "forbidden")
    assert "insufficient_scope" in beyond.headers["www-authenticate"]
    assert [one.status_code for one in within] == [404, 404]
    assert [path for path in shown["paths"] if path.startswith("/tools")] == ["/tools/greet"]
    assert shown["security"] == [{"bearer": []}]
