"""Run the programs in a sandbox's ``bin``."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tarn.errors import ProviderError

__all__ = ["run"]

_SAID_BYTES = 4096


def run(
    program: Path, arguments: Sequence[str], environ: Mapping[str, str], timeout_s: float
) -> str:
    """Return what *program* printed.

    Raises:
        ProviderError: It failed; the message ends with what it said.
    """
    done = subprocess.run(
        [str(program), *arguments],
        check=False,
        capture_output=True,
        text=True,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        timeout=timeout_s,
    )
    if done.returncode:
        raise ProviderError(
            "sandbox",
            f"`{program.name} {arguments[0] if arguments else ''}` failed "
            f"(exit code {done.returncode}): {done.stderr.strip()[-_SAID_BYTES:]}",
        )
    return done.stdout
