"""Apps of a real gateway: with a certificate, behind a proxy, with several workers, with replicas."""

import os
import socket
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.cli.running import toolbus, write_config
from tests.cli.test_cli_serve_http import served
from tests.gateway.console.app_pages import app_says, dashboard, in_app
from tests.gateway.console.chromium import Chromium, Tab
from tests.gateway.replicas.balancer import HAPROXY, MISSING, free_port
from tests.gateway.serving import end, wait_until
from tests.servers.certificates import self_signed

pytestmark = pytest.mark.anyio
TOOLS, APPS = "tools.toolbus.test", "apps.toolbus.test"
PROXY = """
defaults
    mode http
    timeout connect 10s
    timeout client 1h
    timeout server 1h
frontend people
    bind 127.0.0.1:{port} ssl crt {cert}
    option forwardfor
    http-request set-header X-Forwarded-Proto https
    use_backend apps if {{ hdr(host),field(1,:) -i {apps} }}
    default_backend tools
backend tools
    server one 127.0.0.1:{tools_port}
backend apps
    server one 127.0.0.1:{apps_port}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a home of its own."""
    made = tmp_path / "home" / "work"
    made.mkdir(parents=True)
    return made


def console_url(folder: Path) -> str:
    """A URL that lets one browser in."""
    done = toolbus("console", "--print", folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def config(folder: Path, serve: dict[str, Any], **more: Any) -> None:
    write_config(folder, {"dash": dashboard()}, serve=serve, **more)


async def call_from(tab: Tab, url: str) -> None:
    """Call a tool with an app; the URL lets one browser in."""
    await tab.goto(url)
    tab.home = (await tab.do("url")).rpartition("/")[0]
    await tab.goto(f"{tab.home}/tools?tool=dash_show")
    await tab.click("#call")
    await tab.see("#trial .badge", "done")


async def frame_in(tab: Tab) -> str:
    """Open the app of the last call, let it call a tool, and return the URL of its outer frame."""
    await tab.goto(f"{tab.home}/tools?tool=dash_show")
    await app_says(tab, "result: show {}")
    assert await in_app(tab, "call('refresh', { day: 1 })") == 'refresh {"day": 1}'
    assert await in_app(tab, "self.origin") == "null"
    return await tab.run("document.querySelector('#app iframe').src")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxied:
    """A proxy with a certificate, and the ports behind it."""

    port: int
    tools_port: int
    apps_port: int

    @property
    def serve(self) -> dict[str, Any]:
        """The `serve` of a gateway behind it."""
        return {
            "http": f"127.0.0.1:{self.tools_port}",
            "public_url": f"https://{TOOLS}:{self.port}",
            "trusted_proxies": ["127.0.0.1"],
            "console": True,
            "auth": {"keys": True},
            "apps": {"http": f"127.0.0.1:{self.apps_port}", "url": f"https://{APPS}:{self.port}"},
        }


@contextmanager
def proxied(folder: Path) -> Generator[Proxied]:
    """HAProxy, which ends TLS for two names."""
    assert HAPROXY is not None, MISSING
    made = Proxied(port=free_port(), tools_port=free_port(), apps_port=free_port())
    text = PROXY.format(
        port=made.port,
        cert=self_signed(folder),
        apps=APPS,
        tools_port=made.tools_port,
        apps_port=made.apps_port,
    )
    (folder / "haproxy.cfg").write_text(text)
    log = folder / "haproxy.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [HAPROXY, "-db", "-f", str(folder / "haproxy.cfg")], stdout=output, stderr=output
        )
    try:
        wait_until(lambda: _listens(made.port), process, "haproxy", log)
        yield made
    finally:
        end(process)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


async def test_with_a_certificate_both_origins_use_https(browser: Chromium, folder: Path) -> None:
    certificate = str(self_signed(folder))
    config(folder, {"tls": {"cert": certificate, "key": certificate}})
    with served(folder) as gateway:
        async with browser.tab(ignoreHTTPSErrors=True) as tab:
            await call_from(tab, console_url(folder))
            frame = await frame_in(tab)
            assert frame.startswith("https://127.0.0.1:")
            assert origin_of(frame) != origin_of(gateway.serving["console"])


@pytest.mark.skipif(HAPROXY is None, reason=MISSING)
@pytest.mark.parametrize("workers", [1, 3] if hasattr(os, "fork") else [1])
async def test_behind_a_proxy_the_frame_has_the_other_name(
    workers: int, browser: Chromium, folder: Path
) -> None:
    """With several workers, the first has the console and all frames, whichever gets the connection."""
    with proxied(folder) as proxy:
        config(folder, proxy.serve | {"workers": workers})
        words = ("--http", f"127.0.0.1:{proxy.tools_port}")
        with served(folder, *words):
            async with browser.tab(harmless=False, ignoreHTTPSErrors=True) as tab:
                url = console_url(folder)
                assert url.startswith(f"https://{TOOLS}:{proxy.port}/console?token=")
                await call_from(tab, url)
                frames = [await frame_in(tab) for _ in range(workers)]
                assert {origin_of(one) for one in frames} == {f"https://{APPS}:{proxy.port}"}
                assert await tab.problems() == []
                cookies = [one for one in await tab.do("cookies") if one["name"] == "toolbus_console"]
                assert [(one["domain"], one["secure"]) for one in cookies] == [(TOOLS, True)]
                # Neither name leads to the other's pages.
                for name, path in ((APPS, "/console"), (TOOLS, urlsplit(frames[-1]).path)):
                    await tab.goto(f"https://{name}:{proxy.port}{path}")
                    assert await tab.count("nav, iframe") == 0


async def test_each_replica_shows_its_own_apps_on_this_machine(browser: Chromium, folder: Path) -> None:
    """A public name leads to any of them, so none of them uses it for its console or its apps."""
    with ExitStack() as stack:
        homes = [folder, folder.parent / "other"]
        origins = set[str]()
        for home in homes:
            home.mkdir(parents=True, exist_ok=True)
            ports = free_port(), free_port()
            serve = Proxied(port=1, tools_port=ports[0], apps_port=ports[1]).serve
            config(home, serve, store={"url": f"sqlite:///{folder / 'store.db'}"})
            stack.enter_context(served(home))
        for home in homes:
            async with browser.tab() as tab:
                await call_from(tab, console_url(home))
                frame = await frame_in(tab)
                origins.add(origin_of(frame))
                assert urlsplit(frame).hostname == "127.0.0.1"
        assert len(origins) == 2
