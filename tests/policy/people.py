"""Shared parts of the policy tests: a person who answers, and the lines of a trail."""

import json
from pathlib import Path
from typing import Any

from tests.inside.core import ApprovalAnswer, ApprovalRequest, Interactions


class Person:
    """Answers in turn, the last answer again and again, and keeps the questions."""

    def __init__(self, *answers: ApprovalAnswer) -> None:
        self.answers = list(answers)
        self.asked: list[ApprovalRequest] = []

    def __call__(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append(request)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    @property
    def interactions(self) -> Interactions:
        return Interactions(approve=self)


def lines(trail: Path) -> list[dict[str, Any]]:
    """The lines of a trail about calls."""
    found = [json.loads(line) for line in trail.read_text().splitlines()]
    return [line for line in found if line["event"] in ("decided", "ended")]


def decisions(trail: Path) -> list[tuple[Any, ...]]:
    """The target, the decision, the rule and the decider of each decision."""
    return [
        (line.get("tool") or line["route"], line["decision"], line.get("rule"), line["by"])
        for line in lines(trail)
        if line["event"] == "decided"
    ]
