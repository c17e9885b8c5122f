"""Show what a config would run, connect to and read, exactly as written.

Nothing is expanded or shortened, and control characters are escaped. Literal credentials are `***`.
"""

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.cli.output.screen import Cell, exact, picked, styled
from toolbus.config.find import DOTENV, Contents, env_file_path
from toolbus.config.location import is_list, is_mapping
from toolbus.config.model import OFFICIAL_REGISTRY, BusConfig, ServerConfig
from toolbus.config.secrets.literals import without_literals
from toolbus.config.secrets.reference import MASK, Reference, parsed
from toolbus.config.settings.auth import Auth
from toolbus.config.settings.override import ToolOverride
from toolbus.config.settings.policy import SELECTORS, PolicyRule
from toolbus.config.settings.search import Embeddings
from toolbus.config.settings.serve import Serve
from toolbus.config.settings.stations import StationEntry
from toolbus.config.stations import station_code
from toolbus.config.trust import Candidate
from toolbus.core.text.display import counted
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

if TYPE_CHECKING:
    from rich.console import Console

_EDITOR_VARIABLES = ("workspaceFolder", "userHome")
# As python-dotenv expands them.
_DOTENV_REFERENCE = re.compile(r"\$\{([^}:]*)(?::-[^}]*)?\}")
# Variables that can make a program run or load other code.
_CODE_VARIABLE = re.compile(
    r"(LD|DYLD|PYTHON|NODE|NPM|RUBY|GEM|PERL|JAVA|JDK|BASH|GIT|UV|PIP)\w*|\w*(PATH|SHELL|OPTIONS|OPTS|PROXY|URL|HOST)|ENV",
    re.IGNORECASE,
)
_MEANING = {
    ("verify", False): "false: any certificate is accepted",
    ("trust_annotations", True): "true: its read-only tools run without approval",
}
_CONTENTS = {
    "digest": "with digests of arguments",
    "full": "with whole arguments",
    "none": "without arguments",
}
_LABELS = {"headers": "header", "env_file_variables": "env", "secrets": "secret", "inherit_env": "inherits"}


def review(found: Candidate) -> dict[str, JSON]:
    """What each enabled server would use, by alias."""
    reviewed = _Project(found)
    return {
        # The user's own servers need no review; what another layer may change of them is not dangerous.
        alias: reviewed.facts(server) if server.folder is None else {"from": str(server.file)}
        for alias, server in found.config.servers.items()
    }


def secrets_of_bus(found: Candidate) -> list[JSON]:
    """The references outside of servers, each with its key and its source."""
    project = _Project(found)
    return [
        {"key": key, **secret}
        for key, text in found.config.texts()
        for secret in project.sources(_references([(key, text)]), {})
    ]


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
    reviewed, config = review(found), found.config
    lines = [(alias, list(_lines(facts))) for alias, facts in reviewed.items()]
    width = max((len(label) for _, facts in lines for label, _ in facts), default=0)
    for alias, facts in lines:
        yield [(exact(alias), "bold")]
        for label, text in facts:
            yield (f"  {label:{width}}  ", "dim"), shown(text)
    if not lines:
        yield [("no servers", "dim")]
    yield from _hook_lines(found)
    if config.policy:
        yield [("policy", "bold")]
    for rule in config.policy:
        yield (f"  {rule.do:5}  ", "dim"), exact(rule_words(rule))
    if (trail := audit_facts(config)) is not None:
        yield ("audit", "bold"), "  ", (exact(_audit_words(trail)), "bold yellow" if trail["outside"] else "")
    if config.serve is not None:
        yield ("serve", "bold"), "  ", exact(_serve_words(config.serve))
    yield from ([line] for line in _places(config))
    for secret in secrets_of_bus(found):
        yield (secret["key"], "bold"), "  ", exact(f"{secret['reference']}  {secret['source']}")
    if any(MASK in text for _, facts in lines for _, text in facts):
        yield [(f"{MASK} stands for what looks like a secret; see the file", "dim")]


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
    ways = [
        *(["keys"] if serve.auth.keys else []),
        *([] if oauth is None else [f"tokens of {oauth.issuer}"]),
        *([] if asks is None else [f"asks there with {asks.model_dump()['client_secret']}"]),
    ]
    console = "; its console is open to other machines" if serve.console else ""
    return f"at {serve.http}, lets in: {', '.join(ways) or 'everyone on this machine'}{console}"


