"""The discoveries that this master runs, each on a worker of its own: none can hold another up."""

import logging
from collections.abc import Callable, Iterator, Mapping

import attrs

from tarn.control.issues import Issue, of_worker
from tarn.control.mailbox import Worker
from tarn.domain import Applied, DiscoveryView
from tarn.errors import Superseded
from tarn.interfaces import Clock, Discovery

__all__ = ["Publishers"]

log = logging.getLogger(__name__)


class Publishers:
    """Posts views to discoveries and reads their words. Control thread only."""

    def __init__(
        self, discoveries: Mapping[str, Discovery], clock: Clock, wake: Callable[[], None]
    ) -> None:
        self._discoveries = discoveries
        self._workers: dict[str, Worker[DiscoveryView]] = {
            name: Worker(f"discovery {name}", discovery.sync, clock, wake)
            for name, discovery in discoveries.items()
        }
        self._mute: dict[str, str] = {}
        """Name to why `applied` raised."""

    @property
    def workers(self) -> tuple[Worker[DiscoveryView], ...]:
        """Each discovery's worker."""
        return tuple(self._workers.values())

    def post(self, view: DiscoveryView) -> None:
        """Let each publish *view* as soon as it can; an older one that waits is dropped."""
        for worker in self._workers.values():
            worker.post(view)

    def words(self) -> tuple[Applied, ...]:
        """Return what each acknowledged last.

        Raises:
            Superseded: One of them found a newer master.

        The word comes under the name that the spec gives: two of a kind are two followers.
        """
        said = ((name, self._applied(name)) for name in self._discoveries)
        return tuple(attrs.evolve(word, name=name) for name, word in said if word is not None)

    def failing(self) -> dict[str, str]:
        """Return why, for each that could not publish the newest view, or not say so."""
        errors = {name: worker.error for name, worker in self._workers.items() if worker.error}
        return self._mute | errors

    def troubles(self) -> Iterator[Issue]:
        """Say which of them are at one view for long, or fail."""
        for name, worker in self._workers.items():
            yield from of_worker(worker, "TARN-1303")
            if (why := self._mute.get(name)) and not worker.error:
                fault = f"{worker.name} does not say what it applied"
                yield Issue(fault, f"{worker.name}: {why}", "TARN-1303", worker.name)

    def close(self, *, ended: bool, superseded: bool) -> None:
        """End the workers; leave, or withdraw where the cluster *ended*."""
        for name, discovery in self._discoveries.items():
            self._workers[name].close(1.0 if ended else 0.05)
            if not superseded:
                _close(name, discovery, withdraw=ended)

    def _applied(self, name: str) -> Applied | None:
        """Return what it acknowledged last: nothing if it raises, and the tick goes on."""
        try:
            word = self._discoveries[name].applied()
        except Superseded:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            if self._mute.get(name) != why:
                log.warning("discovery %s does not say what it applied", name, exc_info=error)
            self._mute[name] = why
            return None
        self._mute.pop(name, None)
        return word


def _close(name: str, discovery: Discovery, *, withdraw: bool) -> None:
    """Close one, whatever it raises: the others must be closed, too."""
    try:
        discovery.close(withdraw=withdraw)
    except Exception:
        log.exception("discovery %s raised while it was being closed", name)
