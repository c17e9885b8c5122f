"""The effect of hints: a trusted server's are used as given, an untrusted one's only tighten."""

from typing import Any

import pytest

from tests.inside.config import Hint
from tests.inside.policy import Holds, Verdict, holds
from tests.policy.targets import policy, tool

HINTS: tuple[Hint, ...] = ("destructive", "writes", "open-world", "read-only", "idempotent")

TRUSTED: list[tuple[dict[str, Any], list[Hint]]] = [
    ({}, ["destructive", "writes", "open-world"]),
    ({"readOnlyHint": True}, ["open-world", "read-only"]),
    ({"readOnlyHint": True, "destructiveHint": True}, ["destructive", "writes", "open-world"]),
    ({"destructiveHint": False}, ["writes", "open-world"]),
    ({"idempotentHint": True}, ["destructive", "writes", "open-world", "idempotent"]),
    ({"openWorldHint": False}, ["destructive", "writes"]),
    ({"readOnlyHint": "yes"}, ["destructive", "writes", "open-world"]),
]


@pytest.mark.parametrize(("annotations", "expected"), TRUSTED, ids=[str(each) for each, _ in TRUSTED])
def test_hints_of_a_trusted_server_count_as_given(annotations: dict[str, Any], expected: list[Hint]) -> None:
    spec = tool("files/x", trusted=True, **annotations).spec
    assert [hint for hint in HINTS if holds(hint, spec) == "yes"] == expected
    assert all(holds(hint, spec) == "no" for hint in HINTS if hint not in expected)


UNTRUSTED: list[tuple[dict[str, Any], Holds, Holds]] = [
    ({}, "no", "no"),
    ({"readOnlyHint": True, "destructiveHint": False, "openWorldHint": False}, "word", "no"),
    ({"readOnlyHint": True, "destructiveHint": True}, "word", "no"),
    ({"idempotentHint": True}, "no", "word"),
]


@pytest.mark.parametrize(("annotations", "read_only", "idempotent"), UNTRUSTED)
def test_an_untrusted_tool_counts_as_dangerous_whatever_it_says(
    annotations: dict[str, Any], read_only: Holds, idempotent: Holds
) -> None:
    spec = tool("files/x", **annotations).spec
    assert [holds(hint, spec) for hint in HINTS] == ["yes", "yes", "yes", read_only, idempotent]


def test_a_tool_without_a_record_counts_as_one_without_hints() -> None:
    assert [holds(hint, None) for hint in HINTS] == ["yes", "yes", "yes", "no", "no"]


def test_a_server_that_marks_its_own_tool_as_read_only() -> None:
    """The mark allows nothing unless the config trusts the server."""
    rules = policy({"hint": "read-only", "do": "allow"}, {"do": "ask"})
    assert rules.decide(tool("files/x", readOnlyHint=True), {}) == Verdict(action="ask", rule=1)
    assert rules.decide(tool("files/x", trusted=True, readOnlyHint=True), {}) == Verdict(
        action="allow", rule=0
    )


def test_a_server_that_says_its_tool_is_harmless() -> None:
    """The tool is still treated as destructive."""
    rules = policy({"hint": "destructive", "do": "deny"})
    harmless = {"destructiveHint": False, "readOnlyHint": True}
    assert rules.decide(tool("files/x", **harmless), {}) == Verdict(action="deny", rule=0)
    assert rules.decide(tool("files/x", trusted=True, **harmless), {}).rule is None


@pytest.mark.parametrize(
    ("claimed", "later", "expected"),
    [
        ("deny", "allow", Verdict(action="deny", rule=0)),
        ("deny", "ask", Verdict(action="deny", rule=0)),
        ("ask", "allow", Verdict(action="ask", rule=0)),
        ("ask", "ask", Verdict(action="ask", rule=1)),
        ("ask", "deny", Verdict(action="deny", rule=1)),
        ("allow", "deny", Verdict(action="deny", rule=1)),
    ],
)
def test_the_word_of_an_untrusted_server_counts_if_it_is_stricter(
    claimed: str, later: str, expected: Verdict
) -> None:
    rules = policy({"hint": "read-only", "do": claimed}, {"do": later})
    assert rules.decide(tool("files/x", readOnlyHint=True), {}) == expected


def test_the_strictest_of_several_claims_counts() -> None:
    rules = policy({"hint": "read-only", "do": "ask"}, {"hint": "idempotent", "do": "deny"}, {"do": "allow"})
    both = tool("files/x", readOnlyHint=True, idempotentHint=True)
    assert rules.decide(both, {}) == Verdict(action="deny", rule=1)
    assert rules.removes(both) == Verdict(action="deny", rule=1)
    assert rules.decide(tool("files/x", readOnlyHint=True), {}) == Verdict(action="ask", rule=0)


def test_a_claim_after_the_rule_that_matches_is_not_looked_at() -> None:
    rules = policy({"do": "allow"}, {"hint": "read-only", "do": "deny"})
    assert rules.decide(tool("files/x", readOnlyHint=True), {}) == Verdict(action="allow", rule=0)
