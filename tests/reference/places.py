"""The reference of environment variables, files and folders; a test compares it with the source."""

import re
from functools import cache

from tests.contract.source import SRC
from tests.inside.core import FILE_NAMES, LOCAL
from tests.reference.markup import page, table

VARIABLES = {
    "TOOLBUS_CONFIG": "The config to use. [Where it is found](../configuration.md#where-it-is-found)",
    "TOOLBUS_MODEL": "The model of `toolbus chat` and `toolbus runs worker`, unless `--model` names one.",
    "TOOLBUS_RUNS": (
        "The database of [durable runs](../durable.md), unless `--store` names one; `runs.db` by default."
    ),
    "TOOLBUS_STORE_KEY": (
        "The keys that encrypt the shared [store](../replicas.md), separated by commas; the first one "
        "encrypts."
    ),
    "TOOLBUS_LOG_FORMAT": (
        "`text` or `json`: the [log](../deployment.md#log) of services, unless `--log-format` names one."
    ),
}
OTHERS = {
    "ANTHROPIC_API_KEY, OPENAI_API_KEY, GOOGLE_API_KEY, GEMINI_API_KEY, DEEPSEEK_API_KEY": (
        "The key of a model's provider, for `toolbus chat` and [`Agent`](../agent.md). "
        "`toolbus chat` also reads them from `.env` beside the config."
    ),
    "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY": (
        "The HTTP proxy for servers with a URL, in upper or lower case. "
        "Programs that toolbus starts get these variables."
    ),
    "SSL_CERT_FILE, SSL_CERT_DIR, NODE_EXTRA_CA_CERTS, REQUESTS_CA_BUNDLE": (
        "The certificates that programs trust; passed on to them."
    ),
    "XDG_CONFIG_HOME": "The base of your config folder.",
    "XDG_STATE_HOME": "The base of your state folder.",
    "XDG_RUNTIME_DIR": "The base of the folder for sockets; without it, `run` in the state folder.",
    "XDG_CONFIG_DIRS": "More folders with [rules of the administrator](../administrators.md).",
    "OTEL_PYTHON_TRACER_PROVIDER, OTEL_PYTHON_METER_PROVIDER": (
        "The OpenTelemetry providers to load: [telemetry](../telemetry.md)."
    ),
    "BROWSER, DISPLAY, WAYLAND_DISPLAY": (
        "On Linux, a browser is opened for a [sign-in](../sign-in.md) only if one of these is set."
    ),
    "NO_COLOR, FORCE_COLOR, TERM, COLUMNS": "The color and the width of the output.",
}
_CONFIGS = ", ".join(f"`{name}`" for name in FILE_NAMES)
PROJECT = {
    _CONFIGS: "A config; the first of these is used. [Configuration](../configuration.md)",
    f"`{LOCAL}`": "Your own changes to the config beside it; not for version control. [Layers](../layers.md)",
    "`.env`": "Secrets for the config beside it. [Secrets](../secrets.md)",
    "`toolbus.lock`": "The approved definitions of tools. Commit it. [The lockfile](../lock.md)",
    "`audit.jsonl`": "The audit log, with `audit: true`. [Audit](../audit.md)",
    "`runs.db`": "The database of durable runs. [Durable runs](../durable.md)",
    "`toolbus.schema.json`": "The JSON Schema of the config, for your editor; written by `toolbus init`.",
}
STATE = {
    "approvals": "Remembered answers to the policy's questions: [policy](../policy.md).",
    "background": "The logs of [servers in the background](../background.md).",
    "bundles": "Unpacked [MCP bundles](../registry.md).",
    "code": "The key that signs suspended [scripts](../scripts.md), and those that were resumed.",
    "definitions": (
        "The last listings of [lazy servers](../configuration.md#lazy-servers) and of the gateway."
    ),
    "gateway": "The keys, invitations and sign-ins of a [gateway's](../gateway.md) clients.",
    "history": "The call history of the [console](../console.md#history), if it is kept.",
    "installs": "Backups of the editor files that `toolbus install` changed.",
    "listings": "The names of tools, resources and prompts, for an hour: [the command line](../cli.md).",
    "quotas": "The counts of [quotas](../quotas.md) without a store.",
    "registry": "Downloaded lists of the [registry](../registry.md).",
    "run": "Sockets, if `XDG_RUNTIME_DIR` is not set.",
    "sandbox": "The packages of servers in a [sandbox](../sandbox.md).",
    "scripts": "Scripts that ended well, for `toolbus script save`.",
    "stderr": "What servers wrote to stderr, for `toolbus logs`.",
    "store.key": "The key of a [store](../replicas.md) in SQLite, if no other is set.",
    "tokens": "Sign-ins, unless a keyring keeps them: [sign in](../token-store.md).",
    "trust": "The configs that you trust: [trust](../trust.md).",
}
FOLDERS = {
    "your config folder": (
        "~/.config/toolbus",
        "~/Library/Application Support/toolbus",
        "%LOCALAPPDATA%\\toolbus",
    ),
    "your state folder": (
        "~/.local/state/toolbus",
        "~/Library/Application Support/toolbus",
        "%LOCALAPPDATA%\\toolbus",
    ),
    "sockets": ("$XDG_RUNTIME_DIR/toolbus", "run", ""),
    "the administrator's rules": (
        "/etc/xdg/toolbus/policy.yaml",
        "/Library/Application Support/toolbus/policy.yaml",
        "",
    ),
}
"""The folders on Linux, macOS and Windows; a relative one is in the state folder."""


def environment() -> str:
    """The page."""
    shown = ("variable", "meaning")
    return page(
        "Environment and files",
        (
            "Which variables, files and folders toolbus reads and writes. The macOS and Windows columns come "
            "from reading the code; "
            "they have not been tested."
        ),
        "## Environment variables",
        table(shown, ((f"`{name}`", about) for name, about in VARIABLES.items())),
        "These variables of other programs also matter:",
        table(shown, ((_names(names), about) for names, about in OTHERS.items())),
        "A config may refer to any variable as `${NAME}`: [secrets](../secrets.md).",
        "## Files of a project",
        table(("file", "contents"), PROJECT.items()),
        "## Your folders",
        table(
            ("", "Linux", "macOS", "Windows"),
            ((about, *(f"`{one}`" if one else "none" for one in paths)) for about, paths in FOLDERS.items()),
        ),
        (
            "Everything in the state folder is private: files have mode 0600. You may delete it while toolbus"
            " is not running; you "
            "then trust configs, sign in and approve again."
        ),
        table(("in the state folder", "contents"), ((f"`{name}`", about) for name, about in STATE.items())),
    )


def _names(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split(", "))


@cache
def _source() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((SRC / "toolbus").rglob("*.py")))


def variables_in_source() -> set[str]:
    """The variables of ours that the source names as a string."""
    return set(re.findall(r"[\"'](TOOLBUS_[A-Z_]+)[\"']", _source()))


def unnamed_in_source() -> set[str]:
    """The names in the state folder that the source does not have."""
    return {name for name in STATE if not re.search(rf"\"{re.escape(name)}[/\"]", _source())}
