"""The package that a launcher runs, whether it is pinned, and the resolved version."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.inside.lock import launched_package, pin_warning, resolved_package
from toolbus.config import ServerConfig, load_config


def server(*words: str, **more: Any) -> ServerConfig:
    command, *args = words
    return load_config({"servers": {"x": {"command": command, "args": args, **more}}}).servers["x"]


COMMIT = "0123456789abcdef0123456789abcdef01234567"
PARSED: list[tuple[str, str | None, str | None]] = [
    # a command line, the name in the registry, the version if it is pinned
    ("npx @scope/name", "@scope/name", None),
    ("npx -y @scope/name@1.2.3 --port 80", "@scope/name", "1.2.3"),
    ("npx --yes name@1.2.3-beta.1", "name", "1.2.3-beta.1"),
    ("npx name@v1.2.3", "name", "v1.2.3"),
    ("npx name@latest", "name", None),
    ("npx name@^1.2.3", "name", None),
    ("npx name@1.2", "name", None),
    ("npx name@1", "name", None),
    ("npx -p @scope/name@2.0.0 command", "@scope/name", "2.0.0"),
    ("npx --package=name@2.0.0 command", "name", "2.0.0"),
    ("npx --package name -c run", "name", None),
    ("npx --registry https://registry.example name@1.0.0", "name", "1.0.0"),
    ("npx --registry=https://registry.example name@1.0.0", "name", "1.0.0"),
    ("npx -- name@1.0.0", "name", "1.0.0"),
    ("npx name@npm:other@1.0.0", "name", None),
    ("/usr/local/bin/npx -y name@1.0.0", "name", "1.0.0"),
    ("npx.cmd -y name@1.0.0", "name", "1.0.0"),
    ("bunx name@1.0.0", "name", "1.0.0"),
    ("bun x name@1.0.0", "name", "1.0.0"),
    ("npm exec -y name@1.0.0", "name", "1.0.0"),
    ("npm x name@1.0.0", "name", "1.0.0"),
    ("pnpm dlx name", "name", None),
    ("yarn dlx name@1.0.0", "name", "1.0.0"),
    ("uvx mcp-server-git", "mcp-server-git", None),
    ("uvx mcp-server-git==2025.1.14 --repository .", "mcp-server-git", "2025.1.14"),
    ("uvx mcp-server-git@2025.1.14", "mcp-server-git", "2025.1.14"),
    ("uvx mcp-server-git@latest", "mcp-server-git", None),
    ("uvx 'name[extra]==1.0'", "name", "1.0"),
    ("uvx name>=1.0", "name", None),
    ("uvx name~=1.0", "name", None),
    ("uvx name==1.*", "name", None),
    ("uvx name==1.0rc1", "name", "1.0rc1"),
    ("uvx name==1!2.0.post1+local", "name", "1!2.0.post1+local"),
    ("uvx --from name==1.0 command", "name", "1.0"),
    ("uvx --from=name==1.0 command", "name", "1.0"),
    ("uvx -p 3.12 name==1.0", "name", "1.0"),
    ("uvx --python 3.12 --with other name==1.0", "name", "1.0"),
    ("uvx -w other -q name", "name", None),
    ("uv tool run --from name command", "name", None),
    ("pipx run --spec name==1.0 command", "name", "1.0"),
    ("pipx run name==1.0", "name", "1.0"),
]
OTHERS: list[tuple[str, bool]] = [
    # a command line, whether it is pinned
    ("npx github:owner/name", False),
    (f"npx github:owner/name#{COMMIT}", True),
    ("npx owner/name", False),
    ("npx https://example.com/name.tgz", False),
    ("npx ./folder", False),
    ("npx ../folder", False),
    ("npx /srv/folder", False),
    ("npx file:folder", False),
    ("uvx --from git+https://example.com/name command", False),
    (f"uvx --from git+https://example.com/name@{COMMIT} command", True),
    ("uvx --from ./folder command", False),
]
NONE = [
    *("python server.py", "node server.js", "npx", "npx -y", "npm install name", "npm run server"),
    *(
        "uv run server.py",
        "uv tool install name",
        "docker run -i image",
        "deno run npm:name",
        "pipx install a",
    ),
]


@pytest.mark.parametrize(("line", "name", "version"), PARSED, ids=[line for line, *_ in PARSED])
def test_the_package_of_a_launcher(line: str, name: str | None, version: str | None) -> None:
    found = launched_package(server(*line.replace("'", "").split()))
    assert found is not None
    assert (found.name, found.version, found.is_pinned) == (name, version, version is not None)


@pytest.mark.parametrize(("line", "is_pinned"), OTHERS, ids=[line for line, _ in OTHERS])
def test_what_is_not_in_a_registry_has_no_name(line: str, is_pinned: bool) -> None:
    config = server(*line.split())
    found = launched_package(config)
    assert found is not None
    assert (found.name, found.version, found.is_pinned) == (None, None, is_pinned)
    assert resolved_package(config) == {"name": found.spec}
    assert (pin_warning(config) is None) is is_pinned


@pytest.mark.parametrize("line", NONE)
def test_any_other_command_runs_no_package(line: str) -> None:
    config = server(*line.split())
    assert launched_package(config) is None
    assert (resolved_package(config), pin_warning(config)) == ({}, None)


def test_an_unpinned_package_is_warned_of_with_an_example() -> None:
    assert pin_warning(server("npx", "-y", "@scope/name@latest")) == (
        "'@scope/name@latest' is not pinned to a version, so it may change at any start; "
        "pin it, such as @scope/name@VERSION"
    )
    warning = pin_warning(server("uvx", "name"))
    assert warning is not None
    assert warning.endswith("pin it, such as name==VERSION")
    assert pin_warning(server("uvx", "name==1.0")) is None


def npx_cache(folder: Path, key: str, packages: list[str], **versions: str) -> Path:
    """A folder of npx's cache, as npm 11 writes it."""
    made = folder / "_npx" / key
    made.mkdir(parents=True)
    dependencies = {name: f"^{version}" for name, version in versions.items()}
    (made / "package.json").write_text(
        json.dumps({"dependencies": dependencies, "_npx": {"packages": packages}})
    )
    for name in versions:
        own = made / "node_modules" / name
        own.mkdir(parents=True)
        (own / "package.json").write_text(json.dumps({"name": name, "version": versions[name]}))
    return made


