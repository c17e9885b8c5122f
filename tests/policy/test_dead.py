"""Rules without effect are found, with what may have been meant."""

from typing import Any

import pytest

from tests.policy.targets import ETC, policy, prompt, resource, tool
from toolbus.policy.rules import Target

OFFERED: dict[str, list[Target]] = {
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
            "only servers without `trust: true` mark tools as read-only, and their word allows nothing",
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
    offered = {"a": [tool("a/x")], "b/c": [Target(kind="tool", server="b/c", name="y")]}
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
