"""The `policy` of a config: valid rules and mistakes."""

import pytest

from tests.config.conftest import misfits
from tests.inside.core import ConfigError
from toolbus.config import load_config

SERVERS = {"servers": {"files": {"command": "x"}}}


def test_one_pattern_is_a_list_of_one() -> None:
    (rule,) = load_config({**SERVERS, "policy": [{"tools": "files/*", "do": "ask"}]}).policy
    assert rule.tools == ("files/*",)
    assert rule.selects


def test_a_rule_without_patterns_is_about_everything_that_we_ask_of_servers() -> None:
    (rule,) = load_config({**SERVERS, "policy": [{"do": "deny"}]}).policy
    assert not rule.selects


@pytest.mark.parametrize(
    ("rule", "mistake"),
    [
        ({"tool": "files/x", "do": "ask"}, "policy[0].tool: unknown key; did you mean 'tools'?"),
        (
            {"tools": "read", "do": "ask"},
            "policy[0].tools: 'read' names no server; write server/tool, or */read",
        ),
        ({"tools": [], "do": "ask"}, "policy[0].tools: is empty; name a pattern, or leave it out"),
        ({"do": "aks"}, "policy[0].do: expected 'allow', 'ask' or 'deny'"),
        ({"tools": "files/x"}, "policy[0].do: is missing"),
        ("files/x", "policy[0]: expected a mapping"),
        ({"requests": "files/sampel", "do": "deny"}, "not 'sampel'"),
        ({"hint": "writes", "prompts": "files/*", "do": "ask"}, "policy[0].hint: is about tools"),
        ({"do": "deny", "per_run": 3}, "policy[0].per_run: a rule that denies has no rate"),
        ({"do": "ask", "arguments": {"type": "strin"}}, "policy[0].arguments: is not a JSON Schema"),
        (
            {"do": "allow", "arguments": {"path": {"pattern": "^/tmp"}}},
            "policy[0].arguments.path: unknown keyword; the names of arguments belong under 'properties'",
        ),
        (
            {"do": "allow", "arguments": {"properties": {"path": {"patern": "^/tmp"}}}},
            "policy[0].arguments.properties.path.patern: unknown keyword; did you mean 'pattern'?",
        ),
        (
            {"do": "allow", "arguments": {"properties": {"to": {"format": "email"}}}},
            "policy[0].arguments.properties.to.format: is not checked",
        ),
        (
            {"do": "allow", "arguments": {"properties": {"path": {"pattern": "^(?!/etc)"}}}},
            "policy[0].arguments.properties.path.pattern: '^(?!/etc)' cannot be checked",
        ),
        (
            {"do": "deny", "arguments": {"properties": {"path": {"pattern": "(["}}}},
            "policy[0].arguments.properties.path.pattern: '([' is not a regular expression",
        ),
    ],
)
def test_a_mistake_names_the_rule_and_the_key(rule: object, mistake: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({**SERVERS, "policy": [rule]})
    assert mistake in str(caught.value)


def test_the_schema_for_editors_takes_one_pattern_or_a_list() -> None:
    for tools, fits in (("files/*", True), (["files/*"], True), ([], False), (3, False)):
        assert (misfits({**SERVERS, "policy": [{"tools": tools, "do": "ask"}]}) == []) is fits


def test_an_alias_below_another_one_is_a_mistake_with_a_policy_only() -> None:
    """A rule on `a/b/x` could mean the tool `b/x` of one, or `x` of the other."""
    servers = {"servers": {"a": {"command": "x"}, "a/b": {"command": "x"}}}
    assert len(load_config(servers).servers) == 2
    with pytest.raises(ConfigError, match="patterns on 'a/b' would also match tools of 'a'"):
        load_config({**servers, "policy": [{"do": "ask"}]})


def test_arguments_may_use_every_keyword_that_is_checked() -> None:
    schema = {
        "$defs": {"format": {"const": 3}},
        "properties": {"format": {"$ref": "#/$defs/format"}},
        "if": {"required": ["a"]},
        "then": {"dependentRequired": {"a": ["b"]}},
        "patternProperties": {"^x": {"minLength": 1}},
    }
    (rule,) = load_config({**SERVERS, "policy": [{"arguments": schema, "do": "deny"}]}).policy
    assert rule.arguments == schema