def test_the_version_in_the_cache_of_npx_is_recorded(tmp_path: Path) -> None:
    npx_cache(tmp_path, "a", ["@scope/name"], **{"@scope/name": "2.3.4"})
    npx_cache(tmp_path, "b", ["@scope/name@latest"], **{"@scope/name": "2.4.0"})
    npx_cache(tmp_path, "c", ["name", "other"], name="1.0.0", other="1.1.1")
    env = {"npm_config_cache": str(tmp_path)}

    def resolved(*words: str) -> dict[str, Any]:
        return resolved_package(server("npx", *words, env=env))

    assert resolved("-y", "@scope/name") == {"name": "@scope/name", "version": "2.3.4"}
    assert resolved("-y", "@scope/name@latest") == {"name": "@scope/name", "version": "2.4.0"}
    assert resolved("-y", "@scope/name@^2") == {"name": "@scope/name"}
    assert resolved("-p", "name", "-p", "other", "command") == {"name": "name", "version": "1.0.0"}
    assert resolved("-y", "@scope/name@2.0.0") == {"name": "@scope/name", "version": "2.0.0"}


@pytest.mark.parametrize("name", ["npm_config_cache", "NPM_CONFIG_CACHE"])
def test_the_cache_of_npx_may_be_named_in_our_environment(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npx_cache(tmp_path, "a", ["name"], name="1.0.0")
    monkeypatch.delenv("npm_config_cache", raising=False)
    monkeypatch.setenv(name, str(tmp_path))
    assert resolved_package(server("npx", "name")) == {"name": "name", "version": "1.0.0"}


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"_npx": 1}', '{"_npx": {"packages": ["name"]}}'])
def test_a_damaged_cache_only_costs_the_version(damage: str, tmp_path: Path) -> None:
    made = npx_cache(tmp_path, "a", ["name"])
    (made / "package.json").write_text(damage)
    config = server("npx", "name", env={"npm_config_cache": str(tmp_path)})
    assert resolved_package(config) == {"name": "name"}
    npx_cache(tmp_path, "b", ["name"], name="1.0.0")
    assert resolved_package(config) == {"name": "name", "version": "1.0.0"}


def test_a_reference_is_not_expanded_to_find_the_version(tmp_path: Path) -> None:
    config = server("npx", "name", env={"npm_config_cache": "${CACHE}"})
    assert resolved_package(config)["name"] == "name"


def test_uv_is_asked_for_the_version_offline(tmp_path: Path) -> None:
    """A stand-in for `uvx`: the real one would need a package in its cache."""
    script = tmp_path / "uvx"
    script.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\necho 1.2.3\n')
    script.chmod(0o755)
    config = server("uvx", "-q", "name[extra]", "serve", env={"PATH": str(tmp_path)})
    assert resolved_package(config) == {"name": "name", "version": "1.2.3"}
    asked = (tmp_path / "asked").read_text().split()
    assert asked[:4] == ["--offline", "--from", "name[extra]", "python"]
    assert asked[-1] == "name"


def test_a_package_that_uv_does_not_have_has_no_version(tmp_path: Path) -> None:
    cache = {"UV_CACHE_DIR": str(tmp_path), "PATH": str(Path(sys.executable).parent)}
    assert resolved_package(server("uvx", "no-such-package-here", env=cache)) == {
        "name": "no-such-package-here"
    }
