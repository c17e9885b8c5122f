"""References are filled in late, from the right place, or named as missing."""

import asyncio
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from toolbus.config import Resolved, Secrets, load_server, resolved
from toolbus.errors import ConfigError, SecretMissing


def resolve(entry: object, secrets: Secrets | None = None) -> Resolved:
    return asyncio.run(resolved(load_server(entry, alias="a"), secrets or Secrets()))


def value(text: str, secrets: Secrets | None = None) -> str:
    """The value of the text in a server's environment."""
    return resolve({"command": "x", "env": {"V": text}}, secrets).env["V"]


def missing(entry: object, secrets: Secrets | None = None) -> SecretMissing:
    with pytest.raises(SecretMissing) as caught:
        resolve(entry, secrets)
    assert "\n" not in str(caught.value)
    return caught.value


def test_every_place_that_may_hold_a_reference_is_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("V", "value")

    stdio = resolve({"command": "${V}-x", "args": ["${V}", "b${V}"], "env": {"A": "${V}"}, "cwd": "/${V}"})
    http = resolve({"url": "https://${V}.test/${V}", "headers": {"X": "a ${V}"}, "auth": "${V}"})

    assert (stdio.command, stdio.args, stdio.env, stdio.cwd) == (
        "value-x",
        ("value", "bvalue"),
        {"A": "value"},
        "/value",
    )
    assert (http.url, http.headers) == (
        "https://value.test/value",
        {"X": "a value", "Authorization": "Bearer value"},
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${SET}", "s"),
        ("${env:SET}", "s"),
        ("${input:SET}", "s"),
        ("${SET:-other}", "s"),
        ("${EMPTY}", ""),
        ("${EMPTY:-other}", "other"),
        ("${UNSET:-other}", "other"),
        ("${UNSET:-}", ""),
        ("${UNSET:-a:-b c}", "a:-b c"),
        ("${env:UNSET:-other}", "other"),
        ("a${SET}b${SET}c", "asbsc"),
        ("$SET $ {SET} $5", "$SET $ {SET} $5"),
        ("file:/etc/passwd", "file:/etc/passwd"),
        ("cmd:echo", "cmd:echo"),
        ("$${SET}", "${SET}"),
        ("$$${SET}", "$${SET}"),
        ("${SET}$${", "s${"),
    ],
)
def test_a_text_is_filled_in_as_its_references_say(
    text: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SET", "s")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("UNSET", raising=False)

    assert value(text) == expected


def test_a_name_is_looked_up_with_the_host_then_in_the_environment_then_in_dotenv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("A=dotenv\nB=dotenv\nC='dot env'\nNOTHING\n")
    monkeypatch.setenv("A", "environment")
    monkeypatch.setenv("B", "environment")
    secrets = Secrets({"A": "host"}.get, tmp_path)

    assert [value(f"${{{name}}}", secrets) for name in "ABC"] == ["host", "environment", "dot env"]
    assert missing({"command": "${NOTHING}"}, secrets).reference == "NOTHING"


def test_get_secret_may_be_async_and_is_asked_again_at_each_connect() -> None:
    answers = iter(["one", "two"])

    def get_secret(name: str) -> Awaitable[str | None]:
        async def answer() -> str | None:
            return next(answers) if name == "T" else None

        return answer()

    entry = {"command": "x", "args": ["${T}", "${T}"]}
    secrets = Secrets(get_secret)

    assert resolve(entry, secrets).args == ("one", "one")
    assert resolve(entry, secrets).args == ("two", "two")


def failing(name: str) -> str | None:
    raise KeyError(f"s3cret {name}")


def silent(_: str) -> None:
    return None


def numeric(_: str) -> Any:
    return 5


@pytest.mark.parametrize(
    ("get_secret", "reason"),
    [
        (None, "is not set"),
        (silent, "is not set"),
        (failing, "is not set (get_secret raised KeyError)"),
        (numeric, "is not set (get_secret returned int, not a string)"),
    ],
)
def test_a_name_without_a_value_is_named_with_its_field(get_secret: Any, reason: str) -> None:
    error = missing({"command": "x", "env": {"TOKEN": "${NOPE_X}"}}, Secrets(get_secret))

    assert (error.server, error.field, error.reference) == ("a", "env.TOKEN", "NOPE_X")
    assert error.problem.startswith(f"env.TOKEN: secret 'NOPE_X' {reason}; ")
    assert "s3cret" not in str(error)


def test_a_host_that_fails_does_not_hide_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("T", "environment")

    assert value("${T}", Secrets(failing)) == "environment"


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"command": "${NOPE_X}"}, "command"),
        ({"command": "x", "args": ["a", "b", "${NOPE_X}"]}, "args[2]"),
        ({"command": "x", "cwd": "${NOPE_X}"}, "cwd"),
        ({"url": "https://x.test/?k=${NOPE_X}"}, "url"),
        (
            {"url": "https://x.test", "headers": {"Authorization": "Bearer ${NOPE_X}"}},
            "headers.Authorization",
        ),
        ({"url": "https://x.test", "auth": {"type": "bearer", "token": "${NOPE_X}"}}, "auth.token"),
    ],
)
def test_the_field_of_a_missing_secret_is_said_as_the_user_wrote_it(entry: object, field: str) -> None:
    assert missing(entry).field == field


