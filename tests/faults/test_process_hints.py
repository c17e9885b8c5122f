"""A server that misses a variable, a proxy or a file gets it, or its error says how to provide it."""

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import SERVERS
from tests.inside.connect import missing_variables
from toolbus import Toolbus

pytestmark = pytest.mark.anyio

SECRET = "ghp-hunter2-hunter2"
PYDANTIC = "1 validation error for Settings\\ngithub_token\\n  Field required [type=missing]"
COMPLAINTS = {
    "KeyError": "import os; os.environ['GITHUB_TOKEN']",
    "sentence": "raise SystemExit('GITHUB_TOKEN is not set')",
    "variable": "raise SystemExit('Error: environment variable GITHUB_TOKEN required')",
    "pydantic": f"raise SystemExit('{PYDANTIC}')",
}
PASS_IT = (
    "; GITHUB_TOKEN is set here but was not passed to the server; "
    "add inherit_env: [GITHUB_TOKEN] to the config"
)


async def error_of(config: dict[str, Any] | Path) -> str:
    """The reason why the server 'a' is down."""
    async with Toolbus(config) as bus:
        return bus.servers["a"].error or "it is up"


def python(code: str, **more: Any) -> dict[str, Any]:
    return {"servers": {"a": {"command": sys.executable, "args": ["-c", code], **more}}}


@pytest.mark.parametrize("code", COMPLAINTS.values(), ids=COMPLAINTS)
async def test_a_variable_that_was_withheld_is_named_with_the_setting_that_passes_it(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", SECRET)
    told = await error_of(python(code))
    assert told.endswith(PASS_IT)
    assert SECRET not in told
    assert "[HOME_PORT, GITHUB_TOKEN]" in await error_of(python(code, inherit_env=["HOME_PORT"]))


async def test_a_variable_that_was_passed_or_is_nowhere_is_not_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    assert "inherit_env" not in await error_of(python(COMPLAINTS["sentence"]))
    monkeypatch.setenv("GITHUB_TOKEN", SECRET)
    for more in ({"inherit_env": "all"}, {"env": {"GITHUB_TOKEN": ""}}):
        assert "inherit_env" not in await error_of(python(COMPLAINTS["sentence"], **more))


def test_a_variable_that_is_only_mentioned_is_not_offered() -> None:
    assert missing_variables(["editing with EDITOR", "", "bye"], {"EDITOR"}) == []
    assert missing_variables(["EDITOR is not set", "DISPLAY: missing"], {"EDITOR", "DISPLAY"}) == [
        "EDITOR",
        "DISPLAY",
    ]


async def test_proxies_reach_a_server_and_their_passwords_no_error_or_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:{SECRET}@proxy.example:3128")
    monkeypatch.setenv("no_proxy", "localhost")
    names = ("HTTPS_PROXY", "no_proxy")
    shown = await error_of(
        python(f"import os; raise SystemExit('error: ' + str([os.getenv(n) for n in {names}]))")
    )
    assert "on stderr: error: ['http://***@proxy.example:3128', 'localhost']" in shown
    assert SECRET not in caplog.text
    bare = python("import os; raise SystemExit(os.getenv('HTTPS_PROXY'))", inherit_env="none")
    assert "proxy.example" not in await error_of(bare)


async def test_a_tilde_in_command_and_cwd_is_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    program = tmp_path / "bin" / "serve"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "{SERVERS}/plain.py"\n')
    program.chmod(0o755)
    async with Toolbus({"servers": {"a": {"command": "~/bin/serve", "cwd": "~/bin"}}}) as bus:
        assert bus.catalog.names == ("a_echo",)


@pytest.mark.parametrize("words", [[sys.executable, "serve.py"], ["./serve.py"]], ids=["argument", "command"])
async def test_a_file_beside_the_config_but_not_where_the_server_runs_is_pointed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    script = tmp_path / "serve.py"
    plain = str(SERVERS / "plain.py")
    script.write_text(f"#!{sys.executable}\nimport runpy\nrunpy.run_path({plain!r}, run_name='__main__')\n")
    script.chmod(0o755)
    config = tmp_path / "toolbus.yaml"
    config.write_text(yaml.safe_dump({"servers": {"a": {"command": words}}}))
    told = f"; {words[-1]!r} is not in {str(tmp_path / 'here')!r} but next to the config; set cwd: ."
    assert (await error_of(config)).endswith(told)
    config.write_text(yaml.safe_dump({"servers": {"a": {"command": words, "cwd": "."}}}))
    assert await error_of(config) == "it is up"
