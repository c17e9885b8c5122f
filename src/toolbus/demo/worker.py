"""Slow work that reports its progress, and work that can fail."""

import warnings
from collections import Counter
from typing import Annotated

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

from toolbus.demo.serve import command_line, serve

STEPS = 20
SAMPLE = (
    "The quick brown fox jumps over the lazy dog. Pack my box with five dozen liquor jugs. "
    "How quickly daft jumping zebras vex. The five boxing wizards jump quickly."
)
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
Number = Annotated[float, Field(allow_inf_nan=False)]


class WordCount(BaseModel):
    """The word counts of a text."""

    words: int
    distinct: int = Field(description="Distinct words, ignoring case.")
    most_frequent: str = Field(description="The most frequent word; empty if there is none.")


def worker_server() -> MCPServer:
    """A server that works slowly."""
    server: MCPServer = MCPServer(
        "worker", instructions="Works slowly, and reports its progress.", log_level="WARNING"
    )

    @server.tool(annotations=READS)
    async def count_words(
        ctx: Context,
        seconds: Annotated[float, Field(ge=0, le=600, description="How long to take.")] = 2,
        text: Annotated[str, Field(description="The text to count words in.")] = SAMPLE,
    ) -> WordCount:
        """Count the words of a text slowly, and report progress."""
        words = [word.strip(".,;:!?\"'()").casefold() for word in text.split()]
        counted: Counter[str] = Counter()
        await _log(ctx, f"counting {len(words)} words in {seconds:g} s")
        await ctx.report_progress(0, STEPS, f"0 of {len(words)} words")
        for step in range(STEPS):
            await anyio.sleep(seconds / STEPS)
            counted.update(words[len(words) * step // STEPS : len(words) * (step + 1) // STEPS])
            await ctx.report_progress(step + 1, STEPS, f"{counted.total()} of {len(words)} words")
        most_frequent = next((word for word, _ in counted.most_common(1)), "")
        return WordCount(words=counted.total(), distinct=len(counted), most_frequent=most_frequent)

    @server.tool(annotations=READS, structured_output=False)
    def divide(
        a: Annotated[Number, Field(description="The number to divide.")],
        b: Annotated[Number, Field(description="The number to divide by; not 0.")],
    ) -> str:
        """Divide a by b. Fails if b is 0."""
        if b == 0:
            raise ToolError(f"cannot divide {a:g} by 0; pass a b other than 0")
        return f"{a / b:g}"

    return server


async def _log(ctx: Context, message: str) -> None:
    with warnings.catch_warnings():
        # Deprecated since 2026-07-28, but older clients expect it.
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        await ctx.info(message, logger_name="worker")  # pyright: ignore[reportDeprecated] - see above


def main() -> None:
    """Serve the worker."""
    serve(worker_server(), command_line("worker", __doc__).parse_args().http)


if __name__ == "__main__":
    main()
