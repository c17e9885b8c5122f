"""HAProxy in front of replicas: it knows nothing of sessions, and takes the next one for each request."""

import asyncio
import re
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.gateway.replicas.cluster import until
from tests.gateway.serving import free_port
from tests.patience import PATIENCE

HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
MISSING = "HAProxy is not installed; on Debian: apt-get install haproxy"
CONFIG = Path(__file__).parents[3] / "deploy" / "haproxy.cfg"
"""The one that users start with; only the addresses are others."""


@asynccontextmanager
async def balancer(folder: Path, ports: Sequence[int]) -> AsyncGenerator[str]:
    """HAProxy in front of these ports; gives the URL of the MCP endpoint."""
    assert HAPROXY is not None, MISSING
    port = free_port()
    text, changes = re.subn(r"(?m)^    bind .*$", f"    bind 127.0.0.1:{port}", CONFIG.read_text())
    assert changes == 1
    head, *left = re.split(r"(?m)^    server .*\n", text)
    assert left == ["", "", ""], "three gateways, at the end"
    servers = "".join(f"    server r{one} 127.0.0.1:{one}\n" for one in ports)
    config = folder / "haproxy.cfg"
    config.write_text(head + servers)
    log = (folder / "haproxy.log").open("wb")
    with log:
        process = await asyncio.create_subprocess_exec(
            HAPROXY, "-db", "-f", str(config), stdout=log, stderr=log, start_new_session=True
        )

    async def listens() -> bool:
        assert process.returncode is None, (folder / "haproxy.log").read_text()
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True

    try:
        await until(listens)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        async with asyncio.timeout(PATIENCE):
            await process.wait()
