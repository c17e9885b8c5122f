"""A proxy that forwards everything to one server."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.servers.raw_http import RawServer


class ProxyServer:
    """A proxy that forwards everything to one server, and records who asked for what."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self.heads: list[str] = []
        self.certificates: list[object] = []
        """The certificate that each client presented."""
        self.refuses: bytes | None = None
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.certificates.append(writer.get_extra_info("peercert"))
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head.decode())
            if self.refuses is not None:
                writer.write(self.refuses)
                return
            onward, back = await asyncio.open_connection("127.0.0.1", self._server_port)
            if head.startswith(b"CONNECT"):
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                back.write(head)
            try:
                await asyncio.gather(_copy(reader, back), _copy(onward, writer))
            finally:
                back.close()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        target.write(data)
        await target.drain()
    target.close()


@asynccontextmanager
async def proxy_server(server: RawServer, tls: ssl.SSLContext | None = None) -> AsyncGenerator[ProxyServer]:
    proxy = ProxyServer(server.port)
    async with await asyncio.start_server(proxy.serve, "127.0.0.1", 0, ssl=tls) as listening:
        proxy.port = listening.sockets[0].getsockname()[1]
        yield proxy


def server_tls(certificate: Path) -> ssl.SSLContext:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    return tls