def _lines(facts: Mapping[str, JSON]) -> Iterator[tuple[str, str]]:
    for name, fact in facts.items():
        label = _LABELS.get(name, name)
        if name == "secrets":
            yield from ((label, f"{secret['reference']}  {secret['source']}") for secret in fact)
        elif name == "override":
            yield from (
                (label, f"{tool}: {json.dumps(rule, ensure_ascii=False)}") for tool, rule in fact.items()
            )
        elif is_mapping(fact):
            gap = ": " if name in ("headers", "auth") else "="
            texts = {key: text if isinstance(text, str) else json.dumps(text) for key, text in fact.items()}
            yield from ((label, f"{key}{gap}{text}") for key, text in texts.items())
        elif name == "inherit_env":
            yield label, "the whole environment" if fact == "all" else ", ".join(fact)
        else:
            yield label, _MEANING.get((name, fact)) or str(fact)


class _Project:
    """The project's files, and what servers use from them."""

    def __init__(self, found: Candidate) -> None:
        assert found.config.folder is not None
        self._folder = found.config.folder
        self._contents: Contents = found.config.reviewed or {}
        self._sandboxed = found.config.sandbox is not None
        self._dotenv = self._variables(str(self._folder / DOTENV))

    def facts(self, server: ServerConfig) -> dict[str, JSON]:
        if server.mistake is not None:
            return {"mistake": str(server.mistake)}
        shown = without_literals(server)
        words = [shown[key] for key in shown if key == "command" or key.startswith("args[")]
        own = self._variables(env_file_path(server, self._folder))
        inherited = server.inherit_env
        facts: dict[str, JSON] = {
            "command": shlex.join(words) or None,
            "cwd": shown.get("cwd"),
            "url": shown.get("url"),
            "verify": None if server.verify is True else server.verify,
            "headers": {name: shown[f"headers.{name}"] for name in server.headers},
            "auth": _auth(server.auth, shown),
            "env": {name: shown[f"env.{name}"] for name in server.env},
            "env_file": shown.get("env_file"),
            "env_file_variables": {
                name: _without_literals(name, text) if _CODE_VARIABLE.fullmatch(name) else MASK
                for name, text in own.items()
            },
            "inherit_env": list(inherited) if is_list(inherited) else "all" if inherited == "all" else None,
            "sandbox": self._sandbox(server, shown),
            "secrets": list(self.sources(_references(server.texts()), own)),
            "trust_annotations": server.trust_annotations or None,
            "override": {
                tool: _rule(change) for tool, change in server.override.items() if _changes_meaning(change)
            },
        }
        return {name: fact for name, fact in facts.items() if fact not in (None, {}, [])}

    def _sandbox(self, server: ServerConfig, shown: Mapping[str, str]) -> str | None:
        """What the server gets; that it has none, only if others have one by default."""
        if server.command is None or (server.sandbox is None and not self._sandboxed):
            return None
        if server.sandbox is None:
            return "none: it can read and change what you can"
        paths = {
            word: [text for key, text in shown.items() if key.startswith(f"sandbox.{kind}[")]
            for kind, word in (("read", "reads"), ("write", "writes"))
        }
        parts = [f"{word} {', '.join(found)}" for word, found in paths.items() if found]
        if server.sandbox.env:
            parts.append(f"gets {', '.join(server.sandbox.env)}")
        return "; ".join([*parts, "uses the network" if server.sandbox.net else "no network"])

    def sources(self, references: Mapping[Reference, bool], own: Mapping[str, str]) -> Iterator[JSON]:
        """Each reference once, with its source.

        A value from `.env` is shown only if it affects what is run or connected to.
        """
        names: dict[str, bool] = {}
        for reference, decides in references.items():
            match reference.kind:
                case "name":
                    names[reference.body] = names.get(reference.body, False) or decides
                case "file":
                    path = os.path.realpath(os.path.join(self._folder, os.path.expanduser(reference.body)))
                    yield _secret(f"file:{reference.body}", f"reads {path}")
                case "keyring":
                    yield _secret(f"keyring:{reference.body}", "from your keyring")
                case "cmd":
                    yield _secret(f"cmd:{reference.body}", "runs this command")
                case "user":
                    yield _secret("user", "the name of the user")
        decisive = set(self._with_nested((name for name, decides in names.items() if decides), {}))
        for name in self._with_nested(names, own):
            if name in self._dotenv:
                value = f": {_without_literals(name, self._dotenv[name])}" if name in decisive else ""
                yield _secret(name, f"from the environment, else from {DOTENV}{value}")
            elif name not in _EDITOR_VARIABLES:
                yield _secret(name, "from the environment")

    def _with_nested(self, names: Iterable[str], own: Mapping[str, str]) -> Iterable[str]:
        """The names, plus those that dotenv values refer to."""
        found = dict.fromkeys(names)
        waiting = [*(self._dotenv.get(name, "") for name in found), *own.values()]
        while waiting:
            for name in _DOTENV_REFERENCE.findall(waiting.pop()):
                if name not in found:
                    found[name] = None
                    waiting.append(self._dotenv.get(name, ""))
        return found

    def _variables(self, path: str | None) -> dict[str, str]:
        """The variables in a dotenv file, unexpanded."""
        from dotenv import dotenv_values

        content = self._contents.get(path) if path is not None else None
        if content is None:
            return {}
        stream = StringIO(content.decode("utf-8-sig", errors="replace"))
        values = dotenv_values(stream=stream, interpolate=False)
        return {name: value for name, value in values.items() if value is not None}


