"""A server in plain JSON-RPC over stdio that follows a script; it starts in no time.

Run it: `python scripted.py SCRIPT.json`. All keys of the script are optional.

Lists: `tools` (a tool without schema takes anything), `resources`, `templates` and `prompts`. With
`lists_declared`, it lists a tool named for the capabilities that the client declares.

Answers: `results` tool -> its result (else the arguments, as JSON text), `contents` URI -> its content, and
`messages` prompt -> its messages (else the arguments). `asks` tool -> its question to the user, whose answer
is the result, as JSON text. `hangs` tools never answer.

Times: `steps` tool -> the number of its progress messages, each before the next `go`. `waits`: it answers
nothing before the first `go`. `stays`: it stays when its input ends, and ignores SIGTERM.

Output: `stderr` and `stdout` at the start. `logs` level -> data, before it calls a tool, reads a resource or
fills in a prompt. `marker` is a file or FIFO that gets a line at each start and at each call that hangs.

`control` is a FIFO for commands while it runs: `go`, `grow NAME` or `die`. `declares` are its capabilities,
real or not, and `instructions` its own.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

Message = dict[str, Any]


class Scripted:
    """The script, and the messages from the control FIFO."""

    def __init__(self, script: Message) -> None:
        self._script = script
        self._tools = [{"inputSchema": {"type": "object"}, **tool} for tool in script.get("tools", ())]
        self._go = threading.Semaphore(0)
        self._writing = threading.Lock()

    def run(self) -> None:
        """Serve until the input ends."""
        script = self._script
        if script.get("stays"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._mark("started")
        sys.stderr.write(script.get("stderr", ""))
        sys.stderr.flush()
        sys.stdout.write(script.get("stdout", ""))
        sys.stdout.flush()
        if "control" in script:
            threading.Thread(target=self._obey, args=(script["control"],), daemon=True).start()
        if script.get("waits"):
            self._go.acquire()
        for line in sys.stdin:
            message: Message = json.loads(line)
            if "id" in message and "method" in message:
                self._answer(message)
        while script.get("stays"):
            signal.pause()

    def _mark(self, word: str) -> None:
        if "marker" in self._script:
            with Path(self._script["marker"]).open("a") as file:
                print(word, file=file)

    def _obey(self, fifo: str) -> None:
        while True:
            with open(fifo) as words:
                for line in words:
                    match line.split():
                        case ["go"]:
                            self._go.release()
                        case ["grow", name]:
                            self._tools.append({"name": name, "inputSchema": {"type": "object"}})
                            self._send({"method": "notifications/tools/list_changed"})
                        case _:
                            os._exit(5)

    def _answer(self, message: Message) -> None:
        params: Message = message.get("params") or {}
        if message["method"] in ("tools/call", "resources/read", "prompts/get"):
            for level, data in self._script.get("logs", {}).items():
                self._send({"method": "notifications/message", "params": {"level": level, "data": data}})
        match message["method"]:
            case "initialize":
                if self._script.get("lists_declared"):
                    name = "_".join(["for", *sorted(params["capabilities"])])
                    self._tools.append({"name": name, "inputSchema": {"type": "object"}})
                offers = {"resources", "prompts"} & set(self._script) | set(self._script.get("declares", ()))
                result: Message = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {"listChanged": True}, **{name: {} for name in offers}},
                    "serverInfo": {"name": "scripted", "version": "1"},
                    **({"instructions": says} if (says := self._script.get("instructions")) else {}),
                }
            case "tools/list":
                result = {"tools": self._tools}
            case "tools/call":
                if params["name"] in self._script.get("hangs", ()):
                    self._mark("called")
                    return
                self._report_steps(params)
                asked = self._script.get("asks", {}).get(params["name"])
                given = params.get("arguments", {}) if asked is None else self._asked(asked)
                said = json.dumps(given, ensure_ascii=False)
                plain = {"content": [{"type": "text", "text": said}]}
                result = self._script.get("results", {}).get(params["name"], plain)
            case "ping":
                result = {}
            case method:
                content = self._content(method, params)
                if content is None:
                    refusal = {"code": -32601, "message": f"no {params.get('uri', method)} here"}
                    self._send({"id": message["id"], "error": refusal})
                    return
                result = content
        self._send({"id": message["id"], "result": result})

    def _content(self, method: str, params: Message) -> Message | None:
        """The answer to a request that is not about tools."""
        script = self._script
        match method:
            case _ if method.startswith(tuple(script.get("declares", ()))):
                return None
            case "resources/list":
                return {"resources": script.get("resources", [])}
            case "resources/templates/list":
                return {"resourceTemplates": script.get("templates", [])}
            case "prompts/list":
                return {"prompts": script.get("prompts", [])}
            case "resources/read":
                found = script.get("contents", {}).get(params["uri"])
                return None if found is None else {"contents": found}
            case "prompts/get":
                said = json.dumps(params.get("arguments", {}))
                plain = [{"role": "user", "content": {"type": "text", "text": said}}]
                return {"messages": script.get("messages", {}).get(params["name"], plain)}
            case _:
                return None

    def _asked(self, params: Message) -> Message:
        """The user's answer; all other input is ignored until then."""
        self._send({"id": "question", "method": "elicitation/create", "params": params})
        for line in sys.stdin:
            answer: Message = json.loads(line)
            if answer.get("id") == "question":
                return answer.get("result") or answer["error"]
        raise SystemExit

    def _report_steps(self, params: Message) -> None:
        count = self._script.get("steps", {}).get(params["name"], 0)
        for step in range(1, count + 1):
            report = {
                "progressToken": params["_meta"]["progressToken"],
                "progress": step,
                "total": count,
                "message": f"step number {step}",
            }
            self._send({"method": "notifications/progress", "params": report})
            self._go.acquire()

    def _send(self, message: Message) -> None:
        with self._writing:
            print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


if __name__ == "__main__":
    Scripted(json.loads(Path(sys.argv[1]).read_text())).run()
