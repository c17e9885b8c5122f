"""Secrets are resolved for one user: `get_secret` may ask for the user, and `${user}` is the name."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolbus.config import GetSecret, Resolved, Secrets, load_server, resolved
from toolbus.errors import ConfigError, SecretMissing

URL = "https://x.test/mcp"
PEM = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49\nAgEGCCqGSM49AwEHBG0w\n-----END PRIVATE KEY-----"


def resolve(entry: dict[str, Any], secrets: Secrets | None = None) -> Resolved:
    return asyncio.run(resolved(load_server({"url": URL, **entry}, alias="a"), secrets or Secrets()))


def header(text: str, secrets: Secrets) -> str:
    return resolve({"headers": {"X": text}}, secrets).headers["X"]


class Vault:
    def __call__(self, name: str, user: str) -> str:
        return f"{name} of {user}"

    async def later(self, name: str, *, user: str) -> str:
        return f"{name} of {user}"


def made_by_position(name: str, who: str, /) -> str:
    return f"{name} of {who}"


def with_default(name: str, user: str = "nobody") -> str:
    return f"{name} of {user}"


@pytest.mark.parametrize("get_secret", [Vault(), Vault().later, made_by_position, with_default])
def test_a_second_parameter_gets_the_user(get_secret: GetSecret) -> None:
    assert header("${KEY}", Secrets(get_secret, user="ann")) == "KEY of ann"
    assert header("${KEY}", Secrets(get_secret)) == "KEY of "


def plain(name: str) -> str:
    return f"{name} for all"


def with_a_cache(name: str, refresh: bool = False) -> str:
    assert refresh is False
    return f"{name} for all"


def with_anything(name: str, *rest: object, **options: object) -> str:
    assert (rest, options) == ((), {})
    return f"{name} for all"


@pytest.mark.parametrize("get_secret", [plain, with_a_cache, with_anything, {"KEY": "KEY for all"}.get])
def test_a_function_of_the_name_alone_is_called_as_before(get_secret: Callable[[str], str | None]) -> None:
    assert header("${KEY}", Secrets(get_secret, user="ann")) == "KEY for all"


def test_the_default_of_a_get_of_a_dict_is_never_the_user() -> None:
    nothing: dict[str, str] = {}
    with pytest.raises(SecretMissing):
        header("${NOPE_X}", Secrets(nothing.get, user="ann"))


def test_the_user_can_be_named_in_any_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("user", "from the environment")
    ann = Secrets({"user": "from the host"}.get, user="ann")

    assert header("x ${user} y", ann) == "x ann y"
    assert header("${user:-nobody}", ann) == "ann"
    assert header("${user:-nobody}", Secrets()) == "nobody"
    assert header("<${user:-}>", Secrets()) == "<>"
    assert header("${env:user}", Secrets()) == "from the environment"
    assert resolve({"headers": {"X": "${user}"}}, ann).redacted("ann is here") == "ann is here"


ANY = "https://id.test/people?id=7;x=y"
"""A name that is one, but not where a path, a word or an option could be."""
MAIL, BROKER, PAIRWISE = "ann.lee+x@mail.test", "auth0|5f7c", "-a_b-C9"


def in_place(entry: dict[str, Any], user: str) -> Resolved:
    entry = entry if "url" in entry or "headers" in entry else {"command": "serve", **entry}
    base = {} if "command" in entry else {"url": URL}
    return asyncio.run(resolved(load_server({**base, **entry}, alias="a"), Secrets(user=user)))


@pytest.mark.parametrize(
    ("entry", "users"),
    [
        ({"args": ["${user}"]}, [MAIL, BROKER, "Ann Lee", "\u5b89"]),
        ({"args": ["--root=/data/${user}"]}, [MAIL, BROKER, PAIRWISE, "system:serviceaccount:a:b"]),
        ({"args": ["-c", "serve --for ${user}"]}, [MAIL, "ann"]),
        ({"cwd": "data/${user}"}, [MAIL, BROKER, PAIRWISE, "Ann Lee", "o'brien"]),
        ({"env": {"USER_ID": "${user}"}}, [MAIL, BROKER, PAIRWISE, ANY, "..", "~"]),
        ({"env": {"DATA": "/data/${user}"}}, [MAIL, BROKER, PAIRWISE]),
        ({"headers": {"X-User": "${user}"}}, [MAIL, BROKER, PAIRWISE, ANY]),
        ({"headers": {"Cookie": "user=${user}; role=guest"}}, [MAIL, "ann"]),
        ({"url": "https://${user}.test/mcp"}, ["ann", "a-1"]),
        ({"url": "https://x.test/${user}/mcp"}, [MAIL, BROKER, PAIRWISE, "a?b", "Ann Lee"]),
    ],
    ids=str,
)
def test_names_of_real_users_can_be_used(entry: dict[str, Any], users: list[str]) -> None:
    for user in users:
        in_place(entry, user)


@pytest.mark.parametrize(
    ("entry", "users"),
    [
        ({"args": ["${user}"]}, ["--root=x", "-c", "../x", "..", "a\nb", ANY]),
        ({"args": ["--root=/data/${user}"]}, ["..", "a/b", "a b", "a;b", "$(b)", "`b`", 'a"b', "a,b"]),
        ({"args": ["-c", "serve --for ${user}"]}, ["a|b", "--all", "a;b", "a b", "$HOME"]),
        ({"command": "./bin/${user}"}, ["..", "a/b", "a\\b"]),
        ({"cwd": "data/${user}"}, ["..", ".", "a/b", "a\\b", "a\x07", "e\u0301", "\ud800"]),
        ({"cwd": "${user}"}, ["~", "~root"]),
        ({"env_file": "${user}.env"}, ["../x", "/x"]),
        ({"env": {"USER_ID": "${user}"}}, ["a\nb", "a\x00", "a\x1b[31m"]),
        ({"env": {"DATA": "/data/${user}"}}, ["..", "a/b", "a?b", "a b", "a;b"]),
        ({"headers": {"X-User": "${user}"}}, ["a\r\nX-Role: admin", "a\x00"]),
        ({"headers": {"Cookie": "user=${user}; role=guest"}}, ["a; role=admin", "a,b", 'a"b', "a=b"]),
        ({"url": "https://${user}.test/mcp"}, ["evil.test/", "a@evil", "a.b", "a:1", "evil.test#", "-a"]),
        ({"url": "https://x.test${user}/mcp"}, [".evil.test", "@evil.test", ":99"]),
        ({"url": "https://x.test/${user}/mcp"}, ["..", ".", "a/b", "a\\b"]),
    ],
    ids=str,
)
def test_a_name_that_would_be_more_than_a_name_is_refused(entry: dict[str, Any], users: list[str]) -> None:
    for user in users:
        with pytest.raises(ConfigError) as caught:
            in_place(entry, user)
        assert f"the name of the user, {user!a}, cannot be used here: " in str(caught.value)


def test_a_name_in_a_url_is_encoded() -> None:
    found = in_place({"url": "https://x.test/${user}/mcp?for=${user}"}, "a b?c&d#e%2f@f")
    assert found.url == "https://x.test/a%20b%3Fc%26d%23e%252f@f/mcp?for=a%20b%3Fc%26d%23e%252f@f"


def test_a_default_for_nobody_is_what_the_config_says() -> None:
    assert in_place({"cwd": "/data/${user:-../shared}"}, "").cwd == "/data/../shared"


def test_without_a_user_the_name_is_missing() -> None:
    with pytest.raises(SecretMissing) as caught:
        header("${user}", Secrets())

    assert "there is no user here; use bus.as_user(NAME), or ${user:-NAME}" in str(caught.value)


def test_the_texts_of_auth_are_resolved_and_its_secrets_are_hidden() -> None:
    names = {"ID": "client-77", "SECRET": "s3cret-value", "WHERE": "https://auth.test"}
    auth = {"type": "oauth", "client_id": "${ID}", "client_secret": "${SECRET}", "issuer": "${WHERE}"}
    found = resolve({"auth": auth}, Secrets(names.get))

    assert found.auth == {
        "client_id": "client-77",
        "client_secret": "s3cret-value",
        "issuer": "https://auth.test",
    }
    assert (found.token, found.headers) == (None, {})
    assert found.redacted("client-77 s3cret-value https://auth.test") == "client-77 *** https://auth.test"
    assert repr(found) == "Resolved(url=***, auth=***)"
    assert found.redacted.received(b'{"text":"s3cret-value"}') == b'{"text":"***"}'


def test_a_bearer_token_is_resolved_as_before() -> None:
    found = resolve({"auth": "Bearer ${T}"}, Secrets({"T": "t0ken-value"}.get))

    assert (found.token, found.auth) == ("t0ken-value", {"token": "t0ken-value"})
    assert found.headers == {"Authorization": "Bearer t0ken-value"}


def test_a_client_secret_may_turn_out_empty_but_an_issuer_may_not() -> None:
    auth = {"type": "oauth", "client_id": "c", "client_secret": "${NOPE_X:-}", "prompt": "${NOPE_X:-}"}

    assert resolve({"auth": auth}).auth == {"client_id": "c", "prompt": ""}
    with pytest.raises(ConfigError, match=r"auth\.issuer: is empty once its references are filled in"):
        resolve({"auth": {**auth, "issuer": "${NOPE_X:-}"}})
    with pytest.raises(ConfigError, match=r"auth\.client_secret: is empty"):
        resolve({"auth": {"type": "client_credentials", "client_id": "c", "client_secret": "${NOPE_X:-}"}})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("callback", "http://evil.test/s3cret"),
        ("issuer", "s3cret"),
        ("client_metadata", "http://s3cret.test/c"),
        ("client_id", "a\nb"),
        ("resource", "s3cret s3cret"),
    ],
)
def test_what_is_wrong_only_once_it_is_filled_in_is_refused_without_quoting_it(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve({"auth": {"type": "oauth", key: "${VALUE}"}}, Secrets({"VALUE": value}.get))

    assert (caught.value.key, "once its references are filled in" in str(caught.value)) == (
        f"auth.{key}",
        True,
    )
    assert "s3cret" not in str(caught.value)


def test_a_private_key_keeps_its_lines_and_is_hidden_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "bot.pem").write_text(PEM)
    auth = {"type": "client_credentials", "client_id": "c", "key": "${file:bot.pem}"}
    found = resolve({"auth": auth}, Secrets(folder=tmp_path))

    assert found.auth["key"] == PEM
    assert found.redacted(PEM) == "-----BEGIN PRIVATE KEY-----\n***\n***\n-----END PRIVATE KEY-----"


def test_a_short_lived_text_is_read_each_time_it_is_needed(tmp_path: Path) -> None:
    async def read_twice() -> tuple[list[str], str]:
        (tmp_path / "token").write_text("first-token\n")
        auth = {"type": "workload", "token": "${file:token}"}
        found = await resolved(load_server({"url": URL, "auth": auth}, alias="a"), Secrets(folder=tmp_path))
        assert found.auth == {}
        first = await found.lookup("token")
        (tmp_path / "token").write_text("second-token\n")
        return [first, await found.lookup("token")], found.redacted("first-token second-token")

    assert asyncio.run(read_twice()) == (["first-token", "second-token"], "*** ***")


async def looked_up(assertion: str, fields: dict[str, str], secrets: Secrets) -> str:
    auth = {"type": "identity_assertion", "client_id": "c", "assertion": assertion}
    found = await resolved(load_server({"url": URL, "auth": auth}, alias="a"), secrets)
    return await found.lookup("assertion", fields)


@pytest.mark.parametrize(
    "issuer", ["https://auth.test", "x' ; touch pwned '", "$(id) `id` ${HOME} {resource}"]
)
def test_an_issuer_that_looks_like_a_command(issuer: str, tmp_path: Path) -> None:
    """A name from a server is one argument of the command, with any content."""
    (tmp_path / "say.py").write_text("import sys; print(sys.argv[1:])")
    text = f"${{cmd:{sys.executable} say.py --audience={{issuer}} '{{resource}}'}}"
    fields = {"issuer": issuer, "resource": URL}

    said = asyncio.run(looked_up(text, fields, Secrets(folder=tmp_path)))

    assert said == str([f"--audience={issuer}", URL])
    assert not (tmp_path / "pwned").exists()


def test_an_issuer_that_looks_like_a_path(tmp_path: Path) -> None:
    """A path has no more folders than the config allows."""
    (tmp_path / "tokens").mkdir()
    (tmp_path / "secret").write_text("s3cret")
    (tmp_path / "tokens" / "https%3A%2F%2Fauth.test").write_text("right")
    secrets = Secrets(folder=tmp_path)

    right = looked_up("${file:tokens/{issuer}}", {"issuer": "https://auth.test"}, secrets)
    assert asyncio.run(right) == "right"
    with pytest.raises(SecretMissing):
        asyncio.run(looked_up("${file:tokens/{issuer}}", {"issuer": "../secret"}, secrets))


def test_a_short_lived_text_that_is_missing_is_an_error_that_names_its_key() -> None:
    with pytest.raises(SecretMissing) as missing:
        asyncio.run(looked_up("${NOPE_X}", {}, Secrets()))
    with pytest.raises(ConfigError) as unset:
        asyncio.run(resolve({"auth": "oauth"}).lookup("assertion"))
    with pytest.raises(ConfigError) as empty:
        asyncio.run(looked_up("${NOPE_X:-}", {}, Secrets()))

    assert "auth.assertion" in str(missing.value)
    assert (unset.value.server, unset.value.key) == ("a", "auth.assertion")
    assert "auth.assertion: is empty once its references are filled in" in str(empty.value)


def test_a_connection_that_lives_long_forgets_the_oldest_tokens_it_has_learned() -> None:
    found = resolve({"auth": "t0ken-value"})
    for number in range(200):
        found.redacted.learn(f"renewed-{number:03}")

    assert found.redacted("t0ken-value renewed-199 renewed-150") == "*** *** ***"
    assert found.redacted("renewed-000") == "renewed-000"
