"""A target: a server that is named on the command line instead of in a config.

Typing a URL, a command or a Python file is consent to it. Someone else wrote a published file, or the entry
of a registry, so its server has to be reviewed first.
"""

import os.path
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from toolbus.config.location import printable
from toolbus.config.secrets.redact import shown_url
from toolbus.core.text.lookalikes import looks
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON, OWN

TargetKind: TypeAlias = Literal["url", "openapi", "command", "server_json", "mcpb", "python", "registry"]
REGISTRY = "registry:"
FORMS = (
    "expected a URL with https:// or http://, a .json, .yaml, .mcpb or .py file, or registry:NAME; "
    "a command comes last, after --"
)
_FILES: dict[str, TargetKind] = {
    ".json": "server_json",
    ".yaml": "openapi",
    ".yml": "openapi",
    ".mcpb": "mcpb",
    ".py": "python",
}
_DOCUMENT = re.compile(r"https?://[^?#]*\.(?:json|ya?ml)(?:[?#]|$)", re.IGNORECASE)
"""The URL of an OpenAPI document, which no MCP server has."""
_BEGINNING = re.compile(rb'\s*\{\s*"(?:openapi|swagger)"\s*:')
_RUNNER = "toolbus.connect.python_file"
"""The module that serves the server object of a Python file."""
_GENERIC = frozenset(("mcp", "api", "www", "app", "server", "servers", "remote", "index", "main", "dist"))
"""Names that say nothing about a server."""
_LAUNCHER = re.compile(
    r"npx|npm|pnpm|yarn|bunx?|uvx?|pipx|dlx|exec|run|tool|docker|podman|node|deno|dnx|(?:python|py)[\d.]*|env|sh|bash"
)
_NAME = re.compile(r"@?[A-Za-z0-9][\w.~-]*(?:/[\w.~-]+)*(?:@[\w.~^-]+)?|(?:[A-Za-z]:|[\w.~/\\-])*[\w.~-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A server to use without a config."""

    kind: TargetKind
    text: str = field(repr=False)
    """As it was typed; for a command, its program."""
    args: tuple[str, ...] = field(default=(), repr=False)
    """The arguments of a command."""
    server: str | None = None
    """The name of the server object in a Python file."""

    @property
    def is_typed(self) -> bool:
        """Whether the user has typed the whole launch; otherwise it has to be reviewed first."""
        return self.kind in ("url", "openapi", "command", "python")

    @property
    def shown(self) -> str:
        """The target in a message, without secrets."""
        match self.kind:
            case "url" | "openapi":
                return shown_url(self.text) if "://" in self.text else printable(self.text)
            case "command":
                return printable(os.path.basename(self.text))
            case _:
                return printable(self.text)

    @property
    def alias(self) -> str:
        """A name for the server, if nothing else names it."""
        if "://" in self.text and self.kind in ("url", "openapi"):
            return _usable(_host_name(self.text))
        words = (self.text, *self.args) if self.kind == "command" else (self.text.removeprefix(REGISTRY),)
        return _usable(_program_name(words))


def target_of(text: str) -> Target:
    """The target in one word; ConfigError says which forms there are."""
    if text.startswith("-") or not text.strip():
        raise ConfigError(f"{_quoted(text)} is not a server: {FORMS}")
    if text.startswith(REGISTRY):
        return Target(kind="registry", text=text)
    if "://" in text:
        return Target(kind="openapi" if _DOCUMENT.match(text) else "url", text=_url(text))
    path, _, server = text.partition(".py:") if ".py:" in text else (text, "", "")
    path = f"{path}.py" if server else path
    kind = _FILES.get(Path(path).suffix.lower())
    if kind is None:
        raise ConfigError(f"{_quoted(text)} is not a server to use without a config: {FORMS}")
    if not os.path.isfile(os.path.expanduser(path)):
        raise ConfigError(f"{path!r}: no such file; check the path")
    return Target(kind="openapi" if is_api_document(path) else kind, text=path, server=server or None)


def is_api_document(text: str) -> bool:
    """Whether a word is the URL or the file of an OpenAPI document."""
    path = Path(text).expanduser()
    if "://" in text or path.suffix.lower() not in (".json", ".yaml", ".yml"):
        return _DOCUMENT.match(text) is not None
    if path.suffix.lower() != ".json" or not path.is_file():
        return path.is_file()
    with path.open("rb") as file:
        return _BEGINNING.match(file.read(1000).removeprefix(b"\xef\xbb\xbf")) is not None


def command_target(words: Sequence[str]) -> Target:
    """The target that is a command and its arguments."""
    return Target(kind="command", text=words[0], args=tuple(words[1:]))


def typed_entry(target: Target) -> dict[str, JSON]:
    """The config entry of a target that was typed."""
    match target.kind:
        case "url":
            return {"url": target.text}
        case "openapi" if "://" in target.text:
            return {"openapi": target.text}
        case "openapi":
            return {"openapi": os.path.abspath(os.path.expanduser(target.text)).replace("${", "$${")}
        case "command":
            return {"command": target.text, **({"args": list(target.args)} if target.args else {})}
        case _:
            assert target.kind == "python", "what others wrote is converted by the registry"
            file = os.path.abspath(os.path.expanduser(target.text))
            # -P: a folder named toolbus in the current one must not be run instead.
            words = ["-P", "-m", _RUNNER, file, *([target.server] if target.server else [])]
            return {"command": sys.executable, "args": [word.replace("${", "$${") for word in words]}


def _quoted(text: str) -> str:
    """The word, unless it may be a URL with a secret that lacks its scheme."""
    return repr(text) if re.fullmatch(r"[\w./\\ -]{0,200}", text) else "that"


def _url(text: str) -> str:
    if not re.match(r"https?://[^/?#\s]", text, re.IGNORECASE):
        scheme = printable(text.partition("://")[0])
        raise ConfigError(f"a server's URL starts with http:// or https://, not with {scheme}://")
    return text


def _host_name(url: str) -> str:
    """The part of the host that names the service: `linear` of https://mcp.linear.app/mcp."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:  # an invalid address, which the config explains
        return ""
    labels = host.split(".")
    if len(labels) == 1 or labels[-1].isdecimal() or ":" in host:
        return "" if ":" in host or labels[-1].isdecimal() else host
    telling = [label for label in labels[:-1] if label not in _GENERIC]
    return max(telling, key=len, default=labels[0])


def _program_name(words: Sequence[str]) -> str:
    """The name of the program in a command: `filesystem` of npx -y @scope/server-filesystem."""
    for word in words:
        name = re.split(r"[/\\]", word)[-1]
        if word.startswith("-") or not _NAME.fullmatch(word) or _LAUNCHER.fullmatch(name.lower()):
            continue
        plain = re.sub(r"(?<=.)@.*$|\.(?:py|m?js|ts|exe|cmd|sh|json|ya?ml|mcpb)$", "", name)
        plain = re.sub(r"^(?:mcp-server-|server-|mcp-)|(?:-mcp-server|-mcp|-server)$", "", plain)
        return plain.rpartition(".")[2]
    return ""


def _usable(name: str) -> str:
    """The name, if a server may have it."""
    plain = re.sub(r"[^\w-]+", "-", name).strip("-_")[:40]
    return "server" if not plain or looks(plain)[2] == looks(OWN)[2] else plain
