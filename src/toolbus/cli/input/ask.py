"""Ask a question on the terminal; input typed before the question is discarded."""

import asyncio
import os
import select
import signal
import sys
import threading
from collections.abc import Awaitable

from toolbus.cli.terminal import ClientTerminal, client_terminal, signal_calls
from toolbus.core.text.text import visible

try:
    import termios
except ImportError:  # Windows
    termios = None

POLL_SECONDS = 0.5
"""How often to check for signals."""
MAX_ANSWER_BYTES = 4096
"""The size of a terminal's line buffer."""


class Interrupted(Exception):
    """The user pressed Ctrl-C instead of answering."""


def can_ask() -> bool:
    """Whether stdin and stderr are a terminal."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def ask(prompt: str) -> str:
    """Print the prompt and read a line; EOFError on Ctrl-D, KeyboardInterrupt on Ctrl-C."""
    if termios is None:
        return _ask_with_input(prompt)
    if (client := client_terminal()) is not None:
        _ask_client(client, prompt)
    else:
        _print_prompt(prompt)
        # Not input(): readline misses a Ctrl-C between its prompt and its wait.
        while not select.select([sys.stdin], [], [], POLL_SECONDS)[0]:
            pass
    return _read_line()


def _ask_client(client: ClientTerminal, prompt: str) -> None:
    """Print the prompt and wait for a line; leave the terminal alone while its client is suspended."""
    suspended = threading.Event()
    # Before the prompt: a client that nobody handles stops at once, and we would read what its shell gets.
    with client.handling(signal.SIGTSTP, suspended.set):
        client.claim().result()
        _print_prompt(prompt)
        while True:
            is_readable = bool(select.select([sys.stdin], [], [], POLL_SECONDS)[0])
            client.check_signals()
            if suspended.is_set():
                suspended.clear()
                client.suspended()
                client.claim().result()  # the client answers when it has been continued
            elif is_readable:
                return


async def ask_async(prompt: str) -> str:
    """Like `ask`, without blocking the main thread's event loop; `Interrupted` on Ctrl-C."""
    if termios is None:
        try:
            return _ask_with_input(prompt)  # blocks the loop: Windows can only watch a console from a thread
        except KeyboardInterrupt:
            raise Interrupted from None
    interrupted = asyncio.Event()
    with signal_calls(signal.SIGINT, interrupted.set):
        if (client := client_terminal()) is not None:
            await _ask_client_async(client, prompt, interrupted)
        else:
            _print_prompt(prompt)
            await _unless(interrupted, _is_readable())
    return _read_line()


async def _ask_client_async(client: ClientTerminal, prompt: str, interrupted: asyncio.Event) -> None:
    """Like `_ask_client`; `Interrupted` on Ctrl-C."""
    suspended, loop = asyncio.Event(), asyncio.get_running_loop()

    def suspend() -> None:
        loop.call_soon_threadsafe(suspended.set)

    with client.handling(signal.SIGTSTP, suspend):
        await _unless(interrupted, asyncio.wrap_future(client.claim()))
        _print_prompt(prompt)
        while True:
            reading = asyncio.ensure_future(_is_readable())
            stopping = asyncio.ensure_future(suspended.wait())
            try:
                first = asyncio.wait((reading, stopping), return_when=asyncio.FIRST_COMPLETED)
                await _unless(interrupted, first)
            finally:
                reading.cancel()
                stopping.cancel()
            if not suspended.is_set():
                return
            suspended.clear()
            client.suspended()
            # The client answers when it has been continued.
            await _unless(interrupted, asyncio.wrap_future(client.claim()))


async def _is_readable() -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    stdin = sys.stdin.fileno()
    loop.add_reader(stdin, lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(stdin)


async def _unless(interrupted: asyncio.Event, work: Awaitable[object]) -> None:
    """Wait for the work; `Interrupted` if Ctrl-C comes first."""
    waiting = asyncio.ensure_future(work)
    interrupt = asyncio.ensure_future(interrupted.wait())
    try:
        await asyncio.wait((waiting, interrupt), return_when=asyncio.FIRST_COMPLETED)
        if interrupted.is_set():
            raise Interrupted
        await waiting
    finally:
        interrupt.cancel()
        waiting.cancel()


def _print_prompt(prompt: str) -> None:
    if termios is not None:
        # Input typed ahead must not answer the question.
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    print(visible(prompt), end="", file=sys.stderr, flush=True)


def _read_line() -> str:
    typed = os.read(sys.stdin.fileno(), MAX_ANSWER_BYTES)
    if not typed:
        raise EOFError
    return typed.decode(errors="replace")


def _ask_with_input(prompt: str) -> str:
    # input() would print the prompt to stdout, among the results.
    _print_prompt(prompt)
    return input()
