"""Credentials in the messages of a server: found in any form, at little cost, and nothing else is changed."""

import base64
import json
import re
import time
from collections.abc import Callable
from html import escape
from urllib.parse import quote

import pytest

from tests.hostile.leaks import SECRET, strings
from tests.inside.config import Redactor
from tests.inside.core import cleaned
from toolbus.config import Secrets, load_server, resolved

MESSAGES: dict[str, Callable[[str], str]] = {
    "a text": lambda secret: json.dumps({"x": f"a {secret} b"}),
    "a key": lambda secret: json.dumps({secret: {f"{secret}{secret}": 1}}),
    "twice": lambda secret: json.dumps([secret, secret * 2]),
    "JSON in JSON": lambda secret: json.dumps(json.dumps(json.dumps([secret]))),
    "HTML": lambda secret: json.dumps(f"<p>{escape(secret)}</p>"),
    "a query": lambda secret: json.dumps(f"https://x.test/?key={quote(secret, safe='')}"),
    "escapes": lambda secret: re.sub("(....)", r"\\u\1", secret.encode("utf-16-be").hex()).join(['["', '"]']),
    "slashes": lambda secret: json.dumps(secret).replace("/", "\\/"),
    "a path": lambda secret: json.dumps(f"C:\\{secret}\\x"),
    "hidden characters": lambda secret: json.dumps("\u2060".join(secret), ensure_ascii=False),
    "escaped hidden characters": lambda secret: json.dumps("\u00ad".join(secret)),
}


@pytest.mark.parametrize("kind", MESSAGES)
@pytest.mark.parametrize(
    "secret", ["s3cret-Value_9", 'n3w"line\\n/a+b=&<c>', "p\u00e4ss-w\u00f6rd-123", "\U0001f511-s3cret-key"]
)
def test_a_message_with_a_secret_in_any_form(kind: str, secret: str) -> None:
    """The text read from it has no secret, and it stays JSON."""
    message = MESSAGES[kind](secret).encode()
    read = json.loads(Redactor([secret], echoes=[secret]).received(message))
    shown = [form for text in strings(read) for form in (text, cleaned(text))]
    assert not any(
        secret in text or escape(secret) in text or quote(secret, safe="") in text for text in shown
    )
    assert "***" in repr(read)


def test_a_message_with_a_secret_that_is_a_number() -> None:
    """It stays JSON, and other numbers stay as they are."""
    hide = Redactor(echoes=["1234567890"]).received
    message = [1234567890, "no. 1234567890.", {"a": 1234567890}, 11234567890, -1234567890, 1234567890.5]
    assert json.loads(hide(json.dumps(message).encode())) == [
        None,
        "no. ***.",
        {"a": None},
        *message[3:],
    ]


def test_a_file_with_a_secret() -> None:
    """It stays base64, with asterisks for the secret."""
    for before in (b"", b"1", b"12", b"123"):
        data = base64.b64encode(before + SECRET.encode() + b" end").decode()
        (hidden,) = json.loads(Redactor(echoes=[SECRET]).received(json.dumps([data]).encode()))
        read = base64.b64decode(hidden, validate=True)
        assert read.startswith(before)
        assert read.endswith(b" end")
        assert SECRET[2:-2].encode() not in read
        assert b"********" in read


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "value", "is_hidden"),
    [
        ("API_TOKEN", "plain-words-only", True),
        ("ANYTHING", "s3cret-Value_9", True),
        ("ANYTHING", "a-long-value-of-words-only", True),
        ("DATABASE_URL", "postgres://me:s3cret-99@db.test/x", True),
        ("WEBHOOK_URL", "https://hooks.test/T0123/B0123/aB3dE5fG7hI9jK1l", True),
        ("API_TOKEN", "short12", False),
        ("PROJECT_DIR", "/home/me/project-1", False),
        ("ANYTHING", "/home/me/project-1", False),
        ("ANYTHING", "~/project-1", False),
        ("API_URL", "https://api.test/v1", False),
        ("AUTH_URL", "https://login.test/v1", False),
        ("DB_NAME", "customers-2024", False),
        ("ANYTHING", "production", False),
        ("ANYTHING", "db.internal.test", False),
        ("ANYTHING", "me@work.test", False),
        ("PORT", "8080808080", False),
    ],
)
async def test_a_value_of_the_config_in_a_result(name: str, value: str, is_hidden: bool) -> None:
    """Credentials are hidden, settings stay readable."""
    server = load_server({"command": "x", "env": {"X": f"${{{name}}}"}})
    values = await resolved(server, Secrets({name: value}.get))
    message = json.dumps([f"it is {value}"]).encode()
    assert (values.redacted.received(message) != message) == is_hidden


def test_an_ordinary_message() -> None:
    """It is forwarded unchanged, in a few microseconds even with ten secrets."""
    hide = Redactor(echoes=[f"s3cret-Value_{number}" for number in range(10)]).received
    message = json.dumps(
        {"jsonrpc": "2.0", "id": 7, "result": {"content": [{"text": "word " * 40}]}}
    ).encode()
    assert hide(message) is message
    began = time.thread_time()
    for _ in range(1000):
        hide(message)
    assert time.thread_time() - began < 0.2


@pytest.mark.parametrize(
    "text",
    ["word " * 200_000, "\u5feb" * 350_000, "\\u0073" * 170_000, "\\\\" * 500_000, "s3cret-Value_9" * 70_000],
    ids=["ASCII", "Chinese", "escapes", "backslashes", "secrets"],
)
def test_a_message_of_1_mib(text: str) -> None:
    """It is searched within a few milliseconds."""
    hide = Redactor(echoes=[SECRET, "another-s3cret"]).received
    message = f'["{text}"]'.encode()
    hide(message)
    began = time.thread_time()
    hide(message)
    assert time.thread_time() - began < 0.1
