"""The rule that decides."""

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from tests.inside.policy import Policy, PolicyTarget, Verdict
from tests.policy.targets import ETC, policy, prompt, request, resource, tool

DENY_DELETE = {"tools": "github/delete_*", "do": "deny", "reason": "use the web page"}
DENY_ETC = {"tools": "files/*", "arguments": ETC, "do": "deny"}
ALLOW_ETC = {"tools": "files/*", "arguments": ETC, "do": "allow"}


def test_the_first_rule_that_matches_decides() -> None:
    rules = policy(DENY_DELETE, {"tools": "github/*", "do": "ask"}, {"do": "deny"})
    assert rules.decide(tool("github/delete_repo"), {}) == Verdict(
        action="deny", rule=0, reason="use the web page"
    )
    assert rules.decide(tool("github/list"), {}) == Verdict(action="ask", rule=1)
    assert rules.decide(tool("files/list"), {}) == Verdict(action="deny", rule=2)
    assert rules.decide(tool("files/list"), {}).label == "policy[2]"


def test_the_order_of_rules_matters() -> None:
    first, second = {"tools": "files/*", "do": "allow"}, {"tools": "files/read", "do": "deny"}
    assert policy(first, second).decide(tool("files/read"), {}).action == "allow"
    assert policy(second, first).decide(tool("files/read"), {}).action == "deny"


def test_what_no_rule_matches_is_allowed() -> None:
    for rules in (policy(), policy(DENY_DELETE)):
        verdict = rules.decide(tool("files/read"), {})
        assert verdict == Verdict(action="allow", rule=None)
        assert verdict.label is None


@pytest.mark.parametrize(
    ("key", "target"),
    [
        ("tools", tool("files/x")),
        ("resources", resource("files/x")),
        ("prompts", prompt("files/x")),
        ("requests", request("files/sampling")),
    ],
)
def test_a_selector_is_about_one_kind_of_target(key: str, target: PolicyTarget) -> None:
    every = [tool("files/x"), resource("files/x"), prompt("files/x"), request("files/sampling")]
    rules = policy({key: "files/*", "do": "deny"})
    assert [each.kind for each in every if rules.decide(each, {}).action == "deny"] == [target.kind]


def test_several_selectors_are_alternatives() -> None:
    rules = policy({"tools": ["a/x", "b/x"], "prompts": "c/x", "do": "deny"})
    denied = [tool("a/x"), tool("b/x"), prompt("c/x")]
    assert {rules.decide(each, {}).action for each in denied} == {"deny"}
    assert {rules.decide(each, {}).action for each in (tool("c/x"), prompt("a/x"))} == {"allow"}


def test_a_rule_without_selectors_is_about_what_we_ask_of_servers() -> None:
    rules = policy({"do": "deny"})
    assert {rules.decide(each, {}).rule for each in (tool("a/x"), resource("a/x"), prompt("a/x"))} == {0}
    assert rules.decide(request("a/sampling"), {}).rule is None


def test_a_rule_with_a_hint_is_about_tools() -> None:
    rules = policy({"hint": "destructive", "do": "deny"})
    assert rules.decide(tool("a/x"), {}).action == "deny"
    assert {rules.decide(each, {}).action for each in (resource("a/x"), prompt("a/x"))} == {"allow"}


def test_all_conditions_of_a_rule_must_hold() -> None:
    rules = policy({"tools": "files/*", "hint": "writes", "arguments": ETC, "do": "deny"})
    etc = {"path": "/etc/passwd"}
    assert rules.decide(tool("files/write"), etc).action == "deny"
    assert rules.decide(tool("other/write"), etc).action == "allow"
    assert rules.decide(tool("files/write"), {"path": "/tmp"}).action == "allow"
    assert rules.decide(tool("files/read", trusted=True, readOnlyHint=True), etc).action == "allow"


@pytest.mark.parametrize("arguments", [{"path": "/etc/x"}, MappingProxyType({"path": "/etc/x"})])
def test_arguments_may_be_any_mapping(arguments: Mapping[str, Any]) -> None:
    assert policy(DENY_ETC).decide(tool("files/read"), arguments).action == "deny"


def _deep() -> Any:
    value: Any = "x"
    for _ in range(200):
        value = [value]
    return value


@pytest.mark.parametrize(
    "arguments",
    [{"path": ["/tmp", _deep()]}, {"path": "/tmp" + "x" * 2_000_000}, {"path": object()}],
    ids=["too deep", "too large", "not JSON"],
)
def test_arguments_that_cannot_be_checked(arguments: dict[str, Any]) -> None:
    """A rule that denies or asks matches them, a rule that allows does not."""
    target = tool("files/read")
    assert policy(DENY_ETC).decide(target, arguments) == Verdict(action="deny", rule=0)
    assert policy({**DENY_ETC, "do": "ask"}).decide(target, arguments) == Verdict(action="ask", rule=0)
    assert policy(ALLOW_ETC, {"do": "deny"}).decide(target, arguments) == Verdict(action="deny", rule=1)


