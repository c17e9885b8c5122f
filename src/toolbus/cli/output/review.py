"""Show what a config would run, connect to and read, exactly as written.

Nothing is expanded or shortened, and control characters are escaped. Literal credentials are `***`.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.cli.output.screen import Cell, picked, styled
from toolbus.config.find import Contents
from toolbus.config.model import OFFICIAL_REGISTRY, BusConfig
from toolbus.config.review import fact_lines, review, secrets_of_bus
from toolbus.config.script_tools.files import script_facts
from toolbus.config.secrets.reference import MASK
from toolbus.config.settings.policy import PolicyRule, rule_words
from toolbus.config.settings.quotas import quota_words
from toolbus.config.settings.search import Embeddings
from toolbus.config.settings.serve import Serve
from toolbus.config.settings.stations import StationEntry
from toolbus.config.stations import station_code
from toolbus.config.trust import Candidate
from toolbus.core.text.display import counted
from toolbus.core.text.text import exact
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

if TYPE_CHECKING:
    from rich.console import Console

_CONTENTS = {
    "digest": "with digests of arguments",
    "full": "with whole arguments",
    "none": "without arguments",
}


def hook_facts(found: Candidate) -> list[JSON]:
    """The code that each entry of `hooks` would run, and its options without secrets."""
    return [_hook(entry, found.config.reviewed) for entry in found.config.hooks]


def _hook(entry: StationEntry, reviewed: Contents | None) -> dict[str, JSON]:
    facts: dict[str, JSON] = {**picked(entry, "use file line"), "options": entry.shown_options}
    try:
        code = station_code(entry, reviewed)
    except ConfigError as error:
        return {**facts, "problem": error.problem}
    return {**facts, "source": code.source, "files": code.digests}


def print_review(console: "Console", found: Candidate, shown: Callable[[str], str] = exact) -> None:
    """Print one line per fact, then the policy, the audit trail, the roots, tokens, and the gateway."""
    for parts in _review_lines(found, shown):
        console.print(styled(*parts))


def _review_lines(found: Candidate, shown: Callable[[str], str]) -> Iterator[Sequence[Cell]]:
    config = found.config
    reviewed = review(config)
    lines = [(alias, list(fact_lines(facts))) for alias, facts in reviewed.items()]
    width = max((len(label) for _, facts in lines for label, _ in facts), default=0)
    for alias, facts in lines:
        yield [(exact(alias), "bold")]
        for label, text in facts:
            yield (f"  {label:{width}}  ", "dim"), shown(text)
    if not lines:
        yield [("no servers", "dim")]
    yield from _hook_lines(found)
    yield from _script_lines(found)
    yield from _rule_lines(config)
    if (trail := audit_facts(config)) is not None:
        yield ("audit", "bold"), "  ", (exact(_audit_words(trail)), "bold yellow" if trail["outside"] else "")
    if config.serve is not None:
        yield ("serve", "bold"), "  ", exact(_serve_words(config.serve))
    yield from ([line] for line in _places(config))
    for secret in secrets_of_bus(config):
        yield (secret["key"], "bold"), "  ", exact(f"{secret['reference']}  {secret['source']}")
    if any(MASK in text for _, facts in lines for _, text in facts):
        yield [(f"{MASK} hides a likely secret; see the file", "dim")]


def _rule_lines(config: BusConfig) -> Iterator[Sequence[Cell]]:
    if config.policy:
        yield [("policy", "bold")]
    for rule in config.policy:
        yield (f"  {rule.do:5}  ", "dim"), exact(rule_words(rule))
    for index, quota in enumerate(config.quotas):
        yield (f"quotas[{index}]", "bold"), "  ", exact(quota_words(quota))


def _hook_lines(found: Candidate) -> Iterator[Sequence[Cell]]:
    hooks = hook_facts(found)
    if hooks:
        yield ("hooks", "bold"), ("  code that runs inside toolbus itself", "dim")
    for hook in hooks:
        words = [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in hook["options"].items()]
        yield "  ", exact(" ".join([hook["use"], *words]))
        for file, digest in hook.get("files", {}).items():
            yield ("    file  ", "dim"), exact(f"{file}  {digest}")
        if not hook.get("files"):
            yield ("    from  ", "dim"), exact(hook.get("source") or f"nowhere: {hook['problem']}")


def _script_lines(found: Candidate) -> Iterator[Sequence[Cell]]:
    scripts = script_facts(found.config)
    if scripts:
        yield ("tools", "bold"), ("  scripts that run in a sandbox and call tools", "dim")
    for script in scripts:
        uses = "any tool" if script["uses"] is None else ", ".join(script["uses"])
        yield "  ", exact(f"{script['name']}  {script['script']}, may call {uses}")
        if (text := script.get("text")) is None:
            yield ("    from  ", "dim"), exact(f"nowhere: {script['problem']}")
            continue
        yield from ([("    | ", "dim"), exact(line)] for line in text.splitlines())


def _places(config: BusConfig) -> Iterator[str]:
    """The folders that servers see, and where tokens and other things are kept or sent."""
    if config.roots:
        yield f"roots shared with servers: {', '.join(map(exact, config.roots))}"
    if config.tokens != "auto":
        yield f"tokens of people who sign in are kept in: {exact(str(config.tokens))}"
    if config.store is not None:
        yield f"keys, tokens and approvals are kept in: {exact(config.store.shown)}"
    if config.registry != OFFICIAL_REGISTRY:
        yield f"'toolbus add' and 'update' look servers up in: {exact(config.registry)}"
    if isinstance(encoder := config.search.encoder, Embeddings):
        yield f"names and descriptions of tools are sent to: {exact(encoder.url)}"


def audit_facts(config: BusConfig) -> dict[str, JSON] | None:
    """The audit trail that the config writes, and whether its file is outside of the config's folder."""
    if config.audit is None:
        return None
    real = Path(os.path.realpath(config.audit.file))
    folder = None if config.folder is None else Path(os.path.realpath(config.folder))
    return {
        **config.audit.model_dump(),
        "file": str(real),
        "outside": folder is None or not real.is_relative_to(folder),
    }