def _auth(auth: Auth | None, shown: Mapping[str, str]) -> JSON:
    """The token, or for any other type its keys."""
    if auth is None or auth.type == "bearer":
        return shown.get("auth.token")
    return {
        key: " ".join(value) if is_list(value) else shown.get(f"auth.{key}", value)
        for key, value in auth.as_written().items()
    }


def _references(texts: Iterable[tuple[str, str]]) -> dict[Reference, bool]:
    """The references in texts by field, and whether each affects what is run or connected to."""
    found: dict[Reference, bool] = {}
    for field, text in texts:
        for part in parsed(text):
            if isinstance(part, Reference):
                found[part] = found.get(part, False) or _is_decisive(field)
    return found


def _is_decisive(field: str) -> bool:
    """Whether the field affects what is run or connected to; otherwise it is only passed on."""
    kind, _, name = field.partition(".")
    if kind == "env":
        return _CODE_VARIABLE.fullmatch(name) is not None
    if kind in ("headers", "search", "serve") or kind.startswith("hooks["):
        return False
    # Who gets the credentials of `auth`, and where the browser is sent with a code.
    return kind != "auth" or name in ("issuer", "callback", "client_metadata")


def _changes_meaning(change: ToolOverride) -> bool:
    """Whether the override changes what a model sees or sends."""
    return not change.rule.keys().isdisjoint(("description", "append", "arguments", "schema"))


def _rule(change: ToolOverride) -> JSON:
    """The override, with credentials in argument values masked."""
    arguments = {
        name: {
            key: _without_literals(name, part)
            if key in ("default", "value") and isinstance(part, str)
            else part
            for key, part in rule.items()
        }
        for name, rule in change.rule.get("arguments", {}).items()
    }
    return {**change.rule, **({"arguments": arguments} if arguments else {})}


def _secret(reference: str, source: str) -> JSON:
    return {"reference": f"${{{reference}}}", "source": source}


def _without_literals(name: str, text: str) -> str:
    """The variable's value, masked if it is a credential."""
    try:
        alone = ServerConfig(alias=DOTENV, transport="stdio", command=DOTENV, env={name: text})
        return without_literals(alone)[f"env.{name}"]
    except ConfigError:  # an incomplete reference, not a usable credential
        return text


# A rule of the policy in words


def rule_words(rule: PolicyRule) -> str:
    """What the rule is about, its conditions, limits and reason, on one line; without what it does."""
    about = [f"{key} {', '.join(patterns)}" for key in SELECTORS if (patterns := getattr(rule, key))]
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
