"""No secret is shown: not in a repr, not in an error, not in a text that was redacted."""

import asyncio
import base64
import random
import traceback
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from toolbus.config import (
    BearerAuth,
    BusConfig,
    Resolved,
    Secrets,
    ServerConfig,
    load_config,
    load_server,
    resolved,
)
from toolbus.errors import ToolbusError

ALPHABET = "ab$${}{}:-/ \\n'\"%&=@é"


def resolve(config: ServerConfig, **names: str) -> Resolved:
    return asyncio.run(resolved(config, Secrets(names.get)))


def random_texts(count: int) -> Iterator[str]:
    dice = random.Random(7)
    for _ in range(count):
        yield "".join(dice.choice(ALPHABET) for _ in range(dice.randrange(12)))


def test_any_text_can_be_written_literally_with_the_escape(request: pytest.FixtureRequest) -> None:
    for text in random_texts(2000 if request.config.getoption("--full") else 400):
        written = text.replace("${", "$${")
        assert resolve(load_server({"command": "x", "args": [written]})).args == (text,)


def test_any_text_is_either_filled_in_or_refused_and_never_passed_on_half(
    request: pytest.FixtureRequest,
) -> None:
    for text in random_texts(2000 if request.config.getoption("--full") else 400):
        try:
            made = resolve(load_server({"command": "x", "args": [f"{text}${{NAME}}"]}), NAME="value")
        except ToolbusError as error:
            assert "\n" not in str(error)  # noqa: PT017
        else:
            assert made.args[0].endswith(("value", "${NAME}"))


def secret_entries(secret: str) -> list[dict[str, Any]]:
    plain = quote(secret, safe="")
    return [
        {"command": "x", "args": [f"--token={secret}"]},
        {"command": f"/opt/x {secret}"},
        {"command": f"${{X:-{secret}}}"},
        {"command": "x", "env": {"API_KEY": secret}},
        {"url": f"https://user:{plain}@x.test/mcp"},
        {"url": f"https://x.test/mcp?api_key={plain}"},
        {"url": f"https://x.test/mcp?{plain}"},
        {"url": f"https://x.test/mcp#{plain}"},
        {"url": f"https://x.test/${{X:-{plain}}}/mcp"},
        {"url": "https://x.test", "headers": {"Authorization": f"Bearer {secret}"}},
        {"url": "https://x.test", "headers": {"X-Api-Key": secret}},
        {"url": "https://x.test", "auth": secret},
        {"url": "https://x.test", "auth": {"type": "bearer", "token": secret}},
    ]


SECRETS = ["s3cret-value", "s3cret value/with+odd=chars&more", 's3cret"quoted"']


@pytest.mark.parametrize("secret", SECRETS)
def test_no_repr_shows_a_secret(secret: str) -> None:
    for entry in secret_entries(secret):
        config = load_server(entry, alias="a")
        made = resolve(config)
        shown = [config, BusConfig(servers={"a": config}), made, config.auth, made.public_url]
        for text in [form(value) for value in shown for form in (repr, str)]:
            assert "s3cret" not in text, entry


@pytest.mark.parametrize("secret", SECRETS)
def test_no_error_shows_a_secret_not_even_in_its_traceback(secret: str) -> None:
    for entry in secret_entries(secret):
        broken: list[dict[str, Any]] = [
            {**entry, "era": "x"},
            {**entry, "nonsense": 1},
            {**entry, "timeouts": {"call": "x"}},
            {**entry, "url": entry.get("command", "x"), "command": "y"},
            {key: [value] if isinstance(value, str) else str(value) for key, value in entry.items()},
            {key: {"a": value, "b": 5} for key, value in entry.items()},
        ]
        for wrong in broken:
            try:
                load_config({"servers": {"a": wrong}})
            except ToolbusError as error:
                lines = traceback.format_exception(error)
                shown = [line for line in lines if not line.lstrip().startswith("File ")] + [repr(error)]
                assert "s3cret" not in "".join(shown), wrong


def test_secrets_are_replaced_in_texts_in_every_form_they_are_sent() -> None:
    config = load_server(
        {
            "url": "https://me:p%40ss-word@x.test/mcp?key=query-key&page=page-two",
            "headers": {"X-Token": "literal-header", "X-Plain": "plain-header", "Cookie": "${COOKIE}"},
            "auth": "${TOKEN}",
        }
    )
    made = resolve(config, TOKEN="tok/en value", COOKIE="cook")
    basic = base64.b64encode(b"me:p@ss-word").decode()
    hidden = [
        "tok/en value",
        "tok%2Fen%20value",
        "tok/en%20value",
        "tok%2Fen+value",
        "cook",
        "literal-header",
    ]
    hidden += ["query-key", "p@ss-word", "me:p%40ss-word", basic, "Bearer tok/en value"]

    for secret in hidden:
        assert made.redacted(f"<{secret}>") in ("<***>", "<Bearer ***>"), secret
    assert made.redacted("plain-header page-two x.test") == "plain-header page-two x.test"
    assert made.public_url == "https://***@x.test/mcp?key=***&page=***"