def _audit_words(trail: Mapping[str, JSON]) -> str:
    limits = [
        f"keeps {counted(trail['keep'], 'full file')}" if trail["keep"] else "",
        f"keeps full files for {counted(trail['days'], 'day')}" if trail["days"] else "",
    ]
    removes = [", ".join(filter(None, limits)) + " and deletes older ones"] if any(limits) else []
    where = f"{trail['file']}{' (outside the folder of the config)' if trail['outside'] else ''}"
    return ", ".join([f"writes {where}", _CONTENTS[trail["content"]], *removes])


def _serve_words(serve: Serve) -> str:
    oauth = serve.auth.oauth
    asks = None if oauth is None else oauth.introspection
    oidc = None if serve.auth.sign_in is None else serve.auth.sign_in.oidc
    ways = [
        *(["keys"] if serve.auth.keys else []),
        *([] if oauth is None else [f"tokens of {oauth.issuer}"]),
        *([] if serve.auth.sign_in is None else [f"people who sign in at {serve.issuer}"]),
        *([] if oidc is None else [f"people of {oidc.issuer}"]),
        *([] if asks is None else [f"asks there with {asks.model_dump()['client_secret']}"]),
    ]
    console = "; its console is open to other machines" if serve.console else ""
    console += ", which can add and change servers" if serve.console == "edit" else ""
    rest = "; also serves its tools as a REST API" if serve.rest else ""
    return f"at {serve.http}, lets in: {', '.join(ways) or 'everyone on this machine'}{console}{rest}"


# A rule of the policy as JSON


def rule_json(rule: PolicyRule) -> JSON:
    """The rule as written in the config, every pattern in a list."""
    return rule.model_dump(mode="json", exclude_defaults=True)
