"""The other replicas: ended ones, unreachable ones, and ones with another config."""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.cli.running import toolbus
from tests.gateway.driving import JSON
from tests.gateway.front import front
from tests.gateway.replicas.cluster import STORE_KEY, cluster, until
from tests.gateway.serving import free_port
from tests.inside.config import Serve, ServeAuth, StoreSetting
from tests.inside.core import ConfigError
from tests.inside.gateway import Peers, Replicas, announced_host
from tests.inside.state import Cipher, Seal, Store, parse_store_url
from tests.postgres import over_tcp, own_address, postgres_server

pytestmark = pytest.mark.anyio
BEAT = 0.05


def _serve(http: str) -> Serve:
    return Serve(http=http, auth=ServeAuth(keys=True), hosts=("tools.example.com",))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[Store]:
    async with Store(parse_store_url(f"sqlite:///{tmp_path / 'store.db'}"), Cipher([b"k" * 32])) as made:
        yield made


@pytest.mark.parametrize(
    ("http", "address", "local", "announced"),
    [
        ("0.0.0.0:7400", None, "10.0.0.5", "10.0.0.5"),
        ("[::]:7400", None, "fd00::5", "fd00::5"),
        ("10.0.0.9:7400", None, "10.0.0.5", "10.0.0.9"),
        ("0.0.0.0:7400", "10.0.0.7:7401", "10.0.0.5", "10.0.0.7"),
        ("0.0.0.0:7400", "0.0.0.0:7401", "10.0.0.5", "10.0.0.5"),
        ("127.0.0.1:7400", "127.0.0.1:0", "10.0.0.5", "127.0.0.1"),
        ("127.0.0.1:7400", None, "127.0.0.1", "127.0.0.1"),
        ("127.0.0.1:7400", None, None, "127.0.0.1"),
    ],
)
def test_a_replica_announces_an_address_that_the_others_reach(
    http: str, address: str | None, local: str | None, announced: str
) -> None:
    setting = StoreSetting(url="postgresql://db/toolbus", address=address)
    assert announced_host(setting, _serve(http), local) == announced


@pytest.mark.parametrize(
    ("http", "local"),
    [
        ("127.0.0.1:7400", "10.0.0.5"),
        ("[::1]:7400", "fd00::5"),
        ("0.0.0.0:7400", "fd00::5"),
        ("[::]:7400", "fe80::5%eth0"),
    ],
)
def test_an_address_that_cannot_be_known_has_to_be_set(http: str, local: str) -> None:
    with pytest.raises(ConfigError, match=r"set store.address to HOST:PORT") as error:
        announced_host(StoreSetting(url="postgresql://db/toolbus"), _serve(http), local)
    assert error.value.key == "store.address"


async def test_with_a_database_elsewhere_a_gateway_for_this_machine_does_not_start(tmp_path: Path) -> None:
    address = own_address()
    if address == "127.0.0.1":
        pytest.skip("this machine is on no network")
    config = tmp_path / "toolbus.yaml"
    with postgres_server() as server:
        async with over_tcp(server.database(), address) as url:
            config.write_text(f"servers: {{a: {{url: 'http://127.0.0.1:1/mcp'}}}}\nstore: {url}\n")
            words = ("serve", "--http", "127.0.0.1:0", "--config", str(config))
            keys = {"TOOLBUS_TRUST": "1", "TOOLBUS_STORE_KEY": "a" * 43}
            done = await asyncio.to_thread(toolbus, *words, folder=tmp_path, env=keys)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert "127.0.0.1 is not an address for replicas elsewhere; set store.address" in line


