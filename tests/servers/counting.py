"""A server of the legacy era in plain JSON-RPC over stdio that keeps state for its one connection.

Run it: `python counting.py [STARTS]`. Each start appends the number of its process to the file STARTS.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

Message = dict[str, Any]


class Counting:
    """The state of one connection."""

    def __init__(self) -> None:
        self.count = 0
        self.tools = [name.removeprefix("do_") for name in dir(self) if name.startswith("do_")]
        self.subscribed: list[str] = []
        self.asking: Any = None
        """The call that waits for an answer, if one does."""
        self.followed = False
        """Whether progress of the last call was asked for."""
        self.told = ""
        """The last answer."""

    def run(self) -> None:
        """Serve until the input ends."""
        for line in sys.stdin:
            message: Message = json.loads(line)
            method, id_ = message.get("method"), message.get("id")
            params: Message = message.get("params") or {}
            if method is None:
                self._answered(message)
            elif method == "tools/call":
                self.followed = "progressToken" in (params.get("_meta") or {})
                self._call(id_, params["name"], params.get("arguments") or {})
            elif id_ is not None:
                self._answer(id_, method, params)

    def _answer(self, id_: Any, method: str, params: Message) -> None:
        empty: Message = {"type": "object"}
        match method:
            case "initialize":
                result: Message = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {
                        "tools": {"listChanged": True},
                        "logging": {},
                        "resources": {"subscribe": True},
                    },
                    "serverInfo": {"name": "counting", "version": "1"},
                }
            case "tools/list":
                result = {"tools": [{"name": name, "inputSchema": empty} for name in self.tools]}
            case "resources/list":
                result = {"resources": [{"uri": "count://now", "name": "now"}]}
            case "resources/templates/list":
                result = {"resourceTemplates": []}
            case "resources/read":
                result = {"contents": [{"uri": params["uri"], "text": str(self.count)}]}
            case "resources/subscribe":
                self.subscribed.append(params["uri"])
                result = {}
            case "resources/unsubscribe":
                self.subscribed.remove(params["uri"])
                result = {}
            case "ping" | "logging/setLevel":
                result = {}
            case _:
                self._send(id=id_, error={"code": -32601, "message": "no such method"})
                return
        self._send(id=id_, result=result)

    def _call(self, id_: Any, name: str, arguments: Message) -> None:
        work = getattr(self, f"do_{name}", None)
        text = name if work is None else work(id_, **arguments)
        if text is not None:
            self._result(id_, text)

    def do_count(self, id_: Any) -> str:
        self.count += 1
        return str(self.count)

    def do_process(self, id_: Any) -> str:
        return str(os.getpid())

    def do_crash(self, id_: Any) -> None:
        os._exit(3)

    def do_hang(self, id_: Any) -> None:
        pass

    def do_grow(self, id_: Any, name: str) -> str:
        self.tools.append(name)
        self._send(method="notifications/tools/list_changed")
        return name

    def do_log(self, id_: Any, text: str) -> str:
        self._send(method="notifications/message", params={"level": "info", "data": text})
        return text

    def do_ask(self, id_: Any) -> None:
        self.asking = id_
        schema: Message = {"type": "object", "properties": {"name": {"type": "string"}}}
        question = {"message": "Who are you?", "requestedSchema": schema}
        self._send(id="question", method="elicitation/create", params=question)

    def do_ask_later(self, id_: Any) -> None:
        self._result(id_, "later")
        self.do_ask(None)

    def do_who(self, id_: Any) -> str:
        return os.environ.get("WHO", "(nobody)")

    def do_touch(self, id_: Any) -> str:
        self._send(method="notifications/resources/updated", params={"uri": "count://now"})
        return "touched"

    def do_progress(self, id_: Any) -> str:
        return str(self.followed)

    def do_told(self, id_: Any) -> str:
        return self.told

    def do_subscribed(self, id_: Any) -> str:
        return " ".join(self.subscribed)

    def _answered(self, message: Message) -> None:
        given: Message = message.get("result") or {}
        content: Message = given.get("content") or {}
        self.told = str(content.get("name", given.get("action")))
        if self.asking is not None:
            self._result(self.asking, self.told)

    def _result(self, id_: Any, text: str) -> None:
        self._send(id=id_, result={"content": [{"type": "text", "text": text}]})

    def _send(self, **message: Any) -> None:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        with Path(sys.argv[1]).open("a") as file:
            print(os.getpid(), file=file)
    Counting().run()
