"""What a page of the master sends with a write where its Origin is a proxy's, not the master's.

A page of somebody else may make a browser send a write, but it cannot read what the master
answered to that browser: a value that stands in such an answer only proves a page of its own.
"""

import hmac
import math
import re
import secrets
from collections.abc import Callable
from urllib.parse import parse_qsl

from tarn.domain import Principal

__all__ = ["CSRF_S", "Csrf", "csrf_of"]

CSRF_S = 3600
MOST_FIELDS = 16

_FORM = re.compile(r"c1\.([0-9]{1,12})\.([0-9a-f]{64})")


class Csrf:
    """Makes the values for one master, and knows them again. Stateless; any thread.

    The secret is this master's own, so a page asks again when another one took over.

    Args:
        at: Returns wall time, Unix seconds.
    """

    def __init__(self, at: Callable[[], float]) -> None:
        self._secret = secrets.token_bytes(32)
        self._at = at

    def __repr__(self) -> str:
        return "Csrf()"

    def of(self, principal: Principal) -> str:
        """Return the value for *principal*, good for an hour; it proves nothing of anybody else."""
        expires = math.floor(self._at()) + CSRF_S
        return f"c1.{expires}.{self._signature(expires, principal)}"

    def good(self, value: str, principal: Principal) -> bool:
        """Say whether *value* was made for *principal*, and is not over."""
        found = _FORM.fullmatch(value)
        if found is None or int(found[1]) <= self._at():
            return False
        return hmac.compare_digest(self._signature(int(found[1]), principal), found[2])

    def _signature(self, expires: int, principal: Principal) -> str:
        said = f"{expires}\0{principal.via}\0{principal.user}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._secret, said, "sha256").hex()


def csrf_of(query: bytes) -> str:
    """Return what ``?csrf=`` of *query* says; empty: it says nothing, or says it twice."""
    try:
        pairs = parse_qsl(query.decode("latin-1"), max_num_fields=MOST_FIELDS)
    except ValueError:
        return ""
    values = [value for name, value in pairs if name == "csrf"]
    return values[0] if len(values) == 1 else ""
