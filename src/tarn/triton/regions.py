"""Keeps the shared memory of Triton's Python back end private, and removes it after Triton's end.

Requests and answers pass through regions in ``/dev/shm``, and the back end makes each region
readable for everybody: it calls ``fchmod(…, 0644)`` after it has made the file. So a umask alone
does not help, and removing the rights afterwards is too late if another user opens the file at
once. Therefore Triton is started with a umask of 077 and a seccomp filter under which this one call
does nothing. This works for every tritonserver.

A killed Triton leaves its regions behind, and YARN kills a container 250 ms after the signal to end
(``yarn.nodemanager.sleep-delay-before-sigkill.ms``), long before Triton has ended.

As a program, ``python regions.py COMMAND…``, this file calls `keep_private` and then executes the
command. It imports only the standard library.
"""

import ctypes
import os
import platform
import re
import struct
import subprocess
import sys
from collections.abc import Iterable, MutableMapping, Sequence

__all__ = [
    "IN_STUBS",
    "NO_FILTER",
    "clear_after_end",
    "keep_private",
    "main",
    "prefix_in",
    "private",
]

UMASK_VARIABLE = "TARN_UMASK"
"""The umask that Python models get back, in octal: only Triton itself needs ours."""
IN_STUBS = f"""\
import os as _os
if "{UMASK_VARIABLE}" in _os.environ:
    _os.umask(int(_os.environ.pop("{UMASK_VARIABLE}"), 8))
with open("/proc/self/cmdline", "rb") as _file:
    _region = _os.path.join(b"/dev/shm", *_file.read().split(b"\\0")[2:3])  # after model.py
if _os.path.isfile(_region):
    _os.chmod(_region, 0o600)
"""
"""Code that our stubs run first. Without a filter it makes the region private before the model is
loaded, and so before the first request."""
NO_FILTER = (
    "this kernel does not accept a seccomp filter: another user can open the shared memory of a "
    "Python model while it is being loaded, and at any time where tritonserver is not the "
    "wheel's"
)
_GIVEN = re.compile(r"--backend-config=python,shm-region-prefix-name=(tarn_[0-9a-f]{8}_[\w-]+_)")
_SCRIPT = 'read -r _; rm -f -- "/dev/shm/$1"*'

_OPEN_TO_ALL = 0o644
# For each machine: ``AUDIT_ARCH_…``, and the numbers of the calls ``fchmod`` and ``seccomp``.
_MACHINES = {"x86_64": (0xC000003E, 91, 317), "aarch64": (0xC00000B7, 52, 277)}
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
# Offsets in ``struct seccomp_data``: the number of the call, the machine, the second argument.
_CALL, _MACHINE, _SECOND = 0, 4, 24
# ``SECCOMP_RET_ALLOW``, and ``SECCOMP_RET_ERRNO`` with 0: the call returns success.
_ALLOW, _DO_NOTHING = 0x7FFF0000, 0x00050000
_PR_SET_NO_NEW_PRIVS = 38
# Without the second one, kernels before 5.16 slow the whole process down (``SSBD``).
_SET_MODE_FILTER, _SPEC_ALLOW = 1, 4


def private(command: Sequence[str]) -> list[str]:
    """Return the command that calls `keep_private` and then executes *command*."""
    return [sys.executable, "-I", "-S", __file__, *command]


def keep_private(environ: MutableMapping[str, str]) -> bool:
    """Make regions of this process and its children in ``/dev/shm`` readable only by their owner.

    New files are private too, by the umask; stubs of Python models get the old umask back through
    *environ*. Return False if the kernel does not accept the filter.
    """
    environ[UMASK_VARIABLE] = f"{os.umask(0o077):03o}"
    numbers = _MACHINES.get(platform.machine())
    return numbers is not None and _filter(*numbers)


def _filter(machine: int, fchmod: int, seccomp: int) -> bool:
    steps = (
        (_LOAD, 0, 0, _MACHINE),
        (_JUMP_IF_EQUAL, 0, 4, machine),
        (_LOAD, 0, 0, _CALL),
        (_JUMP_IF_EQUAL, 0, 2, fchmod),
        (_LOAD, 0, 0, _SECOND),
        (_JUMP_IF_EQUAL, 1, 0, _OPEN_TO_ALL),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _DO_NOTHING),
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(
        struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
    )
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    done: int = libc.syscall(
        seccomp, _SET_MODE_FILTER, _SPEC_ALLOW, ctypes.c_void_p(ctypes.addressof(program))
    )
    return done == 0


def main(command: Sequence[str]) -> int:
    """Execute *command* in this process; return a status only if that fails."""
    environ = dict(os.environ)  # noqa: TID251 (a program)
    if not keep_private(environ):
        sys.stderr.write(f"warning: {NO_FILTER}\n")
        sys.stderr.flush()
    try:
        os.execve(command[0], list(command), environ)  # noqa: S606 (no shell: that is the point)
    except OSError as error:
        sys.stderr.write(f"error: {command[0]} cannot be started: {error.strerror}\n")
    return 1


def prefix_in(arguments: Iterable[str]) -> str | None:
    """Return the prefix of the names of Triton's regions in *arguments*; None if it is not ours."""
    # Other programs may use a prefix that a person chose, so its regions are not removed.
    found = [match[1] for word in arguments if (match := _GIVEN.fullmatch(word))]
    return found[-1] if found else None


def clear_after_end(prefix: str) -> None:
    """Start a shell in a new session that removes the regions once this process has ended."""
    # It waits for the end of a pipe whose writing end this process keeps, also after an `exec`.
    reading, writing = os.pipe()
    try:
        os.set_inheritable(writing, True)  # noqa: FBT003 (the standard library's signature)
        subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "sh", prefix],
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath},
            cwd="/",
            start_new_session=True,
        )
    finally:
        os.close(reading)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
