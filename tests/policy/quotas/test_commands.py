"""The output of commands about quotas, and the counts of their calls."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import scripted, toolbus, write_config

QUOTAS: list[dict[str, Any]] = [
    {"per": "user", "per_day": 2},
    {"per": "server", "names": ["shop"], "tools": "shop/*", "per_minute": 60, "concurrent": 4},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "home" / "work"
    made.mkdir(parents=True)
    tools = [{"name": "get", "inputSchema": {"type": "object"}}]
    write_config(made, {"shop": scripted(made, "shop", tools=tools)}, audit="audit.jsonl", quotas=QUOTAS)
    return made


def test_calls_of_commands_count_together_and_the_statistics_have_the_refused_ones(folder: Path) -> None:
    found = [toolbus("call", "shop_get", folder=folder) for _ in range(4)]
    assert [one.returncode for one in found] == [0, 0, 1, 1]
    assert "quotas[0] allows a user without a name 2 calls per day; try again in " in found[2].stderr
    usage = json.loads(toolbus("audit", "usage", "--json", folder=folder).stdout)
    [tool] = usage["tools"]
    assert {key: tool[key] for key in ("calls", "errors", "refused", "over_quota")} == {
        "calls": 2,
        "errors": 0,
        "refused": 2,
        "over_quota": 2,
    }
    assert usage["servers"]["shop"]["over_quota"] == 2
    assert "(+2 refused, 2 over quota)" in toolbus("audit", "usage", folder=folder).stdout


def test_a_policy_that_is_only_explained_counts_nothing(folder: Path) -> None:
    shown = toolbus("policy", folder=folder).stdout
    assert "quotas[0]  each user: at most 2 per day\n" in shown
    words = "each server shop: at most 60 per minute, 4 at a time of tools shop/*"
    assert words in shown
    document = json.loads(toolbus("policy", "--json", folder=folder).stdout)
    assert [one["per"] for one in document["quotas"]] == ["user", "server"]
    for _ in range(3):
        assert toolbus("policy", "shop_get", folder=folder).returncode == 0
    assert toolbus("call", "shop_get", folder=folder).returncode == 0


def test_the_stations_have_the_quotas_after_the_policy(folder: Path) -> None:
    shown = toolbus("config", "--stations", "--json", folder=folder).stdout
    rows: list[dict[str, Any]] = json.loads(shown)
    [quotas] = [row for row in rows if row["station"] == "quotas"]
    assert (quotas["active"], quotas["note"]) == (True, "2 quotas")
    names = [str(row["station"]) for row in rows]
    assert names.index("policy") < names.index("quotas") < names.index("route")
