"""`up`, `down` and `status`: how a background bus begins, what it says of itself, and how it ends."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import warm
from tests.background.holding import asking_entry, background, called, everyday_entry, is_running, status
from tests.cli.running import environment, living_at, toolbus, write_config
from tests.conftest import plain
from tests.patience import PATIENCE, wait_until


@pytest.fixture
def detached(folder: Path) -> Iterator[Path]:
    """A folder with a background bus, as `toolbus up` leaves it."""
    run = toolbus("up", folder=folder)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "every  ready  2026-07-28 (modern)  16 tools\n"
    assert "1 server with 16 tools in the background (pid " in run.stderr
    yield folder
    toolbus("down", folder=folder)
    wait_until(lambda: not living_at(folder.parent), "something is left behind")


def test_servers_keep_their_state_between_calls(detached: Path) -> None:
    first = called(detached, "every_process")
    assert called(detached, "every_grow", "name=grown")
    wait_until(lambda: "every_grown" in toolbus("tools", folder=detached).stdout)
    assert called(detached, "every_process") == first
    own = called(detached, "every_process", "--no-up")
    assert own != first
    facts = status(detached)
    assert (facts["running"], facts["calls"] >= 3, facts["commands"]) == (True, True, 0)
    assert facts["servers"]["every"]["state"] == "ready"
    assert facts["folder"] == str(detached)
    run = toolbus("down", folder=detached)
    assert (run.returncode, run.stdout) == (0, "stopped the background bus for toolbus.yaml\n")
    wait_until(lambda: not is_running(facts["pid"]), "it is still there")
    wait_until(lambda: not is_running(int(first)), "the server is still there")
    assert called(detached, "every_process") != first


def test_a_real_program_uses_it_too(detached: Path) -> None:
    """The command is not forked from a process that has made the imports."""
    run = toolbus("call", "every_process", folder=detached, cold=True)
    assert run.stdout.strip() == called(detached, "every_process"), run.stderr
    module = [sys.executable, "-m", "toolbus", "call", "every_process"]
    seen = environment(detached.parent)
    again = subprocess.run(
        module, cwd=detached, env=seen, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert again.stdout == run.stdout


def test_it_is_private(detached: Path) -> None:
    (socket,) = (detached.parent / ".state/toolbus/run").glob("*.sock")
    assert socket.stat().st_mode & 0o777 == 0o600
    assert socket.parent.stat().st_mode & 0o777 == 0o700
    assert Path(status(detached)["log"]).stat().st_mode & 0o777 == 0o600


def test_after_sigkill_nothing_is_left_and_the_next_command_works(detached: Path) -> None:
    server, facts = int(called(detached, "every_process")), status(detached)
    os.kill(facts["pid"], signal.SIGKILL)
    wait_until(lambda: not is_running(server), "the server outlives it")
    run = toolbus("call", "every_echo", "text=on", folder=detached)
    assert (run.returncode, run.stdout) == (0, "on\n")
    assert run.stderr.startswith("toolbus: the background bus has ended unexpectedly; start it again with")
    again = toolbus("call", "every_echo", "text=on", folder=detached)
    assert (again.stdout, again.stderr) == ("on\n", ""), "it is said once"
    assert toolbus("up", folder=detached).returncode == 0
    assert status(detached)["pid"] != facts["pid"]


def test_up_again_says_that_it_runs(detached: Path) -> None:
    facts = status(detached)
    run = toolbus("up", folder=detached)
    assert run.returncode == 0
    assert f"(pid {facts['pid']})" in run.stdout
    assert "already running" in run.stderr
    assert json.loads(toolbus("up", "--json", folder=detached).stdout)["started"] is False


def test_of_two_that_start_at_once_one_runs(folder: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        starts = [pool.submit(toolbus, "up", "--json", folder=folder) for _ in range(2)]
        runs = [start.result() for start in starts]
    try:
        assert sorted(run.returncode for run in runs) in ([0, 0], [0, 1])
        started = [run for run in runs if '"started": true' in run.stdout]
        assert len(started) == 1
        for run in runs:
            if run.returncode:
                assert "starting or running" in run.stderr
    finally:
        toolbus("down", folder=folder)


def test_two_configs_each_have_their_own(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        write_config(folder, {"every": everyday_entry()})
    with background(folders[0]), background(folders[1]):
        processes = [called(folder, "every_process") for folder in folders]
        assert processes[0] != processes[1]
        assert [called(folder, "every_process") for folder in folders] == processes
        named = called(folders[0], "--config", str(folders[1] / "toolbus.yaml"), "every_process")
        assert named == processes[1]


def test_status_and_down_without_one(folder: Path) -> None:
    run = toolbus("status", folder=folder)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == "no background bus for toolbus.yaml; start one with 'toolbus up'\n"
    assert status(folder) == {"running": False, "config": str(folder / "toolbus.yaml")}
    run = toolbus("down", folder=folder)
    assert (run.returncode, run.stderr) == (0, "no background bus for toolbus.yaml is running\n")


def test_down_works_when_the_config_is_broken_or_gone(folder: Path) -> None:
    file = folder / "toolbus.yaml"
    with background(folder) as held:
        file.unlink()
        assert toolbus("status", "--config", "toolbus.yaml", folder=folder).returncode == 0
        assert toolbus("down", "--config", "toolbus.yaml", folder=folder).returncode == 0
        assert held.ended() == 0


def test_down_lets_commands_end(folder: Path) -> None:
    with background(folder) as held:
        nothing = os.open(os.devnull, os.O_RDWR)
        output, writer = os.pipe()
        words = ["call", "every_meet", "mine=call", "other=down"]
        call = warm.Running("toolbus", words, folder, environment(folder.parent), (nothing, writer, nothing))
        os.close(writer)
        wait_until(lambda: status(folder)["commands"] == 1, "the call did not begin")
        other = _last_client(folder)
        with ThreadPoolExecutor(1) as pool:
            down = pool.submit(toolbus, "down", folder=folder)
            # It takes no new commands, but this one was there before.
            wait_until(lambda: not list((folder.parent / ".state/toolbus/run").glob("*.sock")), "it stays")
            assert other.wait(PATIENCE) == 0
            assert call.wait(PATIENCE) == 0
            assert down.result().returncode == 0
        with open(output) as printed:
            assert printed.read() == "call met down\n"
        assert held.ended() == 0
        os.close(nothing)


def _last_client(folder: Path) -> warm.Running:
    """A command that waits for its input, and makes the call of the other one end."""
    reader, typing = os.pipe()
    nothing = os.open(os.devnull, os.O_RDWR)
    words = ["call", "every_meet", "-"]
    client = warm.Running("toolbus", words, folder, environment(folder.parent), (reader, nothing, nothing))
    os.close(reader)
    wait_until(lambda: status(folder)["commands"] == 2, "the second command did not begin")
    os.write(typing, b'{"mine": "down", "other": "call"}')
    os.close(typing)
    os.close(nothing)
    return client


def test_it_ends_when_it_is_idle(folder: Path) -> None:
    with background(folder, "--idle", "0.5s") as held:
        assert held.ended() == 0
        assert "no command for 0.5 s" in held.log
    assert status(folder)["running"] is False
    wrong = toolbus("up", "--idle", "soon", folder=folder)
    assert (wrong.returncode, "is not a time such as 30s, 5m, 2h or 1d" in wrong.stderr) == (2, True)


def test_it_follows_a_config_that_is_trusted_and_keeps_the_old_one_otherwise(folder: Path) -> None:
    with background(folder) as held:
        process = called(folder, "every_process")
        file = folder / "toolbus.yaml"
        file.write_text(json.dumps({"servers": {"every": everyday_entry(), "more": everyday_entry()}}))
        held.until("not reloaded")
        run = toolbus("call", "every_process", folder=folder)
        assert run.stdout.strip() == process
        assert "the config has changed, but is not in use: " in run.stderr
        assert "has changed since you trusted it" in status(folder)["config_problem"]
        assert "is not in use" in toolbus("status", folder=folder).stdout
        assert toolbus("trust", "--yes", folder=folder).returncode == 0
        held.until("reloaded\n")
        wait_until(lambda: status(folder)["config_problem"] is None, "it was not taken over")
        assert called(folder, "more_echo", "text=new") == "new"
        assert called(folder, "every_process") == process, "a server that is the same goes on"
        file.write_text("servers: [")
        wait_until(lambda: status(folder)["config_problem"] is not None, "it was not noticed")
        assert called(folder, "every_process") == process


def test_it_ends_when_its_socket_is_removed(folder: Path) -> None:
    """As at the end of a login session: nobody could reach or stop it any more."""
    with background(folder) as held:
        server = int(called(folder, "every_process"))
        (socket,) = (folder.parent / ".state/toolbus/run").glob("*.sock")
        socket.unlink()
        socket.touch()  # that of another bus, say
        assert held.ended() == 0
        assert f"its socket {socket} was removed" in held.log
        assert (is_running(server), socket.exists()) == (False, True)


def test_a_command_uses_a_config_that_has_just_changed(folder: Path) -> None:
    """As `toolbus add` suggests it: the server that was added can be used at once."""
    with background(folder):
        for alias in ("more", "again"):
            added = toolbus(
                "add", alias, "--", everyday_entry()["command"], *everyday_entry()["args"], folder=folder
            )
            assert added.returncode == 0, added.stderr
            run = toolbus("tools", alias, folder=folder)
            assert run.stdout.startswith(f"{alias}  ready  "), run.stderr
        (folder / "toolbus.yaml").write_text("servers: [")
        run = toolbus("call", "every_echo", "text=on", folder=folder)
        assert (run.returncode, run.stdout) == (0, "on\n")
        assert run.stderr.startswith("toolbus: the config has changed, but is not in use: ")


def test_servers_run_where_up_was_run_and_that_is_said(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    file = str(folder / "toolbus.yaml")
    with background(folder, "--config", "toolbus.yaml"):
        here = toolbus("call", "every_echo", "text=a", "--config", "toolbus.yaml", folder=folder)
        assert (here.stdout, here.stderr) == ("a\n", "")
        there = toolbus("call", "every_echo", "text=a", "--config", file, folder=elsewhere)
        assert there.stdout == "a\n"
        up = f"toolbus up --config {file}"
        assert there.stderr == f"toolbus: every: run in {folder}, where '{up}' was run, not in {elsewhere}\n"
    # One that is found runs its servers in its own folder, wherever a command is given.
    below = folder / "below"
    below.mkdir()
    with background(folder):
        run = toolbus("call", "every_echo", "text=a", folder=below, env=_home(folder))
        assert (run.stdout, run.stderr) == ("a\n", "")


def _home(folder: Path) -> dict[str, str]:
    seen = environment(folder.parent)
    return {name: seen[name] for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}


OTHER_VERSION = """
import sys
from toolbus.background import client
client.version = lambda: "9.9"
sys.argv = ["toolbus", *sys.argv[1:]]
from toolbus.cli.entry import main
main()
"""


def test_another_version_runs_by_itself_and_says_so(folder: Path) -> None:
    with background(folder):
        process = called(folder, "every_process")
        seen = environment(folder.parent)
        run = warm.run("python", ["-c", OTHER_VERSION, "call", "every_process"], folder, seen, "", PATIENCE)
        assert run.returncode == 0, run.stderr
        assert run.stdout.strip() != process
        assert run.stderr == (
            "toolbus: the background bus runs toolbus 0.1.0, and this is 9.9; restart it with 'toolbus down' "
            "and 'toolbus up'; this command runs without it\n"
        )


def test_a_server_that_is_down_does_not_keep_it_from_starting(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    broken = {"command": sys.executable, "args": ["-c", "raise SystemExit('no luck')"], "required": True}
    write_config(
        folder, {"every": everyday_entry(), "broken": broken, "later": {**everyday_entry(), "lazy": True}}
    )
    with background(folder) as held:
        assert "no luck" in held.log
        here = f"here (pid {held.process.pid}), for 'toolbus call' and others; Ctrl-C or 'toolbus down' stops"
        assert f"2 of 3 servers with 32 tools {here} it\n" in held.log
        facts = status(folder)
        states = {alias: server["state"] for alias, server in facts["servers"].items()}
        assert states == {"every": "ready", "broken": "failed", "later": "ready"}
        assert called(folder, "later_echo", "text=now") == "now"
        assert status(folder)["servers"]["later"]["state"] == "ready"
        assert "no luck" in toolbus("tools", folder=folder).stdout


def test_what_keeps_it_from_starting_is_reported(folder: Path) -> None:
    (folder / "toolbus.yaml").write_text(
        json.dumps({"servers": {"every": {**everyday_entry(), "nonsense": 1}}})
    )
    run = toolbus("up", "--config", "toolbus.yaml", folder=folder)
    assert run.returncode == 2
    assert "nonsense" in run.stderr
    # Where its socket should be is a file.
    write_config(folder, {"every": everyday_entry()})
    state = folder.parent / ".state" / "toolbus"
    (state / "run").write_text("")
    run = toolbus("up", folder=folder)
    assert run.returncode == 1
    assert run.stderr.startswith("toolbus: the background bus did not start: ")
    assert "its log is" in run.stderr
    assert not living_at(folder.parent)


def test_without_a_state_folder_it_says_what_to_set(folder: Path) -> None:
    nowhere = {"XDG_STATE_HOME": "/dev/null/none"}
    run = toolbus("up", "--config", "toolbus.yaml", folder=folder, env=nowhere)
    assert run.returncode == 1
    assert run.stderr == (
        "toolbus: the background bus cannot keep its log in /dev/null/none/toolbus/background (Not a "
        "directory); set XDG_STATE_HOME to a folder in which you can write\n"
    )


def test_in_the_foreground_json_is_one_document_per_line(folder: Path) -> None:
    nothing, (reader, writer) = os.open(os.devnull, os.O_RDWR), os.pipe()
    words, seen = ["up", "--foreground", "--json", "--idle", "0.1"], environment(folder.parent)
    process = warm.Running("toolbus", words, folder, seen, (nothing, writer, nothing))
    os.close(nothing)
    os.close(writer)
    with open(reader) as lines:
        events = [json.loads(line) for line in lines]
    assert process.wait(PATIENCE) == 0
    assert [event["event"] for event in events] == ["Noted", "Started", "Noted", "Noted"]
    assert events[1]["servers"]["every"]["state"] == "ready"


def test_secrets_and_variables_are_those_of_up(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    write_config(folder, {"every": {**everyday_entry(), "env": {"TOKEN": "${TOKEN}"}}})
    with background(folder, env={"TOKEN": "of up"}):
        run = toolbus("call", "every_environment", "name=TOKEN", folder=folder, env={"TOKEN": "mine"})
        assert run.stdout == "***\n" or run.stdout == "of up\n"
        assert "mine" not in run.stdout


def test_check_reports_what_happened_when_the_servers_started(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    servers = {name: plain(name) for name in ("talk", "bad_tools", "exit_at_once")}
    write_config(folder, {"inn": asking_entry(), **servers})
    by_itself = toolbus("check", "--json", "--no-up", folder=folder)
    with background(folder):
        run = toolbus("check", "--json", folder=folder)
        assert run.returncode == by_itself.returncode, run.stderr
        found, expected = json.loads(run.stdout), json.loads(by_itself.stdout)
        for report in (*found["servers"].values(), *expected["servers"].values()):
            assert (report.pop("latency_ms") is None) is (report["state"] != "ready")
            for step in report["steps"]:
                step["outcome"] = step["outcome"].partition(", ")[0]  # when that was
        assert found == expected
