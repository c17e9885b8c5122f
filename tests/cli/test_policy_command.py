"""`toolbus policy`, and what other commands show of a policy."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.running import toolbus

pytestmark = pytest.mark.timeout(180)


def test_the_review_of_a_config_shows_its_policy(tmp_path: Path) -> None:
    policy = [
        {"tools": "own/delete_*", "do": "deny", "reason": "use the\x1b[2K page"},
        {"hint": "read-only", "do": "allow", "per_minute": 60, "per_run": 1000},
        {"resources": ["own/file:///a", "own/file:///b"], "prompts": "own/*", "do": "ask"},
        {"arguments": {"required": ["path"]}, "do": "ask"},
    ]
    servers = {"own": {"command": "run", "trust": True}}
    (tmp_path / "toolbus.yaml").write_text(json.dumps({"servers": servers, "policy": policy}))

    assert toolbus("trust", folder=tmp_path).stdout.splitlines() == [
        "own",
        "  command  run",
        "  trust    true: its read-only tools run without approval",
        "policy",
        "  deny   tools own/delete_*: use the\\x1b[2K page",
        "  allow  every tool marked read-only, at most 60 per minute and 1,000 per run",
        "  ask    resources own/file:///a, own/file:///b and prompts own/*",
        '  ask    every tool, resource and prompt with arguments that match {"required": ["path"]}',
    ]
    document = json.loads(toolbus("trust", "--json", folder=tmp_path).stdout)
    assert document["policy"][0] == {**policy[0], "tools": ["own/delete_*"]}
    shown = yaml.safe_load(toolbus("config", folder=tmp_path).stdout)
    assert shown["policy"] == document["policy"]
