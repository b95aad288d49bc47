"""What YARN was told, and what must be said so that it knows what it should. Pure.

A heartbeat that failed may have arrived, or not. So two books are kept: what YARN may know, and
what it knows for certain. What is not certain is said again; what may be known is taken back.
"""

from collections.abc import Mapping

import attrs

from tarn_plugins.runtime.yarn.messages import Ask, Exchange

__all__ = ["Outbox"]


@attrs.define(eq=False)
class Outbox:
    """Makes the next exchange as the difference between two whole states."""

    _tried: dict[int, Ask] = attrs.field(factory=dict)
    _said: dict[int, Ask] = attrs.field(factory=dict)
    _releases: set[str] = attrs.field(factory=set)
    _avoid_tried: frozenset[str] = frozenset()
    _avoid_said: frozenset[str] = frozenset()

    def may_avoid(self, hosts: frozenset[str]) -> None:
        """Note that YARN may still avoid *hosts* for an earlier attempt: it keeps the list."""
        self._avoid_tried |= hosts

    def difference(self, asks: Mapping[int, Ask], avoid: frozenset[str]) -> Exchange:
        """Return what must be said for YARN to know *asks* and *avoid*, and nothing else."""
        return Exchange(
            asks=tuple(asks[n] for n in sorted(asks) if n not in self._said),
            cancels=tuple(self._tried[n] for n in sorted(self._tried) if n not in asks),
            releases=tuple(sorted(self._releases)),
            avoid=tuple(sorted(avoid - self._avoid_said)),
            welcome=tuple(sorted(self._avoid_tried - avoid)),
        )

    def trying(self, said: Exchange) -> None:
        """Note that *said* is being sent: from now on YARN may know it."""
        self._tried.update((ask.number, ask) for ask in said.asks)
        for ask in said.cancels:
            self._said.pop(ask.number, None)
        self._avoid_tried |= frozenset(said.avoid)
        self._avoid_said -= frozenset(said.welcome)

    def arrived(self, said: Exchange) -> None:
        """Note that YARN answered *said*."""
        self._said.update((ask.number, ask) for ask in said.asks)
        for ask in said.cancels:
            self._tried.pop(ask.number, None)
        self._releases.difference_update(said.releases)
        self._avoid_said |= frozenset(said.avoid)
        self._avoid_tried -= frozenset(said.welcome)

    def dropped(self, number: int) -> None:
        """Note that YARN has no ask of this number any more: it granted or rejected it."""
        self._tried.pop(number, None)
        self._said.pop(number, None)

    def release(self, container_id: str) -> None:
        """Let a container go back with the next exchange."""
        self._releases.add(container_id)

    def releasing(self, container_id: str) -> bool:
        """Say whether a container is to go back with the next exchange."""
        return container_id in self._releases

    def over(self, container_id: str) -> None:
        """Note that a container is over: nothing is left to give back."""
        self._releases.discard(container_id)
