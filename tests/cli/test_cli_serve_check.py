"""`toolbus serve --check`: everything that serving needs, without listening."""

import json
import socket
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.cli.running import toolbus, write_config

NOTES: dict[str, Any] = {"command": "python", "args": ["-m", "toolbus.demo.notes"]}
HTTP = {"http": "127.0.0.1:0"}


def checked(
    folder: Path, *options: str, env: Mapping[str, str] | None = None
) -> tuple[int, list[tuple[str, str, str]]]:
    """The exit code, and each finding: its severity, what it is about, and the problem with its step."""
    done = toolbus("serve", "--check", "--json", *options, folder=folder, env=env)
    found = json.loads(done.stdout)
    assert found["ok"] is (done.returncode == 0), done.stderr
    return done.returncode, [
        (one["severity"], one["about"], f"{one['problem']}; {one['step']}") for one in found["findings"]
    ]


def one_of(folder: Path, *options: str, env: Mapping[str, str] | None = None) -> tuple[int, str, str, str]:
    """The exit code, and the only finding."""
    code, found = checked(folder, *options, env=env)
    assert len(found) == 1, found
    return code, *found[0]


def test_a_config_without_a_problem(tmp_path: Path) -> None:
    write_config(tmp_path, {"notes": NOTES}, serve=HTTP)
    assert checked(tmp_path) == (0, [])
    done = toolbus("serve", "--check", "--online", folder=tmp_path)
    assert done.stdout == "ready to serve 1 server: 0 errors, 0 warnings\n"
    assert done.returncode == 0


@pytest.mark.parametrize("required", [True, False])
def test_a_secret_that_is_not_set(tmp_path: Path, required: bool) -> None:
    entry = {**NOTES, "env": {"TOKEN": "${NOTES_TOKEN}"}, "required": required}
    write_config(tmp_path, {"notes": entry}, serve=HTTP)
    code, severity, about, problem = one_of(tmp_path)
    assert (code, severity, about) == (int(required), "error" if required else "warning", "servers.notes")
    assert "secret 'NOTES_TOKEN' is not set" in problem
    assert checked(tmp_path, env={"NOTES_TOKEN": "x"}) == (0, [])


def test_a_server_of_each_user_is_left_out(tmp_path: Path) -> None:
    write_config(tmp_path, {"notes": {**NOTES, "env": {"WHO": "${user}"}}}, serve=HTTP)
    assert checked(tmp_path) == (0, [])


def test_a_program_that_is_not_installed(tmp_path: Path) -> None:
    write_config(tmp_path, {"a": {"command": "no-such-program"}, "b": {"command": "./b.sh"}}, serve=HTTP)
    _, found = checked(tmp_path)
    assert [about for _, about, _ in found] == ["servers.a", "servers.b"]
    (tmp_path / "b.sh").write_text("#!/bin/sh\n")
    (tmp_path / "b.sh").chmod(0o755)
    assert [about for _, about, _ in checked(tmp_path)[1]] == ["servers.a"]


