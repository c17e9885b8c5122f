"""A modern call needs neither the store nor another replica: it is answered while the store is gone."""

import os
from pathlib import Path

import pytest

from tests.gateway.driving import JSON
from tests.gateway.front import BOTH, META, PREFIX, front
from tests.inside.gateway import Replicas
from tests.inside.state import KEY_BYTES, Cipher, Seal, Store, parse_store_url

pytestmark = pytest.mark.anyio


async def test_a_modern_call_does_not_touch_the_store(tmp_path: Path) -> None:
    no_folder = tmp_path / "file"
    no_folder.touch()
    store = Store(parse_store_url(f"sqlite:///{no_folder}/store.db"), Cipher([os.urandom(KEY_BYTES)]))
    store.patience = 0.0
    replicas = Replicas(store, Seal(os.urandom(KEY_BYTES)), session_seconds=60)
    async with front(replicas=replicas) as served:
        called = await served.modern("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        assert (called.status_code, called.json()["result"]["structuredContent"]) == (200, {"result": 3})
        assert (await served.modern("tools/list")).status_code == 200
        # A session does: so the store is really gone.
        params: JSON = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": META[f"{PREFIX}clientInfo"],
        }
        message: JSON = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        refused = await served.http.post(served.url, json=message, headers=BOTH)
        assert (refused.status_code, refused.json()["id"]) == (503, 0)
        assert "database of this gateway does not respond" in refused.json()["error"]["message"]
    await replicas.close()
    await store.close()
