"""A page of somebody else on another port of this host: it records what browsers send, and sets cookies."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

TOSSED = "tossed"
_HEAD = (
    "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n"
    f"set-cookie: toolbus_console={TOSSED}; Path=/\r\n"
    f"set-cookie: toolbus_console={TOSSED}; Path=/console\r\n\r\n"
)
_BODY = '<!doctype html><title>x</title><p id="neighbor">hello</p>'

ATTACK = """async ([base, names]) => {
  const learned = [document.referrer, window.name].filter(Boolean);
  const targets = names.map((name) => `${base}${name}`);
  const settled = (element, how) => new Promise((resolve) => {
    for (const event of ['load', 'error']) element.addEventListener(event, () => resolve(element));
    how(element);
    document.body.append(element);
  });
  const form = new URLSearchParams({ server: 'files' });
  for (const target of targets) {
    for (const mode of ['cors', 'no-cors']) {
      for (const options of [{}, { method: 'POST', body: form }, { redirect: 'manual' }]) {
        const sent = fetch(target, { mode, credentials: 'include', ...options });
        const text = await sent.then((got) => got.text()).catch(() => '');
        if (text) learned.push(`fetch: ${text}`);
      }
    }
    navigator.sendBeacon(target, form);
    await new Promise((resolve) => {
      const events = new EventSource(target, { withCredentials: true });
      events.onmessage = (event) => learned.push(`event: ${event.data}`);
      events.onerror = () => { events.close(); resolve(); };
    });
    for (const [tag, key] of [['img', 'src'], ['script', 'src'], ['link', 'href'], ['object', 'data']]) {
      await settled(document.createElement(tag), (one) => { one.rel = 'stylesheet'; one[key] = target; });
    }
    const framed = (one) => { [one.name, one.src] = ['f', target]; };
    const frame = await settled(document.createElement('iframe'), framed);
    try { learned.push(`frame: ${frame.contentWindow.location.href}`); } catch { /* as it should be */ }
    const posted = document.createElement('form');
    Object.assign(posted, { method: 'post', action: target, target: 'f' });
    document.body.append(posted);
    await settled(frame, () => posted.submit());
    const opened = window.open(target, 'w');
    while (!opened.closed) await new Promise((resolve) => setTimeout(resolve, 10));
  }
  const entries = performance.getEntries().map((one) => one.name).filter((name) => !targets.includes(name));
  return [...learned, ...entries.filter((name) => name.startsWith(base))];
}"""
"""Every way to another origin that a page has, below a URL; returns what it learned."""


class Neighbor:
    """The page, with all that it was sent."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.heads: list[str] = []

    @property
    def cookies(self) -> set[str]:
        """The cookies that browsers sent, without its own."""
        lines = (line for head in self.heads for line in head.split("\r\n"))
        sent = {
            pair.strip()
            for line in lines
            if line.lower().startswith("cookie:")
            for pair in line.partition(":")[2].split(";")
        }
        return {pair for pair in sent if not pair.endswith(f"={TOSSED}")}


@asynccontextmanager
async def neighbor() -> AsyncGenerator[Neighbor]:
    """Serve the page at every path of a free port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):  # browsers open connections in reserve
            made.heads.append((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
            writer.write(f"{_HEAD}{_BODY}".encode())
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        made = Neighbor(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        yield made