def test_a_large_argument_that_a_condition_is_not_about() -> None:
    """A rule on the path does not refuse a large file."""
    large = {"path": "/tmp/x", "content": "x" * 2_000_000, "more": _deep()}
    assert policy(DENY_ETC).decide(tool("files/write"), large).action == "allow"
    assert policy(DENY_ETC).decide(tool("files/write"), {**large, "path": "/etc/x"}).action == "deny"
    short = {**ETC, "maxProperties": 2}
    assert policy({"arguments": short, "do": "deny"}).decide(tool("files/write"), large).action == "deny"


def test_a_denial_without_a_condition_removes_the_tool() -> None:
    rules = policy(DENY_ETC, DENY_DELETE, {"tools": "files/write", "do": "deny"})
    assert rules.removes(tool("github/delete_x")) == Verdict(action="deny", rule=1, reason="use the web page")
    assert rules.removes(tool("files/read")) is None
    assert rules.removes(tool("files/write")) == Verdict(action="deny", rule=2)
    assert policy({"arguments": {}, "do": "deny"}).removes(tool("files/read")) is not None


def test_a_condition_that_allows_before_it_keeps_the_tool() -> None:
    rules = policy(ALLOW_ETC, {"do": "deny"})
    assert rules.removes(tool("files/read")) is None
    assert rules.removes(tool("other/read")) == Verdict(action="deny", rule=1)


def test_a_denial_removes_resources_templates_and_prompts() -> None:
    rules = policy({"resources": "files/file:///etc/*", "do": "deny"}, {"prompts": "x/*", "do": "deny"})
    assert rules.removes(resource("files/file:///etc/{name}")) is not None
    assert rules.removes(resource("files/file:///{+path}")) is None
    assert rules.removes(prompt("x/y")) is not None


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([{"do": "ask"}], True),
        ([{"do": "allow"}, {"do": "ask"}], False),
        ([{"do": "deny"}], False),
        ([{"arguments": ETC, "do": "ask"}], True),
        ([{"arguments": ETC, "do": "deny"}, {"do": "ask"}], True),
        ([{"arguments": ETC, "do": "allow"}], False),
        ([{"hint": "read-only", "do": "ask"}], True),
        ([{"hint": "read-only", "do": "ask"}, {"do": "deny"}], False),
        ([{"hint": "read-only", "do": "deny"}, {"do": "ask"}], False),
    ],
)
def test_whether_a_person_may_be_asked(rules: list[dict[str, Any]], expected: bool) -> None:
    assert policy(*rules).may_ask(tool("files/read", readOnlyHint=True)) is expected


def test_a_tool_that_changes_its_hints_is_compared_again() -> None:
    rules = policy({"hint": "read-only", "do": "allow"}, {"do": "deny"})
    reading = tool("files/x", trusted=True, readOnlyHint=True)
    writing = tool("files/x", trusted=True, readOnlyHint=False)
    untrusted = tool("files/x", readOnlyHint=True)
    for _ in range(2):
        given = [rules.decide(each, {}).action for each in (reading, writing, untrusted)]
        assert given == ["allow", "deny", "deny"]


def test_names_without_end_are_not_remembered() -> None:
    """A policy holds a bounded number of names, and no long ones."""
    rules = policy({"resources": "files/*", "do": "ask"})
    for number in range(5_000):
        assert rules.decide(resource(f"files/file:///{number}"), {}).action == "ask"
    assert rules.decide(resource("files/" + "x" * 100_000), {}).action == "ask"
    held = rules._known  # pyright: ignore[reportPrivateUsage]  # nothing else shows what is held
    assert len(held) <= 2_000
    assert max(len(name) for _, _, name in held) <= 500


def _microseconds(rules: Policy, target: PolicyTarget) -> float:
    arguments = {"path": "/tmp/x", "count": 3}
    best = float("inf")
    for _ in range(5):
        start = time.thread_time()
        for _ in range(5_000):
            rules.decide(target, arguments)
        best = min(best, time.thread_time() - start)
    return best / 5_000 * 1e6


def test_a_decision_takes_microseconds() -> None:
    """The bounds are several times what it takes: 0.5 us, and 5 us with a schema."""
    others = [{"tools": f"server{number}/x_*", "do": "deny"} for number in range(19)]
    assert _microseconds(policy(*others, {"do": "ask"}), tool("files/read")) < 5
    assert _microseconds(policy(DENY_ETC, *others), tool("files/read")) < 40