def test_a_file_gives_its_content_without_the_last_line_break(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("  a\nb\n")

    assert value(f"${{file:{tmp_path / 'token'}}}") == "  a\nb"
    assert value("<${file:token}>", Secrets(folder=tmp_path)) == "<  a\nb>"


def test_a_file_that_cannot_be_read_is_a_missing_secret(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"\xe4")
    entry = {"command": "x", "env": {"T": "${file:none}"}}
    secrets = Secrets(folder=tmp_path)

    error = missing(entry, secrets)

    assert (error.field, error.reference) == ("env.T", "file:none")
    assert str(error).endswith("(FileNotFoundError); check the path and the file's permissions")
    assert "(UnicodeDecodeError)" in str(missing({"command": "${file:latin}"}, secrets))


def test_a_command_gives_what_it_prints_without_a_shell(tmp_path: Path) -> None:
    script = tmp_path / "say.py"
    script.write_text("import sys, os; print(sys.argv[1:], os.getcwd())")

    said = value(f"${{cmd:{sys.executable} say.py 'a b' $HOME ; ls}}", Secrets(folder=tmp_path))

    assert said == f"{['a b', '$HOME', ';', 'ls']} {tmp_path}"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import sys; print('s3cret', file=sys.stderr); sys.exit(3)", "failed with exit code 3"),
        ("pass", "printed nothing"),
        ("import time; time.sleep(60)", "took longer than 0.5 s"),
        ("import sys; sys.stdout.buffer.write(bytes([228]))", "could not be run (UnicodeDecodeError)"),
    ],
)
def test_a_command_that_fails_is_a_missing_secret_and_its_arguments_stay_unsaid(
    code: str, reason: str
) -> None:
    secrets = Secrets()
    secrets.command_seconds = 0.5 if "sleep" in code else 30

    error = missing({"command": "x", "args": [f'${{cmd:{sys.executable} -c "{code}" s3cret}}']}, secrets)

    assert (error.field, error.reference) == ("args[0]", f"cmd:{sys.executable}")
    assert str(error).endswith(f" {reason}; run the command yourself; it must print the value")
    assert "s3cret" not in str(error)


def test_a_command_that_does_not_exist_is_a_missing_secret() -> None:
    assert "could not be run (FileNotFoundError)" in str(missing({"command": "${cmd:no-such-command-x}"}))


