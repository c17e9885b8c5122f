"""Globs on `server/name`, and names that are made to slip past them."""

import pytest

from tests.inside.policy import PolicyTarget
from tests.policy.targets import policy, resource, tool_of

MATCHES = [
    ("*", "files", "read", True),
    ("*/*", "files", "read", True),
    ("files/*", "files", "a/b/c", True),
    ("files/read_*", "files", "read_a", True),
    ("files/read_?", "files", "read_ab", False),
    ("files/[rw]*", "files", "write", True),
    ("files/[!rw]*", "files", "write", False),
    ("f*/read", "files", "read", True),
    ("*/read", "files", "x/read", False),
    ("file?/read", "files", "read", True),
    ("files/read", "Files", "read", False),
    ("files/*", "files", "", True),
    ("files/*", "files", "a\nb", True),
    ("files/a[b]", "files", "a[b]", True),
    ("my[1]/x", "my[1]", "x", True),
    ("github.com/servers/*", "github.com/servers", "x", True),
    ("*/x", "github.com/servers", "x", True),
    ("*/x/y", "github.com/servers", "x/y", True),
    ("github.com/*", "github.com/servers", "x", False),
    ("github.com/s*/x", "github.com/servers", "x", True),
]


def denied(pattern: str, target: PolicyTarget) -> bool:
    return policy({f"{target.kind}s": pattern, "do": "deny"}).decide(target, {}).action == "deny"


def allowed(pattern: str, target: PolicyTarget) -> bool:
    rules = policy({f"{target.kind}s": pattern, "do": "allow"}, {"do": "deny"})
    return rules.decide(target, {}).action == "allow"


@pytest.mark.parametrize(("pattern", "server", "name", "expected"), MATCHES)
def test_a_pattern_is_divided_at_the_server(pattern: str, server: str, name: str, expected: bool) -> None:
    target = tool_of(server, name)
    assert denied(pattern, target) is expected
    assert allowed(pattern, target) is expected


@pytest.mark.parametrize(
    "name",
    [
        "Delete_Repo",
        "delete_repo ",
        "\u200bdelete_repo",
        "d\u0435lete_repo",
        "\uff44elete_repo",
        "delete\u200d_repo",
    ],
    ids=["case", "space", "hidden", "cyrillic", "full width", "joiner"],
)
def test_a_name_that_looks_like_a_denied_one(name: str) -> None:
    """It is also denied, and never falls under a rule that allows the other."""
    assert denied("github/delete_*", tool_of("github", name))
    assert denied("github/Delete_Repo", tool_of("github", name))
    assert not allowed("github/delete_repo", tool_of("github", name))


def test_another_server_is_not_meant_by_a_name_with_a_slash() -> None:
    """A server cannot offer a tool under the rules of another one."""
    for name in ("git/log", "../git/log", "/log", "*/log"):
        assert not allowed("git/log", tool_of("evil", name))
        assert not allowed("git*/log", tool_of("evil", name))


AROUND = [
    "file:///tmp/../etc/passwd",
    "file:///%65tc/passwd",
    "file:///%2565tc/passwd",
    "file:///tmp/%2e%2e/etc/passwd",
    "file:///tmp/..%2fetc/passwd",
    "file:///tmp/%252e%252e/etc/passwd",
    "FILE:///etc/passwd",
    "file:////etc/passwd",
    "file:///./etc/passwd",
    "file://localhost/etc/passwd",
    "file:///ETC/passwd",
    "file:///tmp\\..\\etc\\passwd",
    "file:///et\nc/passwd",
    " file:///etc/passwd",
    "file:///foo/%2e%2e/etc/%252e%252e/../passwd",
    "file:///%2525252565tc/passwd",
]


@pytest.mark.parametrize("uri", AROUND)
def test_a_uri_that_leads_around_a_rule(uri: str) -> None:
    """A denial matches every reading of it."""
    assert denied("files/file:///etc/*", PolicyTarget(kind="resource", server="files", name=uri))


@pytest.mark.parametrize("uri", AROUND)
def test_a_uri_that_leads_out_of_an_allowed_folder(uri: str) -> None:
    """It is allowed only if it matches however it is read."""
    target = PolicyTarget(kind="resource", server="files", name=uri)
    assert not allowed("files/file:///tmp/*", target)
    assert not allowed("files/file:///foo/*", target)
    assert allowed("files/*", target) is (uri != AROUND[-1])


@pytest.mark.parametrize(
    ("pattern", "uri"),
    [
        ("files/file:///home/*", "file:///home/me/a%20b.txt"),
        ("files/file:///home/*", "file:///home/me/./x"),
        ("web/https://example.com/*", "https://example.com/?next=https://example.com/a/../b"),
        ("db/db://x?q=a//b/../c", "db://x?q=a//b/../c"),
        ("memo/*", "note"),
        ("memo/memo:*", "memo:note/1"),
        ("docs/docs://a/b/", "docs://a/b/"),
        ("docs/docs://a/*", "docs://a/./"),
    ],
)
def test_an_ordinary_uri_is_allowed(pattern: str, uri: str) -> None:
    assert allowed(pattern, resource(f"{pattern.partition('/')[0]}/{uri}"))


def test_a_long_name_is_compared_in_bounded_time() -> None:
    """A pattern with many stars takes time in proportion to the name."""
    name = "a" * 200_000
    assert not denied("files/" + "*a" * 30 + "b", tool_of("files", name))
