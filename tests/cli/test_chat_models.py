"""The model of `toolbus chat` when none is named, and the error when there is none."""

import json
import socket
import sys
import time
import typing
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from pydantic_ai.models import KnownModelName

from tests.cli.running import Done, scripted, toolbus, write_config
from tests.inside.cli import KEYS, LOCAL, SEARCH_SECONDS, find_local_model
from tests.wire import Provider


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose config has one server."""
    work = tmp_path / "work"
    work.mkdir()
    write_config(work, {"own": scripted(work, "own")})
    return work


def chat(folder: Path, *words: str, **env: str) -> Done:
    return toolbus("chat", "Hello.", *words, folder=folder, env=env)


@contextmanager
def listing(body: bytes) -> Generator[str]:
    """A server that answers everything with that body; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def is_free(port: int) -> bool:
    with socket.socket() as end:
        return end.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.skipif(
    not all(is_free(int(url.split(":")[2].partition("/")[0])) for url in LOCAL.values()),
    reason="something listens where a local model server would",
)
def test_without_a_model_it_says_where_it_looked_and_how_to_name_one(folder: Path) -> None:
    done = chat(folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "toolbus: no model found: ANTHROPIC_API_KEY, OPENAI_API_KEY, GOOGLE_API_KEY, "
        "GEMINI_API_KEY, DEEPSEEK_API_KEY are unset (also in .env), and no local server responds (Ollama at "
        "127.0.0.1:11434, LM Studio at 127.0.0.1:1234, vLLM at 127.0.0.1:8000, llama.cpp at 127.0.0.1:8080); "
        "set a key, start a server, or pass --model openai:gpt-5.1\n"
    )


@pytest.mark.parametrize(
    ("keys", "wire", "model"),
    [
        (["ANTHROPIC", "OPENAI", "GOOGLE"], "anthropic", "claude-sonnet-4-5"),
        (["OPENAI", "GOOGLE"], "responses", "gpt-5.1"),
        (["GOOGLE"], "google", "gemini-flash-latest"),
    ],
)
def test_a_key_that_is_set_brings_a_model(folder: Path, keys: list[str], wire: str, model: str) -> None:
    with Provider(["Hello to you."]) as provider:
        env = {name: value for name, value in provider.environment.items() if name.split("_")[0] in keys}
        done = chat(folder, **env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello to you.\n", "")
    assert [(asked.wire, asked.model) for asked in provider.asked] == [(wire, model)]


def test_a_key_in_dotenv_brings_a_model_and_no_server_gets_it(folder: Path) -> None:
    seen = "import os, sys; open('seen', 'w').write(str('OPENAI_API_KEY' in os.environ)); sys.exit(3)"
    spy = {"command": sys.executable, "args": ["-c", seen], "cwd": str(folder), "inherit_env": "all"}
    with Provider(["Hello to you."]) as provider:
        env = provider.environment
        (folder / ".env").write_text(f"OPENAI_API_KEY={env['OPENAI_API_KEY']}-of-dotenv\n")
        write_config(folder, {"own": scripted(folder, "own"), "spy": spy})
        done = chat(folder, OPENAI_BASE_URL=env["OPENAI_BASE_URL"])
    assert (done.returncode, done.stdout) == (0, "Hello to you.\n")
    (asked,) = provider.asked
    assert asked.model == "gpt-5.1"
    assert asked.headers["authorization"] == f"Bearer {env['OPENAI_API_KEY']}-of-dotenv"
    assert (folder / "seen").read_text() == "False"


def test_a_model_that_lacks_its_key_says_what_to_do_in_a_terminal(folder: Path) -> None:
    done = chat(folder, "--model", "openai:gpt-5.1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "toolbus: model 'openai:gpt-5.1': OPENAI_API_KEY is not set; set it in the environment or in a .env "
        "beside the config, or pass another model\n"
    )


def test_the_variable_names_a_model_and_the_option_another_one(folder: Path) -> None:
    with Provider(["One.", "Two.", "Three."]) as provider:
        env = {**provider.environment, "TOOLBUS_MODEL": "openai:gpt-5"}
        chat(folder, **env)
        chat(folder, "--model", f"{provider.url}/v1#mine:7b", **env)
        # Without a name it is the first that the server lists.
        chat(folder, "--model", f"{provider.url}/v1", **env)
    told = [(asked.wire, asked.model) for asked in provider.asked]
    assert told == [("responses", "gpt-5"), ("chat", "mine:7b"), ("chat", "scripted")]
    assert provider.asked[1].headers["authorization"] != f"Bearer {env['OPENAI_API_KEY']}"


def test_a_model_that_cannot_be_used_is_one_line_without_a_password(folder: Path) -> None:
    for model in ("nobody:knows", "openai:gpt-5.1", "http://me:hunter22@127.0.0.1:9/v1"):
        done = chat(folder, "--model", model)
        assert (done.returncode, done.stdout) == (1, "")
        (line,) = done.stderr.splitlines()
        assert line.startswith("toolbus: model ")
        assert "hunter22" not in line


def test_a_local_server_is_found_and_the_first_model_that_can_talk_taken() -> None:
    models = {"data": [{"id": "nomic-embed-text"}, {"id": "qwen3:8b"}, {"id": "llama"}]}
    with (
        listing(b"<html>") as page,
        listing(b'{"data": [{"id": 5}, {}]}') as odd,
        listing(json.dumps(models).encode()) as first,
        Provider(["unused"]) as provider,
    ):
        places = {"page": page, "odd": odd, "first": first, "second": f"{provider.url}/v1"}
        assert find_local_model(places) == f"{first}#qwen3:8b"
        assert find_local_model({"second": f"{provider.url}/v1"}) == f"{provider.url}/v1#scripted"
        assert find_local_model({"page": page, "odd": odd}) is None


def test_a_server_that_accepts_and_says_nothing_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        assert find_local_model({"silent": f"http://127.0.0.1:{silent.getsockname()[1]}/v1"}) is None
        assert SEARCH_SECONDS * 0.9 < time.monotonic() - began < SEARCH_SECONDS + 30


def test_every_model_of_the_table_is_one_that_pydantic_ai_knows() -> None:
    known = typing.get_args(KnownModelName.__value__)
    assert [model for model in KEYS.values() if model not in known] == []
