"""Read the `.env` beside a config, and add secrets to it."""

from collections.abc import Iterable
from pathlib import Path

from toolbus.config.editing.save import save_in_project
from toolbus.config.project import DOTENV
from toolbus.config.secrets.literals import Secret


def env_values(folder: Path) -> dict[str, str]:
    """The variables in the folder's `.env`; empty if there is no such file."""
    from dotenv import dotenv_values

    path = folder / DOTENV
    return {name: value or "" for name, value in dotenv_values(path).items()} if path.is_file() else {}


def add_secrets(folder: Path, secrets: Iterable[Secret]) -> None:
    """Append secrets that are not in the folder's `.env` yet, and make it readable by its owner only."""
    path, known = folder / DOTENV, env_values(folder)
    lines = {
        secret.name: f"{secret.name}={_quoted(secret.value)}\n"
        for secret in secrets
        if secret.name not in known
    }
    if not lines:
        return
    before = path.read_bytes() if path.is_file() else b""
    gap = b"" if before[-1:] in (b"", b"\n") else b"\n"
    save_in_project(path, before + gap + "".join(lines.values()).encode(), mode=0o600)


def _quoted(text: str) -> str:
    """The text quoted so that a dotenv file takes it literally."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
