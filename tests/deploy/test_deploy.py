"""The files in deploy/: valid, in agreement, and they work together as far as this machine has the parts."""

import asyncio
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
import venv
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import httpx2
import pytest
import yaml

from tests import patience, warm
from tests.cli.running import TOOLBUS, environment
from tests.gateway.front import modern_request
from tests.gateway.serving import end, wait_until
from tests.inside.gateway import MARGIN
from tests.patience import PATIENCE
from toolbus.config import load_config

DEPLOY = Path(__file__).parents[2] / "deploy"
PROXY = shutil.which("haproxy") or "/usr/sbin/haproxy"
needs_haproxy = pytest.mark.skipif(
    not Path(PROXY).exists(), reason="HAProxy is not installed; on Debian: apt-get install haproxy"
)
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not on the PATH"
)
GATEWAYS = ("gateway1", "gateway2", "gateway3")


def compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def own_config() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "toolbus.yaml").read_text())


# Each file


def test_the_compose_file_has_all_parts() -> None:
    services = compose()["services"]
    names = [*GATEWAYS, "haproxy", "postgres", "worker1", "worker2"]
    assert sorted(services) == names
    for name in GATEWAYS:
        assert "command" not in services[name]  # as the container file says
        assert services[name]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    for name in ("worker1", "worker2"):
        assert services[name]["command"][:2] == ["runs", "worker"]
        assert services[name]["profiles"] == ["agents"]  # without a model they would end again and again
    for name in (*GATEWAYS, "worker1", "worker2"):
        assert services[name]["environment"]["TOOLBUS_RUNS"].endswith("@postgres/toolbus")
    assert all(":" in one["image"] for one in services.values() if "build" not in one)
    assert services["haproxy"]["ports"] == ["127.0.0.1:8080:8080"]  # nothing else is open, and only here


