"""Which TARN this is: the name of its distribution, its version, and who else is called tarn."""

import functools

__all__ = ["DISTRIBUTION", "UNKNOWN", "other_tarn", "version"]

DISTRIBUTION = "tarn-orchestrator"
"""What `pip install` takes. On the public index, ``tarn`` is the name of somebody else's library,
which installs a package of the same name as ours."""

UNKNOWN = "unknown"


@functools.cache
def version() -> str:
    """Return this TARN's version; ``unknown`` where it runs from sources that are not installed."""
    return _version(DISTRIBUTION) or UNKNOWN


def other_tarn() -> str:
    """Return the version of the other project's ``tarn``; empty where it is not installed."""
    return _version("tarn")


def _version(name: str) -> str:
    import importlib.metadata  # noqa: PLC0415 (slow, and every command imports this module)

    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
