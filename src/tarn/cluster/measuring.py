"""What was measured of a cluster, as tables for a notebook: metrics, usage, history, alerts."""

import abc
from typing import TYPE_CHECKING

from tarn.cluster.link import Link
from tarn.cluster.lists import Alerts, History, Metrics, Usage
from tarn.cluster.monitoring import metrics_rows, metrics_text
from tarn.plain import seconds as span_of

if TYPE_CHECKING:
    from tarn.cluster.plots import Plot

__all__ = ["Measuring"]


class Measuring(abc.ABC):
    """The part of `Cluster` that gives numbers. Everything raises as `Cluster.status` does."""

    _link: Link

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The cluster's name."""

    def metrics(self) -> Metrics:
        """Return every sample of the master's ``/metrics`` as it is now.

        Rows of ``name``, ``type``, ``labels`` and ``value``; ``.to_pandas()`` has a column for
        each label.
        """
        return Metrics(metrics_rows(metrics_text(self._link)))

    def history(self, since: str | float = "3h") -> History:
        """Return a row for each step of the last hours: sizes, load, queue, requests, latency.

        Steps are ten seconds for up to three hours, a minute for up to a day, ten minutes for up
        to two weeks. A new master of the cluster goes on with it.

        Args:
            since: How far back: a duration (``24h``), or seconds.
        """
        path = f"/api/v1/history?since_s={span_of(since, 'since'):g}"
        return History.of(self.name, self._link.ask(lambda api: api.get(path)))

    def usage(self, since: str | float = "24h") -> Usage:
        """Return what instances and models did and held: requests, failures, and seconds.

        ``request_s`` are seconds from arrival to answer, summed; ``instance_s`` those for which
        the instance had a process, or instances had the model READY; ``gpu_s`` the same, times the
        GPUs of an instance (models of one instance share it, and each has all of it).

        Args:
            since: How far back: a duration (``7d``), or seconds; at most a week is kept. Whole
                slots are summed, of ten minutes for up to a day, else of an hour.
        """
        path = f"/api/v1/usage?since_s={span_of(since, 'since'):g}"
        return Usage.of(self._link.ask(lambda api: api.get(path)))

    def alerts(self) -> Alerts:
        """Return what is wrong now, the newest first, then what was; each with what to do."""
        return Alerts(self._link.ask(lambda api: api.get("/api/v1/alerts"))["alerts"])

    def plot(self, since: str | float = "3h") -> "Plot":
        """Return the `history` as a drawing: size, load, requests and latency over time.

        Raises:
            ProviderMissingError: matplotlib is not installed.
        """
        return self.history(since).plot()
