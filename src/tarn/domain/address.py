"""Host and port as one text, and apart again. Pure.

An address of IPv6 holds colons itself: in a URL, and wherever a port follows it, it has brackets.
"""

__all__ = ["apart", "bracketed", "host_port"]


def bracketed(host: str) -> str:
    """Return *host* as a URL holds it: an address of IPv6 in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def host_port(host: str, port: int | str) -> str:
    """Return ``host:port``, ``[fd00::1]:8000`` for an address of IPv6."""
    return f"{bracketed(host)}:{port}"


def apart(text: str) -> tuple[str, str]:
    """Return host, without brackets, and what follows the last colon, of a ``host:port``."""
    host, _, port = text.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), port
