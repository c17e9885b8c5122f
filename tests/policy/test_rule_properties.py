"""Properties of every policy and every target."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.inside.policy import STRICTNESS, Policy, Verdict
from tests.policy.targets import policy, tool_of
from tests.properties import modest

NAMES = st.sampled_from(["read", "write", "Read", "read_all", "delete"])
SERVERS = st.sampled_from(["files", "git", "a/b"])
PATTERNS = st.sampled_from(["*", "files/*", "*/read", "git/[rw]*", "files/r*", "a/b/*", "*/d?lete"])
SCHEMAS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"required": ["path"]},
        {"properties": {"path": {"pattern": "^/etc"}}},
        {"properties": {"path": {"pattern": "^/etc"}}, "required": ["path"]},
    ]
)
RULES = st.fixed_dictionaries(
    {"do": st.sampled_from(["allow", "ask", "deny"])},
    optional={
        "tools": st.one_of(PATTERNS, st.lists(PATTERNS, min_size=1, max_size=2)),
        "hint": st.sampled_from(["destructive", "read-only", "writes", "idempotent", "open-world"]),
        "arguments": SCHEMAS,
    },
)
POLICIES = st.lists(RULES, max_size=6).map(lambda rules: policy(*rules))
MARKS = st.sampled_from(["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"])
ANNOTATIONS = st.dictionaries(MARKS, st.booleans())
ARGUMENTS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {"path": "/etc/x"}, {"path": "/tmp"}, {"other": 1}, {"path": "/etc" + "x" * 300_000}]
)


def strictness(
    rules: Policy, server: str, name: str, marks: dict[str, bool], arguments: dict[str, Any]
) -> int:
    return STRICTNESS[rules.decide(tool_of(server, name, **marks), arguments).action]


@modest
@given(POLICIES, SERVERS, NAMES, ANNOTATIONS, ARGUMENTS)
def test_no_hint_of_an_untrusted_server_loosens(
    rules: Policy, server: str, name: str, marks: dict[str, bool], arguments: dict[str, Any]
) -> None:
    """With any marks, its tool is treated at least as strictly as without marks."""
    marked = strictness(rules, server, name, marks, arguments)
    assert marked >= strictness(rules, server, name, {}, arguments)
    more = strictness(rules, server, name, {**marks, "readOnlyHint": True}, arguments)
    assert more >= (marked if marks.get("readOnlyHint") is None else more)


@modest
@given(POLICIES, SERVERS, NAMES, ANNOTATIONS, st.booleans(), ARGUMENTS)
def test_what_is_removed_is_denied_whatever_the_arguments(
    rules: Policy, server: str, name: str, marks: dict[str, bool], trusted: bool, arguments: dict[str, Any]
) -> None:
    target = tool_of(server, name, trusted=trusted, **marks)
    verdict = rules.decide(target, arguments)
    if rules.removes(target) is not None:
        assert verdict.action == "deny"
    if verdict.action == "ask":
        assert rules.may_ask(target)
    if all(rule.arguments is None for rule in rules.rules):
        assert rules.removes(target) == (verdict if verdict.action == "deny" else None)
        assert rules.may_ask(target) == (verdict.action == "ask")


@modest
@given(POLICIES, SERVERS, NAMES, ANNOTATIONS, st.booleans(), ARGUMENTS)
def test_the_explanation_names_the_rule_that_decides(
    rules: Policy, server: str, name: str, marks: dict[str, bool], trusted: bool, arguments: dict[str, Any]
) -> None:
    target = tool_of(server, name, trusted=trusted, **marks)
    steps = rules.explain(target, arguments)
    decisive = [step.rule for step in steps if step.decides]
    verdict = rules.decide(target, arguments)
    assert decisive == ([] if verdict.rule is None else [verdict.rule])
    assert [step.rule for step in steps] == list(range(len(steps)))
    assert all(step.matched for step in steps if step.decides)


@modest
@given(POLICIES, SERVERS, NAMES.filter(str.islower), ANNOTATIONS, st.booleans(), ARGUMENTS)
def test_a_rule_that_is_never_reached_never_decides(
    rules: Policy, server: str, name: str, marks: dict[str, bool], trusted: bool, arguments: dict[str, Any]
) -> None:
    """The exception is a name that only resembles one that an earlier rule allows."""
    never = {
        found.rule for found in rules.dead({}, ["files", "git", "a/b"]) if "never reached" in found.problem
    }
    verdict = rules.decide(tool_of(server, name, trusted=trusted, **marks), arguments)
    assert verdict.rule not in never


@modest
@given(st.lists(RULES, max_size=4), SERVERS, NAMES, ANNOTATIONS, ARGUMENTS)
def test_a_rule_for_everything_hides_what_follows_and_nothing_before_it(
    rules: list[dict[str, Any]], server: str, name: str, marks: dict[str, bool], arguments: dict[str, Any]
) -> None:
    target = tool_of(server, name, **marks)
    alone = policy(*rules).decide(target, arguments)
    assert policy({"do": "ask"}, *rules).decide(target, arguments) == Verdict(action="ask", rule=0)
    assert policy(*rules, {"do": "allow"}).decide(target, arguments).action == alone.action
    after = policy(*rules, {"do": "deny"}).decide(target, arguments)
    assert after == alone or after == Verdict(action="deny", rule=len(rules))
