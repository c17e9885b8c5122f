"""The `policy` of a config: what is read, and what is a mistake."""

import pytest
from jsonschema_rs import validator_for

from toolbus.config import load_config
from toolbus.config.schema import config_schema
from toolbus.core.errors import ConfigError

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
    ],
)
def test_a_mistake_names_the_rule_and_the_key(rule: object, mistake: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({**SERVERS, "policy": [rule]})
    assert mistake in str(caught.value)


def test_the_schema_for_editors_takes_one_pattern_or_a_list() -> None:
    schema = validator_for(config_schema())
    for tools, fits in (("files/*", True), (["files/*"], True), ([], False), (3, False)):
        assert schema.is_valid({**SERVERS, "policy": [{"tools": tools, "do": "ask"}]}) is fits
