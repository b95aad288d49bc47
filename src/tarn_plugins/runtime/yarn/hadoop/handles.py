"""The Java objects that the two clients share: what the RM hands out, the NodeManagers ask for."""

import threading
from typing import Any

import attrs

from tarn.java import load

__all__ = ["Handles"]


def _token_cache() -> Any:
    return load("org.apache.hadoop.yarn.client.api.NMTokenCache")()


@attrs.define
class Handles:
    """One application's. Any thread; needs the JVM."""

    node_tokens: Any = attrs.field(factory=_token_cache)
    """``NMTokenCache``; Hadoop's own is one for the whole JVM."""
    _containers: dict[str, Any] = attrs.field(factory=dict, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def keep(self, container: Any) -> None:
        """Keep a granted ``Container``: it holds the token that starts it."""
        with self._lock:
            self._containers[str(container.getId())] = container

    def find(self, container_id: str) -> Any | None:
        """Return the ``Container``, or None: it is over, or an earlier attempt's."""
        with self._lock:
            return self._containers.get(container_id)

    def drop(self, container_id: str) -> None:
        """Forget it."""
        with self._lock:
            self._containers.pop(container_id, None)
