"""HAProxy in front of replicas: it knows nothing of sessions, and takes the next one for each request."""

import asyncio
import shutil
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.gateway.replicas.cluster import until
from tests.patience import PATIENCE

HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
DEPLOYED = Path(__file__).resolve().parents[3] / "deploy" / "haproxy.cfg"
MISSING = "HAProxy is not installed; on Debian: apt-get install haproxy"
CONFIG = """
global
    maxconn 4096
defaults
    mode http
    timeout connect 2s
    timeout client 300s
    timeout server 300s
    # Longer than the interval: a replica that is busy is not one that has gone.
    timeout check 10s
    # A connection that was refused has carried nothing: another replica may get the request.
    option redispatch
    retries 3
frontend clients
    bind 127.0.0.1:{port}
    default_backend replicas
backend replicas
    balance roundrobin
    option httpchk GET /readyz
    default-server inter 300ms fall 2 rise 1
{servers}
"""


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def quick(port: int, ports: Sequence[int]) -> str:
    """A config that notices within a second what has become of a replica."""
    servers = "\n".join(f"    server r{one} 127.0.0.1:{one} check" for one in ports)
    return CONFIG.format(port=port, servers=servers)


def deployed(port: int, ports: Sequence[int]) -> str:
    """The config in deploy/, with the ports of this machine instead of its names."""
    text = DEPLOYED.read_text().replace("bind :8080", f"bind 127.0.0.1:{port}")
    for number, one in enumerate(ports, 1):
        text = text.replace(f"gateway{number}:7400", f"127.0.0.1:{one}")
    assert ":8080" not in text
    assert ":7400" not in text
    return text


@asynccontextmanager
async def balancer(
    folder: Path, ports: Sequence[int], config_of: Callable[[int, Sequence[int]], str] = quick
) -> AsyncGenerator[str]:
    """HAProxy in front of these ports; gives the URL of the MCP endpoint."""
    assert HAPROXY is not None, MISSING
    port = free_port()
    config = folder / "haproxy.cfg"
    config.write_text(config_of(port, ports))
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
