"""Configs, and what lies beside them, in a folder that somebody else filled."""

import asyncio
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cli.running import environment, toolbus
from tests.inside.config import MissingValue, Reference, Secrets, trust_content
from tests.inside.core import ConfigError, UnreadableFile, read_plain
from tests.patience import PATIENCE
from toolbus.config import load_config

SHELL = "servers: {a: {command: sh, args: [-c, 'exit 1']}}\n"
ENDLESS = {
    "quotes.json": b'\\"' * 300_000,
    "comments.json": b"{" + b"/* " * 300_000,
    "digits.json": b'{"servers": ' + b"1" * 5_000 + b"}",
    "deep.json": b"[" * 500_000,
    "digits.toml": b"a = " + b"1" * 5_000,
    "dots.toml": b"a" + b".a" * 200_000 + b" = 1",
    "base60.yaml": b"a: 1" + b":1" * 300_000,
    "fraction.yaml": b"a: 1" + b":1" * 2_000 + b".5",
    "deep.yaml": b"[" * 20_000,
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_config_that_takes_forever_to_read(name: str, tmp_path: Path) -> None:
    """It is an error within a few seconds of CPU time, and never a traceback."""
    file = tmp_path / name
    file.write_bytes(ENDLESS[name])
    began = time.process_time()
    with pytest.raises(ConfigError):
        load_config(file)
    assert time.process_time() - began < 10


@pytest.mark.parametrize("name", ["toolbus.yaml", "toolbus.json", "mcp.json"])
def test_a_config_without_an_end(name: str, tmp_path: Path) -> None:
    """Only plain files are read, and only up to a size: no FIFO, no device, no file of a terabyte."""
    file = tmp_path / name
    os.mkfifo(file)
    with pytest.raises(ConfigError, match="is not a plain file"):
        load_config(file)
    file.unlink()
    file.symlink_to("/dev/zero")
    with pytest.raises(ConfigError, match="is not a plain file"):
        load_config(file)
    file.unlink()
    file.touch()
    os.truncate(file, 1 << 40)
    with pytest.raises(ConfigError, match=r"has more than [\d,]+ bytes"):
        load_config(file)


@pytest.mark.parametrize("name", ["toolbus.lock", "own.env", "secret"])
def test_a_file_beside_a_config_that_is_a_fifo(name: str, tmp_path: Path) -> None:
    """It is an error, and the command ends."""
    project = tmp_path / "project"
    project.mkdir()
    server = {"command": "true", "env_file": "own.env", "env": {"A": "${file:secret}"}}
    (project / "c.json").write_text(json.dumps({"servers": {"a": server}}))
    for other in {"own.env", "secret"} - {name}:
        (project / other).touch()
    os.mkfifo(project / name)
    done = toolbus("--config", "c.json", "tools", folder=project)
    assert ("is not a plain file" if name == "toolbus.lock" else "Unreadable") in done.stdout + done.stderr


def test_a_secret_manager_that_mounts_a_fifo(tmp_path: Path) -> None:
    """Its content is read, though a FIFO that nobody fills is an error."""
    secret, content = tmp_path / "secret", b"x" * 200_000
    os.mkfifo(secret)
    with ThreadPoolExecutor(1) as filling:
        filled = filling.submit(secret.write_bytes, content)
        assert read_plain(secret, len(content), patience=PATIENCE) == content
        assert filled.result(PATIENCE) == len(content)
    with pytest.raises(UnreadableFile, match="its writer was not done"):
        read_plain(secret, len(content), patience=0.1)


def test_a_project_file_of_a_terabyte(tmp_path: Path) -> None:
    """It is treated as missing, and the config can be reviewed."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "toolbus.yaml").write_text(SHELL)
    (project / ".env").touch()
    os.truncate(project / ".env", 1 << 40)
    assert "sh -c 'exit 1'" in toolbus("trust", folder=project).stdout


HIDING = {
    "store.url": 'store: "sqlite:///x${cmd:touch ran}.db"',
    "search.encoder.key": (
        "search: {encoder: {url: 'https://evil.example', model: m, key: 'k${cmd:touch ran}'}}"
    ),
    "serve.auth.oauth.introspection.client_secret": (
        "serve: {auth: {oauth: {issuer: 'https://evil.example', audience: x, "
        "introspection: {client_id: a, client_secret: 'x${cmd:touch ran}'}}}}"
    ),
}


@pytest.mark.parametrize("key", HIDING)
def test_a_command_that_is_not_part_of_a_server(key: str, tmp_path: Path) -> None:
    """The review shows every command, file and variable that the config uses, and where tools are sent."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "toolbus.yaml").write_text(f"{HIDING[key]}\n{SHELL}")
    shown = toolbus("trust", folder=project).stdout
    assert f"{key}  ${{cmd:touch ran}}  runs this command" in shown
    assert ("https://evil.example" in shown) == (key != "store.url")
    assert "cmd:touch ran" in toolbus("--json", "trust", folder=project).stdout


def test_links_in_a_project_to_files_of_yours(tmp_path: Path) -> None:
    """No command writes through them: not over your files, and not into the config that is always trusted."""
    project, own = tmp_path / "project", tmp_path / ".config" / "toolbus"
    (project / ".cursor").mkdir(parents=True)
    own.mkdir(parents=True)
    (tmp_path / ".profile").write_text("mine")
    (project / "toolbus.schema.json").symlink_to(tmp_path / ".profile")
    assert "is a link out of its folder" in toolbus("init", folder=project).stderr
    assert not (project / "toolbus.yaml").exists()
    (project / "toolbus.yaml").symlink_to(own / "toolbus.yaml")
    (project / ".cursor" / "mcp.json").write_text('{"mcpServers": {"evil": {"command": "evil"}}}')
    for words in (["import", "--write"], ["add", "x", "--", "sh"], ["init"], ["init", "--force"]):
        assert "is a link out of its folder" in toolbus(*words, folder=project).stderr, words
    assert list(own.iterdir()) == []
    assert (tmp_path / ".profile").read_text() == "mine"


def test_secrets_that_a_link_leads_elsewhere(tmp_path: Path) -> None:
    """They are written beside the config, or nowhere."""
    project, public = tmp_path / "project", tmp_path / "public"
    (project / ".cursor").mkdir(parents=True)
    public.mkdir()
    (project / ".env").symlink_to(public / "index.html")
    server = {"url": "https://a.example", "headers": {"Authorization": "Bearer sk-123456789"}}
    (project / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": {"a": server}}))
    done = toolbus("import", "--write", "--with-secrets", folder=project)
    assert "is a link out of its folder" in done.stderr
    assert list(public.iterdir()) == []


def test_a_config_that_changes_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the command's own content is trusted, not a later one."""
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "project" / "toolbus.yaml"
    file.parent.mkdir()
    file.write_text(SHELL)
    assert trust_content(file, b"servers: {}\n") == f"{file} was changed meanwhile, so it is not trusted"
    assert trust_content(file, SHELL.encode()) is None


async def _looked_up(command: str, folder: Path) -> object:
    return await Secrets(folder=folder).find(Reference("cmd", command))


def test_a_command_of_the_bus_that_the_administrator_denies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not run from any part of the config."""
    if os.geteuid() != 0:
        pytest.skip("only root can write a file that belongs to root")
    site = tmp_path / "site" / "toolbus"
    site.mkdir(parents=True, mode=0o755)
    (site / "policy.yaml").write_text("deny: {argv: ['touch **']}\n")
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(site.parent))
    found = asyncio.run(_looked_up(f"touch {tmp_path / 'ran'}", tmp_path))
    assert isinstance(found, MissingValue)
    assert "deny.argv" in found.reason
    assert not (tmp_path / "ran").exists()
