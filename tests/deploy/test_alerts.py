"""deploy/alerts.yaml: expressions that Prometheus reads, on metrics and labels that /metrics has."""

import re
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.inside.gateway import PROBLEM_KINDS, Metrics, ServerCalls, error_kind, merged
from toolbus.records import ServerStatus

ALERTS = Path(__file__).parents[2] / "deploy" / "alerts.yaml"
RULES: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
OF_PROMETHEUS = {"up"}
"""Metrics that Prometheus makes itself."""


def printed() -> dict[str, dict[str, set[str]]]:
    """The samples of a page of two workers: their labels and values, by name."""
    metrics, calls = Metrics(), ServerCalls()
    for kind in (error_kind(-32603), *(code for _, _, code in PROBLEM_KINDS)):
        metrics.ended("tools/call", 0.1, kind)
    metrics.refused["unauthenticated"] += 1
    metrics.refused["throttled"] += 1
    calls.refused["full"] += 1
    status = ServerStatus(state="ready")
    gauges = {"sessions": 0, "connections": 0}
    page = metrics.text({"notes": status}, gauges, [("notes", calls)])
    found: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(merged({0: page}, 2)):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {"instance": set(), "job": set()})
            for name, value in sample.labels.items():
                labels.setdefault(name, set()).add(value)
    return found


def selectors(node: Any) -> list[Any]:
    """The selectors within an expression."""
    found: list[Any] = []

    def visit(one: Any) -> bool:
        if isinstance(one, promql_parser.VectorSelector):
            found.append(one)
        elif isinstance(one, promql_parser.MatrixSelector):
            found.append(one.vector_selector)
        return True

    promql_parser.walk(node, visit)
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda one: one["alert"])
def test_an_alert_is_on_metrics_and_labels_that_are_printed(rule: dict[str, Any]) -> None:
    known, used = printed(), selectors(promql_parser.parse(rule["expr"]))
    assert used
    labels: set[str] = set()
    for selector in used:
        if selector.name in OF_PROMETHEUS:
            labels |= {"instance", "job"}
            continue
        assert selector.name in known, selector.name
        labels |= known[selector.name].keys()
        for matcher in selector.matchers.matchers:
            values = known[selector.name][matcher.name]
            for value in matcher.value.split("|"):
                assert value in values, f"{selector.name}{{{matcher.name}={value!r}}} is never printed"
    texts = " ".join(rule["annotations"].values())
    assert set(re.findall(r"\$labels\.(\w+)", texts)) <= labels


def test_every_alert_says_what_to_do() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "description"}


def test_every_state_of_trouble_has_an_alert() -> None:
    text = ALERTS.read_text()
    assert {"failed", "retrying", "auth_required"} <= printed()["toolbus_gateway_server_state"]["state"]
    for state in ("failed", "retrying", "auth_required"):
        assert state in text