async def test_a_replica_that_has_ended_is_not_counted(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    killed, own = Peers(store, beat=600), Peers(store, beat=BEAT)
    await killed.start(f"http://127.0.0.1:{free_port()}")
    await own.start(f"http://127.0.0.1:{free_port()}")
    assert own.others == []
    await asyncio.sleep(10 * BEAT)
    assert caplog.messages == []  # it does not announce itself any more
    await own.close()
    await killed.close()


async def test_a_replica_that_announces_a_wrong_address_is_reported_once_and_found_when_it_is_right(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    wrong, own = Peers(store, beat=BEAT), Peers(store, beat=BEAT)
    await wrong.start(f"http://127.0.0.1:{port}")
    await own.start(f"http://127.0.0.1:{free_port()}")

    def reports() -> list[str]:
        return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]

    await until(lambda: any(wrong.id in one.split(" on ")[0] for one in reports()))
    await asyncio.sleep(10 * BEAT)
    (report,) = (one for one in reports() if wrong.id in one.split(" on ")[0])
    assert f"cannot be reached at http://127.0.0.1:{port}" in report
    assert "set its store.address" in report
    assert own.known(wrong.id) is None
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port)
    await until(lambda: own.known(wrong.id) is not None)
    server.close()
    await own.close()
    await wrong.close()


async def test_a_replica_that_was_found_is_known_while_the_store_does_not_respond(store: Store) -> None:
    first, second = Peers(store, beat=1000.0), Peers(store, beat=1000.0)
    await first.start("http://127.0.0.1:1")
    await second.start("http://127.0.0.1:2")
    assert first.known(second.id) is None, "the next beat would tell"
    assert (found := await first.find(second.id)) is not None
    assert first.known(second.id) == found
    await first.close()
    await second.close()


async def test_an_answer_that_cannot_be_delivered_is_an_error(store: Store) -> None:
    asking = Peers(store, beat=BEAT)
    await asking.start(f"http://127.0.0.1:{free_port()}")
    replicas = Replicas(store, Seal(b"s" * 32), session_seconds=60)
    await replicas.peers.start(f"http://127.0.0.1:{free_port()}")
    async with front(replicas=replicas) as served:
        session = await served.opened()
        for replica in (asking.id, "0" * 12):  # cannot be reached, and has ended
            answer: JSON = {"id": f"toolbus-{replica}-1", "result": {"action": "decline"}}
            refused = await session.post(answer)
            assert refused.status_code == 502
            assert refused.json()["error"]["message"].startswith("the answer was not delivered")
        # One that is too late for a question of its own is none.
        late: JSON = {"id": f"toolbus-{replicas.id}-9", "result": {"action": "decline"}}
        assert (await session.post(late)).status_code == 202
    await replicas.close()
    await asking.close()


async def test_a_gateway_says_at_its_start_what_does_not_fit(store: Store, tmp_path: Path) -> None:
    """Another config with the same store, a key that is missing, and where its own console is."""
    both = {"TOOLBUS_STORE_KEY": f"{base64.b64encode(b'n' * 32).decode()},{STORE_KEY}"}
    async with Store(parse_store_url(store.place), Cipher([b"n" * 32, b"k" * 32])) as newer:
        await newer.put("login", "ann", b"written with the new key")
    listener = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    ended, other = Peers(store, beat=600), Peers(store)
    other.servers = ("bank",)
    await ended.start(f"http://127.0.0.1:{free_port()}")
    await other.start(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    async with cluster(1, store.place, serve={"public_url": "http://localhost:8080"}) as one:
        (gateway,) = one.replicas
        await until(lambda: "none of the keys" in gateway.log.read_text())
        said = " ".join(gateway.log.read_text().split())
        assert ", with 1 other replica, in" in said
        assert "has other servers (bank) than this one (journal); one store belongs to one config" in said
        assert "none of the keys in TOOLBUS_STORE_KEY decrypts 1 value (login: 1)" in said
        # Not behind the balancer, where any replica may answer.
        assert f"console: http://127.0.0.1:{gateway.port}/console;" in said
        words = ("store", "rekey", "--json", "--config", str(one.config))
        env = {"TOOLBUS_TRUST": "1", **both}
        done = await asyncio.to_thread(toolbus, *words, folder=one.folder, env=env)
        left = json.loads(done.stdout)
        assert left["changed"] > 0
        assert left["unreadable"] == 0
    listener.close()
    await other.close()
    await ended.close()
