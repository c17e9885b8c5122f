"""Rules without effect are found, with likely alternatives."""

from typing import Any

import pytest

from tests.inside.core import Origin, ToolSpec
from tests.inside.policy import PolicyTarget
from tests.policy.targets import ETC, policy, prompt, resource, tool

OFFERED: dict[str, list[PolicyTarget]] = {
    "github": [tool("github/create_issue"), tool("github/delete_repo"), prompt("github/review")],
    "files": [
        tool("files/read_file", readOnlyHint=True),
        tool("files/write_file"),
        resource("files/file:///notes.txt"),
    ],
}


def dead(*rules: dict[str, Any], servers: tuple[str, ...] = ("github", "files")) -> list[str]:
    return list(map(str, policy(*rules).dead(OFFERED, servers)))


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        (
            {"tools": "github/delte_*"},
            "tools: 'github/delte_*' matches no tool; did you mean 'github/delete_repo'?",
        ),
        ({"tools": "gihub/delete_*"}, "tools: 'gihub/delete_*' matches no server; did you mean 'github'?"),
        ({"tools": "GitHub/*"}, "tools: 'GitHub/*' matches no server; did you mean 'github'?"),
        ({"tools": "*/drop_database"}, "tools: '*/drop_database' matches no tool"),
        (
            {"tools": ["files/*", "files/wrlte_file"]},
            "'files/wrlte_file' matches no tool; did you mean 'files/write_file'",
        ),
        (
            {"prompts": "github/revue"},
            "prompts: 'github/revue' matches no prompt; did you mean 'github/review'?",
        ),
        (
            {"resources": "file/file:///*"},
            "resources: 'file/file:///*' matches no server; did you mean 'files'?",
        ),
        ({"requests": "gitlab/sampling"}, "requests: 'gitlab/sampling' matches no server"),
        ({"tools": "github/review"}, "tools: 'github/review' matches no tool"),
    ],
)
def test_a_pattern_that_matches_nothing(rule: dict[str, Any], found: str) -> None:
    (text,) = dead({**rule, "do": "deny"})
    assert text.startswith("policy[0]: ")
    assert found in text


@pytest.mark.parametrize(
    "rule",
    [
        {"tools": "github/delete_*"},
        {"tools": "*"},
        {"tools": "GITHUB/x", "prompts": "github/*"} | {"tools": "github/Delete_Repo"},
        {"resources": "files/file:///etc/*"},
        {"requests": "github/sampling"},
        {"tools": "other/anything"},
        {"tools": "*/drop_*"},
        {"arguments": ETC},
        {"hint": "destructive"},
        {},
    ],
)
def test_a_rule_that_may_match_is_not_dead(rule: dict[str, Any]) -> None:
    """A server that is not listed may have anything, and any resource may be read."""
    assert dead({**rule, "do": "deny"}, servers=("github", "files", "other")) == []


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({"hint": "idempotent", "do": "ask"}, "no tool that it is about has the hint 'idempotent'"),
        (
            {"hint": "read-only", "tools": "github/*", "do": "ask"},
            "no tool that it is about has the hint 'read-only'",
        ),
        (
            {"hint": "read-only", "do": "allow"},
            (
                "only servers without `trust_annotations: true` mark tools as read-only, "
                "and their word allows nothing"
            ),
        ),
    ],
)
def test_a_hint_without_effect_is_a_note(rule: dict[str, Any], problem: str) -> None:
    (found,) = policy(rule).dead(OFFERED, ["github", "files"])
    assert (found.problem, found.is_note) == (problem, True)
    assert policy(rule).dead(OFFERED, ["github", "files", "not listed"]) == []


def test_a_misspelled_pattern_is_not_only_a_note() -> None:
    (found,) = policy({"tools": "github/x", "hint": "idempotent", "do": "ask"}).dead(
        OFFERED, ["github", "files"]
    )
    assert not found.is_note


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        ([{"do": "ask"}, {"tools": "files/*", "do": "deny"}], "policy[0] always"),
        ([{"tools": "files/*", "do": "allow"}, {"tools": "files/write_*", "do": "deny"}], "policy[0] always"),
        ([{"tools": "*/*_file", "do": "ask"}, {"tools": "f*/read_file", "do": "deny"}], "policy[0] always"),
        ([{"tools": "*/*", "do": "ask"}, {"hint": "destructive", "do": "deny"}], "policy[0] always"),
        (
            [{"hint": "writes", "do": "ask"}, {"hint": "writes", "arguments": ETC, "do": "deny"}],
            "policy[0] always",
        ),
        (
            [
                {"tools": "*", "do": "ask"},
                {"resources": "*", "prompts": "*", "do": "ask"},
                {"do": "deny"},
            ],
            "policy[0] and policy[1] always",
        ),
    ],
)
def test_a_rule_behind_one_that_always_matches(rules: list[dict[str, Any]], found: str) -> None:
    (text,) = dead(*rules)
    assert text.startswith(f"policy[{len(rules) - 1}]: is never reached: {found}")


