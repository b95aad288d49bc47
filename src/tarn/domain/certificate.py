"""What a verified certificate says of its holder. Pure.

A certificate is the mapping that ``ssl.SSLSocket.getpeercert()`` returns.
"""

from collections.abc import Mapping
from typing import Any

__all__ = ["common_name", "hosts"]

Certificate = Mapping[str, Any]
_HOSTS = ("DNS", "IP Address")


def hosts(certificate: Certificate) -> tuple[str, ...]:
    """Return the hosts that it is for, wildcards included; none: no client takes it for any."""
    return tuple(name for kind, name in certificate.get("subjectAltName", ()) if kind in _HOSTS)


def common_name(certificate: Certificate | None) -> str:
    """Return its common name; empty: it has none, or several, of which two readers choose two."""
    parts = [part for relative in (certificate or {}).get("subject", ()) for part in relative]
    found = [str(value) for kind, value in parts if kind == "commonName"]
    return found[0] if len(found) == 1 and found[0].isprintable() else ""
