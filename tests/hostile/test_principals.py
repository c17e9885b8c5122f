"""Clients of a gateway that come under a name which makes them look like somebody else."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.cli.running import environment, toolbus
from tests.gateway.front import PREFIX, front, modern_request
from tests.gateway.requests import request
from tests.gateway.serving import gateway
from tests.gateway.signing import AUDIENCE, Signer, signing
from tests.inside.audit import Query, read_events
from tests.inside.gateway import Principal, Views, access_of, client_user, subject_user
from tests.patience import PATIENCE
from tests.servers.asking import asking
from tests.servers.everyday import everyday
from tests.warm import python
from toolbus import Toolbus
from toolbus.config import BusConfig, load_config

OFFERING = Path(__file__).parents[1] / "lock" / "offering.py"
TOOL = {"name": "read", "inputSchema": {"type": "object"}}


def called(url: str, credential: str) -> dict[str, Any]:
    """The response to a call of the tool."""
    sent = {"authorization": f"Bearer {credential}"}
    content, headers = modern_request("tools/call", {"name": "read", "arguments": {}}, sent)
    return httpx2.post(url, content=content, headers=headers, timeout=PATIENCE).json()


def is_refused(response: dict[str, Any]) -> bool:
    return "per minute" in json.dumps(response)


def config_in(folder: Path, signer: Signer) -> Path:
    """A config with a quota and a trail, for keys and for tokens."""
    folder.mkdir()
    offer = folder / "offer.json"
    offer.write_text(json.dumps({"tools": [TOOL]}))
    auth = {"keys": True, "oauth": {"issuer": signer.issuer, "audience": AUDIENCE}}
    config = {
        "servers": {"files": {"command": python(), "args": [str(OFFERING), str(offer)], "prefix": ""}},
        "policy": [{"tools": "files/read", "do": "allow", "per_minute": 1}, {"do": "deny"}],
        "audit": "audit.jsonl",
        "serve": {"auth": auth},
    }
    path = folder / "toolbus.yaml"
    path.write_text(json.dumps(config))
    return path


def test_a_subject_named_like_a_key(tmp_path: Path) -> None:
    """It has a quota of its own, and the trail tells the two apart."""
    folder = tmp_path / "gateway"
    with signing() as signer:
        signer.add_key("RS256")
        config = config_in(folder, signer)
        made = toolbus(
            "key", "add", "ann", "--json", "--config", str(config), folder=folder, env=environment(folder)
        )
        key = json.loads(made.stdout)["key"]
        with gateway(config) as url:
            imitation = signer.token(sub="key:ann")
            assert [is_refused(called(url, one)) for one in (imitation, imitation, key, key)] == [
                *(False, True),
                *(False, True),
            ]
    events = read_events(folder / "audit.jsonl", Query(decision="allow"))
    assert [event.get("user") for event in events] == ["user:key:ann", "key:ann"]


def test_names_that_imitate_other_kinds_of_principals() -> None:
    """No subject is the caller of a key, of a client or of another subject."""
    names = [
        "ann",
        *(f"{a}{b}ann" for a in ("", "user:", "user:user:") for b in ("key:", "client:", "subject:")),
    ]
    callers = [
        *(Principal(kind="key", name=name).caller for name in names),
        *(Principal(kind="client", name=name, user=client_user(name)).caller for name in names),
        *(Principal(kind="subject", name=name, user=subject_user(name)).caller for name in names),
        *(Principal(kind="subject", name=name, issuer="https://a.test").caller for name in names),
        *(Principal(kind="subject", name=name, issuer="https://b.test").caller for name in names),
    ]
    assert len({*callers}) == len(callers)
    assert subject_user("user:7") == "user:7"  # nobody else has that name


def serving(signer: Signer) -> BusConfig:
    """The config of a gateway for the tokens of one issuer."""
    auth = {"oauth": {"issuer": signer.issuer, "audience": AUDIENCE}}
    return load_config({"servers": {}, "serve": {"auth": auth}})


@pytest.mark.anyio
async def test_a_client_named_like_a_user() -> None:
    """A token without a subject gets no secrets of the user with the name of its client."""
    asked: set[str] = set()

    def secret(name: str, user: str) -> str:
        asked.add(user)
        return user

    servers = {
        "web": {"url": "http://127.0.0.1:1/", "headers": {"X": "${KEY}"}},
        "day": {"server": everyday()},
    }
    with signing() as signer:
        signer.add_key("RS256")
        config = serving(signer)
        access = access_of(config)
        async with Toolbus({"servers": servers}, get_secret=secret) as bus:
            for token in (signer.token(sub=None, client_id="ann"), signer.token(sub="bob")):
                found = await access.admit(request(token))
                assert isinstance(found, Principal)
                await Views(bus, config.serve).view_of(found).call("day_add", {"a": 1, "b": 2})
    assert asked == {"", "client:ann", "bob"}


@pytest.mark.anyio
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_subject_of_another_issuer(era: str) -> None:
    """It gets nothing from its namesake: no session, and no call that waits for an answer."""
    with signing() as first, signing() as second:
        first.add_key("RS256")
        second.add_key("RS256")
        access = access_of(serving(first))
        config = {"servers": {"ask": {"server": asking(), "prefix": ""}}}
        async with front(access=access, config=config) as served:
            ann, imitation = ({"authorization": f"Bearer {one.token()}"} for one in (first, second))
            if era == "legacy":
                served.http.headers.update(ann)
                session = await served.opened()
                assert (await session.post({"id": 2, "method": "ping"})).status_code == 200
                access.use(access_of(serving(second)))
                served.http.headers.update(imitation)
                assert (await session.post({"id": 3, "method": "ping"})).status_code == 404
                return
            params: dict[str, Any] = {"name": "book", "arguments": {"guest": "ann"}}
            asks: dict[str, Any] = {f"{PREFIX}clientCapabilities": {"elicitation": {"form": {}}}}
            asked = await served.modern("tools/call", {**params, "_meta": asks}, ann)
            state = asked.json()["result"]["requestState"]
            access.use(access_of(serving(second)))
            answered = await served.modern(
                "tools/call", {**params, "_meta": asks, "requestState": state}, imitation
            )
            assert answered.json()["error"]["message"] == "Invalid requestState"
