"""Runs or resumes a script until it waits for a person, prints it, and waits to be killed."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from toolbus import Pending, Toolbus


async def main(given: dict[str, Any]) -> None:
    async with Toolbus(given["config"]) as bus:
        if given["pending"] is None:
            result = await bus.scripts.run(given["script"])
        else:
            pending = Pending.from_json(given["pending"])
            answers = {key: one.accept({"answer": "once"}) for key, one in pending.questions.items()}
            result = await bus.resume(pending, answers)
        waiting = None if result.pending is None else result.pending.to_json()
        print(json.dumps({"text": result.text, "pending": waiting}), flush=True)
        await asyncio.Event().wait()


asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())))
