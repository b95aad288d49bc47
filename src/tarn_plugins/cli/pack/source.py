"""Tarn itself, exactly as it is installed here: from an index, or from the source of a checkout."""

import json
from collections.abc import Callable
from importlib.metadata import Distribution, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tarn.errors import ProviderError
from tarn.release import DISTRIBUTION
from tarn_plugins.cli.pack.options import PackOptions

__all__ = ["origin", "requirement"]


def requirement(order: PackOptions, build: Callable[[Path], Path]) -> str:
    """Return tarn with the extras of *order*, as pip writes it.

    Args:
        order: What is to be packed.
        build: Makes a wheel of a project's directory.

    Raises:
        ProviderError: The source that was installed is gone (TARN-3196), or cannot be built.
    """
    return written(order.extras, *origin(distribution(DISTRIBUTION)), build)


def origin(installed: Distribution) -> tuple[str, str]:
    """Return (version, URL): where this distribution came from; no URL: from an index (PEP 610)."""
    told = installed.read_text("direct_url.json")
    return installed.version, "" if told is None else str(json.loads(told)["url"])


def written(extras: tuple[str, ...], version: str, url: str, build: Callable[[Path], Path]) -> str:
    """Return the requirement of tarn *version* with *extras*, which came from *url*."""
    tarn = f"{DISTRIBUTION}[{','.join(extras)}]"
    if not url:
        return f"{tarn}=={version}"
    parts = urlsplit(url)
    if parts.scheme != "file":
        return f"{tarn} @ {url}"
    path = Path(unquote(parts.path))
    if not path.exists():
        raise ProviderError(
            "pack",
            f"tarn was installed from {path}, which no longer exists",
            code="TARN-3196",
            next_step="Install tarn from an index, or from where its source is now.",
        )
    return f"{tarn} @ {(build(path) if path.is_dir() else path).as_uri()}"
