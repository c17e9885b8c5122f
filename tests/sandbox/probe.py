"""A program that tries to get out: `python probe.py WHAT TARGET ...` prints what it got, or why not.

`python probe.py serve` is an MCP server with a tool `attack` for each of them. It needs the standard library
only, so that all of it is this file.
"""

import ctypes
import json
import os
import platform
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

KEYCTL, KEYRING = (250, -3) if platform.machine() == "x86_64" else (219, -3)
ADD_KEY = KEYCTL - 2
UNSHARE_USER = 0x10000000


def read(path: str) -> str:
    return Path(path).read_text()


def write(path: str) -> str:
    Path(path).write_text("from the probe")
    return "written"


def link(where: str) -> str:
    """A link in a folder: `FROM TO`; it replaces an empty folder."""
    link, target = where.split()
    if os.path.isdir(link):
        os.rmdir(link)
    os.symlink(target, link)
    return "linked"


def connect(where: str) -> str:
    """To a port of this machine, or to an abstract socket if it begins with @."""
    family = socket.AF_UNIX if where.startswith("@") else socket.AF_INET
    with socket.socket(family) as client:
        client.settimeout(5)
        client.connect("\0" + where[1:] if where.startswith("@") else ("127.0.0.1", int(where)))
        client.send(b"from the probe")
    return "connected"


def environment(name: str) -> str:
    """A variable of ours, or of any process that can be seen."""
    if name in os.environ:
        return os.environ[name]
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            found = [text for text in entry.read_bytes().split(b"\0") if text.startswith(f"{name}=".encode())]
        except OSError:
            continue
        if found:
            return found[0].decode()
    raise LookupError("not in any environment")


def daemon(file: str) -> str:
    """Leave a process behind, with no parent and a session of its own, that goes on writing."""
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        for fd in range(3):
            os.dup2(os.open(os.devnull, os.O_RDWR), fd)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        while True:
            Path(file).write_text(f"{os.getpid()} {time.monotonic()}")
            time.sleep(0.01)
    os.wait()
    while not os.path.exists(file) or not (written := Path(file).read_text()):  # it may just be written anew
        time.sleep(0.01)
    return written.split()[0]


def key(name: str) -> str:
    """A key in the keyring of the session, which processes inherit."""
    return f"key {_call(KEYCTL, 10, KEYRING, b'user', name.encode(), 0)}"


