"""A guard: a daily limit of tool calls per user, counted in a file that all processes share."""

import datetime
import sqlite3

from toolbus import CallDenied, Operation

COUNT = "INSERT INTO calls VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET made = made + 1 RETURNING made"


class Quota:
    def __init__(self, per_day: int, file: str) -> None:
        self._per_day = per_day
        self._calls = sqlite3.connect(file, isolation_level=None)
        self._calls.execute("CREATE TABLE IF NOT EXISTS calls (day, user, made, PRIMARY KEY (day, user))")

    async def __call__(self, operation: Operation) -> None:
        if operation.route != "tools/call":
            return
        day = datetime.date.today().isoformat()
        [[made]] = self._calls.execute(COUNT, (day, operation.caller.user)).fetchall()
        if made > self._per_day:
            raise CallDenied(operation.spec.name, f"the {self._per_day} calls of today are used up")

    def close(self) -> None:
        self._calls.close()
