"""The explanation of a rule's decision, in words."""

from typing import Any

import pytest

from tests.policy.targets import ETC, policy, prompt, request, resource, tool

RULES: list[dict[str, Any]] = [
    {"prompts": "github/*", "resources": "github/*", "do": "deny"},
    {"tools": ["github/delete_*", "git/*"], "do": "deny"},
    {"tools": "files/*", "arguments": ETC, "do": "deny"},
    {"hint": "read-only", "do": "allow"},
    {"do": "ask"},
    {"do": "deny"},
]


def test_every_rule_up_to_the_deciding_one_is_explained() -> None:
    steps = policy(*RULES).explain(tool("files/read"), {"path": "/tmp/x"})
    assert list(map(str, steps)) == [
        "policy[0]: is about resources and prompts",
        "policy[1]: tools do not match",
        "policy[2]: its arguments do not match at /path (pattern)",
        "policy[3]: the hint 'read-only' does not match: it is not marked read-only",
        "policy[4]: matches: ask",
    ]
    assert [step.decides for step in steps] == [False, False, False, False, True]
    assert [step.matched for step in steps] == [False, False, False, False, True]


@pytest.mark.parametrize(
    ("rule", "arguments", "text"),
    [
        ({"tools": "files/*", "do": "deny"}, {}, "matches 'files/*': deny"),
        ({"tools": "files/READ", "do": "deny"}, {}, "matches 'files/READ', which it resembles: deny"),
        ({"hint": "writes", "do": "ask"}, {}, "matches, with the hint 'writes': ask"),
        ({"arguments": ETC, "do": "deny"}, {"path": "/etc"}, "matches, and its arguments: deny"),
        ({"arguments": ETC, "do": "deny"}, {}, "its arguments do not match (required)"),
        ({"arguments": ETC, "do": "deny"}, None, "matches, if its arguments do: deny"),
        (
            {"arguments": ETC, "do": "deny"},
            {"path": "x" * 2_000_000},
            "matches, as its arguments cannot be checked (too large or too deep): deny",
        ),
        (
            {"arguments": ETC, "do": "allow"},
            {"path": "x" * 2_000_000},
            "its arguments cannot be checked (too large or too deep), so it does not allow them",
        ),
        (
            {"hint": "idempotent", "do": "ask"},
            {},
            "matches by the word of a server that is not trusted, which can only make it stricter: ask",
        ),
        (
            {"hint": "idempotent", "do": "allow"},
            {},
            "matches only by the word of a server that is not trusted, which cannot allow anything",
        ),
    ],
)
def test_a_rule_in_words(rule: dict[str, Any], arguments: dict[str, Any] | None, text: str) -> None:
    (step,) = policy(rule).explain(tool("files/read", idempotentHint=True), arguments)
    assert step.text == text


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        ("destructive", "its server says that it is not destructive"),
        ("writes", "its server says that it is read-only"),
        ("open-world", "its server says that it is not open-world"),
    ],
)
def test_the_word_of_a_trusted_server_is_quoted(hint: str, text: str) -> None:
    target = tool("files/read", trusted=True, readOnlyHint=True, openWorldHint=False)
    (step,) = policy({"hint": hint, "do": "ask"}).explain(target, {})
    assert step.text == f"the hint {hint!r} does not match: {text}"


def test_a_stricter_claim_is_said_to_decide() -> None:
    rules = policy({"hint": "read-only", "do": "deny"}, {"tools": "files/*", "do": "allow"}, {"do": "ask"})
    steps = rules.explain(tool("files/read", readOnlyHint=True), {})
    assert [(step.rule, step.decides) for step in steps] == [(0, True), (1, False)]
    assert steps[1].text == "matches 'files/*': allow; policy[0] is stricter"


def test_without_arguments_the_rule_decides_that_needs_none() -> None:
    steps = policy(*RULES).explain(tool("files/read"), None)
    assert [(step.matched, step.decides) for step in steps[2:]] == [
        (None, False),
        (False, False),
        (True, True),
    ]


def test_no_values_of_arguments_are_quoted() -> None:
    steps = policy(*RULES).explain(tool("files/read"), {"path": "hunter2", "other": "hunter2"})
    assert "hunter2" not in " ".join(map(str, steps))


def test_requests_and_resources_are_explained() -> None:
    rules = policy({"do": "deny"}, {"hint": "writes", "do": "ask"}, {"requests": "*/roots", "do": "deny"})
    assert [step.text for step in rules.explain(request("a/roots"), {})] == [
        "is about what is asked of servers",
        "is about tools",
        "matches '*/roots': deny",
    ]
    assert [step.text for step in rules.explain(resource("a/x"), {})] == ["matches: deny"]
    assert [step.decides for step in policy(RULES[1]).explain(prompt("git/x"), {})] == [False]
