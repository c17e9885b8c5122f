"""The commands, hosts and files of a config, as facts for a person to review.

Nothing is expanded or shortened. Literal credentials are `***`.
"""

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from io import StringIO

from toolbus.config.find import DOTENV, Contents, env_file_path
from toolbus.config.location import is_list, is_mapping
from toolbus.config.model import BusConfig, ServerConfig
from toolbus.config.script_tools.entry import has_scripts
from toolbus.config.secrets.literals import without_literals
from toolbus.config.secrets.reference import MASK, Reference, parsed
from toolbus.config.settings.auth import Auth
from toolbus.config.settings.override import ToolOverride
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

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
    ("allow_private", True): "true: requests may go to addresses in your own network",
    ("trust_annotations", True): "true: its read-only tools run without approval",
}
_LABELS = {
    "headers": "header",
    "forward_headers": "forwards",
    "env_file_variables": "env",
    "secrets": "secret",
    "inherit_env": "inherits",
}


def review(config: BusConfig) -> dict[str, JSON]:
    """The facts about each enabled server that a person reviews, by alias."""
    reviewed = ProjectReview(config)
    return {
        # The user's own servers need no review; what another layer may change of them is not dangerous.
        alias: reviewed.facts(server) if server.folder is None else {"from": str(server.file)}
        for alias, server in config.servers.items()
        if not has_scripts(server.server)
    }


def secrets_of_bus(config: BusConfig) -> list[JSON]:
    """The references outside of servers, each with its key and its source."""
    project = ProjectReview(config)
    return [
        {"key": key, **secret}
        for key, text in config.texts()
        for secret in project.sources(_references([(key, text)]), {})
    ]


def fact_lines(facts: Mapping[str, JSON]) -> Iterator[tuple[str, str]]:
    """The facts about a server, one per line: what it is, and its text."""
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
        elif name == "allow_origins":
            yield label, ", ".join(fact)
        elif name == "forward_headers":
            yield label, f"{', '.join(fact)}, as clients of the gateway send them"
        else:
            yield label, _MEANING.get((name, fact)) or str(fact)


class ProjectReview:
    """The project's files, and what servers use from them."""

    def __init__(self, config: BusConfig) -> None:
        assert config.folder is not None, "it is in a file"
        self._folder = config.folder
        self._contents: Contents = config.reviewed or {}
        self._sandboxed = config.sandbox is not None
        self._dotenv = self._variables(str(self._folder / DOTENV))

    def facts(self, server: ServerConfig) -> dict[str, JSON]:
        """The facts about a server by name; empty ones are left out."""
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
            **_api(server, shown),
            "verify": None if server.verify is True else server.verify,
            "headers": {name: shown[f"headers.{name}"] for name in server.headers},
            "forward_headers": list(server.forward_headers),
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
        """The sandbox of the server; without one, a warning if others have one by default."""
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


def _api(server: ServerConfig, shown: Mapping[str, str]) -> dict[str, JSON]:
    """The document of an HTTP API, and where requests may go."""
    api = server.openapi
    if api is None:
        return {}
    return {
        "openapi": shown["openapi.document"],
        "base_url": shown.get("openapi.base_url"),
        "query": {name: shown[f"openapi.query.{name}"] for name in api.query},
        "allow_origins": list(api.allow_origins),
        "allow_private": api.allow_private or None,
    }


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
    """Whether the field affects what is run or connected to; otherwise it is only data for the server."""
    kind, _, name = field.partition(".")
    if kind == "env":
        return _CODE_VARIABLE.fullmatch(name) is not None
    if kind in ("headers", "search", "serve") or kind.startswith("hooks[") or name.startswith("query."):
        return False
    # Who gets the credentials of `auth`, and where the browser is sent with a code.
    return kind != "auth" or name in ("issuer", "callback", "client_metadata")


def _changes_meaning(change: ToolOverride) -> bool:
    """Whether the override changes a tool for a model or for a policy."""
    return not change.rule.keys().isdisjoint(
        ("description", "append", "arguments", "schema", "hints", "result")
    )


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
