"""Users of a gateway whose names are chosen to reach other users' data."""

import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx2
import pytest

from tests.gateway.front import modern_request
from tests.gateway.serving import gateway
from tests.gateway.signing import AUDIENCE, Signer, signing
from tests.patience import PATIENCE
from tests.sandbox.place import PROBE, attack, probe, require_sandbox
from toolbus import Toolbus
from toolbus.errors import ToolbusError

require_sandbox()

DIARY = "met Bob at the station"


@dataclass
class Served:
    """A gateway in a process of its own, with a folder for each user."""

    url: str
    signer: Signer
    folder: Path

    def call(self, subject: str, what: str, target: Path | str, tool: str = "attack") -> str:
        """The result of a user's probe, or the error."""
        params = {"name": tool, "arguments": {"what": what, "target": str(target)}}
        token = {"authorization": f"Bearer {self.signer.token(sub=subject)}"}
        content, headers = modern_request("tools/call", params, token)
        response = httpx2.post(self.url, content=content, headers=headers, timeout=PATIENCE)
        answer: dict[str, Any] = response.json()
        return answer["result"]["content"][0]["text"] if "result" in answer else json.dumps(answer)


@contextmanager
def serving(folder: Path, sandbox: Any = None, **entry: Any) -> Generator[Served]:
    """Serve a config with the probe, beside folders for Ann and Bob; by default as in docs/sandbox.md."""
    for user in ("ann", "bob"):
        (folder / "data" / user).mkdir(parents=True)
    (folder / "data" / "ann" / "diary").write_text(DIARY)
    config = folder / "toolbus.yaml"
    own = probe(**{"sandbox": sandbox or {"write": ["data/${user}"]}, "prefix": "", **entry})
    keeper = probe(sandbox={"write": ["data"]})
    with signing() as signer:
        signer.add_key("RS256")
        auth = {"oauth": {"issuer": signer.issuer, "audience": AUDIENCE}}
        servers = {"probe": own, "keeper": keeper}
        config.write_text(json.dumps({"servers": servers, "serve": {"auth": auth}}))
        with gateway(config) as url:
            yield Served(url, signer, folder)


SUBJECTS = [
    *("../data/ann", "ann/../ann", "ann/", "/ann", "./ann", "\\ann"),
    *("..", ".", "...", ".hidden", "~root"),
    *("ann\x00", "ann\n", "ann\u202e", "a\u0308nn", " ann", "ann."),
]


def test_a_subject_that_is_a_path(tmp_path: Path) -> None:
    """Its owner reaches no file of another user and not the config; others work on."""
    with serving(tmp_path / "gateway") as served:
        config, diary = served.folder / "toolbus.yaml", served.folder / "data" / "ann" / "diary"
        before = config.read_bytes()
        for subject in SUBJECTS:
            what, target = ("write", config) if subject == ".." else ("read", diary)
            assert "cannot be used here" in served.call(subject, what, target), subject
        assert config.read_bytes() == before
        assert served.call("ann", "read", diary) == f"got {DIARY}"
        assert served.call("bob", "listing", served.folder / "data") == 'got ["bob"]'


def test_a_folder_of_a_user_that_is_a_link(tmp_path: Path) -> None:
    """The user of the link does not get its target, even if the user did not make the link."""
    with serving(tmp_path / "gateway") as served:
        data = served.folder / "data"
        for user, target in (("eve", data / "ann"), ("bob", data)):
            assert served.call("ann", "link", f"{data / user} {target}", "keeper_attack") == "got linked"
            said = served.call(user, "read", data / "ann" / "diary")
            assert "is a link or leads through one" in said
        assert served.call("ann", "read", data / "ann" / "diary") == f"got {DIARY}"


def test_a_user_named_like_the_config(tmp_path: Path) -> None:
    """The config is not taken for a folder of that user."""
    with serving(tmp_path / "gateway", {"write": ["${user}"]}) as served:
        config = served.folder / "toolbus.yaml"
        before = config.read_bytes()
        assert "it is a file beside this config" in served.call("toolbus.yaml", "write", config)
        assert config.read_bytes() == before


@pytest.mark.anyio
async def test_a_user_named_like_the_folder_of_the_config(tmp_path: Path) -> None:
    """It is not taken for the folder of that user."""
    config = tmp_path / "users" / "gateway" / "toolbus.json"
    (tmp_path / "users" / "ann").mkdir(parents=True)
    config.parent.mkdir()
    sandbox = {"write": ["../${user}"]}
    config.write_text(json.dumps({"servers": {"probe": probe(sandbox=sandbox)}}))
    async with Toolbus(config) as bus:
        assert (await attack(bus.as_user("ann"), "listing", config.parent.parent)) == 'got ["ann"]'
        with pytest.raises(ToolbusError, match="it contains this config"):
            await attack(bus.as_user("gateway"), "write", config)


def test_a_user_named_like_a_file_in_the_arguments(tmp_path: Path) -> None:
    """The sandbox shows no file because of the name of a user."""
    folder = tmp_path / "gateway"
    with serving(folder, True, args=[str(PROBE), "serve", "${user}"], cwd=".") as served:
        said = served.call("toolbus.yaml", "read", folder / "toolbus.yaml")
        assert said.startswith("failed FileNotFoundError")


NAMES = ["../admin", "..", "ann/x", "ann?role=admin", "ann#", "ann&role=admin", "%2e%2e", "a\r\nx: y", "ann"]


@pytest.mark.anyio
async def test_a_name_that_changes_the_url_of_a_server() -> None:
    """Requests of a user have the host, the path and the query of the config, with the name in its place."""
    with recording() as (base, seen):
        server = {"url": f"{base}/users/${{user}}/mcp?of=${{user}}", "headers": {"X-User": "${user}"}}
        async with Toolbus({"servers": {"web": server}}) as bus:
            for name in NAMES:
                with pytest.raises(ToolbusError):
                    await bus.as_user(name).call("web/any", {})
    usable = [name for name in NAMES if not re.search(r"/|^\.|\n", name)]
    assert {urlsplit(path).path for path in seen} == {f"/users/{quote(name, safe='')}/mcp" for name in usable}
    assert [*{tuple(parse_qs(urlsplit(path).query)) for path in seen}] == [("of",)]


@contextmanager
def recording() -> Generator[tuple[str, list[str]]]:
    """An HTTP server on loopback that notes the target of each request, and has nothing."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.path)
            self.send_response(404)
            self.end_headers()

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  as in the base
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=[0.02])
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
