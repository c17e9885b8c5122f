"""The tape of a command: `--record` and `--replay`."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from toolbus.cli.command import Invocation
from toolbus.cli.errors import Usage
from toolbus.cli.options import TapeOptions
from toolbus.core.values.errors import ConfigError

if TYPE_CHECKING:
    from toolbus.config import BusConfig
    from toolbus.tape.live import LiveBus
    from toolbus.tape.use import BusTapes


@contextmanager
def taped(own: Invocation) -> Generator[None]:
    """Run a command with its tape; a bus that it opens records, and replays what its config has."""
    from toolbus.cli.session import OWN_BUS

    _ = own.config
    try:
        yield
    finally:
        OWN_BUS.tapes = None


def taped_config(own: Invocation, options: TapeOptions) -> "BusConfig":
    """The config of the command, with links to the tape; `Usage` for options that do not go together."""
    from toolbus.cli.session import OWN_BUS
    from toolbus.tape.matching import Matching
    from toolbus.tape.use import BusTapes, TapeUse

    try:
        tapes = BusTapes(
            TapeUse(
                record=options.record,
                replay=options.replay,
                mode=options.mode,
                matching=Matching(
                    ignore=options.ignore, patterns=glob_patterns(options.patterns), in_order=options.in_order
                ),
            )
        )
    except TypeError:
        raise Usage(
            "with both --record and --replay, name two tapes and leave out --tape-mode; to add to a tape, "
            "use --tape-mode new_episodes"
        ) from None

    def live(config: "BusConfig") -> "LiveBus":
        from toolbus.bus.toolbus import Toolbus

        return Toolbus(config, interactions=own.interactions(), observers=tapes.live_observers)

    OWN_BUS.tapes = tapes
    return tapes.prepare(_config(own, tapes), live)


def _config(own: Invocation, tapes: "BusTapes") -> "BusConfig | None":
    """The config of the command; None if the tape is all there is."""
    from toolbus.cli.session import load_trusted_config, load_untrusted_config
    from toolbus.cli.targets import target_config

    settings = replace(own.settings, tape=None)
    if settings.target is not None:
        return target_config(own, settings.target)
    if tapes.connects:
        return load_trusted_config(settings)
    if settings.config is not None:
        return load_untrusted_config(settings)  # it starts nothing
    with suppress(ConfigError):
        found = load_untrusted_config(settings)
        return found if tapes.fits(found) else None
    return None


def glob_patterns(given: Iterable[str], option: str = "--match-pattern") -> dict[str, str]:
    """The globs by path; `Usage` for one that is neither."""
    patterns: dict[str, str] = {}
    for pair in given:
        path, equals, glob = pair.partition("=")
        if not path or not equals:
            raise Usage(f"{option} {pair}: expected PATH=GLOB, such as file=*.txt")
        patterns[path] = glob
    return patterns
