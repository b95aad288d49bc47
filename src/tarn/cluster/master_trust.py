"""By what the master of a cluster is known from this machine."""

from pathlib import Path

from tarn import config
from tarn.domain.master_files import SPEC, TLS_CA
from tarn.errors import TarnError
from tarn.follow import Trust

__all__ = ["trust"]


def trust(directory: Path, url: str) -> Trust:
    """Return whom to believe for the master at *url* of the cluster in *directory*.

    What `tarn up` kept, or the runtime brought back; else ``api.tls.ca`` of the spec, where that
    file is on this machine; else the authorities of the system.
    """
    if not url.startswith("https:"):
        return Trust()
    kept = directory / TLS_CA
    if kept.is_file():
        return Trust(kept)
    named = _named(directory / SPEC)
    return Trust(named if named is not None and named.is_file() else None)


def _named(spec: Path) -> Path | None:
    try:
        tls = config.load(spec, environ={}).spec.api.tls
    except (TarnError, OSError):  # it says nothing then, and nobody is believed by it
        return None
    return Path(tls.ca) if tls is not None and tls.ca else None
