"""`toolbus import` and `toolbus init`: a config to start from, without a secret in it."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from dotenv import dotenv_values

from tests.cli.running import toolbus
from toolbus.config.schema import config_schema

SECRET = "s3cr3t-'quoted'-\\value"
CURSOR: dict[str, Any] = {
    "mcpServers": {
        "hub": {"command": "npx", "args": ["-y", "hub"], "env": {"HUB_TOKEN": SECRET, "REGION": "${REGION}"}},
        "web": {"url": "https://example.com/mcp", "autoApprove": ["x"], "disabled": True},
    }
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project that Cursor has a config for, in a home of its own."""
    folder = tmp_path / "home" / "project"
    (folder / ".cursor").mkdir(parents=True)
    (folder / ".cursor" / "mcp.json").write_text(json.dumps(CURSOR))
    return folder


def test_an_import_only_shows_what_it_would_do(project: Path) -> None:
    done = toolbus("import", folder=project)

    assert done.returncode == 0
    assert yaml.safe_load(done.stdout)["servers"]["hub"]["env"] == {
        "HUB_TOKEN": "${HUB_TOKEN}",
        "REGION": "${REGION}",
    }
    assert "hub: env.HUB_TOKEN is a secret, replaced by ${HUB_TOKEN}" in done.stderr
    assert done.stderr.endswith("would add 2 servers to toolbus.yaml; run with --yes to do it\n")
    assert SECRET not in done.stdout + done.stderr
    assert [path.name for path in project.iterdir()] == [".cursor"]


def test_a_written_import_loads_and_has_the_secrets_in_env_when_asked(project: Path) -> None:
    done = toolbus("import", "cursor", "--yes", "--with-secrets", "--json", folder=project)

    report = json.loads(done.stdout)
    assert (report["written"], report["target"]) == (True, "toolbus.yaml")
    assert report["secrets"] == [{"server": "hub", "key": "env.HUB_TOKEN", "name": "HUB_TOKEN"}]
    written = yaml.safe_load((project / "toolbus.yaml").read_text())
    assert written["servers"]["hub"]["env"] == {"HUB_TOKEN": "${HUB_TOKEN}", "REGION": "${REGION}"}
    assert written["servers"]["web"] == {"url": "https://example.com/mcp", "enabled": False}
    assert dotenv_values(project / ".env") == {"HUB_TOKEN": SECRET}
    assert stat.S_IMODE((project / ".env").stat().st_mode) == 0o600
    assert SECRET not in done.stdout + done.stderr + (project / "toolbus.yaml").read_text()


def test_an_import_leaves_what_is_there_and_keeps_comments(project: Path) -> None:
    (project / "toolbus.yaml").write_text("# mine\nservers:\n  hub:  # the first\n    command: other\n")
    (project / ".env").write_text("OTHER=1")

    done = toolbus("import", "--yes", folder=project)

    assert "hub: toolbus.yaml already has a server of that name; kept it" in done.stderr
    text = (project / "toolbus.yaml").read_text()
    assert text.startswith("# mine\nservers:\n  hub:  # the first\n    command: other\n")
    assert list(yaml.safe_load(text)["servers"]) == ["hub", "web"]
    assert (project / ".env").read_text() == "OTHER=1"


def test_a_name_that_env_has_for_another_value_is_not_taken(project: Path) -> None:
    (project / ".env").write_text("HUB_TOKEN=another")

    toolbus("import", "--write", "--with-secrets", folder=project)

    reference = yaml.safe_load((project / "toolbus.yaml").read_text())["servers"]["hub"]["env"]["HUB_TOKEN"]
    values = dotenv_values(project / ".env")
    assert values["HUB_TOKEN"] == "another"
    assert values[reference.removeprefix("${").removesuffix("}")] == SECRET


def test_a_readable_env_is_the_owner_s_alone_once_it_has_secrets(project: Path) -> None:
    (project / "kept.env").write_text("OTHER=1")
    (project / "kept.env").chmod(0o644)
    (project / ".env").symlink_to("kept.env")

    toolbus("import", "--write", "--with-secrets", folder=project)

    assert (project / ".env").is_symlink()
    assert dotenv_values(project / "kept.env") == {"OTHER": "1", "HUB_TOKEN": SECRET}
    assert stat.S_IMODE((project / "kept.env").stat().st_mode) == 0o600