def test_an_address_that_is_taken_or_of_another_machine(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        write_config(tmp_path, {"notes": NOTES}, serve={"http": f"127.0.0.1:{taken.getsockname()[1]}"})
        code, severity, about, _ = one_of(tmp_path)
        assert (code, severity, about) == (1, "error", "serve.http")
        assert checked(tmp_path, "--http", "127.0.0.1:0") == (0, [])
        assert checked(tmp_path, "--stdio") == (0, [])
    write_config(
        tmp_path,
        {"notes": NOTES},
        serve={"http": "192.0.2.1:7400", "auth": {"keys": True}, "hosts": ["tools.example"]},
    )
    code, found = checked(tmp_path)
    assert code == 1
    assert "assign requested address" in str(found)


def test_keys_that_let_nobody_in(tmp_path: Path) -> None:
    views: dict[str, Any] = {"default": {}, "reading": {}}
    write_config(tmp_path, {"notes": NOTES}, serve={**HTTP, "auth": {"keys": True}, "views": views})
    assert "there is no key" in one_of(tmp_path)[3]
    assert toolbus("key", "add", "ann", "--view", "reading", folder=tmp_path).returncode == 0
    assert checked(tmp_path) == (0, [])
    write_config(tmp_path, {"notes": NOTES}, serve={**HTTP, "auth": {"keys": True}})
    assert "the key 'ann' is for 'reading', which is no view" in one_of(tmp_path)[3]


@pytest.mark.parametrize(("days", "expected"), [(-1, "error"), (3, "warning"), (90, "")])
def test_a_certificate_that_ends(tmp_path: Path, days: int, expected: str) -> None:
    tls = certificate(tmp_path, days)
    write_config(tmp_path, {"notes": NOTES}, serve={**HTTP, "tls": tls})
    _, found = checked(tmp_path)
    assert [(severity, about) for severity, about, _ in found] == (
        [(expected, "serve.tls")] if expected else []
    )


def test_a_certificate_without_its_key(tmp_path: Path) -> None:
    tls = certificate(tmp_path, 90)
    write_config(tmp_path, {"notes": NOTES}, serve={**HTTP, "tls": {**tls, "key": "gone.pem"}})
    code, severity, about, problem = one_of(tmp_path)
    assert (code, severity, about) == (1, "error", "serve.tls")
    assert "check both files" in problem


def certificate(folder: Path, days: int) -> dict[str, str]:
    """A certificate that ends in so many days."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - timedelta(days=30))
    made = builder.not_valid_after(now + timedelta(days=days)).sign(key, hashes.SHA256())
    (folder / "cert.pem").write_bytes(made.public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return {"cert": "cert.pem", "key": "key.pem"}


def test_a_store_and_its_key(tmp_path: Path) -> None:
    write_config(tmp_path, {"notes": NOTES}, serve=HTTP, store="sqlite:///gateways.db")
    code, _, about, problem = one_of(tmp_path, env={"TOOLBUS_STORE_KEY": "short"})
    assert (code, about) == (1, "store")
    assert "not 32 bytes" in problem
    assert checked(tmp_path) == (0, [])
    assert not (tmp_path / "gateways.db").exists()  # it is not reached
    assert checked(tmp_path, "--online") == (0, [])
    assert (tmp_path / "gateways.db").exists()


def test_a_database_that_is_down(tmp_path: Path) -> None:
    key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
    url = "postgresql://toolbus:${DB_PASSWORD}@127.0.0.1:9/toolbus"
    write_config(tmp_path, {"notes": NOTES}, serve=HTTP, store=url)
    env = {"TOOLBUS_STORE_KEY": key, "DB_PASSWORD": "s3cr3t-of-db"}
    assert checked(tmp_path, env=env) == (0, [])
    done = toolbus("serve", "--check", "--online", folder=tmp_path, env=env)
    assert done.returncode == 1
    assert "error" in done.stdout
    assert "s3cr3t-of-db" not in done.stdout + done.stderr


def test_online_the_servers_are_started(tmp_path: Path) -> None:
    servers = {
        "notes": NOTES,
        "down": {"url": "http://127.0.0.1:9/mcp"},
        "needed": {"url": "http://127.0.0.1:9/mcp", "required": True},
    }
    views = {"default": {}, "empty": {"include": ["nothing_*"]}}
    write_config(tmp_path, servers, serve={**HTTP, "views": views})
    assert checked(tmp_path) == (0, [])
    code, found = checked(tmp_path, "--online")
    assert code == 1
    assert ("error", "servers.needed") in [(severity, about) for severity, about, _ in found]


def test_online_a_view_without_tools_and_a_rule_without_effect(tmp_path: Path) -> None:
    views = {"default": {}, "empty": {"include": ["nothing_*"]}}
    rules = [{"tools": "notes/serch", "do": "deny"}]
    write_config(tmp_path, {"notes": NOTES}, serve={**HTTP, "views": views}, policy=rules)
    code, found = checked(tmp_path, "--online")
    assert code == 0
    assert {about for _, about, _ in found} == {"policy", "serve.views.empty"}


def test_a_lockfile_that_cannot_be_read(tmp_path: Path) -> None:
    write_config(tmp_path, {"notes": NOTES}, serve=HTTP, lock="block")
    (tmp_path / "toolbus.lock").write_text("not a lockfile")
    code, _, about, _ = one_of(tmp_path)
    assert (code, about) == (1, "lock")


def test_a_lockfile_that_is_missing(tmp_path: Path) -> None:
    write_config(tmp_path, {"notes": NOTES}, serve=HTTP, lock="block")
    code, severity, about, problem = one_of(tmp_path)
    assert (code, severity, about) == (1, "error", "lock")
    assert "does not exist, and the config sets 'lock: block'" in problem


def test_a_trail_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    write_config(tmp_path, {"notes": NOTES}, serve=HTTP, audit="file/audit.jsonl")
    code, severity, about, problem = one_of(tmp_path)
    assert (code, severity, about) == (1, "error", "audit")
    assert "cannot be written" in problem
    started = toolbus("serve", folder=tmp_path)
    assert started.returncode == 1
    assert "cannot be written" in started.stderr


def test_online_the_first_diagnosis_of_a_server_is_enough(tmp_path: Path) -> None:
    """One that ends as it starts is not started again and again; another one is looked at nevertheless."""
    starts = tmp_path / "starts"
    ends = {"command": "sh", "args": ["-c", f"echo once >> {starts}; echo no luck >&2; exit 3"]}
    write_config(tmp_path, {"ends": ends, "notes": NOTES}, serve=HTTP)
    code, found = checked(tmp_path, "--online")
    assert (code, [about for _, about, _ in found]) == (0, ["servers.ends"])
    assert "no luck" in found[0][2]
    assert len(starts.read_text().split()) <= 2


def test_a_mistake_in_the_config_or_the_options(tmp_path: Path) -> None:
    write_config(tmp_path, {"notes": NOTES}, serve={"http": "0.0.0.0:7400"})
    assert toolbus("serve", "--check", folder=tmp_path).returncode == 2
    write_config(tmp_path, {"notes": NOTES})
    assert toolbus("serve", "--check", "--view", "gone", folder=tmp_path).returncode == 2
    assert toolbus("serve", "--online", folder=tmp_path).returncode == 2


def test_the_lines_for_a_person(tmp_path: Path) -> None:
    write_config(tmp_path, {"notes": {**NOTES, "env": {"A": "${GONE_A}"}, "required": True}}, serve=HTTP)
    done = toolbus("serve", "--check", folder=tmp_path)
    assert done.returncode == 1
    [line, last] = done.stdout.splitlines()
    assert line.startswith("error  servers.notes: server 'notes': env.A: secret 'GONE_A' is not set")
    assert last == "not ready to serve 1 server: 1 error, 0 warnings"


def test_quotas_that_count_nothing(tmp_path: Path) -> None:
    quotas = [
        {"per": "server", "names": "nots", "per_day": 1},
        {"per": "view", "names": ["default", "reding"], "per_day": 1},
        {"per": "key", "per_day": 1},
        {"per": "server", "names": "n*", "per_day": 1},
    ]
    views: dict[str, Any] = {"default": {}, "reading": {}}
    write_config(tmp_path, {"notes": NOTES}, serve={**HTTP, "views": views}, quotas=quotas)
    code, found = checked(tmp_path)
    assert (code, [about for _, about, _ in found]) == (0, ["quotas[0]", "quotas[1]", "quotas[2]"])
    assert "no server matches 'nots'; did you mean 'notes'?" in found[0][2]
    assert "no view matches 'reding'; did you mean 'reading'?" in found[1][2]
    assert "the gateway has no keys" in found[2][2]


def test_a_server_for_tokens_that_no_client_has(tmp_path: Path) -> None:
    auth = {"type": "token_exchange", "issuer": "https://id.example.com", "client_id": "gate"}
    server = {"url": "https://files.example.com/mcp", "auth": auth}
    write_config(tmp_path, {"files": server}, serve=HTTP)
    assert "no client can use it" in one_of(tmp_path)[3]
    oauth = {"oauth": {"issuer": "https://id.example.com", "audience": "https://tools.example.com/mcp"}}
    write_config(tmp_path, {"files": server}, serve={**HTTP, "auth": oauth})
    assert checked(tmp_path) == (0, [])
