"""A rule of the policy in words, for people who review a config or ask what it decides."""

import json

from toolbus.config.settings.policy import SELECTORS, PolicyRule
from toolbus.core.values.records import JSON


def rule_words(rule: PolicyRule) -> str:
    """What the rule is about, its conditions, limits and reason, on one line; without what it does."""
    about = [_about(key, getattr(rule, key)) for key in SELECTORS if getattr(rule, key)]
    if not about:
        about = ["every tool" if rule.hint is not None else "every tool, resource and prompt"]
    words = " and ".join(about)
    if rule.hint is not None:
        words += f" marked {rule.hint}"
    if rule.arguments is not None:
        words += f" with arguments that match {json.dumps(rule.arguments, ensure_ascii=False)}"
    limits = rate_words(rule)
    words += f", {limits}" if limits else ""
    return f"{words}: {rule.reason}" if rule.reason else words


def rate_words(rule: PolicyRule) -> str:
    """The rates of the rule; empty if it has none."""
    rates = (rule.per_minute, "minute"), (rule.per_run, "run")
    found = [f"{most:,} per {period}" for most, period in rates if most is not None]
    return f"at most {' and '.join(found)}" if found else ""


def rule_json(rule: PolicyRule) -> JSON:
    """The rule as written in the config, every pattern in a list."""
    return rule.model_dump(mode="json", exclude_defaults=True)


def _about(key: str, patterns: tuple[str, ...]) -> str:
    return f"{key} {', '.join(patterns)}"
