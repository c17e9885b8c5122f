"""`toolbus search --registry`, `add NAME` and `update` with a registry on this machine."""

import json
import os
import stat
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import yaml
from dotenv import dotenv_values

from tests.cli.running import toolbus, write_config
from tests.cli.terminal import terminal
from tests.registry.replay import ReplayedRegistry, bundled, digest, package, published, serving

SERVER = Path(__file__).parents[1] / "servers" / "plain.py"
NEEDY = published(
    "io.github.ann/mcp",
    packages=[
        package(
            "npm",
            "notes",
            environmentVariables=[
                {"name": "API_KEY", "isRequired": True, "isSecret": True, "description": "Your key"},
                {"name": "REGION", "isRequired": True, "choices": ["eu", "us"]},
            ],
        )
    ],
)
REMOTE = published(
    "com.example/both",
    remotes=[{"type": "streamable-http", "url": "https://example.com/mcp"}],
    packages=[package("pypi", "both-mcp")],
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a home of its own."""
    (tmp_path / "home" / "project").mkdir(parents=True)
    return tmp_path / "home" / "project"


@pytest.fixture
def registry(folder: Path) -> Generator[ReplayedRegistry]:
    """A registry with a few servers, which the config of that folder names."""
    others = [published(f"io.github.u{number}/notes") for number in range(3)]
    every = [NEEDY, REMOTE, *others, published("io.github.eve/one", description="Finds tea houses")]
    with serving(every, per_page=2) as replayed:
        (folder / "toolbus.yaml").write_text(f"registry: {replayed.url}\nservers: {{}}\n")
        assert toolbus("trust", "--yes", folder=folder).returncode == 0
        yield replayed


def entries(folder: Path) -> dict[str, Any]:
    """The servers in the config."""
    return yaml.safe_load((folder / "toolbus.yaml").read_text())["servers"]


def test_a_search_lists_servers_of_all_pages_and_asks_for_each_page_once(
    folder: Path, registry: ReplayedRegistry
) -> None:
    done = toolbus("search", "--registry", "notes", folder=folder)
    again = toolbus("search", "--registry", "notes", "--json", "--limit", "2", folder=folder)
    none = toolbus("search", "--registry", "nothing", folder=folder)

    names = [line.split()[0] for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert names == [f"io.github.u{number}/notes" for number in range(3)]
    facts = json.loads(again.stdout)
    assert (facts["complete"], len(facts["servers"]), facts["skipped"]) == (False, 2, 0)
    server = {"name": "io.github.u0/notes", "version": "1.0.0", "description": "Keeps notes"}
    assert facts["servers"][0] == {**server, "kinds": ["npm"], "status": "active"}
    assert (none.returncode, none.stdout) == (1, "")
    assert len(registry.requests) == len(set(registry.requests)) == 3, "pages are cached"


def test_several_words_have_to_be_somewhere_and_the_longest_in_the_name(
    folder: Path, registry: ReplayedRegistry
) -> None:
    servers = [published("io.github.ann/teahouse", description="Finds green tea"), published("a/teahouse")]
    registry.servers = [{"server": one} for one in servers]

    done = toolbus("search", "--registry", "green", "teahouse", folder=folder)

    assert done.stdout.startswith("io.github.ann/teahouse  1.0.0  npm\n    Finds green tea\n")
    assert "a/teahouse" not in done.stdout.replace("ann/teahouse", "")


def test_a_server_is_shown_and_only_added_after_the_user_agrees(
    folder: Path, registry: ReplayedRegistry
) -> None:
    before = (folder / "toolbus.yaml").read_text()

    shown = toolbus("add", "one", folder=folder)
    asked = toolbus("add", "one", "--json", folder=folder)
    unchanged = (folder / "toolbus.yaml").read_text()
    done = toolbus("add", "one", "--as", "tea", "--yes", "--json", folder=folder)

    assert shown.returncode == asked.returncode == 1
    assert "  runs         npx -y one@1.0.0\n" in shown.stdout
    assert shown.stderr == "nothing was written; to add it without being asked, pass --yes\n"
    entry = {"command": "npx", "args": ["-y", "one@1.0.0"], "registry": "io.github.eve/one@1.0.0"}
    assert (json.loads(asked.stdout)["entry"], json.loads(asked.stdout)["written"]) == (entry, False)
    assert unchanged == before
    assert (json.loads(done.stdout)["trusted"], json.loads(done.stdout)["written"]) == (True, True)
    assert entries(folder) == {"tea": entry}


def test_a_short_name_that_several_servers_have_lists_them(folder: Path, registry: ReplayedRegistry) -> None:
    done = toolbus("add", "notes", "--yes", folder=folder)
    exact = toolbus("add", "registry:io.github.u1/notes@1.0.0", "--yes", folder=folder)
    unknown = toolbus("add", "io.github.u1/notes@2", folder=folder)

    assert done.returncode == 2
    assert "3 servers have the name 'notes'; add one of them:" in done.stderr
    assert "  toolbus add io.github.u2/notes  Keeps notes\n" in done.stderr
    assert exact.returncode == 0
    assert "has no server 'io.github.u1/notes@2'" in unknown.stderr


def test_missing_values_are_listed_with_the_command_line_that_passes_them(
    folder: Path, registry: ReplayedRegistry
) -> None:
    done = toolbus("add", "io.github.ann/mcp", folder=folder)

    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "toolbus: io.github.ann/mcp needs values:",
        "  API_KEY (secret): Your key",
        "  REGION (one of eu, us)",
        "put secrets into .env or the environment, not on the command line",
        "then run:",
        "  toolbus add io.github.ann/mcp --input 'API_KEY=${API_KEY}' --input REGION=VALUE",
    ]


def test_values_that_are_given_are_checked_and_secrets_go_to_env(
    folder: Path, registry: ReplayedRegistry
) -> None:
    wrong = toolbus("add", "io.github.ann/mcp", "--input", "REGION=xx", "--env", "API_KEY=k", folder=folder)
    done = toolbus(
        "add", "ann", "registry:io.github.ann/mcp", "--yes", "--env", "API_KEY=s3cret-9",
        "--input", "REGION=eu", folder=folder,
    )  # fmt: skip

    assert (wrong.returncode, "REGION: expected one of eu, us" in wrong.stderr) == (2, True)
    env = {"API_KEY": "${API_KEY}", "REGION": "eu"}
    assert entries(folder)["ann"]["env"] == env
    assert dotenv_values(folder / ".env") == {"API_KEY": "s3cret-9"}
    assert stat.S_IMODE((folder / ".env").stat().st_mode) == 0o600
    assert "s3cret" not in (folder / "toolbus.yaml").read_text() + done.stdout + done.stderr


def test_the_default_is_the_remote_and_another_kind_can_be_named(
    folder: Path, registry: ReplayedRegistry
) -> None:
    usual = toolbus("add", "both", "--yes", folder=folder)
    local = toolbus("add", "both", "--kind", "pypi", "--as", "local", "--yes", folder=folder)
    wrong = toolbus("add", "both", "--kind", "npm", "--as", "x", "--yes", folder=folder)

    note = "using remote https://example.com/mcp; to choose another, pass --kind pypi\n"
    assert usual.stderr.startswith(note)
    assert entries(folder)["both"]["url"] == "https://example.com/mcp"
    assert entries(folder)["local"]["args"] == ["both-mcp@1.0.0"]
    assert local.returncode == 0
    assert "it has no 'npm', only pypi, remote" in wrong.stderr


def test_a_terminal_asks_which_way_for_values_and_hides_secrets(
    folder: Path, registry: ReplayedRegistry
) -> None:
    both = published("a/thing", remotes=REMOTE["remotes"], packages=NEEDY["packages"])
    registry.servers = [{"server": both}]
    with terminal("add", "a/thing", folder=folder) as screen:
        screen.until("1  remote https://example.com/mcp", "2  npm notes@1.0.0", "Which one? [1]: ")
        screen.press("2\n")
        screen.until("API_KEY (secret): Your key", "API_KEY: ")
        screen.press("s3cret-8\n")
        screen.until("REGION (one of eu, us)", "REGION: ")
        screen.press("us\n")
        screen.until("npx -y notes@1.0.0", "Add it to toolbus.yaml as thing? [y/N]: ")
        screen.press("y\n")
        assert screen.ended() == 0

    assert "s3cret" not in screen.plain
    assert entries(folder)["thing"]["env"] == {"API_KEY": "${API_KEY}", "REGION": "us"}
    assert dotenv_values(folder / ".env") == {"API_KEY": "s3cret-8"}


def bundle(version: str) -> tuple[bytes, dict[str, Any]]:
    """A bundle that starts, and its package."""
    config = {"command": sys.executable, "args": ["${__dirname}/server.py"]}
    server = {"type": "python", "entry_point": "server.py", "mcp_config": config}
    source = SERVER.read_text().replace("Say it again.", f"Say it again, by {version}.")
    content = bundled({"server": server, "version": version}, {"server.py": source})
    return content, {"fileSha256": digest(content)}


def test_a_bundle_is_downloaded_compared_and_unpacked_and_a_file_can_be_added(
    folder: Path, registry: ReplayedRegistry
) -> None:
    content, facts = bundle("1.0.0")
    registry.files = {"/n.mcpb": content}
    one = package("mcpb", f"{registry.url}/n.mcpb", "", **facts)
    changed = package("mcpb", f"{registry.url}/n.mcpb", "", fileSha256="0" * 64)
    documents = [published("a/b", packages=[one]), published("a/c", packages=[changed])]
    registry.servers = [{"server": one} for one in documents]
    (folder / "n.mcpb").write_bytes(content)

    refused = toolbus("add", "a/c", "--yes", folder=folder)
    added = toolbus("add", "a/b", "--yes", folder=folder)
    own = toolbus("add", "./n.mcpb", "--as", "own", "--yes", folder=folder)
    listed = toolbus("tools", "--json", folder=folder)

    assert (refused.returncode, "it was changed or damaged" in refused.stderr) == (2, True)
    assert (added.returncode, own.returncode) == (0, 0)
    states = {alias: one["state"] for alias, one in json.loads(listed.stdout)["servers"].items()}
    assert states == {"b": "ready", "own": "ready"}


def test_an_update_shows_how_tools_differ_and_writes_config_and_lock_together(
    folder: Path, registry: ReplayedRegistry
) -> None:
    versions = [bundle("1.0.0"), bundle("1.1.0")]
    registry.files = {f"/{number}.mcpb": content for number, (content, _) in enumerate(versions)}
    packages = [
        package("mcpb", f"{registry.url}/{number}.mcpb", "", **facts)
        for number, (_, facts) in enumerate(versions)
    ]
    documents = [published("a/b", f"1.{number}.0", packages=[one]) for number, one in enumerate(packages)]
    registry.servers = [{"server": documents[0]}]
    assert toolbus("add", "a/b", "--yes", folder=folder).returncode == 0
    assert toolbus("lock", "--yes", folder=folder).returncode == 0
    registry.servers = [{"server": one} for one in documents]
    forget_pages(folder)
    config, lock = (folder / "toolbus.yaml").read_text(), (folder / "toolbus.lock").read_text()

    listed = toolbus("update", "--check", "--json", folder=folder)
    asked = toolbus("update", "b", folder=folder)
    unchanged = (folder / "toolbus.yaml").read_text(), (folder / "toolbus.lock").read_text()
    done = toolbus("update", "b", "--yes", folder=folder)
    checked = toolbus("lock", "--check", folder=folder)
    again = toolbus("update", "b", folder=folder)

    pinned = {"name": "a/b", "version": "1.0.0", "latest": "1.1.0", "newer": True}
    assert json.loads(listed.stdout)["servers"] == {"b": {**pinned, "status": "active", "problem": None}}
    assert (asked.returncode, unchanged) == (1, (config, lock))
    assert asked.stdout.startswith("b  1.0.0 -> 1.1.0\n  runs  ")
    assert "b/echo  changed\n  description: Say it again, by 1.[-0-]{+1+}.0." in asked.stdout
    assert done.stdout.endswith("updated b to 1.1.0 in toolbus.yaml and toolbus.lock\n")
    assert entries(folder)["b"]["registry"] == "a/b@1.1.0"
    assert (checked.returncode, again.stdout) == (0, "b is up to date: a/b@1.1.0\n")


def forget_pages(folder: Path) -> None:
    """Let every page of the registry be requested again."""
    for page in (folder.parent / ".state" / "toolbus" / "registry").iterdir():
        os.utime(page, (0, 0))


def test_an_update_to_another_package_or_url_is_refused(folder: Path, registry: ReplayedRegistry) -> None:
    assert toolbus("add", "one", "--yes", folder=folder).returncode == 0
    evil = published("io.github.eve/one", "2.0.0", packages=[package("npm", "evil", "2.0.0")])
    registry.servers = [{"server": evil}]
    forget_pages(folder)

    done = toolbus("update", "one", "--yes", folder=folder)

    assert done.returncode == 2
    assert "io.github.eve/one@2.0.0 no longer has the package or URL of the entry, but evil" in done.stderr
    assert entries(folder)["one"]["args"] == ["-y", "one@1.0.0"]


def test_check_warns_if_another_version_may_run_than_the_one_that_was_added(folder: Path) -> None:
    servers = {"a": {"command": "npx", "args": ["-y", "a@latest"], "registry": "x/a@1.0.0"},
               "b": {"command": "npx", "args": ["-y", "b@1.0.0"], "registry": "x/b@1.0.0"}}  # fmt: skip
    write_config(folder, servers)

    done = toolbus("check", "--json", folder=folder, env={"PATH": str(folder)})

    warned = "x/a@1.0.0 was added, but 'a@latest' runs any version that is published"
    problems = {
        alias: [one["message"] for one in report["problems"] if one["severity"] == "warning"]
        for alias, report in json.loads(done.stdout)["servers"].items()
    }
    assert problems == {"a": [warned], "b": []}


def test_a_server_of_the_registry_is_used_without_a_config_entry_after_it_was_shown(
    folder: Path, registry: ReplayedRegistry
) -> None:
    needy = toolbus("tools", "registry:io.github.ann/mcp", folder=folder)
    assert (needy.returncode, "needs 2 values; pass --env API_KEY=... --env REGION=..." in needy.stderr) == (
        2,
        True,
    )
    shown = toolbus("tools", "registry:com.example/both", folder=folder)
    assert (shown.returncode, "https://example.com/mcp" in shown.stderr) == (2, True)
    several = toolbus("tools", "registry:notes", folder=folder)
    assert (several.returncode, "3 servers have that name, such as io.github.u0/notes" in several.stderr) == (
        2,
        True,
    )
    assert entries(folder) == {}