def test_every_file_and_variable_that_compose_names_is_there() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    for service in compose()["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert (DEPLOY / source).is_file() or source in compose()["volumes"], volume
        if "build" in service:
            context = DEPLOY / service["build"]["context"]
            assert (context / service["build"]["dockerfile"]).is_file()
            assert (context / "pyproject.toml").is_file()
    named = set(re.findall(r"\$\{(\w+)", text))
    lines = [line for line in (DEPLOY / "env.example").read_text().splitlines() if not line.startswith("#")]
    assert named == {line.partition("=")[0] for line in lines}
    referred = set(re.findall(r"\$\{(\w+)", (DEPLOY / "toolbus.yaml").read_text()))
    given = compose()["x-toolbus"]["environment"]
    assert referred <= given.keys()


def test_the_gateways_trust_the_network_of_the_balancer() -> None:
    [network] = compose()["networks"]["default"]["ipam"]["config"]
    assert own_config()["serve"]["trusted_proxies"] == [network["subnet"]]


@pytest.mark.parametrize("name", ["toolbus.yaml", "one-machine.yaml"])
def test_no_server_is_given_the_folder_of_the_config_and_its_secrets(name: str) -> None:
    assert "/etc/" not in json.dumps(yaml.safe_load((DEPLOY / name).read_text()))


def test_an_image_is_built_without_secrets_and_without_what_is_large() -> None:
    ignored = (DEPLOY.parent / ".dockerignore").read_text().splitlines()
    assert {".git", "**/.env", "**/.venv", "**/.interop"} <= set(ignored)
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    needed = {"pyproject.toml", "src", project["readme"]}
    assert not needed & set(ignored)


def test_calls_have_time_to_end() -> None:
    """Docker, systemd and the load balancer wait for longer than the gateway does."""
    serve = load_config({"servers": own_config()["servers"], "serve": own_config()["serve"]}).serve
    assert serve is not None
    notice = own_config()["store"]["notice"]
    assert int(compose()["x-toolbus"]["stop_grace_period"].removesuffix("s")) > serve.drain + notice + MARGIN
    unit = (DEPLOY / "toolbus.service").read_text()
    stop = re.search(r"TimeoutStopSec=(\d+)", unit)
    assert stop is not None
    assert int(stop[1]) > serve.drain + 30  # what workers have beyond that
    balancer = (DEPLOY / "haproxy.cfg").read_text()
    interval, check = re.search(r" inter (\d+)s ", balancer), re.search(r"timeout check (\d+)s", balancer)
    assert interval is not None
    assert check is not None
    assert int(interval[1]) + int(check[1]) < notice


def test_the_balancer_knows_the_gateways_of_compose() -> None:
    text = (DEPLOY / "haproxy.cfg").read_text()
    assert re.findall(r"server (\w+) (\w+):(\d+)", text) == [(name, name, "7400") for name in GATEWAYS]
    assert own_config()["serve"]["http"].endswith(":7400")
    assert own_config()["serve"]["public_url"].endswith(":8080")
    assert "bind :8080" in text
    # Only what was not sent may be sent again: a call is never made twice.
    assert re.findall(r"retry-on (.*)", text) == ["conn-failure"]
    assert "cookie" not in text


@needs_haproxy
def test_haproxy_takes_its_config() -> None:
    done = subprocess.run([PROXY, "-c", "-f", str(DEPLOY / "haproxy.cfg")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@needs_systemd
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """The test uses an existing program: the unit's own is in /opt."""
    unit = tmp_path / "toolbus.service"
    unit.write_text((DEPLOY / "toolbus.service").read_text().replace("/opt/toolbus/bin/toolbus", TOOLBUS))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (0, "")


def own_unit(home: Path) -> Path:
    """The unit of a user, in a home where toolbus is installed as `pip install --user` does it."""
    program = home / ".local" / "bin" / "toolbus"
    program.parent.mkdir(parents=True)
    program.symlink_to(TOOLBUS)
    unit = home / ".config" / "systemd" / "user" / "toolbus-up.service"
    unit.parent.mkdir(parents=True)
    unit.write_text((DEPLOY / "toolbus-up.service").read_text())
    return unit


@needs_systemd
def test_systemd_takes_the_unit_of_a_user(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.defpath, "XDG_RUNTIME_DIR": str(tmp_path)}
    command = ["systemd-analyze", "--user", "verify", str(own_unit(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_the_unit_of_a_user_starts_its_servers(tmp_path: Path) -> None:
    """Its command, in the environment that systemd gives it: no PATH of a shell, no terminal."""
    unit = own_unit(tmp_path).read_text().replace("%h", str(tmp_path))
    notes = {"command": sys.executable, "args": [str(DEPLOY.parent / "examples" / "notes.py")]}
    (tmp_path / "toolbus.yaml").write_text(yaml.safe_dump({"servers": {"notes": notes}}))
    settings = dict(re.findall(r"(\w+)=(.*)", unit))
    env = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "PATH": settings["Environment"][5:]}
    command = shlex.split(settings["ExecStart"])
    bus = subprocess.Popen(command, env=env, cwd=settings["WorkingDirectory"], stdin=subprocess.DEVNULL)
    try:
        status = [command[0], "status", "--config", command[-1], "--json"]

        def states() -> list[str]:
            done = subprocess.run(status, env=env, capture_output=True, text=True)
            servers = json.loads(done.stdout or "{}").get("servers", {})
            return [server["state"] for server in servers.values()]

        patience.wait_until(lambda: states() == ["ready"])
    finally:
        bus.terminate()
        assert bus.wait(PATIENCE) == 0


def test_the_unit_starts_a_command_that_exists() -> None:
    unit = (DEPLOY / "toolbus.service").read_text()
    found = re.search(r"ExecStart=/opt/toolbus/bin/toolbus (.*)", unit)
    assert found is not None
    command, *options = shlex.split(found[1])
    done = subprocess.run([TOOLBUS, command, "--help"], capture_output=True, text=True, check=True)
    assert all(option in done.stdout for option in options if option.startswith("--"))
    assert "HOME=/var/lib/toolbus" in unit  # a dynamic user has none
    config = load_config(DEPLOY / "one-machine.yaml")
    assert config.serve is not None
    assert (config.store, config.serve.workers) == (None, 4)
    folder = config.servers["files"].args[-1]
    assert folder.removeprefix("/var/lib/") in re.findall(r"StateDirectory=(.*)", unit)[0].split()


def test_the_container_file_installs_extras_that_exist() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    extras = re.search(r'"/src\[([\w,]+)\]"', text)
    assert extras is not None
    project = (DEPLOY.parent / "pyproject.toml").read_text()
    known = set(re.findall(r"^([\w-]+) = \[", project, re.MULTILINE))
    assert {"code"} <= set(extras[1].split(",")) <= known | {"durable", "postgres"}
    assert "USER toolbus" in text  # not root
    assert re.search(r'CMD \["serve", "--config", "/etc/toolbus/toolbus.yaml"\]', text)


# Together


@contextmanager
def gateway(folder: Path, config: Path) -> Generator[int]:
    """A gateway of the config in deploy/, on a port of this machine."""
    port = _free_port()
    log = folder / f"{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [warm.toolbus(), "serve", "--config", str(config), "--http", f"0.0.0.0:{port}"],
            env=environment(folder, PATH=os.pathsep.join([str(warm.folder()), os.environ["PATH"]])),
            stdin=DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        # HAProxy takes one that is not ready when it starts out of service for seconds.
        wait_until(lambda: "serving http" in log.read_text(), process, "toolbus serve", log)
        yield port
    finally:
        end(process)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@contextmanager
def balancer(folder: Path, ports: list[int]) -> Generator[str]:
    """HAProxy with the file in deploy/, its names and ports replaced by local ones."""
    text, own = (DEPLOY / "haproxy.cfg").read_text(), _free_port()
    for name, port in zip(GATEWAYS, ports, strict=True):
        text = text.replace(f"{name}:7400", f"127.0.0.1:{port}")
    file = folder / "haproxy.cfg"
    file.write_text(text.replace("bind :8080", f"bind 127.0.0.1:{own}"))
    process = subprocess.Popen([PROXY, "-db", "-f", str(file)], stdout=DEVNULL, stderr=DEVNULL)
    try:
        yield f"http://localhost:{own}"
    finally:
        end(process)


def added_key(config: Path) -> dict[str, str]:
    """The header of a client of the gateways with that config."""
    words = [warm.toolbus(), "key", "add", "ann", "--json", "--config", str(config)]
    made = subprocess.run(words, env=environment(config.parent), capture_output=True, check=True)
    return {"authorization": f"Bearer {json.loads(made.stdout)['key']}"}


@pytest.mark.anyio
@needs_haproxy
async def test_three_gateways_serve_behind_the_balancer(tmp_path: Path) -> None:
    """With the config of deploy/, but its database: that is the part of other tests."""
    values = own_config()
    del values["store"]
    values["servers"]["files"]["args"][-1] = str(DEPLOY)
    config = tmp_path / "toolbus.yaml"
    config.write_text(json.dumps(values))
    key = added_key(config)
    content, headers = modern_request(
        "tools/call", {"name": "files_read", "arguments": {"path": "compose.yaml"}}
    )
    with ExitStack() as stack:
        ports = [stack.enter_context(gateway(tmp_path, config)) for _ in GATEWAYS]
        url = stack.enter_context(balancer(tmp_path, ports))
        async with httpx2.AsyncClient(timeout=PATIENCE) as http:
            await _until_served(http, f"{url}/mcp", content, {**headers, **key})
            for _ in range(6):
                found = await http.post(f"{url}/mcp", content=content, headers={**headers, **key})
                assert (found.status_code, "postgres:17" in found.text) == (200, True), found.text
            assert (await http.post(f"{url}/mcp", content=content, headers=headers)).status_code == 401
            for hidden in ("/metrics", "/console", "/console/servers"):
                assert (await http.get(f"{url}{hidden}", headers=key)).status_code == 404


async def _until_served(http: httpx2.AsyncClient, url: str, content: bytes, headers: dict[str, str]) -> None:
    """Wait until the load balancer has found a gateway that is ready."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(httpx2.ConnectError):
                if (await http.post(url, content=content, headers=headers)).status_code == 200:
                    return
            await asyncio.sleep(0.1)


def test_the_config_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTGRES_PASSWORD", "secret")
    config = load_config(DEPLOY / "toolbus.yaml")
    assert config.serve is not None
    assert config.serve.workers == 2
    assert config.model_dump()["store"]["notice"] == own_config()["store"]["notice"]


@pytest.mark.full  # it installs packages for minutes
def test_the_steps_of_the_container_file(tmp_path: Path) -> None:
    """Without docker: a clean environment, what `pip` installs there, and the command."""
    venv.create(tmp_path / "toolbus", with_pip=True)
    programs = tmp_path / "toolbus" / "bin"
    subprocess.run([programs / "pip", "install", "-q", str(DEPLOY.parent)], check=True)
    words = [programs / "toolbus", "serve", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "--workers" in done.stdout
