"""`toolbus login`, `logins` and `logout` with a real authorization server, and what other commands say."""

import json
import os
import re
import signal
import socket
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.auth.authorization_server import AuthorizationServer, authorization_server
from tests.auth.clients import CLIENTS, SECRET
from tests.auth.pages import walk
from tests.auth.resource_server import ResourceServer, resource_server
from tests.cli.running import environment, toolbus, write_config
from tests.cli.tab import printed
from tests.cli.terminal import Terminal, terminal
from tests.interop.servers import require_installed
from tests.patience import PATIENCE
from tests.processes import keeping
from tests.wire import Provider, Say, ToolCall

require_installed("oauth")

ROOT = Path(__file__).resolve().parents[2]
PROMPT = "> "
DONE = "signed in to linear"


@pytest.fixture(scope="module")
def _servers(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[AuthorizationServer, ResourceServer]]:
    with ExitStack() as stack:
        with keeping():
            issuing = stack.enter_context(authorization_server(clients=CLIENTS))
            folder = tmp_path_factory.mktemp("resource")
            server = stack.enter_context(resource_server(issuing.issuer, folder))
        yield issuing, server


@pytest.fixture
def authority(_servers: tuple[AuthorizationServer, ResourceServer]) -> AuthorizationServer:
    _servers[0].reset()
    return _servers[0]


@pytest.fixture
def folder(_servers: tuple[AuthorizationServer, ResourceServer], tmp_path: Path) -> Path:
    """A folder with a config of one server that wants somebody to sign in."""
    _servers[0].reset()
    folder = tmp_path / "work"
    folder.mkdir()
    write_config(folder, {"linear": {"url": _servers[1].url, "auth": "oauth"}})
    return folder


def change(folder: Path, alias: str = "linear", **entry: Any) -> None:
    """Set these keys of a server's entry, or remove those that are None."""
    servers = json.loads((folder / "toolbus.yaml").read_text())["servers"]
    known = servers.get(alias, {"url": servers["linear"]["url"]})
    servers[alias] = {key: value for key, value in {**known, **entry}.items() if value is not None}
    write_config(folder, servers)


def browser(folder: Path, user: str = "ann") -> dict[str, str]:
    """An environment with a browser in which that user signs in; it prints as browsers do."""
    program = folder.parent / "browser"
    program.write_text(
        f"#!{warm.python()}\n"
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.auth.pages import walk\n"
        "print('Opening in existing browser session.', flush=True)\n"
        f"open({str(program) + '.log'!r}, 'a').write(sys.argv[1] + chr(10))\n"
        f"walk(sys.argv[1], {user!r})\n"
    )
    program.chmod(0o755)
    return {"BROWSER": str(program)}


def opened(folder: Path) -> list[str]:
    """The URLs that were opened in that browser."""
    log = folder.parent / "browser.log"
    return log.read_text().splitlines() if log.exists() else []


def url_in(text: str) -> str:
    """The URL that has a line of its own."""
    [url] = re.findall(r"^(https?://\S+)\r?$", text, re.MULTILINE)
    return url


def shown_url(screen: Terminal) -> str:
    """The URL that the prompt for a sign-in shows; it waits then."""
    return url_in(screen.until("waiting for the browser", f"cancel)\r\n{PROMPT}"))


def signed_in_at(url: str, user: str = "ann") -> str:
    """Sign in elsewhere; returns the URL that the browser there cannot open."""
    [callback] = re.findall(r"redirect_uri=(http[^&]+)", url)
    back = walk(url, user, callback.replace("%3A", ":").replace("%2F", "/"))
    assert back is not None
    return back


def no_token_in(text: str, authority: AuthorizationServer) -> None:
    assert not [secret for secret in authority.secrets() if secret in text]


@contextmanager
def prompt(folder: Path, *words: str, **options: Any) -> Generator[tuple[Terminal, str]]:
    """`toolbus login` on a terminal, waiting; and the URL that it shows."""
    with terminal("login", "linear", *words, folder=folder, **options) as screen:
        yield screen, shown_url(screen)


