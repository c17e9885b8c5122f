"""`--log-format json`: one object per line on stderr, and nothing else."""

import json
import logging
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from tests import warm
from tests.cli.running import environment, toolbus, write_config
from tests.gateway.serving import wait_until
from tests.inside.cli import JsonFormatter
from tests.inside.config import Redactor
from tests.patience import PATIENCE

NOTES: dict[str, Any] = {"command": "python", "args": ["-m", "toolbus.demo.notes"]}
BROKEN = {"command": "no-such-program", "env": {"TOKEN": "s3cr3t-t0ken"}}


@contextmanager
def logged(folder: Path, *words: str, **env: str) -> Generator[Path]:
    """A service with its stderr in a file; it is ended by SIGTERM."""
    log = folder / "log"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [str(warm.folder() / "toolbus"), *words],
            env=environment(folder.parent, TOOLBUS_TRUST="1", **env),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
        )
    try:
        wait_until(
            lambda: "serving" in log.read_text() or "tools here" in log.read_text(), process, "toolbus", log
        )
        yield log
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def lines(log: Path) -> list[dict[str, Any]]:
    """Every line, each of them an object."""
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("by_variable", [True, False])
def test_a_gateway_logs_objects_alone(tmp_path: Path, by_variable: bool) -> None:
    write_config(tmp_path, {"notes": NOTES, "broken": BROKEN}, serve={"http": "127.0.0.1:0"})
    option, env = ([], {"TOOLBUS_LOG_FORMAT": "json"}) if by_variable else (["--log-format", "json"], {})
    with logged(tmp_path, "serve", *option, **env) as log:
        found = lines(log)
    for line in found:
        assert {"time", "level", "logger", "message"} <= line.keys()
        assert line["time"].endswith("Z")
    troubles = [line for line in found if line.get("about") == "broken"]
    assert troubles
    assert troubles[0]["level"] in ("warning", "error")
    assert "no-such-program" in troubles[0]["message"]
    assert any(line["message"].startswith("serving http://127.0.0.1:") for line in found)
    assert "s3cr3t-t0ken" not in log.read_text()


def test_the_background_bus_in_the_foreground(tmp_path: Path) -> None:
    write_config(tmp_path, {"notes": NOTES})
    with logged(tmp_path, "up", "--foreground", "--log-format", "json") as log:
        assert any("for 'toolbus call'" in text for text in log.read_text().splitlines())
    refused = toolbus("up", "--log-format", "json", folder=tmp_path)
    assert refused.returncode == 2
    assert "TOOLBUS_LOG_FORMAT" in refused.stderr


def test_an_error_is_a_line_of_the_log(tmp_path: Path) -> None:
    for words in (["serve", "--config", "gone.yaml"], ["runs", "worker", "no_such_module:agent"]):
        done = toolbus(*words, "--log-format", "json", folder=tmp_path)
        assert done.returncode in (1, 2)
        [line] = [json.loads(line) for line in done.stderr.splitlines()]
        assert line["level"] == "error"
        assert "gone.yaml" in line["message"] or "no_such_module" in line["message"]
    write_config(tmp_path, {"notes": NOTES})
    bad = toolbus("serve", folder=tmp_path, env={"TOOLBUS_LOG_FORMAT": "xml"})
    assert bad.returncode == 2
    assert "expected text or json" in bad.stderr


def record(message: str, **more: Any) -> logging.LogRecord:
    return logging.LogRecord("toolbus.x", logging.WARNING, __file__, 1, message, None, more.get("exc_info"))


def test_a_line_cannot_be_forged_and_has_no_secret() -> None:
    redactor = Redactor(["hunter2-hunter2"])
    text = 'a\n{"level": "info"}\u202e \x1b[2J hunter2-hunter2 \ud800'
    line = JsonFormatter().format(record(text))
    assert "\n" not in line
    assert line.isascii()
    assert json.loads(line)["level"] == "warning"
    assert "hunter2" not in line
    assert "\x1b" not in json.loads(line)["message"]
    assert redactor.has_secrets
    try:
        raise ValueError("hunter2-hunter2")
    except ValueError as error:
        failed = json.loads(JsonFormatter().format(record("failed", exc_info=(type(error), error, None))))
    assert "ValueError" in failed["error"]
    assert "hunter2" not in failed["error"]


def test_a_line_within_a_trace_has_its_id() -> None:
    assert "trace_id" not in json.loads(JsonFormatter().format(record("outside")))
    with TracerProvider().get_tracer("test").start_as_current_span("call") as span:
        line = json.loads(JsonFormatter().format(record("inside")))
    assert line["trace_id"] == trace.format_trace_id(span.get_span_context().trace_id)
