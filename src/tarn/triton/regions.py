"""Shared memory of Triton's Python backend: it goes when Triton goes, however it ends.

A Triton that is killed leaves its regions in ``/dev/shm``, and YARN kills a container 250 ms after
it asked it to end (``yarn.nodemanager.sleep-delay-before-sigkill.ms``), long before Triton is done.
"""

import os
import re
import subprocess
from collections.abc import Iterable

__all__ = ["clear_after_end", "prefix_in"]

_GIVEN = re.compile(r"--backend-config=python,shm-region-prefix-name=(tarn_[0-9a-f]{8}_[\w-]+_)")
_SCRIPT = 'read -r _; rm -f -- "/dev/shm/$1"*'


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
