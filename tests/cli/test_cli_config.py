"""`toolbus config`: the config as toolbus understands it; a secret is shown in no way of asking."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.running import Done, toolbus, write_config

SERVERS: dict[str, Any] = {
    "local": {
        "command": "run",
        "args": [
            "--port",
            "${PORT:-80}",
            "--token",
            "${FROM_ENV}",
            "--api-key=s3cr3t-one",
            "--key",
            "s3cr3t-two",
        ],
        "env": {"A": "x", "API_KEY": "s3cr3t-three", "B": "${FROM_FILE}", "C": "${file:token}"},
        "cwd": "sub",
        "include": ["read_*"],
    },
    "web": {
        "url": "https://me:s3cr3t-four@example.com/mcp?key=s3cr3t-five&page=2",
        "headers": {"Authorization": "Bearer s3cr3t-six", "X-Plain": "plain"},
    },
    "bearer": {"url": "https://${HOST}/mcp", "auth": {"type": "bearer", "token": "s3cr3t-seven"}},
    "default": {"command": "run", "env": {"TOKEN": "${NONE:-s3cr3t-eight}"}},
    "unset": {
        "command": "run",
        "args": ["--password=s3cr3t-nine", "${FROM_ENV}"],
        "env": {"T": "${NOT_SET}", "API_KEY": "s3cr3t-ten"},
    },
    "off": {"command": "run", "enabled": False},
}
FOR_ALL = {
    "include": ["*/read_*"],
    "resource_tools": "bus",
    "roots": ["sub"],
    "context": [{"server": "local", "uri": "memo://*"}],
}
PROBLEM = (
    "server 'unset': env.T: secret 'NOT_SET' is not set; "
    "set it in the environment or in a .env beside the config"
)
EXPANDED = {
    "local": {
        "transport": "stdio",
        "command": "run",
        "args": ["--port", "80", "--token", "***", "--api-key=***", "--key", "***"],
        "env": {"A": "x", "API_KEY": "***", "B": "***", "C": "***"},
        "include": ["read_*"],
    },
    "web": {
        "transport": "streamable-http",
        "url": "https://***@example.com/mcp?key=***&page=***",
        "headers": {"Authorization": "***", "X-Plain": "plain"},
    },
    "bearer": {
        "transport": "streamable-http",
        "url": "https://***/mcp",
        "headers": {"Authorization": "***"},
    },
    "default": {"transport": "stdio", "command": "run", "env": {"TOKEN": "***"}},
    "unset": {
        "transport": "stdio",
        "command": "run",
        "args": ["--password=***", "${FROM_ENV}"],
        "env": {"T": "${NOT_SET}", "API_KEY": "***"},
        "problem": PROBLEM,
    },
}
AS_WRITTEN = {
    "local": EXPANDED["local"]
    | {
        "args": ["--port", "${PORT:-80}", "--token", "${FROM_ENV}", "--api-key=***", "--key", "***"],
        "env": {"A": "x", "API_KEY": "***", "B": "${FROM_FILE}", "C": "${file:token}"},
        "cwd": "sub",
    },
    "web": {
        "transport": "streamable-http",
        "url": "https://me:***@example.com/mcp?key=***&page=2",
        "headers": {"Authorization": "Bearer ***", "X-Plain": "plain"},
    },
    "bearer": {
        "transport": "streamable-http",
        "url": "https://${HOST}/mcp",
        "auth": {"type": "bearer", "token": "***"},
    },
    "default": {"transport": "stdio", "command": "run", "env": {"TOKEN": "${NONE:-***}"}},
    "unset": {name: value for name, value in EXPANDED["unset"].items() if name != "problem"},
}
WAYS = {
    "written": ["config"],
    "expanded": ["config", "--redacted"],
    "written json": ["config", "--json"],
    "expanded json": ["config", "--json", "--redacted", "-vv"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("config")
    (folder / ".env").write_text("FROM_FILE=s3cr3t-dotenv\n")
    (folder / "token").write_text("s3cr3t-file\n")
    write_config(folder, SERVERS, naming="{server}.{tool}", **FOR_ALL)
    return folder


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, Done]:
    env = {"FROM_ENV": "s3cr3t-env", "HOST": "s3cr3t-host.example.com"}
    return {name: toolbus(*words, folder=folder, env=env) for name, words in WAYS.items()}


@pytest.mark.parametrize("way", WAYS)
def test_a_secret_is_shown_nowhere(runs: dict[str, Done], way: str) -> None:
    run = runs[way]
    assert [word for word in (run.stdout + run.stderr).split() if "s3cr3t" in word] == []
    assert run.returncode == 0


@pytest.mark.parametrize("alias", AS_WRITTEN)
def test_each_server_is_shown_as_it_is_written(runs: dict[str, Done], alias: str) -> None:
    shown = yaml.safe_load(runs["written"].stdout)
    assert shown["servers"][alias] == AS_WRITTEN[alias]
    assert shown == json.loads(runs["written json"].stdout)


@pytest.mark.parametrize("alias", EXPANDED)
def test_each_server_is_shown_with_its_references_filled_in(
    runs: dict[str, Done], alias: str, folder: Path
) -> None:
    shown = yaml.safe_load(runs["expanded"].stdout)
    place = {"cwd": str(folder / "sub")} if alias == "local" else {}
    assert shown["servers"][alias] == EXPANDED[alias] | place
    assert shown == json.loads(runs["expanded json"].stdout)


def test_the_file_is_named_and_what_is_switched_off_left_out(runs: dict[str, Done], folder: Path) -> None:
    shown = json.loads(runs["written json"].stdout)
    assert list(shown.pop("servers")) == list(AS_WRITTEN)
    assert shown == {"file": str(folder / "toolbus.yaml"), "naming": "{server}.{tool}", **FOR_ALL}
    assert runs["written"].stderr == ""
