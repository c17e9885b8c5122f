"""Prompts of servers as commands of a chat: `/name key=value`, or `/server/name` where two have that name."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from toolbus.cli.chat.keyboard import Keyboard
from toolbus.cli.commands.prompt import checked_arguments
from toolbus.cli.input.arguments import texts
from toolbus.cli.output.screen import one_line
from toolbus.core.records import Prompt


def by_command(prompts: Iterable[Prompt], taken: Collection[str]) -> dict[str, Prompt]:
    """The prompts by what one types, the short names first."""
    known = list(prompts)
    often = Counter(prompt.name for prompt in known)
    short = {f"/{p.name}": p for p in known if often[p.name] == 1 and f"/{p.name}" not in taken}
    return short | {f"/{prompt.server}/{prompt.name}": prompt for prompt in known}


def asked_arguments(prompt: Prompt, words: Sequence[str], keyboard: Keyboard) -> dict[str, str]:
    """What to fill in: what was typed, and what is required besides; `Usage` if a name or a pair is wrong.

    EOFError on Ctrl-D.
    """
    given = texts(words)
    known = [argument.name for argument in prompt.arguments]
    for argument in prompt.arguments:
        # Not for a line that is wrong anyway.
        if argument.required and argument.name not in given and all(name in known for name in given):
            about = " ".join(argument.description.split())
            hint = one_line(f"{argument.name} ({about})" if about else argument.name)
            given[argument.name] = [keyboard.answer(f"{hint}: ").strip()]
    return checked_arguments(prompt, given)


def described(commands: Mapping[str, Prompt]) -> Iterator[str]:
    """A line for each prompt: what to type, and what it is for."""
    told: set[tuple[str, str]] = set()
    for command, prompt in commands.items():
        if (prompt.server, prompt.name) in told:
            continue
        told.add((prompt.server, prompt.name))
        names = [f"{a.name}=" if a.required else f"[{a.name}=]" for a in prompt.arguments]
        about = " ".join((prompt.description or prompt.title or "").split())
        yield one_line(f"{' '.join([command, *names])}  {about}".rstrip())
