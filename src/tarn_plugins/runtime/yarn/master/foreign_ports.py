"""Ports that somebody else was found to hold. Pure."""

from collections import deque
from collections.abc import Iterable

import attrs

from tarn.domain import Endpoint
from tarn.domain.spec import TritonSpec
from tarn.triton.last_words import port_taken
from tarn_plugins.runtime.yarn.master.shapes import NoPortError, endpoint_on

__all__ = ["ForeignPorts"]

_MOST = 1000


@attrs.define(eq=False)
class ForeignPorts:
    """Remembers, for as long as this master lives, where an instance could not listen.

    Nobody can look from here what is free on a node: another cluster of another tag, or any other
    program, may hold Triton's usual ports there.
    """

    _found: deque[Endpoint] = attrs.field(factory=lambda: deque(maxlen=_MOST))

    def ended(self, endpoint: Endpoint, error: str) -> None:
        """Hear with which *error* an instance ended that was to listen at *endpoint*."""
        if port_taken(error):
            self._found.append(endpoint)

    def choose(
        self, node: str, number: int, triton: TritonSpec, held: Iterable[Endpoint]
    ) -> Endpoint | None:
        """Return where *number* listens on *node*, where *held* are ours already; None: nowhere."""
        foreign = (endpoint for endpoint in self._found if endpoint.host == node)
        try:
            return endpoint_on(node, number, triton, (*held, *foreign))
        except NoPortError:
            return None