def namespace(_: str) -> str:
    """A user namespace, in which this process would have all capabilities."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(UNSHARE_USER) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return "made"


def virtual_socket(_: str) -> str:
    """A socket that reaches the host of a virtual machine, from any network namespace."""
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()
    return "made"


def netlink(protocol: str) -> str:
    """A socket to the kernel: 0 for routes, 4 for the sockets of others, 15 for devices."""
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, int(protocol)).close()
    return "made"


def set_id(folder: str) -> str:
    """Files that run with the rights of their owner: every way to make one; those that worked."""
    made: list[str] = []
    for name, make in SET_ID.items():
        path = f"{folder}/{name.replace(' ', '-')}"
        Path(path).unlink(missing_ok=True)
        with suppress(OSError):
            make(path.encode())
        if os.path.exists(path) and os.stat(path).st_mode & 0o6000:
            made.append(name)
    return json.dumps(made)


def kernel_setting(path: str) -> str:
    """Open a setting of the kernel for writing; nothing is written."""
    os.close(os.open(path, os.O_WRONLY))
    return "open"


def identity(_: str) -> str:
    status = dict(line.split(":\t", 1) for line in read("/proc/self/status").splitlines() if ":\t" in line)
    return json.dumps({"uid": os.getuid(), "capabilities": status["CapEff"], "home": os.path.expanduser("~")})


def listing(path: str) -> str:
    return json.dumps(sorted(os.listdir(path)))


def variables(_: str) -> str:
    return json.dumps(dict(os.environ))


def place(_: str) -> str:
    return os.getcwd()


def _call(*arguments: int | bytes) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    if (result := libc.syscall(*arguments)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _with(change: Callable[[bytes], object]) -> Callable[[bytes], None]:
    """Make a plain file, and change it."""

    def make(path: bytes) -> None:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o755))
        change(path)

    return make


def _descriptor(path: bytes) -> int:
    return os.open(path, os.O_RDONLY)


def _unnamed(path: bytes) -> None:
    file = os.open(os.path.dirname(path), os.O_TMPFILE | os.O_WRONLY, 0o4755)
    _call(265 if IS_X86 else 37, HERE, b"/proc/self/fd/%d" % file, HERE, path, 0x400)


HERE = -100
IS_X86 = platform.machine() == "x86_64"
OPENS = os.O_CREAT | os.O_WRONLY
HOW = OPENS.to_bytes(8, "little") + (0o4755).to_bytes(8, "little") + bytes(8)
SET_ID: dict[str, Callable[[bytes], object]] = {
    "chmod": _with(lambda path: os.chmod(path, 0o4755)),
    "setgid": _with(lambda path: os.chmod(path, 0o2755)),
    "fchmod": _with(lambda path: os.fchmod(_descriptor(path), 0o4755)),
    "fchmodat": _with(lambda path: _call(268 if IS_X86 else 53, HERE, path, 0o4755, 0)),
    "fchmodat with high bits": _with(lambda path: _call(268 if IS_X86 else 53, HERE, path, 0o4755 | 1 << 32)),
    "fchmodat2": _with(lambda path: _call(452, HERE, path, 0o4755, 0)),
    "openat": lambda path: os.open(path, OPENS, 0o4755),
    "unnamed": _unnamed,
    "openat2": lambda path: _call(437, HERE, path, HOW, len(HOW)),
    "mknod": lambda path: os.mknod(path, 0o104755),
    **(
        {
            "old open": lambda path: _call(2, path, OPENS, 0o4755),
            "old chmod": _with(lambda path: _call(90, path, 0o4755)),
            "creat": lambda path: _call(85, path, 0o4755),
            "old mknod": lambda path: _call(133, path, 0o104755, 0),
            "x32 chmod": _with(lambda path: _call(90 | 0x40000000, path, 0o4755)),
        }
        if IS_X86
        else {}
    ),
}

ATTACKS: dict[str, Callable[[str], str]] = {
    one.__name__: one
    for one in (
        *(read, write, link, connect, environment, daemon, key, namespace, virtual_socket, kernel_setting),
        *(identity, listing, variables, place, netlink, set_id),
    )
}


def attempt(what: str, target: str) -> str:
    """`got ...`, or `failed ...`."""
    try:
        return f"got {ATTACKS[what](target)}"
    except Exception as error:
        return f"failed {type(error).__name__}: {error}"


def answer(method: str, params: dict[str, Any]) -> object:
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "probe", "version": "1"},
        }
    if method == "tools/list":
        properties = {name: {"type": "string"} for name in ("what", "target")}
        return {
            "tools": [
                {"name": name, "inputSchema": {"type": "object", "properties": properties}}
                for name in ("attack", "kill", "hang")
            ]
        }
    if method == "tools/call" and params["name"] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    arguments = params["arguments"]
    text = attempt(arguments["what"], arguments.get("target", ""))
    return {"content": [{"type": "text", "text": text}]}


def serve() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or message.get("params", {}).get("name") == "hang":
            continue
        known = message["method"] in ("initialize", "tools/list", "tools/call")
        reply = (
            {"result": answer(message["method"], message.get("params", {}))}
            if known
            else {"error": {"code": -32601, "message": "no such method"}}
        )
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)


def farewell(file: str) -> None:
    """Stay when stdin is closed, and leave a note when asked to end."""

    def leave(number: int, frame: object) -> None:
        Path(file).write_text("goodbye")
        sys.exit(0)

    signal.signal(signal.SIGTERM, leave)
    serve()
    while True:
        signal.pause()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", *_]:
            serve()
        case ["farewell", file]:
            farewell(file)
        case ["complain", code]:
            print("Error: cannot open the database", file=sys.stderr)
            sys.exit(int(code))
        case [what, target]:
            print(attempt(what, target))
        case _:
            sys.exit(__doc__)
