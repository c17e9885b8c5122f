"""The console of a background bus: `toolbus console` finds it, `status` shows it, it ends with the bus."""

import http.client
import re
from http.client import HTTPMessage
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from tests.background.holding import background, status
from tests.cli.running import toolbus
from tests.patience import PATIENCE, wait_until


def _get(url: str, cookie: str = "") -> tuple[int, HTTPMessage, str]:
    """The status, the headers and the text of a page."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}", headers={"cookie": cookie})
        with connection.getresponse() as response:
            return response.status, response.headers, response.read().decode()
    finally:
        connection.close()


def _announcements(folder: Path) -> list[Path]:
    return list((folder.parent / ".state/toolbus/run").glob("console-*.json"))


def test_it_shows_the_servers_of_the_bus_and_ends_with_it(folder: Path) -> None:
    up = toolbus("up", folder=folder)
    assert up.returncode == 0, up.stderr
    try:
        url = status(folder)["console"]
        found = toolbus("console", "--print", folder=folder)
        entered, headers, _ = _get(found.stdout.strip())
        first, cookie = urljoin(url, headers["location"]), headers["set-cookie"].partition(";")[0]
        page = urljoin(first, "servers")
        shown, without = _get(page, cookie), _get(page)
        elsewhere = _get(f"{url}/servers", cookie)
        written = toolbus("status", folder=folder)
        [file] = _announcements(folder)
        mode = file.stat().st_mode & 0o777
    finally:
        toolbus("down", folder=folder)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/console", url)
    assert found.stdout.startswith(f"{url}?token="), found.stderr
    assert (entered, shown[0], without[0], elsewhere[0], mode) == (303, 200, 401, 401, 0o600)
    assert "1 of 1 server ready, 16 tools in the catalog" in shown[2]
    assert f"  console  {url}\n" in written.stdout
    assert "token" not in written.stdout
    assert _announcements(folder) == []
    gone = toolbus("console", "--print", folder=folder)
    assert "no console is running" in gone.stderr


def test_it_says_that_a_changed_config_is_not_in_use(folder: Path) -> None:
    with background(folder):
        url, found = status(folder)["console"], toolbus("console", "--print", folder=folder)
        _, headers, _ = _get(found.stdout.strip())
        page, cookie = urljoin(url, headers["location"]), headers["set-cookie"].partition(";")[0]
        (folder / "toolbus.yaml").write_text("servers: [")
        wait_until(lambda: status(folder)["config_problem"] is not None, "it was not noticed")
        _, _, shown = _get(urljoin(page, "overview"), cookie)
        assert "The config has changed, but is not in use" in shown


def test_no_console_turns_it_off(folder: Path) -> None:
    with background(folder, "--no-console"):
        facts, found = status(folder), toolbus("console", "--print", folder=folder)
        assert _announcements(folder) == []
    assert facts["console"] is None
    assert (found.returncode, found.stdout) == (1, "")
