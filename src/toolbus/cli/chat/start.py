"""Prepare a chat: check the options, load the config, choose the model."""

import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

from toolbus.adapters.approval import ApprovalMode
from toolbus.cli.chat.models import ModelChoice, choose_model, keys_from_env_file
from toolbus.cli.commands.use.call import check_out_folder
from toolbus.cli.errors import Usage
from toolbus.cli.options import SharedOptions
from toolbus.cli.output.screen import Screen
from toolbus.cli.session import load_trusted_config, selected_servers
from toolbus.cli.terminal import variables


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """The options of `toolbus chat`."""

    prompt: str | None = None
    model: str | None = None
    approve: ApprovalMode = "writes"
    out: Path | None = None


def run(settings: SharedOptions, options: ChatOptions) -> int:
    """Run a chat; without a prompt, a dialog until the user quits."""
    check_out_folder(options.out)
    if options.prompt is None and settings.json and _is_terminal():
        raise Usage("--json needs a prompt; pass one, or pipe it in")
    screen, config = Screen(settings), load_trusted_config(settings)
    selected_servers(config, ())
    prompt = _full_prompt(options.prompt)
    _silence_libraries(settings)
    with screen.spinner("loading the agent"):
        # Imported here: other commands and usage errors need not wait for pydantic-ai.
        from toolbus.cli.chat.run import run_chat
    with screen.spinner("looking for a model"):
        keys = keys_from_env_file(config)
        model = choose_model(options.model or variables().get("TOOLBUS_MODEL"), keys)
    return run_chat(screen, config, ModelChoice(model=model, keys=keys), prompt, options.approve, options.out)


def _silence_libraries(settings: SharedOptions) -> None:
    """Hide messages that libraries address to programmers."""
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")
    if not (settings.verbose or settings.debug):
        warnings.simplefilter("ignore")


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _full_prompt(prompt: str | None) -> str | None:
    """The prompt followed by piped text; None for a dialog."""
    if _is_terminal():
        if prompt is not None and not prompt.strip():
            raise Usage("the prompt is empty; write one")
        return prompt
    try:
        piped = "" if sys.stdin is None else sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise Usage("the piped text is not UTF-8; convert it") from None
    whole = "\n\n".join(part.strip("\r\n") for part in (prompt or "", piped) if part.strip())
    if not whole:
        raise Usage("no prompt; pass one, pipe text in, or run it on a terminal")
    return whole
