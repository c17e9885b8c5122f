"""`toolbus runs resume`: answer what a run waits for, accept changed tools, or continue a failed run."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from toolbus.cli.commands.resume import INTERRUPTED, ask_answers, given_answers
from toolbus.cli.commands.runs import open_runs
from toolbus.cli.errors import Usage
from toolbus.cli.input.ask import Interrupted
from toolbus.cli.options import Settings
from toolbus.cli.output.run_lines import run_json
from toolbus.cli.output.screen import Screen, visible
from toolbus.cli.session import async_command
from toolbus.core.elicitation import Action, Answer

if TYPE_CHECKING:
    from toolbus.agent.durable import RunInfo, Runs


@async_command
async def resume(
    settings: Settings,
    store: str | None,
    run: str,
    words: Sequence[str],
    action: Action | None,
    *,
    accept_changes: bool,
) -> int:
    """Do what the run needs to go on."""
    screen = Screen(settings)
    async with open_runs(screen, store) as runs:
        done: list[str] = []
        if accept_changes and (tools := await runs.accept_changes(run)):
            done.append(f"accepted {', '.join(tools)}")
        info = await runs.get(run)
        try:
            if (said := await _go_on(screen, runs, info, words, action, is_done=bool(done))) is not None:
                done.append(said)
        except Interrupted:
            screen.note("nothing was sent; the run is still waiting")
            return INTERRUPTED
        info = await runs.get(run)
    if screen.as_json:
        screen.json({"done": done, **run_json(info)})
    else:
        screen.print(Text(visible(f"{run}: {', '.join(done)}")))
    return 0


async def _go_on(
    screen: Screen,
    runs: "Runs",
    info: "RunInfo",
    words: Sequence[str],
    action: Action | None,
    *,
    is_done: bool,
) -> str | None:
    """Answer or continue the run, and say so; None if there is nothing to do but what is done."""
    if (asked := info.question) is not None and (words or action is not None or not is_done):
        given: Mapping[str, Answer] | None = given_answers(asked.pending, words, action)
        answers = await ask_answers(screen, asked.pending) if given is None else given
        await runs.answer(info.id, answers, question=asked.id)
        return "answered"
    if words or action is not None:
        raise Usage(f"run {info.id!r} is {info.status}, and waits for no answer")
    if info.status in ("failed", "cancelled"):
        await runs.retry(info.id)
        return "continued"
    if is_done:
        return None
    hint = "watch it with" if info.is_open else "see it with"
    step = "watch" if info.is_open else "show"
    raise Usage(
        f"run {info.id!r} is {info.status}, and waits for nothing; {hint} 'toolbus runs {step} {info.id}'"
    )