@pytest.mark.parametrize(
    "rules",
    [
        [{"tools": "files/*", "arguments": ETC, "do": "ask"}, {"tools": "files/*", "do": "deny"}],
        [{"hint": "destructive", "do": "ask"}, {"tools": "files/*", "do": "deny"}],
        [{"hint": "read-only", "do": "deny"}, {"hint": "read-only", "do": "ask"}],
        [{"tools": "files/read_*", "do": "ask"}, {"tools": "files/*", "do": "deny"}],
        [{"tools": "files/read_fil?", "do": "ask"}, {"tools": "files/read_*", "do": "deny"}],
        [{"tools": "files/*", "do": "ask"}, {"tools": "*/*_file", "do": "deny"}],
        [{"tools": "*", "do": "ask"}, {"do": "deny"}],
        [{"do": "ask"}, {"requests": "*/roots", "do": "deny"}],
    ],
)
def test_a_rule_that_can_be_reached(rules: list[dict[str, Any]]) -> None:
    assert dead(*rules) == []


def test_an_alias_with_slashes_is_told_apart_from_a_name_with_slashes() -> None:
    offered = {"a": [tool("a/x")], "b/c": [PolicyTarget(kind="tool", server="b/c", name="y")]}
    rules = policy(
        {"tools": "*/x", "do": "ask"}, {"tools": "b/*", "do": "ask"}, {"tools": "b/c/y", "do": "deny"}
    )
    (found,) = rules.dead(offered, ["a", "b/c"])
    assert str(found).startswith("policy[1]: tools: 'b/*' matches no server; did you mean 'b/c'?")


def test_a_server_with_very_long_names() -> None:
    """Near misses are looked for in bounded time."""
    offered = {
        "files": [tool("files/" + "ab" * 50_000), *(tool(f"files/t{number}") for number in range(5_000))]
    }
    (found,) = policy({"tools": "files/" + "ba" * 50_000, "do": "deny"}).dead(offered, ["files"])
    assert "matches no tool" in found.problem


def with_schema(origin: str, schema: dict[str, Any]) -> PolicyTarget:
    server, _, name = origin.partition("/")
    spec = ToolSpec(name=name, origin=Origin(server, name), input_schema={"type": "object", **schema})
    return PolicyTarget(kind="tool", server=server, name=name, spec=spec)


OPS = [
    with_schema("ops/read", {"properties": {"path": {"type": "string"}}, "required": ["path"]}),
    with_schema(
        "ops/scale",
        {
            "properties": {"service": {"type": "string"}, "count": {"type": ["integer", "null"]}},
            "additionalProperties": False,
        },
    ),
    with_schema("ops/any", {}),
    with_schema("ops/open", {"properties": {"a": {}}, "additionalProperties": True}),
    with_schema("ops/either", {"anyOf": [{"properties": {"host": {"type": "string"}}}]}),
    resource("ops/conf://secret"),
    resource("ops/conf://public"),
]


def dead_of_ops(rule: dict[str, Any], *more: PolicyTarget) -> list[str]:
    return list(map(str, policy({**rule, "do": "deny"}).dead({"ops": [*OPS, *more]}, ["ops"])))


@pytest.mark.parametrize(
    ("tools", "arguments", "found"),
    [
        (
            "ops/read",
            {"required": ["pth"]},
            "no tool that it matches has an argument 'pth'; did you mean 'path'?",
        ),
        (
            ["ops/read", "ops/scale"],
            {"properties": {"pth": {"pattern": "^/etc"}}, "required": ["pth"]},
            "no tool that it matches has an argument 'pth'; did you mean 'path'?",
        ),
        ("ops/scale", {"required": ["zone"]}, "no tool that it matches has an argument 'zone'"),
        ("ops/either", {"required": ["hosts"]}, "has an argument 'hosts'; did you mean 'host'?"),
        (
            "ops/read",
            {"properties": {"path": {"type": "integer"}}, "required": ["path"]},
            "the argument 'path' is never of type integer, but string",
        ),
    ],
)
def test_a_condition_on_an_argument_that_no_tool_has(
    tools: str | list[str], arguments: dict[str, Any], found: str
) -> None:
    (text,) = dead_of_ops({"tools": tools, "arguments": arguments})
    assert text.startswith("policy[0]: arguments: ")
    assert text.endswith(found)


@pytest.mark.parametrize(
    ("tools", "arguments"),
    [
        (["ops/read", "ops/scale"], {"required": ["count"]}),
        ("ops/*", {"required": ["pth"]}),  # one of them takes anything
        ("ops/any", {"required": ["pth"]}),
        ("ops/open", {"required": ["pth"]}),
        ("ops/scale", {"properties": {"count": {"type": "number"}}}),
        ("ops/either", {"properties": {"host": {"type": "integer"}}}),
        ("ops/read", {"minProperties": 1}),
    ],
)
def test_a_condition_that_a_call_may_fulfill(tools: str | list[str], arguments: dict[str, Any]) -> None:
    assert dead_of_ops({"tools": tools, "arguments": arguments}) == []


def test_a_condition_for_whatever_is_asked_of_servers_may_be_about_resources() -> None:
    assert dead_of_ops({"arguments": {"required": ["uri"]}}) == []


def test_a_resource_that_resembles_a_listed_one() -> None:
    misspelt = {"resources": "ops/conf://secrt"}
    expected = "policy[0]: resources: 'ops/conf://secrt' matches no resource that is listed"
    assert dead_of_ops(misspelt) == [f"{expected}; did you mean 'ops/conf://secret'?"]
    assert dead_of_ops({"resources": "ops/conf://secrt*"}) != []
    assert dead_of_ops(misspelt, resource("ops/conf://{name}")) == []
    assert dead_of_ops({"resources": "ops/file:///etc/*"}) == []
    (note,) = policy({"resources": "ops/data://x", "do": "deny"}).dead({"ops": OPS}, ["ops"])
    assert note.is_note
