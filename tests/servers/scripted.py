"""A server in plain JSON-RPC over stdio that answers and asks by a script, well-behaved or not.

Run it: `python scripted.py modern|legacy SCRIPT_JSON`. It has the tools `act`, `wait` (which takes `slow`
seconds) and `log` (all it was sent). The script may hold `call` and `task`: answers to calls and to
tasks/get, one after another, the last one repeatedly. `error` is an answer to calls. `ask` is a question in a
call of the legacy era, and `times` the number of questions. With `tasks_only`, `act` has to be a task of the
legacy era, whose results are `result`, one after another. With `at_once`, the call is answered before the
question. Other keys are `dies_of` and `fails_unanswered`.
"""

import json
import sys
import threading
import time
from typing import Any, cast

Message = dict[str, Any]
TOOLS: list[Message] = [{"name": name, "inputSchema": {"type": "object"}} for name in ("act", "wait", "log")]


class Scripted:
    """One server."""

    def __init__(self, era: str, script: Message) -> None:
        self.era = era
        self.script = script
        self.sent: list[Any] = []
        self.given: dict[str, int] = {}
        self.asked: dict[str, tuple[Any, int]] = {}
        """The questions that are open: the request they belong to, and how many more follow."""
        self.capabilities: Message = {"tools": {}, "resources": {"subscribe": True}}
        self.tools: list[Message] = TOOLS
        if script.get("tasks_only"):
            self.capabilities["tasks"] = {"requests": {"tools": {"call": {}}}, "cancel": {}}
            self.tools = [{**TOOLS[0], "execution": {"taskSupport": "required"}}, *TOOLS[1:]]

    def serve(self) -> None:
        for line in sys.stdin:
            message: Message = json.loads(line)
            self.sent.append(message.get("method") or message)
            if "method" not in message:
                self.answered(message)
            elif message["method"] in self.script.get("dies_of", []):
                sys.exit(5)
            elif "id" in message:
                self.take(message["id"], message["method"], message.get("params") or {})

    def take(self, number: Any, method: str, params: Message) -> None:
        capabilities = self.capabilities
        match method:
            case "server/discover" if self.era == "modern":
                self.result(number, {"supportedVersions": ["2026-07-28"], "capabilities": capabilities})
            case "initialize":
                info = {"name": "scripted", "version": "1"}
                version = {"protocolVersion": "2025-11-25", "serverInfo": info}
                self.result(number, {**version, "capabilities": capabilities})
            case "tools/list":
                self.result(number, {"tools": self.tools})
            case "resources/list":
                self.result(number, {"resources": []})
            case "resources/templates/list":
                self.result(number, {"resourceTemplates": []})
            case "tasks/result":
                self.say({"id": number, **self.following("result")})
            case "tools/call" | "resources/read":
                self.call(number, params.get("name", "read"), is_task="task" in params)
            case "tasks/get":
                self.result(number, self.following("task"))
            case "server/discover":
                self.say({"id": number, "error": {"code": -32601, "message": "no such method"}})
            case _:
                self.result(number, {})

    def call(self, number: Any, name: str, *, is_task: bool) -> None:
        if is_task is not (name == "act" and "tasks" in self.capabilities):
            self.say({"id": number, "error": {"code": -32601, "message": "a task, or not?"}})
        elif name == "log":
            self.done(number, json.dumps(self.sent))
        elif name == "wait":
            threading.Timer(self.script.get("slow", 2), self.done, (number, "waited")).start()
        elif "error" in self.script:
            self.say({"id": number, "error": self.script["error"]})
        elif "ask" in self.script:
            self.ask(number, self.script.get("times", 1))
            if self.script.get("at_once"):
                self.done(number, "done at once")
        elif "call" in self.script:
            self.result(number, self.following("call"))
        else:
            self.done(number, "done")

    def ask(self, number: Any, left: int) -> None:
        question = f"question-{time.monotonic_ns()}"
        self.asked[question] = (number, left - 1)
        self.say({"id": question, "method": "elicitation/create", "params": self.script["ask"]})

    def answered(self, message: Message) -> None:
        number, left = self.asked.pop(message["id"])
        if left and "error" not in message:
            self.ask(number, left)
        elif "error" in message and self.script.get("fails_unanswered"):
            self.say({"id": number, "error": message["error"]})
        elif not self.script.get("at_once"):
            self.done(number, f"answered {json.dumps(message.get('result') or message.get('error'))}")

    def following(self, kind: str) -> Any:
        answers = self.script[kind]
        place = self.given.get(kind, 0)
        self.given[kind] = place + 1
        return answers[min(place, len(answers) - 1)]

    def done(self, number: Any, text: str) -> None:
        content = [{"type": "text", "text": text}]
        # What a tool gives, and what a resource holds: one answer for both.
        self.result(number, {"content": content, "contents": [{"uri": "x://a", "text": text}]})

    def result(self, number: Any, result: Any) -> None:
        if self.era == "modern" and isinstance(result, dict):
            result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public", **cast(Message, result)}
        self.say({"id": number, "result": result})

    def say(self, message: Message) -> None:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


if __name__ == "__main__":
    Scripted(sys.argv[1], json.loads(sys.argv[2])).serve()
