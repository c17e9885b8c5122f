"""The filter of system calls in a sandbox: what namespaces do not separate.

Kernel keyrings are inherited whatever the namespace, and hold tickets and keys of the user. Sockets of other
families (AF_VSOCK reaches the host of a virtual machine) belong to no network namespace. A new user namespace
would give a process all capabilities inside it, and with them most of the kernel's attack surface.
"""

import errno
import platform
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# linux/bpf_common.h, linux/seccomp.h
_LOAD, _EQUAL, _AND_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
"""Offsets in `struct seccomp_data`; the low half of the first argument on a little-endian machine."""
_NEW_USER = 0x10000000
"""CLONE_NEWUSER."""
_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK."""
_X32 = 0x40000000
"""The bit of the numbers of a second set of system calls, on x86_64."""


@dataclass(frozen=True, slots=True)
class _Machine:
    architecture: int
    """AUDIT_ARCH_* of linux/audit.h."""
    forbidden: tuple[int, ...]
    """add_key, request_key, keyctl, bpf, perf_event_open, userfaultfd."""
    clone: int
    unshare: int
    socket: int


# clone3 (flags in memory, where a filter cannot see them) and io_uring_setup have one number everywhere.
_CLONE3, _IO_URING = 435, 425
_MACHINES: Mapping[str, _Machine] = {
    "x86_64": _Machine(0xC000003E, (248, 249, 250, 321, 298, 323), clone=56, unshare=272, socket=41),
    "aarch64": _Machine(0xC00000B7, (217, 218, 219, 280, 241, 282), clone=220, unshare=97, socket=198),
    "riscv64": _Machine(0xC00000F3, (217, 218, 219, 280, 241, 282), clone=220, unshare=97, socket=198),
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
        program += [_step(_AND_SET, _X32, 0, 1), _step(_RETURN, _ERRNO | errno.ENOSYS)]
    for number in (*machine.forbidden, _IO_URING):
        program += _refuse(number, errno.EPERM)
    program += _refuse(_CLONE3, errno.ENOSYS)  # programs fall back to clone
    for number in (machine.clone, machine.unshare):
        program += _on(number, [_step(_AND_SET, _NEW_USER, 0, 1), _step(_RETURN, _ERRNO | errno.EPERM)])
    checks = [_step(_EQUAL, family, len(_FAMILIES) - n, 0) for n, family in enumerate(_FAMILIES)]
    program += _on(machine.socket, [*checks, _step(_RETURN, _ERRNO | errno.EAFNOSUPPORT)])
    return [*program, _step(_RETURN, _ALLOW)]


def _refuse(number: int, error: int) -> list[bytes]:
    return [_step(_EQUAL, number, 0, 1), _step(_RETURN, _ERRNO | error)]


def _on(number: int, checks: Sequence[bytes]) -> list[bytes]:
    """Check the first argument of a call; what passes the checks is allowed."""
    body = [_step(_LOAD, _FIRST_ARGUMENT), *checks, _step(_RETURN, _ALLOW)]
    return [_step(_EQUAL, number, 0, len(body)), *body]


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