def test_a_command_does_not_block_the_loop(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    wait = f"while not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.01)"
    (tmp_path / "wait.py").write_text(f"import pathlib, time\n{wait}\nprint('done')")
    config = load_server({"command": f"${{cmd:{sys.executable} wait.py}}"})

    async def both() -> str | None:
        task = asyncio.create_task(resolved(config, Secrets(folder=tmp_path)))
        await asyncio.sleep(0)
        gate.touch()  # only reached while the command runs if the loop is free
        return (await asyncio.wait_for(task, 30)).command

    assert asyncio.run(both()) == "done"


def test_a_dotenv_file_lies_under_the_environment_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s.env").write_text("A=file\nB=file\n")
    monkeypatch.setenv("NAME", "s")
    entry = {"command": "x", "envFile": "${NAME}.env", "env": {"B": "own"}}

    assert resolve(entry, Secrets(folder=tmp_path)).env == {"A": "file", "B": "own"}
    with pytest.raises(ConfigError) as caught:
        resolve({"command": "x", "envFile": "none.env"}, Secrets(folder=tmp_path))
    assert (caught.value.server, caught.value.key) == ("a", "env_file")


def test_relative_folders_start_at_the_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    secrets = Secrets(folder=tmp_path)

    assert resolve({"command": "x", "cwd": "sub"}, secrets).cwd == str(tmp_path / "sub")
    assert resolve({"command": "x", "cwd": "~/sub"}, secrets).cwd == "/home/me/sub"
    assert resolve({"command": "x", "cwd": "/sub"}, secrets).cwd == "/sub"
    assert resolve({"command": "x", "cwd": "sub"}).cwd == "sub"
    assert resolve({"command": "x"}, secrets).cwd is None


def test_the_folders_of_an_editor_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    secrets = Secrets(folder=tmp_path / ".vscode")

    made = resolve({"command": "x", "cwd": "${workspaceFolder}", "args": ["${userHome}/a"]}, secrets)

    assert (made.cwd, made.args) == (str(tmp_path), ("/home/me/a",))
    assert made.redacted(f"in {tmp_path}") == f"in {tmp_path}"


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ({"url": "${V}"}, "url"),
        ({"url": "https://x.test", "headers": {"X": "a${LINES_X}"}}, "headers.X"),
        ({"url": "https://x.test", "auth": "${LINES_X}"}, "auth.token"),
        ({"url": "https://x.test", "auth": "${EMPTY_X}"}, "auth.token"),
        ({"command": "${EMPTY_X}"}, "command"),
    ],
)
def test_a_value_that_cannot_be_used_is_a_config_error(
    entry: object, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("V", "s3cret")
    monkeypatch.setenv("LINES_X", "s3cret\r\nX-Other: 1")
    monkeypatch.setenv("EMPTY_X", "")

    with pytest.raises(ConfigError) as caught:
        resolve(entry)

    assert (caught.value.server, caught.value.key) == ("a", key)
    assert "s3cret" not in str(caught.value)


def test_a_malformed_reference_is_found_even_behind_the_checks_of_the_model() -> None:
    config = load_server("https://x.test", alias="a").model_copy(update={"url": "https://x.test/${"})

    with pytest.raises(ConfigError) as caught:
        asyncio.run(resolved(config, Secrets()))

    assert (caught.value.server, caught.value.key) == ("a", "url")


def test_a_token_may_be_written_with_its_scheme() -> None:
    assert resolve({"url": "https://x.test", "auth": "Bearer abcd"}).headers == {
        "Authorization": "Bearer abcd"
    }


def test_a_name_that_is_nowhere_else_may_be_a_variable_of_the_server_itself() -> None:
    entry = {
        "command": "npx",
        "args": ["mcp-remote", "--header", "Authorization:${AUTH_HEADER}"],
        "env": {"AUTH_HEADER": "Bearer abc123"},
    }

    assert resolve(entry).args == ("mcp-remote", "--header", "Authorization:Bearer abc123")
    assert missing({"command": "x", "env": {"TOKEN": "${TOKEN}"}}).reference == "TOKEN"


@pytest.mark.parametrize("header", ["Authorization", "Proxy-Authorization", "X-Api-Key"])
def test_a_literal_in_a_header_for_credentials_is_a_secret(header: str) -> None:
    real = resolve({"url": "https://h.test/mcp", "headers": {header: "Bearer abc123"}})

    assert real.redacted("sent Bearer abc123, got abc123") == "sent ***, got ***"


def test_a_header_that_names_an_author_is_no_secret() -> None:
    assert (
        resolve({"url": "https://h.test/mcp", "headers": {"X-Author": "Ann Lee"}}).redacted("Ann Lee")
        == "Ann Lee"
    )
