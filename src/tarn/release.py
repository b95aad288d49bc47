"""The name and the version of TARN's distribution, and of another one with the package tarn."""

import functools

__all__ = ["DISTRIBUTION", "UNKNOWN", "other_tarn", "version"]

DISTRIBUTION = "tarn-orchestrator"
"""The name for `pip install`. On the public index, ``tarn`` is another project's library, whose
package has the same name as ours."""

UNKNOWN = "unknown"


@functools.cache
def version() -> str:
    """Return TARN's version; ``unknown`` if it runs from sources that are not installed."""
    return _version(DISTRIBUTION) or UNKNOWN


def other_tarn() -> str:
    """Return the version of the other project's ``tarn``, or '' if it is not installed."""
    return _version("tarn")


def _version(name: str) -> str:
    import importlib.metadata  # noqa: PLC0415 (slow, and every command imports this module)

    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
