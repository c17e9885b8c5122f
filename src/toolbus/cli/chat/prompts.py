"""Servers' prompts as chat commands: `/name key=value`, or `/server/name` if two share a name."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from toolbus.cli.chat.keyboard import Keyboard
from toolbus.cli.commands.use.prompt import validated_arguments
from toolbus.cli.input.arguments import texts
from toolbus.cli.output.screen import one_line
from toolbus.core.values.records import Prompt


def by_command(prompts: Iterable[Prompt], taken: Collection[str]) -> dict[str, Prompt]:
    """The prompts by command, short names first."""
    known = list(prompts)
    counts = Counter(prompt.name for prompt in known)
    short = {f"/{p.name}": p for p in known if counts[p.name] == 1 and f"/{p.name}" not in taken}
    return short | {f"/{prompt.server}/{prompt.name}": prompt for prompt in known}


def ask_for_arguments(prompt: Prompt, words: Sequence[str], keyboard: Keyboard) -> dict[str, str]:
    """The typed arguments; asks for missing required ones. Raises `Usage`, or EOFError on Ctrl-D."""
    given = texts(words)
    known = [argument.name for argument in prompt.arguments]
    for argument in prompt.arguments:
        # Do not ask if the line is invalid anyway.
        if argument.required and argument.name not in given and all(name in known for name in given):
            about = " ".join(argument.description.split())
            hint = one_line(f"{argument.name} ({about})" if about else argument.name)
            given[argument.name] = [keyboard.ask(f"{hint}: ").strip()]
    return validated_arguments(prompt, given)


def help_lines(commands: Mapping[str, Prompt]) -> Iterator[str]:
    """One line per prompt: its command and description."""
    listed: set[tuple[str, str]] = set()
    for command, prompt in commands.items():
        if (prompt.server, prompt.name) in listed:
            continue
        listed.add((prompt.server, prompt.name))
        names = [f"{a.name}=" if a.required else f"[{a.name}=]" for a in prompt.arguments]
        about = " ".join((prompt.description or prompt.title or "").split())
        yield one_line(f"{' '.join([command, *names])}  {about}".rstrip())
