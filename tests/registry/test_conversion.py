"""A `server.json` becomes a config entry: every type of package, arguments, inputs and secrets."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.inside.config import (
    LaunchChoice,
    alias_for,
    choices,
    chosen,
    entry,
    inputs,
    missing,
    server_json,
    with_bundle,
)
from tests.registry.replay import bundled, digest, package, published
from tests.shape.corpus import FOLDER
from toolbus import ConfigError
from toolbus.config import load_config

REGISTRY = FOLDER / "registry.json"
MAPPABLE, UNMAPPABLE = 1068, 40
MANIFEST = {"server": {"type": "node", "entry_point": "a.js", "mcp_config": {"command": "node"}}}


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def converted(*packages: Any, **values: Any) -> dict[str, Any]:
    """The entry of a server with these packages, without its origin."""
    server = server_json(published(packages=list(packages)))
    given: dict[str, Any] = {name: one if isinstance(one, tuple) else (one,) for name, one in values.items()}
    found = entry(chosen(server), given, alias="notes")
    return {key: one for key, one in found.config.items() if key != "registry"}


def test_every_server_of_the_real_registry_yields_an_entry_that_loads_or_a_reason() -> None:
    if not REGISTRY.is_file():
        pytest.skip(f"{REGISTRY} is not there; TOOLBUS_CORPUS names its folder")
    archive = bundled(MANIFEST, {"a.js": ""})
    entries: dict[str, Any] = {}
    reasons = Counter[str]()
    for published_server in json.loads(REGISTRY.read_bytes())["servers"]:
        packages: list[Any] = published_server["server"].get("packages") or []
        for one in packages:
            if one["registryType"] == "mcpb":  # instead of downloading it
                one["fileSha256"] = digest(archive)
        server = server_json(published_server)
        try:
            choice = chosen(server)
        except ConfigError as error:
            reasons[str(error).removeprefix(server.name)] += 1
            continue
        choice = with_bundle(choice, archive) if choice.kind == "mcpb" else choice
        values = {one.label: (_sample(one),) for one in missing(choice, {})}
        found = entry(choice, values, alias=alias_for(server))
        entries[server.name.replace("/", ".")] = dict(found.config)

    assert set(load_config({"servers": entries}).servers) == set(entries)
    assert len(entries) == MAPPABLE
    why = " cannot be started: its server.json names no package and no URL; ask its publisher how to start it"
    assert reasons == {why: UNMAPPABLE}


def _sample(one: Any) -> str:
    return one.choices[0] if one.choices else {"number": "1", "boolean": "true"}.get(one.format, "x")


LINES = {
    "npm": (package("npm", "@ann/notes"), ["npx", "-y", "@ann/notes@1.0.0"]),
    "bunx": (package("npm", "notes", runtimeHint="bunx"), ["bunx", "notes@1.0.0"]),
    "pypi": (package("pypi", "notes-mcp"), ["uvx", "notes-mcp@1.0.0"]),
    "pypi with another program": (
        package("pypi", "notes", runtimeArguments=[{"type": "named", "name": "--from", "value": "notes"},
                                                   {"type": "positional", "value": "notes-mcp"}]),
        ["uvx", "--from", "notes@1.0.0", "notes-mcp"],
    ),
    "python module": (
        package("pypi", "notes", runtimeHint="python",
                runtimeArguments=[{"value": "-m"}, {"value": "notes"}]),
        ["uvx", "--from", "notes@1.0.0", "python", "-m", "notes"],
    ),
    "pipx": (package("pypi", "notes", runtimeHint="pipx"), ["pipx", "run", "notes==1.0.0"]),
    "nuget": (
        package("nuget", "Ann.Notes", packageArguments=[{"type": "positional", "value": "start"}]),
        ["dnx", "Ann.Notes@1.0.0", "--yes", "--", "start"],
    ),
    "oci": (
        package("oci", "docker.io/ann/notes", environmentVariables=[{"name": "LEVEL", "default": "info"}]),
        ["docker", "run", "-i", "--rm", "-e", "LEVEL", "docker.io/ann/notes:1.0.0"],
    ),
    "oci with a whole command line": (
        package("oci", "ghcr.io/ann/notes:2", "", runtimeArguments=[
            {"value": "run"}, {"name": "-i"}, {"name": "--rm"}, {"name": "-e", "value": "A=b c"},
            {"name": "-p", "value": "80:80"}, {"value": "ghcr.io/ann/notes:latest"}, {"value": "serve"},
        ]),
        ["docker", "run", "-e", "A", "-i", "--rm", "-p", "80:80", "ghcr.io/ann/notes:2", "serve"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LINES)
def test_a_package_is_started_by_the_launcher_of_its_registry(case: str) -> None:
    described, line = LINES[case]

    found = converted(described)

    assert [found["command"], *found["args"]] == line


def test_arguments_are_named_positional_repeated_and_filled_from_variables() -> None:
    arguments = [
        {"type": "named", "name": "--port", "value": "{host}:{port}",
         "variables": {"host": {"default": "localhost"}, "port": {"isRequired": True, "format": "number"}}},
        {"type": "named", "name": "dir", "isRepeated": True, "format": "filepath"},
        {"type": "named", "name": "--verbose", "format": "boolean"},
        {"type": "positional", "valueHint": "mode", "choices": ["read", "write"], "default": "read"},
        {"type": "named", "name": "--unset", "description": "left out"},
    ]  # fmt: skip
    described = package("npm", "notes", packageArguments=arguments)

    found = converted(described, port="80", dir=("/a", "/b"), verbose="yes")

    rest = ["--port", "localhost:80", "--dir", "/a", "--dir", "/b", "--verbose", "read"]
    assert found["args"] == ["-y", "notes@1.0.0", *rest]
    wrong: dict[str, Any] = {"port": "many", "verbose": "perhaps", "mode": "erase", "host": ("a", "b")}
    for name, value in wrong.items():
        with pytest.raises(ConfigError, match=name):
            converted(described, **{"port": "80", name: value})


def test_secrets_become_references_and_never_part_of_a_command_line_of_docker() -> None:
    variables = [
        {"name": "API_KEY", "isRequired": True, "isSecret": True},
        {"name": "PLAIN", "value": "{token}!", "variables": {"token": {"isSecret": True}}},
    ]
    described = package("oci", "ann/notes", environmentVariables=variables)
    server = server_json(published(packages=[described]))
    choice = chosen(server)

    found = entry(choice, {"API_KEY": ("s3cret",), "token": ("t0ken",)}, alias="notes")

    assert found.config["env"] == {"API_KEY": "${API_KEY}", "PLAIN": "${NOTES_TOKEN}!"}
    assert {one.name: one.value for one in found.secrets} == {"API_KEY": "s3cret", "NOTES_TOKEN": "t0ken"}
    assert "s3cret" not in repr(found) + json.dumps(dict(found.config))
    assert [one.label for one in missing(choice, {})] == ["API_KEY"]
    with pytest.raises(ConfigError, match="missing a value for API_KEY"):
        entry(choice, {}, alias="notes")


def test_a_remote_server_gets_its_url_and_headers_with_references_and_is_the_default() -> None:
    headers = [
        {"name": "Authorization", "value": "Bearer {key}", "isRequired": True, "isSecret": True},
        {"name": "X-Region", "choices": ["eu", "us"]},
    ]
    remotes = [
        {"type": "sse", "url": "https://{tenant}.example.com/sse", "variables": {"tenant": {"default": "a"}}},
        {"type": "streamable-http", "url": "https://example.com/mcp", "headers": headers},
    ]
    server = server_json(published(remotes=remotes, packages=[package("npm", "notes")]))

    found = entry(chosen(server), {"key": ("k3y",), "X-Region": ("eu",)}, alias="notes")

    sent = {"Authorization": "Bearer ${NOTES_KEY}", "X-Region": "eu"}
    origin = "io.github.ann/notes@1.0.0"
    assert found.config == {"url": "https://example.com/mcp", "headers": sent, "registry": origin}
    assert [one.kind for one in choices(server)] == ["remote", "remote", "npm"]
    sse = entry(choices(server)[1], {"tenant": ("b",)}, alias="notes").config
    assert sse == {"transport": "sse", "url": "https://b.example.com/sse", "registry": origin}
    with pytest.raises(ConfigError, match="has no input 'kye'; did you mean 'key'"):
        entry(chosen(server), {"key": ("k",), "kye": ("k",)}, alias="notes")


def test_a_package_that_only_speaks_http_is_a_url_and_says_how_to_start_it() -> None:
    transport = {"type": "streamable-http", "url": "http://localhost:{port}/mcp"}
    arguments = [{"type": "named", "name": "--port", "default": "8000"}]
    described = package("pypi", "notes", transport=transport, packageArguments=arguments)
    server = server_json(published(packages=[described]))

    found = entry(chosen(server), {}, alias="notes")

    assert found.config["url"] == "http://localhost:8000/mcp"
    assert found.warnings == ("toolbus only connects to it; start it first: uvx notes@1.0.0 --port 8000",)


def reason(choice: LaunchChoice) -> str:
    """The reason why a choice cannot be used."""
    return choice.problem or ""


def test_what_no_launcher_runs_has_a_reason_with_the_next_step() -> None:
    described = [
        package("cargo", "notes", "2.0"),
        package("go", "example.com/notes", "v1"),
        package("conda", "notes"),
        package("mcpb", "https://example.com/n.mcpb"),
    ]
    server = server_json(published(packages=described))

    found = {one.kind: reason(one) for one in choices(server)}

    assert found == {
        "cargo": "install it: cargo install notes --version 2.0; then run: toolbus add NAME -- PROGRAM",
        "go": "install it: go install example.com/notes@v1; then run: toolbus add NAME -- PROGRAM",
        "conda": "toolbus does not know packages of type 'conda'; install it, and add its command",
        "mcpb": "it has no fileSha256, so the file cannot be verified",
    }
    with pytest.raises(ConfigError, match=re.escape(found["cargo"])):
        chosen(server_json(published(packages=described[:1])))


def test_a_person_is_warned_about_what_is_deprecated_or_not_pinned() -> None:
    meta = {"io.modelcontextprotocol.registry/official": {"status": "deprecated"}}
    document = {"server": published(packages=[package("npm", "notes", "latest")]), "_meta": meta}

    found = entry(chosen(server_json(document)), {}, alias="notes")

    assert found.warnings == (
        "its registry lists it as deprecated",
        "npm notes@latest is not pinned to a version, so it may change at any start",
    )


NAMES = {
    "io.github.ann/notes": "notes",
    "com.supabase/mcp": "supabase",
    "io.github.ann/mcp-server": "ann",
    "io.github.ann/toolbus": "toolbus-mcp",
}


def test_the_alias_is_the_last_part_of_a_name_unless_that_is_generic() -> None:
    assert {name: alias_for(server_json(published(name))) for name in NAMES} == NAMES


def test_the_first_drafts_of_the_format_are_read_as_well() -> None:
    described = {
        "registry_type": "npm",
        "identifier": "notes",
        "version": "1.0.0",
        "environment_variables": [{"name": "A", "is_required": True, "default": 5}],
        "package_arguments": None,
    }
    server = server_json(published(packages=[described]))

    assert [(one.label, one.default, one.is_required) for one in inputs(chosen(server))] == [("A", "5", True)]
