"""The command line of bubblewrap, which makes the sandbox, and the filter of system calls inside.

Without bubblewrap, a server is not started. The filter refuses what namespaces do not separate. Kernel
keyrings are inherited whatever the namespace, and hold tickets and keys of the user. No server needs sockets
of other families: AF_VSOCK reaches the host of a virtual machine, AF_NETLINK the kernel. A new user namespace
would give a process all capabilities inside it, and with them most of the kernel's attack surface. A file
with the setuid bit in a folder of the host would run there with the rights of its owner: ours.
"""

import errno
import os
import platform
import shutil
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolbus.connect.sandbox.files import SandboxFiles, divided
from toolbus.connect.transports.process.child import FILTER_FD, Launch
from toolbus.core.values.errors import ConnectFailed

# linux/bpf_common.h, linux/seccomp.h
_LOAD, _EQUAL, _AND_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in `struct seccomp_data`. An argument has 8 bytes, the low ones first on little-endian machines."""
_NEW_USER = 0x10000000
"""CLONE_NEWUSER."""
_FAMILIES = (1, 2, 10)
"""AF_UNIX, AF_INET, AF_INET6."""
_SET_ID = 0o6000
"""S_ISUID, S_ISGID."""
_CREATES = 0o20000100
"""O_CREAT and the bit of O_TMPFILE; without either, `open` ignores its mode."""
_X32 = 0x40000000
"""The bit of the numbers of a second set of system calls, on x86_64."""


@dataclass(frozen=True, slots=True)
class _Machine:
    architecture: int
    """AUDIT_ARCH_* of linux/audit.h."""
    forbidden: tuple[int, ...]
    """add_key, request_key, keyctl, bpf, perf_event_open, userfaultfd."""
    namespaces: tuple[int, ...]
    """clone, unshare."""
    sockets: tuple[int, ...]
    """socket, socketpair."""
    opens: Mapping[int, int]
    """open, openat: the place of their flags, which the mode follows, by number."""
    modes: Mapping[int, int]
    """chmod, fchmod, fchmodat, creat, mknod, mknodat: the place of the mode, by number."""


# These have one number everywhere. The flags and modes of clone3 and openat2 are in memory, where a filter
# cannot see them; programs fall back to clone and openat.
_CLONE3, _OPENAT2, _IO_URING, _FCHMODAT2 = 435, 437, 425, 452


def _generic(architecture: int) -> _Machine:
    """A machine with the numbers of include/uapi/asm-generic/unistd.h, which newer ones share."""
    return _Machine(
        architecture,
        forbidden=(217, 218, 219, 280, 241, 282),
        namespaces=(220, 97),
        sockets=(198, 199),
        opens={56: 2},
        modes={52: 1, 53: 2, 33: 2},
    )


_MACHINES: Mapping[str, _Machine] = {
    "x86_64": _Machine(
        0xC000003E,
        forbidden=(248, 249, 250, 321, 298, 323),
        namespaces=(56, 272),
        sockets=(41, 53),
        opens={2: 1, 257: 2},
        modes={90: 1, 91: 1, 268: 2, 85: 1, 133: 1, 259: 2},
    ),
    "aarch64": _generic(0xC00000B7),
    "riscv64": _generic(0xC00000F3),
}


def syscall_filter() -> bytes | None:
    """The filter as bubblewrap reads it; None for a machine whose numbers are not known here."""
    machine = _MACHINES.get(platform.machine())
    return None if machine is None else b"".join(_instructions(machine))


def _instructions(machine: _Machine) -> list[bytes]:
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, machine.architecture, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
    ]
    if platform.machine() == "x86_64":
        program += [_step(_AND_SET, _X32, 0, 1), _refuse(errno.ENOSYS)]
    for number in (*machine.forbidden, _IO_URING):
        program += _on(number, [_refuse(errno.EPERM)])
    for number in (_CLONE3, _OPENAT2):
        program += _on(number, [_refuse(errno.ENOSYS)])
    for number in machine.namespaces:
        program += _on(number, _refuse_bits(0, _NEW_USER))
    families = [_step(_EQUAL, family, len(_FAMILIES) - n, 0) for n, family in enumerate(_FAMILIES)]
    for number in machine.sockets:
        program += _on(number, [_argument(0), *families, _refuse(errno.EAFNOSUPPORT)])
    for number, place in {**machine.modes, _FCHMODAT2: 2}.items():
        program += _on(number, _refuse_bits(place, _SET_ID))
    for number, place in machine.opens.items():
        refused = _refuse_bits(place + 1, _SET_ID)
        program += _on(number, [_argument(place), _step(_AND_SET, _CREATES, 0, len(refused)), *refused])
    return [*program, _step(_RETURN, _ALLOW)]


def _on(number: int, checks: Sequence[bytes]) -> list[bytes]:
    """Check one call; what passes the checks is allowed."""
    body = [*checks, _step(_RETURN, _ALLOW)]
    return [_step(_EQUAL, number, 0, len(body)), *body]


def _refuse_bits(place: int, bits: int) -> list[bytes]:
    """Refuse a call if an argument has any of these bits."""
    return [_argument(place), _step(_AND_SET, bits, 0, 1), _refuse(errno.EPERM)]


def _argument(place: int) -> bytes:
    return _step(_LOAD, _ARGUMENTS + 8 * place)


def _refuse(error: int) -> bytes:
    return _step(_RETURN, _ERRNO | error)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


WITHOUT = "or set sandbox: false"
_USER = "1000"
"""Of the one user inside; it is not root there, even if we are."""
_PROCESSES = 2
"""The processes of bubblewrap around a server: one outside, and the first one inside."""


def find_bubblewrap(server: str) -> str:
    """The path of bubblewrap; ConnectFailed if there can be no sandbox here."""
    if sys.platform != "linux":
        hint = f"run it on Linux, {WITHOUT}"
        raise ConnectFailed(server, "spawn", "a sandbox needs Linux", hint=hint)
    # On our own PATH: one that the config sets could have another program of that name.
    found = shutil.which("bwrap", path=os.environ.get("PATH", os.defpath))
    if found is None:
        hint = f"install it, for example with apt install bubblewrap, {WITHOUT}"
        raise ConnectFailed(
            server, "spawn", "its sandbox needs bubblewrap, which is not installed", hint=hint
        )
    return os.path.abspath(found)


def wrapped(
    server: str, command: Sequence[str], files: SandboxFiles, env: dict[str, str], folder: str
) -> Launch:
    """The command in a sandbox that shows these files, in a folder of it; raises ConnectFailed."""
    bubblewrap, calls = find_bubblewrap(server), syscall_filter()
    if calls is None:
        raise ConnectFailed(
            server, "spawn", "no sandbox is known for this processor", hint=f"set {WITHOUT[3:]}"
        )
    passed, settings = divided(env)
    words = [
        *(bubblewrap, "--unshare-all", *(("--share-net",) if files.net else ())),
        # Also as root, which would otherwise stay root.
        *("--unshare-user", "--uid", _USER, "--gid", _USER, "--cap-drop", "ALL"),
        *("--die-with-parent", "--new-session", "--hostname", "sandbox", "--seccomp", str(FILTER_FD)),
        *(*files.arguments(), "--chdir", folder, *settings),
        *("--", *command),
    ]
    return Launch(command=words, env=passed, syscall_filter=calls, wrappers=_PROCESSES)
