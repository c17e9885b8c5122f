"""A gateway on a restored store: its clients notice nothing."""

import asyncio
import json
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.running import toolbus
from tests.conftest import sampled
from tests.gateway.replicas.cluster import STORE_KEY, Cluster, client, cluster, text_of
from tests.postgres import Server, postgres_server

pytestmark = pytest.mark.anyio
KEYS = {"auth": {"keys": True}}


@pytest.fixture(scope="module")
def postgres() -> Generator[Server]:
    with postgres_server() as server:
        yield server


async def command(made: Cluster, *words: str, key: str = STORE_KEY) -> tuple[int, str, str]:
    env = {**made.environment(), "TOOLBUS_STORE_KEY": key}
    done = await asyncio.to_thread(toolbus, *words, "--config", str(made.config), folder=made.folder, env=env)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("way", sampled(["sqlite to postgres", "postgres to sqlite"], "sqlite to postgres"))
async def test_keys_and_sessions_go_on_from_a_backup(way: str, postgres: Server, tmp_path: Path) -> None:
    stores = [postgres.database() if kind == "postgres" else "" for kind in way.split(" to ")]
    file = str(tmp_path / "backup.db")
    async with cluster(0, stores[0], serve=KEYS) as old:
        _, key, _ = await command(old, "key", "add", "ann")
        await (await old.start()).ready()
        async with client(key.strip()) as ann:
            await ann.open(old.replicas[0].url)
            assert text_of(await ann.legacy_call(old.replicas[0].url, "write", token="a")) == "a"
            code, out, err = await command(old, "store", "backup", file)
            assert (code, err.count("which is not in the file")) == (0, 1), err
            amount = out.removeprefix("saved ").partition(":")[0]
            assert amount.endswith(" values")
            await command(old, "key", "revoke", "ann")
            old.replicas[0].kill()
            async with cluster(0, stores[1], serve=KEYS) as new:
                code, out, err = await command(new, "store", "restore", file)
                assert (code, out.startswith(f"restored {amount}: "), err) == (0, True, "")
                replica = await new.start()
                await replica.ready()
                assert "with 0 other replicas" in replica.log.read_text()
                assert text_of(await ann.legacy_call(replica.url, "write", token="b")) == "b"
                assert text_of(await ann.call(replica.url, "write", token="c")) == "c"
                async with client("tb_wrong") as other:
                    refused = await other.call(replica.url, "write", token="d")
                    assert refused == {"error": "invalid_token", "error_description": "unknown key"}
                assert new.written == {"b": 1, "c": 1}


async def test_a_key_that_does_not_open_the_restored_store_is_reported(tmp_path: Path) -> None:
    file = str(tmp_path / "backup.db")
    async with cluster(0, serve=KEYS) as old, cluster(0, serve=KEYS) as new:
        await command(old, "key", "add", "ann")
        await command(old, "store", "backup", file)
        wrong = "b3RoZXJvdGhlcm90aGVyb3RoZXJvdGhlcm90aGVyb3Q="
        code, out, _ = await command(new, "store", "restore", file, "--json", key=wrong)
        assert code == 1
        assert "it was encrypted with another key" in json.loads(out)["key_problem"]
        assert (await command(new, "key", "list"))[1].splitlines()[1].startswith("ann ")
