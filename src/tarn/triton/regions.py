"""Shared memory of Triton's Python back end: nobody else reads it, and it goes when Triton goes.

What requests say, and the answers, pass through regions in ``/dev/shm``. The back end makes each
one readable by everybody: it sets the mode (``fchmod(…, 0644)``) after it made the file, so a umask
alone does not help; and to take the rights away afterwards is too late for whoever opened it at
once. So Triton begins with a umask of 077 and a filter of the kernel's under which that one call
does nothing: a region is its owner's from the first moment on, whatever tritonserver it is.

A Triton that is killed leaves its regions, and YARN kills a container 250 ms after it asked it to
end (``yarn.nodemanager.sleep-delay-before-sigkill.ms``), long before Triton is done.

Run as a program, ``python regions.py COMMAND…``, this file becomes that command after
`keep_private`. It imports the standard library only.
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
"""Holds the umask that Python models get back, in octal: only Triton itself needs ours."""
IN_STUBS = f"""\
import os as _os
if "{UMASK_VARIABLE}" in _os.environ:
    _os.umask(int(_os.environ.pop("{UMASK_VARIABLE}"), 8))
with open("/proc/self/cmdline", "rb") as _file:
    _region = _os.path.join(b"/dev/shm", *_file.read().split(b"\\0")[2:3])  # after model.py
if _os.path.isfile(_region):
    _os.chmod(_region, 0o600)
"""
"""What a stub of ours runs first. Without a filter its region is closed here, before
the model is loaded, and so before a request comes."""
NO_FILTER = (
    "this kernel does not accept a seccomp filter: another user can open the shared memory of a "
    "Python model while it is being loaded, and at any time where tritonserver is not the "
    "wheel's"
)
_GIVEN = re.compile(r"--backend-config=python,shm-region-prefix-name=(tarn_[0-9a-f]{8}_[\w-]+_)")
_SCRIPT = 'read -r _; rm -f -- "/dev/shm/$1"*'

_OPEN_TO_ALL = 0o644
_MACHINES = {"x86_64": (0xC000003E, 91, 317), "aarch64": (0xC00000B7, 52, 277)}
"""For each machine: ``AUDIT_ARCH_…``, and the numbers of the calls ``fchmod`` and ``seccomp``."""
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_CALL, _MACHINE, _SECOND = 0, 4, 24
"""Where ``struct seccomp_data`` has the call's number, the machine, and the second argument."""
_ALLOW, _DO_NOTHING = 0x7FFF0000, 0x00050000
"""``SECCOMP_RET_ALLOW``, and ``SECCOMP_RET_ERRNO`` with 0: the call says that it succeeded."""
_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER, _SPEC_ALLOW = 1, 4
"""Without the second one, kernels before 5.16 slow the whole process down (``SSBD``)."""


def private(command: Sequence[str]) -> list[str]:
    """Return the arguments of a process that becomes *command*, after `keep_private`."""
    return [sys.executable, "-I", "-S", __file__, *command]


def keep_private(environ: MutableMapping[str, str]) -> bool:
    """Let what this process and its children share in ``/dev/shm`` be read by their owner only.

    Files that they make without saying more are their owner's, too; the stubs of Python models get
    the umask back that this process had, by *environ*. False: the kernel takes no such filter.
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
    """Become *command*; returns only when that cannot be, with a status."""
    environ = dict(os.environ)  # noqa: TID251 (a program of its own)
    if not keep_private(environ):
        sys.stderr.write(f"warning: {NO_FILTER}\n")
        sys.stderr.flush()
    try:
        os.execve(command[0], list(command), environ)  # noqa: S606 (no shell: that is the point)
    except OSError as error:
        sys.stderr.write(f"error: {command[0]} cannot be started: {error.strerror}\n")
    return 1


def prefix_in(arguments: Iterable[str]) -> str | None:
    """Return how the names of Triton's regions begin; None where *arguments* give no name of ours.

    One that a person chose may be another program's too: what it names is left alone.
    """
    found = [match[1] for word in arguments if (match := _GIVEN.fullmatch(word))]
    return found[-1] if found else None


def clear_after_end(prefix: str) -> None:
    """Start a shell of its own session that removes the regions once this process is over.

    It waits for the end of a pipe that this process holds, and whatever it becomes by ``exec``.
    """
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