@contextmanager
def piped(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> Generator[tuple[Any, ...]]:
    """A command with pipes: its input, output, errors, and the process."""
    (its_in, keys), (out, its_out), (err, its_err) = os.pipe(), os.pipe(), os.pipe()
    seen = environment(folder.parent, **(env or {}))
    process = warm.Running("toolbus", words, folder, seen, (its_in, its_out, its_err))
    for its in (its_in, its_out, its_err):
        os.close(its)
    with open(keys, "w", buffering=1) as typed, open(out) as output, open(err) as errors:
        try:
            yield typed, output, errors, process
        finally:
            process.kill()


def test_the_browser_is_opened_and_comes_back_by_itself(folder: Path, authority: AuthorizationServer) -> None:
    done = toolbus("login", "linear", folder=folder, env=browser(folder))
    place = folder.parent / ".state" / "toolbus" / "tokens"
    assert re.fullmatch(
        rf"signed in to linear until [-0-9: ]+ \(renewed automatically\); tokens are in {place}\n",
        done.stdout,
    )
    assert (done.returncode, opened(folder)) == (0, [url_in(done.stderr)])
    assert "opening your browser to sign in to linear; if it does not open, visit:" in done.stderr
    assert toolbus("call", "linear_whoami", folder=folder).stdout == "ann\n"
    no_token_in(done.stdout + done.stderr, authority)


def test_json_is_one_document_and_the_url_goes_to_stderr(
    folder: Path, authority: AuthorizationServer
) -> None:
    done = toolbus("login", "linear", "--user", "ann", "--json", folder=folder, env=browser(folder))
    document = json.loads(done.stdout)
    assert document.pop("expires_at") > 0
    assert document == {
        "server": "linear",
        "user": "ann",
        "issuer": authority.issuer,
        "scopes": ["tools"],
        "can_refresh": True,
        "tokens": str(folder.parent / ".state" / "toolbus" / "tokens"),
    }
    assert opened(folder) == [url_in(done.stderr)]
    no_token_in(done.stdout + done.stderr, authority)


def test_without_a_browser_the_url_is_pasted_after_mistakes(
    folder: Path, authority: AuthorizationServer
) -> None:
    with prompt(folder, "--no-browser", "--user", "ann", env=browser(folder)) as (screen, url):
        assert "to sign in to linear as ann, open this URL in a browser:" in screen.plain
        back = signed_in_at(url)
        for wrong, why in {
            "no code": "that is not a URL; expected the URL of the page you end on; try again",
            "https://evil.example/callback?code=1": "that is a page of evil.example; the one you end on "
            f"begins with {back.partition('?')[0]}",
            back.replace("state=", "state=x"): "that URL belongs to another attempt",
            "?error=access_denied&error_description=No%1b]0;x%07!&"
            + back.partition("&")[2]: "the sign-in was refused: No",
        }.items():
            screen.press(f"{wrong}\r")
            assert why in " ".join(screen.until("try again", PROMPT).split())
        screen.press(f"{back}\r")
        screen.until("signed in to linear as ann until ", "(renewed automatically); tokens are in ")
        assert (screen.ended(), opened(folder)) == (0, [])
        assert "\x1b]0;x" not in screen.raw
    assert toolbus("login", folder=folder).stdout.splitlines()[1].split()[:2] == ["linear", "ann"]


def test_a_pasted_url_may_be_longer_than_the_line_of_a_terminal(folder: Path) -> None:
    with prompt(folder) as (screen, url):
        back = signed_in_at(url)
        screen.press(f"{back}&session_state={'a' * 6000}")
        screen.until("a" * 6000)
        screen.press("zz\x7f\x7f\r")
        screen.until(DONE)
        assert screen.ended() == 0


def test_only_the_query_is_pasted(folder: Path) -> None:
    with prompt(folder) as (screen, url):
        screen.press(f"{signed_in_at(url).partition('?')[2]}\r")
        screen.until(DONE)
        assert screen.ended() == 0


def test_a_code_alone_is_asked_for_again_where_the_issuer_has_to_be_named(folder: Path) -> None:
    with prompt(folder) as (screen, url):
        assert "or the code" not in screen.plain
        back = signed_in_at(url)
        for wrong, why in {
            re.findall("code=([^&]+)", back)[
                0
            ]: "a code alone does not say who issued it; paste the whole URL",
            back.partition("&iss=")[
                0
            ]: "that URL does not say who issued the code (iss); paste the whole URL",
        }.items():
            screen.press(f"{wrong}\r")
            assert why in " ".join(screen.until("try again", PROMPT).split())
        screen.press(f"{back}\r")
        screen.until(DONE)
        assert screen.ended() == 0


def test_the_url_is_one_unbroken_line_on_a_narrow_terminal(folder: Path) -> None:
    with prompt(folder, width=40) as (screen, url):
        assert "code_challenge_method=S256" in url
        assert f"\n{url}\r\n" in screen.raw
        screen.press("\x03")
        assert screen.ended() == 1


@pytest.mark.parametrize("key", ["\x03", "\x04"], ids=["ctrl-c", "ctrl-d"])
def test_a_key_ends_it_with_one_line(folder: Path, key: str) -> None:
    with prompt(folder, "--user", "ann") as (screen, _):
        screen.press(key)
        assert screen.ended() == 1
        assert "Traceback" not in screen.plain
        assert screen.plain.splitlines()[-1] == "toolbus: the sign-in to linear as ann was cancelled"
        assert screen.shows_cursor


def test_the_browser_of_another_window_ends_the_prompt(folder: Path) -> None:
    with prompt(folder) as (screen, url):
        assert walk(url, "ann") is None  # it opens the callback itself
        screen.until(DONE)
        assert screen.ended() == 0


def test_in_json_mode_the_url_is_pasted_to_stdin(folder: Path) -> None:
    with piped(folder, "login", "linear", "--no-browser", "--json") as (typed, output, errors, process):
        said = errors.readline() + errors.readline()
        back = signed_in_at(url_in(said))
        typed.write("nonsense with spaces\n")
        assert "waiting for the browser to come back" in errors.readline()
        assert errors.readline().startswith("that is not a URL; ")
        typed.write(f"{back}\n")
        assert json.loads(output.read())["server"] == "linear"
        assert process.wait(PATIENCE) == 0


def test_without_input_it_waits_for_the_browser(folder: Path) -> None:
    with piped(folder, "login", "linear", "--no-browser") as (typed, output, errors, process):
        typed.close()
        url = url_in(errors.readline() + errors.readline())
        assert walk(url, "ann") is None
        assert output.read().startswith(DONE)
        assert process.wait(PATIENCE) == 0


def test_the_device_flow_shows_a_code_and_waits(folder: Path) -> None:
    with terminal("login", "linear", "--device", "--no-browser", folder=folder) as screen:
        said = screen.until(
            "to sign in to linear, open this URL on any device:", "waiting until you have signed in"
        )
        assert re.search(r"enter the code [A-Z-]+ there", said)
        walk(url_in(said), "ann")
        screen.until(DONE)
        assert screen.ended() == 0


def test_ctrl_c_ends_the_device_flow(folder: Path) -> None:
    with terminal("login", "linear", "--device", "--no-browser", folder=folder) as screen:
        screen.until("waiting until you have signed in", "(Ctrl-C to cancel)")
        screen.press("\x03")
        screen.until("toolbus: the sign-in to linear was cancelled\r\n")
        assert screen.ended() == 1


def test_other_scopes_are_requested(folder: Path) -> None:
    with prompt(folder, "--scopes", "tools admin") as (screen, url):
        assert "scope=tools+admin" in url
        screen.press(f"{signed_in_at(url)}\r")
        screen.until(DONE)
        assert screen.ended() == 0
    assert "tools admin" in toolbus("login", folder=folder).stdout


def test_a_callback_port_that_is_taken(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        callback = f"http://127.0.0.1:{taken.getsockname()[1]}/callback"
        change(folder, auth={"type": "oauth", "callback": callback})
        done = toolbus("login", "linear", folder=folder)
    assert done.returncode == 1
    assert f"sign-in failed: cannot listen at {callback}: another program uses" in done.stderr
    assert done.stderr.endswith("; set another callback in auth\n")


CANNOT: dict[str, tuple[dict[str, Any], int, str]] = {
    "has no auth": (
        {"auth": None},
        1,
        "server 'linear' has no auth: oauth in toolbus.yaml: add it next to its url",
    ),
    "has a token": ({"auth": "token"}, 1, "server 'linear' has its credentials in the config"),
    "is a process": ({"url": None, "auth": None, "command": "x"}, 1, "server 'linear' is a process"),
    "is unknown": ({}, 2, "server 'liner': unknown server; did you mean 'linear'?"),
}


@pytest.mark.parametrize("case", CANNOT)
def test_nobody_can_sign_in_to_a_server_that(folder: Path, case: str) -> None:
    entry, code, message = CANNOT[case]
    change(folder, **entry)
    done = toolbus("login", "liner" if case == "is unknown" else "linear", folder=folder)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(f"toolbus: {message}")
    if case == "has no auth":
        assert done.stderr.splitlines()[1:] == ["    auth: oauth"]


def test_a_program_with_its_own_identity_signs_in_by_itself(folder: Path) -> None:
    change(folder, auth={"type": "client_credentials", "client_id": "bot", "client_secret": SECRET})
    done = toolbus("login", "linear", folder=folder)
    assert (done.returncode, done.stdout) == (0, "server 'linear' signs in by itself; nothing to do\n")
    assert toolbus("login", folder=folder).stdout.splitlines()[1] == "linear        signs in by itself"


def test_logins_are_listed_without_tokens_and_signed_out(
    folder: Path, authority: AuthorizationServer
) -> None:
    toolbus("login", "linear", folder=folder, env=browser(folder))
    toolbus("login", "linear", "--user", "bob", folder=folder, env=browser(folder, "bob"))
    change(folder, "other", url="http://127.0.0.1:9/mcp", auth="oauth")
    listed = toolbus("login", folder=folder)
    rows = [re.split(r"\s{2,}", line) for line in listed.stdout.splitlines()]
    assert rows == [
        ["server", "user", "issuer", "scopes", "expires in", "renews"],
        ["linear", "-", authority.issuer, "tools", "59 min", "yes"],
        ["linear", "bob", authority.issuer, "tools", "59 min", "yes"],
        ["other", "not signed in"],
    ]
    as_json = toolbus("login", "--json", folder=folder)
    known = json.loads(as_json.stdout)["logins"]
    assert [(row["server"], row["signed_in"], row.get("user")) for row in known] == [
        ("linear", True, ""),
        ("linear", True, "bob"),
        ("other", False, None),
    ]
    no_token_in(listed.stdout + listed.stderr + as_json.stdout, authority)
    place = folder.parent / ".state" / "toolbus" / "tokens"
    nobody = toolbus("logout", "linear", "--user", "zoe", folder=folder)
    assert nobody.stdout == (
        "not signed in to linear as zoe; nothing was removed; signed in: without --user, --user bob\n"
    )
    out = toolbus("logout", "linear", "--user", "bob", folder=folder)
    assert out.stdout == f"signed out of linear as bob; the tokens were removed from {place}\n"
    revoked = toolbus("logout", "linear", "--revoke", "--json", folder=folder)
    assert revoked.returncode == 0
    assert json.loads(revoked.stdout) == {
        "server": "linear",
        "user": "",
        "removed": True,
        "revoked": True,
        "tokens": str(place),
    }
    again = toolbus("logout", "linear", folder=folder)
    assert (again.returncode, again.stdout) == (0, "not signed in to linear; nothing was removed\n")


def test_logins_that_cannot_be_read_are_explained_below_the_table(folder: Path) -> None:
    toolbus("login", "linear", folder=folder, env=browser(folder))
    tokens = folder.parent / ".state" / "toolbus" / "tokens"
    for file in filter(Path.is_file, tokens.glob("*")):
        file.chmod(0o644)
    listed = toolbus("login", folder=folder)
    rows = [re.split(r"\s{2,}", line) for line in listed.stdout.splitlines()]
    assert rows[1:] == [["linear", "unknown, see below"]]
    problem, place = listed.stderr.splitlines()
    assert problem.startswith(f"linear: tokens in {tokens}/")
    assert "other users can read this file; protect it: chmod" in problem
    assert place == f"tokens are in {tokens}"
    [known] = json.loads(toolbus("login", "--json", folder=folder).stdout)["logins"]
    assert known["remark"] == problem.removeprefix("linear: ")


def test_a_revocation_that_is_not_confirmed_fails(folder: Path, authority: AuthorizationServer) -> None:
    toolbus("login", "linear", folder=folder, env=browser(folder))
    tokens = folder.parent / ".state" / "toolbus" / "tokens"
    for file in tokens.rglob("*"):
        if file.is_file() and "revocation_endpoint" in file.read_text(errors="replace"):
            file.write_text(file.read_text().replace("revocation_endpoint", "no_such_endpoint"))
    out = toolbus("logout", "linear", "--revoke", folder=folder)
    assert out.returncode == 1
    assert (
        "but the authorization server did not confirm that it revoked them; revoke the access there"
        in out.stdout
    )
    assert "not signed in" in toolbus("login", folder=folder).stdout


def test_a_login_is_kept_if_the_server_that_was_to_revoke_it_cannot_be_reached(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    with authorization_server() as issuing, resource_server(issuing.issuer, tmp_path) as server:
        write_config(folder, {"linear": {"url": server.url, "auth": "oauth"}})
        assert toolbus("login", "linear", folder=folder, env=browser(folder)).returncode == 0
    out = toolbus("logout", "linear", "--revoke", folder=folder)
    assert out.returncode == 1
    assert out.stderr.startswith("toolbus: server 'linear': not signed out: http://127.0.0.1:")
    assert out.stderr.endswith("connection refused; try again, or sign out without --revoke\n")
    assert "59 min" in toolbus("login", folder=folder).stdout
    assert toolbus("logout", "linear", folder=folder).stdout.startswith("signed out of linear; ")
    again = toolbus("login", "linear", folder=folder)
    assert again.returncode == 1
    assert again.stderr.startswith("toolbus: server 'linear': sign-in failed: resource metadata: ")
    assert again.stderr.endswith("; run 'toolbus check linear'\n")


def test_commands_say_how_to_sign_in(folder: Path) -> None:
    listed = toolbus("tools", "linear", folder=folder)
    assert listed.returncode == 1
    assert "auth_required" in listed.stdout
    assert "sign in: toolbus login linear" in listed.stdout
    called = toolbus("call", "linear/whoami", folder=folder)
    assert called.returncode == 1
    assert called.stderr.endswith("sign in: toolbus login linear\n")
    checked = toolbus("check", "linear", folder=folder)
    assert [line.split(maxsplit=2) for line in checked.stdout.splitlines()[-3:-1]] == [
        ["error", "sign-in", "required: nobody has signed in"],
        ["next", "step", "sign in: toolbus login linear"],
    ]


def test_the_command_to_sign_in_repeats_the_config(folder: Path) -> None:
    elsewhere = ("--config", "work/toolbus.yaml")
    expected = "sign in: toolbus login linear --config work/toolbus.yaml"
    env = {"HOME": str(folder.parent), "XDG_STATE_HOME": str(folder.parent / ".state")}
    for words in (
        ("tools",),
        ("tools", "--json"),
        ("check",),
        ("check", "--json"),
        ("call", "linear/whoami"),
    ):
        done = toolbus(*words, *elsewhere, folder=folder.parent, env=env)
        assert (done.returncode, (done.stdout + done.stderr).count(expected)) == (1, 1), words


FAULTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "authorization server": (
        {"metadata": {"code_challenge_methods_supported": None}},
        "does not offer PKCE",
        "ask its operator to enable it",
    ),
    "no metadata": (
        {"metadata": {"issuer": "https://other.example"}},
        "authorization server: ",
        "tell the operator",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_check_names_the_step_that_fails(folder: Path, authority: AuthorizationServer, fault: str) -> None:
    spoiled, reason, step = FAULTS[fault]
    authority.spoil(**spoiled)
    done = toolbus("check", "linear", "--json", folder=folder)
    [problem] = json.loads(done.stdout)["servers"]["linear"]["problems"]
    assert problem["message"].startswith("sign-in failed: authorization server: ")
    assert reason in problem["message"]
    assert problem["fix"].startswith(step)
    assert [step["step"] for step in json.loads(done.stdout)["servers"]["linear"]["steps"]] == [
        "URL",
        "resource metadata",
    ]
    shown = toolbus("check", "linear", folder=folder).stdout
    assert re.search(r"resource metadata +found\n +error +sign-in failed: authorization server", shown)


def test_check_names_the_step_for_a_store_and_for_a_program(folder: Path) -> None:
    machine = {"type": "client_credentials", "client_id": "bot", "client_secret": "wrong"}
    change(folder, "bot", auth=machine)
    toolbus("login", "linear", folder=folder, env=browser(folder))
    tokens = folder.parent / ".state" / "toolbus" / "tokens"
    for file in tokens.glob("*"):
        if file.is_file():
            file.chmod(0o644)
    done = toolbus("check", "--json", folder=folder)
    fixes = {
        alias: [problem["fix"] for problem in server["problems"] if problem["severity"] == "error"]
        for alias, server in json.loads(done.stdout)["servers"].items()
    }
    [protect] = fixes["linear"]
    assert "chmod" in protect
    assert fixes["bot"] == ["check the credentials in auth"]
    shown = toolbus("check", folder=folder).stdout
    assert all(re.search(rf"next step +{re.escape(fix)}\n", shown) for fix in (protect, *fixes["bot"]))


@pytest.mark.parametrize(
    "page",
    ["file:///etc/passwd", "javascript:alert(1)", "-x", "https://a.example@evil.example/auth", "http:///a b"],
)
def test_a_sign_in_page_that_is_no_web_page(folder: Path, authority: AuthorizationServer, page: str) -> None:
    """It is neither opened nor shown as a link."""
    authority.spoil(metadata={"authorization_endpoint": page})
    done = toolbus("login", "linear", folder=folder, env=browser(folder))
    assert (done.returncode, opened(folder)) == (1, [])
    assert not re.search(r"^(file|javascript|-|http)", done.stderr, re.MULTILINE)


def test_a_webbrowser_module_in_the_folder_is_not_run(folder: Path) -> None:
    """The browser is opened by Python's own module."""
    (folder / "webbrowser.py").write_text(f"open({str(folder / 'owned')!r}, 'w')\n")
    assert toolbus("login", "linear", folder=folder, env=browser(folder)).returncode == 0
    assert len(opened(folder)) == 1
    assert not (folder / "owned").exists()


def test_a_login_that_would_be_lost_at_once_is_refused(folder: Path) -> None:
    servers = json.loads((folder / "toolbus.yaml").read_text())["servers"]
    write_config(folder, servers, tokens="memory")
    done = toolbus("login", "linear", folder=folder)
    assert done.returncode == 2
    assert "tokens: memory keeps nothing when a command ends; use auto, keyring or file:DIR" in done.stderr


def test_tab_completes_servers_and_starts_none(folder: Path) -> None:
    for command in ("login", "logout"):
        assert printed("bash", f"toolbus {command} l", folder).split() == ["linear"]


@contextmanager
def chat(folder: Path, tool: str = "linear_whoami") -> Generator[tuple[Provider, Terminal]]:
    """A chat that offers to sign in, with a model that calls this tool in every turn."""
    words = ("chat", "--model", "openai:gpt-5.1", "--approve", "never")
    asks = [Say("Let me see.", [ToolCall(tool, {})]), "I know."]
    with (
        Provider([*asks, *asks]) as provider,
        terminal(*words, folder=folder, env=provider.environment) as screen,
    ):
        screen.until("server 'linear' needs you to sign in; sign in now? [Y/n]: ")
        yield provider, screen


def test_a_chat_offers_to_sign_in_when_it_starts(folder: Path) -> None:
    with chat(folder) as (provider, screen):
        screen.press("\r")
        assert walk(shown_url(screen), "ann") is None
        screen.until(DONE, "linear is ready with 3 tools", "gpt-5.1 with 3 tools on 1 server", "> ")
        screen.press("Who am I?\r")
        screen.until("linear_whoami()  done in ", "I know.", "> ")
        assert [result.text for result in provider.asked[-1].given] == ["ann"]
        screen.press("/quit\r")
        assert screen.ended() == 0


def test_login_in_a_chat_signs_in_later_and_names_what_is_wrong(folder: Path) -> None:
    with chat(folder) as (_, screen):
        screen.press("n\r")
        screen.until(
            "/login linear signs in later", "sign in: toolbus login linear", "with 0 tools on 1 server"
        )
        screen.press("/login liner\r")
        screen.until("server 'liner': unknown server; did you mean 'linear'?", "> ")
        screen.press("/login\r")  # the only one that waits for it
        url = shown_url(screen)
        screen.press("\x03")
        screen.until("the sign-in to linear was cancelled", "> ")
        screen.press("/login linear --scopes 'tools admin'\r")
        again = shown_url(screen)
        assert again != url
        assert "scope=tools+admin" in again
        screen.press(f"{signed_in_at(again)}\r")
        screen.until(DONE, "linear is ready with 3 tools", "> ")
        screen.press("/quit\r")
        assert screen.ended() == 0


def test_a_chat_offers_to_sign_in_after_a_turn_in_which_the_login_ended(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    with authorization_server(lifetime=3) as issuing, resource_server(issuing.issuer, tmp_path) as server:
        write_config(folder, {"linear": {"url": server.url, "auth": "oauth"}})
        with chat(folder) as (provider, screen):
            screen.press("y\r")
            assert walk(shown_url(screen), "ann") is None
            screen.until("linear is ready with 3 tools", "gpt-5.1 with 3 tools", "> ")
            issuing.spoil(status=400, answer={"error": "invalid_grant"})  # no renewal any more
            listed = toolbus("login", "--json", folder=folder)
            while time.time() < json.loads(listed.stdout)["logins"][0]["expires_at"]:
                time.sleep(0.05)
            screen.press("Who am I?\r")
            screen.until("I know.", "server 'linear' needs you to sign in; sign in now? [Y/n]: ")
            assert "sign in: toolbus login linear" in provider.asked[-1].given[0].text
            issuing.reset()
            screen.press("y\r")
            assert walk(shown_url(screen), "ann") is None
            screen.until("linear is ready with 3 tools", "> ")
            screen.press("Who am I?\r")
            screen.until("I know.", "> ")
            assert [result.text for result in provider.asked[-1].given][-1:] == ["ann"]


def test_a_chat_offers_to_sign_in_again_for_more_permissions(folder: Path) -> None:
    with chat(folder, "linear_admin") as (provider, screen):
        screen.press("y\r")
        assert walk(shown_url(screen), "ann") is None
        screen.until("linear is ready with 3 tools", "gpt-5.1 with 3 tools", "> ")
        screen.press("Administrate.\r")
        screen.until("I know.", "server 'linear' needs you to sign in; sign in now? [Y/n]: ")
        screen.press("y\r")
        url = shown_url(screen)
        assert "scope=tools+admin" in url
        assert walk(url, "ann") is None
        screen.until("linear is ready with 3 tools", "> ")
        screen.press("Again.\r")
        screen.until("I know.", "> ")
        assert [result.text for result in provider.asked[-1].given][-1:] == ["admin ann"]


def test_watch_signs_in_with_a_key_and_goes_on(folder: Path) -> None:
    with terminal("watch", folder=folder, width=200) as screen:
        screen.until(
            "nobody has signed in; sign in: toolbus login linear", "l: sign in to linear; Ctrl-C to quit"
        )
        screen.press("l")
        url = shown_url(screen)
        screen.press("\x03")  # ends only the prompt
        screen.until("the sign-in to linear was cancelled", "l: sign in to linear")
        screen.press("l")
        again = shown_url(screen)
        assert again != url
        screen.press(f"{signed_in_at(again)}\r")
        screen.until("signed in to linear until ", "-> ready")
        screen.press("\x03")
        assert screen.ended() == 130
        assert screen.shows_cursor


def test_watch_notices_a_login_in_another_terminal(folder: Path) -> None:
    with piped(folder, "watch") as (_, output, _, process):
        shown = iter(output.readline, "")
        assert any("sign in: toolbus login linear" in line for line in shown)
        assert toolbus("login", "linear", folder=folder, env=browser(folder)).returncode == 0
        assert any("-> ready" in line for line in shown)
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(PATIENCE) == 143