def test_values_of_the_environment_are_secret_when_their_name_says_so() -> None:
    env = {
        "GITHUB_TOKEN": "aaaa1",
        "DB_PASSWORD": "aaaa2",
        "OPENAI_API_KEY": "aaaa3",
        "SSH_KEY": "aaaa4",
        "GIT_AUTHOR_NAME": "bbbb1",
        "KEYBOARD": "bbbb2",
        "LOG_LEVEL": "bbbb3",
        "FROM_REFERENCE": "${NAME}",
    }
    made = resolve(load_server({"command": "x", "env": env}), NAME="aaaa5")

    text = "aaaa1 aaaa2 aaaa3 aaaa4 aaaa5 bbbb1 bbbb2 bbbb3"
    assert made.redacted(text) == "*** *** *** *** *** bbbb1 bbbb2 bbbb3"


def test_short_values_are_left_alone_and_the_longest_secret_goes_first() -> None:
    config = load_server({"command": "x", "args": ["${A}", "${B}", "${C}"]})
    made = resolve(config, A="abc", B="abcd", C="abcdefgh")

    assert made.redacted("abc abcd abcdefgh") == "abc *** ***"


def test_a_short_secret_is_hidden_only_where_it_stands_alone() -> None:
    made = resolve(load_server({"command": "x", "args": ["${A}", "${B}"]}), A="main", B="-8080")

    shown = made.redacted("maintained on main, main_page; domain.main; q%3Dmain \\nmain; at :-80801")
    assert shown == "maintained on ***, ***_page; domain.***; q%3D*** \\n***; at :-80801"


def test_a_long_secret_is_hidden_wherever_it_is() -> None:
    made = resolve(load_server({"command": "x", "args": ["${A}"]}), A="sk-12345")

    assert made.redacted("xsk-12345x") == "x***x"


def test_json_is_redacted_value_by_value_and_stays_json() -> None:
    made = resolve(load_server({"command": "x", "args": ["${A}", "${B}"]}), A="8080", B="4929111122223333")
    data = {
        "port": 8080,
        "said": ["it is 8080", 4929111122223333, "80801", True, None, 1.5],
        "8080": {"card 4929111122223333": 1},
        "***": 2,
    }

    assert made.redacted.json(data) == {
        "port": 8080,
        "said": ["it is ***", "***", "80801", True, None, 1.5],
        "***_2": {"card ***": 1},
        "***": 2,
    }


def test_each_line_of_a_key_is_a_secret() -> None:
    made = resolve(load_server({"command": "x", "env": {"A": "${PEM}"}}), PEM="first-line\nsecond-line\n")

    assert made.redacted("log: second-line\nfirst-line\nsecond-line\n") == "log: ***\n***"


@pytest.mark.parametrize(
    ("url", "shown", "public"),
    [
        ("https://x.test:8443/a/b", "https://x.test:8443/a/b", "https://x.test:8443/a/b"),
        ("https://u:p@x.test/?a=b", "https://***@x.test/", "https://***@x.test/?a=***"),
        ("https://u:pa/ss@x.test/", "***", "***"),
        ("http://[::1]:8000/mcp", "http://[::1]:8000/mcp", "http://[::1]:8000/mcp"),
        ("http://h:${N}/${N}?${N}", "http://h:***/***", "http://h:***/***?***"),
        ("${N}/mcp", "***/mcp", "***/mcp"),
    ],
)
def test_a_url_is_shown_without_what_it_keeps(url: str, shown: str, public: str) -> None:
    config = load_server(url, alias="a")
    assert repr(config) == f"ServerConfig(alias='a', transport='streamable-http', url={shown!r})"

    made = resolve(config, N="http://80" if url.startswith("$") else "80")
    assert made.public_url == public


def test_what_holds_secrets_says_only_what_it_holds() -> None:
    made = resolve(load_server({"command": "npx", "args": ["-y"], "env": {"T": "v"}}))

    assert repr(made) == "Resolved(command=***, args=***, env=***)"
    assert repr(BearerAuth(type="bearer", token="s3cret")) == "BearerAuth(type='bearer')"


def test_a_default_in_the_config_is_a_secret_only_if_it_looks_like_one() -> None:
    key = "sk-0123456789abcdef0123"
    env = {"MODE": "${MODE:-careful}", "KEY": f"${{ANY:-{key}}}", "OTHER": "${MY_TOKEN:-hidden-by-name}"}
    env |= {"PASSWORD": "${ANYTHING:-hidden-by-variable}", "SET": "${GIVEN:-unused}"}
    config = ServerConfig(alias="a", transport="stdio", command="x", env=env)
    found = resolve(config, GIVEN="from outside")
    assert found.redacted("careful") == "careful"
    for text in (key, "hidden-by-name", "hidden-by-variable", "from outside"):
        assert text not in found.redacted(f"it is {text}.")
