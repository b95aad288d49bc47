"""A snapshot as the text that is asked for most: ``/instances``. Pure, and line by line."""

from tarn.control.snapshot import Snapshot

__all__ = ["render_instances"]


def render_instances(snapshot: Snapshot) -> bytes:
    """Return ``host:port`` of each instance that may get traffic, a line each; empty for none."""
    lines = [f"{member.endpoint.http}\n" for member in snapshot.view.members]
    return "".join(lines).encode("utf-8", "replace")
