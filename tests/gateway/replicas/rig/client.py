"""Clients of the replica test, as a program of their own: `python -I client.py PLAN`; standard library only.

The program forks one process for each client. Half of them are legacy clients: they have a session, and a
stream that they open again when it ends. The others are modern. Each makes one call after another, never
repeats one, and pauses after an error. FOLDER/client-N has one JSON line when an operation begins, and one
when it ends. The clients end once FOLDER/stop exists, or when their parent has ended.
"""

import http.client
import json
import os
import random
import select
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from typing import Any

JSON = dict[str, Any]
MODERN, LEGACY = "2026-07-28", "2025-06-18"
PREFIX = "io.modelcontextprotocol/"
BACK_OFF = 0.1
RENEWED_AFTER = 6
"""Calls after which some clients open another session."""
REOPEN = 1.0
"""Seconds until a stream that has ended is opened again."""
MOST_CALLS = 5_000
MOST_TEXT = 400
FAILURES = (OSError, http.client.HTTPException)


class Client:
    """One client: a process with a connection of its own."""

    def __init__(self, plan: JSON, number: int) -> None:
        self._plan = plan
        self._number = number
        self._is_legacy = number % 2 == 1
        self._renews = number % 10 == 1
        """Whether it opens another session now and then."""
        self._random = random.Random(number)
        self._session = ""
        self._parent = os.getppid()
        self._connection: http.client.HTTPConnection | None = None
        self._file = os.open(f"{plan['folder']}/client-{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def run(self) -> None:
        """Call until told to stop."""
        for number in range(MOST_CALLS):
            if self._is_stopped():
                break
            if self._renews and (number + self._number // 10) % RENEWED_AFTER == 0:
                self._end_session()
            if self._is_legacy and not self._session and not self._open():
                continue
            if self._call(number):
                time.sleep(self._random.uniform(*self._plan["pause"]))
        self._end_session()

    def _is_stopped(self) -> bool:
        return os.getppid() != self._parent or os.path.exists(f"{self._plan['folder']}/stop")

    def _call(self, number: int) -> bool:
        tools: list[str] = self._plan["tools"]
        tool = tools[0] if self._random.random() < 0.8 else self._random.choice(tools)
        token = f"{'legacy' if self._is_legacy else 'modern'}-{self._number}-{number}"
        arguments = {"token": token, "seconds": self._random.uniform(*self._plan["lasting"])}
        params: JSON = {"name": tool, "arguments": arguments}
        return self._operation("call", "tools/call", params, token=token, tool=tool)

    def _open(self) -> bool:
        info = {"name": "rig", "version": "1"}
        params: JSON = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info}
        if not self._operation("open", "initialize", params):
            return False
        self._operation("told", "notifications/initialized", None)
        if self._session:
            threading.Thread(target=self._listen, args=(self._session,), daemon=True).start()
        return bool(self._session)

    def _end_session(self) -> None:
        if self._session:
            self._operation("close", "DELETE", None)
            self._session = ""

    def _operation(self, what: str, method: str, params: JSON | None, **more: Any) -> bool:
        """One request and its response, written down; False, after a pause, if it failed."""
        facts: JSON = {"what": what, "session": self._session[:8], **more}
        began = self._note(event="began", **facts)
        try:
            status, text = self._answer(method, params)
        except FAILURES as error:
            self._close()
            status, text = 0, repr(error)
        if status == 404:
            self._session = ""
        self._note(event="ended", began=began, status=status, text=text[:MOST_TEXT], **facts)
        if status not in (200, 202):
            time.sleep(BACK_OFF)
        return status in (200, 202)

    def _answer(self, method: str, params: JSON | None) -> tuple[int, str]:
        """The status and the text of a response; for a JSON-RPC error, the status of a failure."""
        if method == "DELETE":
            ended = self._sent(method, None, self._legacy_headers())
            return ended.status, ended.read().decode(errors="replace")
        message: JSON = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message |= {"id": self._random.randrange(10**9), "params": params}
        headers = self._legacy_headers() if self._is_legacy else self._modern(message)
        response = self._sent("POST", json.dumps(message), headers)
        answer = _read(response, message.get("id"))
        if method == "initialize" and response.status == 200:
            self._session = response.getheader("mcp-session-id", "")
        if isinstance(answer, str):
            return response.status, answer
        if "error" in answer:
            failed = response.status if response.status >= 400 else 500
            return failed, str(answer["error"].get("message"))
        content: list[JSON] = answer["result"].get("content") or [{}]
        return (500 if answer["result"].get("isError") else 200), str(content[0].get("text", ""))

    def _legacy_headers(self) -> JSON:
        if not self._session:
            return {}
        return {"mcp-session-id": self._session, "mcp-protocol-version": LEGACY}

    def _modern(self, message: JSON) -> JSON:
        """Complete a message, and give the headers that go with it."""
        message["params"]["_meta"] = {
            f"{PREFIX}protocolVersion": MODERN,
            f"{PREFIX}clientInfo": {"name": "rig", "version": "1"},
            f"{PREFIX}clientCapabilities": {},
        }
        method, name = message["method"], message["params"]["name"]
        return {"mcp-protocol-version": MODERN, "mcp-method": method, "mcp-name": name}

    def _sent(self, method: str, body: str | None, headers: JSON) -> http.client.HTTPResponse:
        sent = {
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "authorization": f"Bearer {self._plan['key']}",
            **headers,
        }
        if self._connection is None or _has_ended(self._connection):
            self._close()
            self._connection = self._connected()
        self._connection.request(method, "/mcp", body, sent)
        return self._connection.getresponse()

    def _connected(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._plan["port"], timeout=self._plan["timeout"])

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _listen(self, session: str) -> None:
        """Keep the stream of a session open, as the clients of most SDKs do."""
        headers = {
            "accept": "text/event-stream",
            "authorization": f"Bearer {self._plan['key']}",
            "mcp-session-id": session,
            "mcp-protocol-version": LEGACY,
        }
        while self._session == session:
            connection = self._connected()
            began, status, text = time.monotonic(), 0, ""
            try:
                connection.request("GET", "/mcp", headers=headers)
                response = connection.getresponse()
                status = response.status
                if status == 200:
                    while response.readline():
                        pass
                else:
                    text = response.read(MOST_TEXT).decode(errors="replace")
            except FAILURES as error:
                text = repr(error)
            connection.close()
            self._note(
                event="ended", what="stream", began=began, session=session[:8], status=status, text=text
            )
            time.sleep(REOPEN)

    def _note(self, **facts: Any) -> float:
        now = time.monotonic()
        line = json.dumps({"client": self._number, "at": now, **facts})
        os.write(self._file, f"{line}\n".encode())
        return now


def _has_ended(connection: http.client.HTTPConnection) -> bool:
    """Whether the other side has closed a connection that is kept open: then nothing was sent on it."""
    if connection.sock is None:
        return False
    return bool(select.select([connection.sock], [], [], 0)[0])


def _read(response: http.client.HTTPResponse, number: int | None) -> JSON | str:
    """The JSON-RPC response with that id, or the text of anything else."""
    kind = response.getheader("content-type", "")
    if kind.startswith("text/event-stream"):
        while line := response.readline():
            if line.startswith(b"data:") and (data := line[5:].strip()):
                message: JSON = json.loads(data)
                if message.get("id") == number:
                    response.read()  # until its end, so that the connection can be used again
                    return message
        raise http.client.IncompleteRead(b"")
    body = response.read()
    if kind.startswith("application/json") and body:
        found: JSON = json.loads(body)
        return found
    return body.decode(errors="replace")


def main() -> None:
    """Start the clients, and wait until all have ended."""
    plan: JSON = json.loads(sys.argv[1])
    parent, running = os.getppid(), set[int]()

    def end(*_: object) -> None:
        for pid in running:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        sys.exit(1)

    for number in range(plan["clients"]):
        pid = os.fork()
        if pid == 0:
            try:
                Client(plan, number).run()
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        running.add(pid)
    signal.signal(signal.SIGTERM, end)
    code = 0
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        running.discard(pid)
        code = code or os.waitstatus_to_exitcode(status)
        if os.getppid() != parent:
            end()
        if pid == 0:
            time.sleep(0.05)
    sys.exit(code)


if __name__ == "__main__":
    main()
