"""The client's side of a packed environment: what it asks its child about the archive."""

from collections.abc import Callable
from pathlib import Path

import attrs

from tarn.errors import TarnError
from tarn.interfaces import Finding
from tarn_plugins.runtime.yarn import environment
from tarn_plugins.runtime.yarn.client import checks
from tarn_plugins.runtime.yarn.client.hadoop_child import HadoopClient

__all__ = ["UploadedEnvironment", "bring", "findings", "packed"]


@attrs.frozen
class UploadedEnvironment:
    """A packed environment where the nodes read it."""

    uri: str = ""
    """Empty: there is none."""
    bytes: int = 0


def packed(python: str | None) -> str:
    """Return the archive that ``runtime.options.python`` names; empty: it names none. Pure."""
    return python if python is not None and environment.is_packed(python) else ""


def findings(hadoop: HadoopClient, archive: str, within_s: float) -> tuple[Finding, ...]:
    """Return what is wrong with *archive*; nothing where none is named."""
    if not archive:
        return ()
    try:
        told = hadoop.ask("environment", within_s, python=archive)
    except TarnError as error:
        return (checks.from_error(error),)
    return tuple(Finding(**each) for each in told)


def bring(
    hadoop: HadoopClient,
    archive: str,
    patience_s: Callable[[int], float],
    say: Callable[[str], None],
) -> UploadedEnvironment:
    """Return the archive where the nodes read it; nothing where none is named.

    Args:
        hadoop: Asks YARN.
        archive: URI, or path of a file of this machine: that one is copied, unless it is there.
        patience_s: How long a copy of so many bytes may take.
        say: Tells a person what is being waited for.

    Raises:
        LaunchError: It cannot be read.
        ProviderError: The file system did not answer, or has no space.
    """
    if not archive:
        return UploadedEnvironment()
    amount = 0
    if environment.is_local(archive):
        local = Path(archive)
        amount = local.stat().st_size if local.is_file() else 0
        say(f"copying the packed environment ({amount / 2**20:,.0f} MiB) to the nodes")
    return UploadedEnvironment(
        **hadoop.ask("bring_environment", patience_s(amount), python=archive)
    )