def test_secrets_can_be_written_after_their_servers(project: Path) -> None:
    toolbus("import", "--yes", folder=project)
    written = (project / "toolbus.yaml").read_text()

    shown = toolbus("import", folder=project)
    done = toolbus("import", "--write", "--with-secrets", folder=project)
    again = toolbus("import", "--write", "--with-secrets", folder=project)

    assert shown.stderr.endswith("no new servers; run with --yes --with-secrets to add 1 secret to .env\n")
    assert "hub: env.HUB_TOKEN is a secret, replaced by ${HUB_TOKEN}: now in .env" in done.stderr
    assert done.stderr.endswith("wrote 1 secret to .env; next: toolbus trust\n")
    assert again.stderr.endswith("nothing to import\n")
    assert dotenv_values(project / ".env") == {"HUB_TOKEN": SECRET}
    assert (project / "toolbus.yaml").read_text() == written


def test_the_user_config_of_another_program_is_found_in_the_home(project: Path) -> None:
    (project.parent / ".claude.json").write_text(
        json.dumps({"projects": {str(project): {"mcpServers": {"here": {"command": "run"}}}}})
    )

    done = toolbus("import", "claude-code", "--json", folder=project)

    assert json.loads(done.stdout)["servers"] == {"here": {"command": "run"}}


def test_servers_of_one_name_from_two_hosts_both_come_unless_they_are_the_same(project: Path) -> None:
    hub, web = CURSOR["mcpServers"]["hub"], {"url": "https://example.com/mcp"}
    other = {**hub, "env": {"HUB_TOKEN": "another", "REGION": "${REGION}"}}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"hub": other, "web": web}}))
    (project.parent / ".cursor").mkdir()
    (project.parent / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": {"hub": web}}))

    done = toolbus("import", "--write", "--with-secrets", folder=project)
    again = toolbus("import", "--json", folder=project)

    servers = yaml.safe_load((project / "toolbus.yaml").read_text())["servers"]
    values = dotenv_values(project / ".env")
    tokens = {alias: values[servers[alias]["env"]["HUB_TOKEN"][2:-1]] for alias in ("hub", "hub-cursor")}
    assert (list(servers), tokens) == (["hub", "web", "hub-cursor"], {"hub": "another", "hub-cursor": SECRET})
    assert "hub: " + str(
        project / ".cursor/mcp.json"
    ) + " has a different server of that name; imported as hub-cursor" in (done.stderr)
    assert (
        str(project.parent / ".cursor/mcp.json") + " has a different server of that name; skipped"
        in done.stderr
    )
    assert json.loads(again.stdout)["servers"] == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["import", "goose"],
            "no config of Goose found in this folder or your home; pass the path of the file",
        ),
        (["import", "nope.json"], "'nope.json' is neither a file nor one of claude, "),
        (
            ["import", "toolbus.yaml"],
            "'toolbus.yaml' is the file to import into; pass another one with --config",
        ),
        (["import", "--with-secrets"], "--with-secrets needs --yes"),
        (["import", "--config", "x.json"], "'x.json': not a YAML file"),
        (["init", "--config", "x.json"], "'x.json': not a YAML file; pass a .yaml file with --config"),
    ],
)
def test_what_cannot_be_imported_is_said_in_one_line(
    arguments: list[str], message: str, project: Path
) -> None:
    (project / "toolbus.yaml").write_text("servers: {}\n")

    done = toolbus(*arguments, folder=project)

    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_fresh_folder_has_tools_after_init(project: Path) -> None:
    made = toolbus("init", folder=project)
    again = toolbus("init", folder=project)
    listed = toolbus("tools", "--json", folder=project)

    assert made.stdout == "wrote toolbus.yaml, and toolbus.schema.json for your editor; next: toolbus tools\n"
    assert json.loads((project / "toolbus.schema.json").read_text()) == config_schema()
    named = (project / "toolbus.yaml").read_text().splitlines()[0].rpartition("=")[2]
    assert (project / named).is_file()
    assert (again.returncode, again.stderr) == (
        2,
        "toolbus: 'toolbus.yaml' already exists; overwrite it with --yes\n",
    )
    names = [tool["name"] for tool in json.loads(listed.stdout)["tools"]]
    assert "demo_notes_add" in names
    toolbus("call", "demo_notes_add", "text=buy tea", folder=project)
    found = toolbus("call", "demo_notes_search", "words=tea", "--json", folder=project)
    assert [note["text"] for note in json.loads(found.stdout)["structured"]["notes"]] == ["buy tea"]


def test_init_works_where_another_python_comes_first(project: Path) -> None:
    other = project.parent / "bin"
    other.mkdir()
    (other / "python").write_text("#!/bin/sh\necho 'no toolbus here' >&2; exit 1\n")
    (other / "python").chmod(0o755)
    env = {"PATH": f"{other}:/usr/bin:/bin"}

    toolbus("init", folder=project, env=env)
    listed = toolbus("tools", "--json", folder=project, env=env)

    assert json.loads(listed.stdout)["servers"]["demo_notes"]["state"] == "ready"
