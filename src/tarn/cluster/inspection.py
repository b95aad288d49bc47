"""The read-only access to a cluster that plugins' tools get."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.explain import explain
from tarn.cluster.read.logs import MASTER
from tarn.cluster.start import stores
from tarn.domain import ClusterSpec
from tarn.errors import NotFoundError, TarnError
from tarn.interfaces import ClientContext, Progress
from tarn.plugins import KINDS

if TYPE_CHECKING:
    from tarn.cluster.handle import Cluster

__all__ = ["Inspection"]


@attrs.frozen(eq=False)
class Inspection:
    """See `tarn.interfaces.ClusterInspection`."""

    environment: ClusterEnvironment
    name: str = ""
    spec: ClusterSpec | None = attrs.field(default=None, repr=False)  # it may hold secrets
    cluster: "Cluster | None" = None
    unknown: TarnError | None = None
    progress: Callable[[Progress], None] = lambda _progress: None
    done: Callable[[], None] = lambda: None
    """Finishes the output of *progress*."""

    @classmethod
    def of(
        cls,
        cluster: "Cluster",
        environment: ClusterEnvironment,
        progress: Callable[[Progress], None],
        planned: ClusterSpec | None = None,
    ) -> "Inspection":
        """Return the inspection of *cluster*; *planned* is its spec if none is kept here."""
        spec = planned
        with contextlib.suppress(TarnError):  # no spec here, or one of a newer TARN
            spec = cluster.spec
        return cls(environment, cluster.name, spec, cluster, progress=progress)

    @property
    def context(self) -> ClientContext:
        """Environment, clock, paths, and the receiver of progress."""
        return self.environment.context(self.progress)

    @property
    def directory(self) -> Path | None:
        """The cluster's directory on this machine, which may not exist."""
        return self.environment.paths.cluster(self.name) if self.name else None

    @property
    def asks(self) -> bool:
        """Whether there is a cluster to ask."""
        return self.cluster is not None

    def _asked(self) -> "Cluster":
        if self.cluster is None:
            raise self.unknown or NotFoundError("there is no cluster to ask")
        return self.cluster

    def status(self) -> Mapping[str, Any]:
        """Return the status, even without a master."""
        return self._asked().status()

    def why(self, status: Mapping[str, Any]) -> str:
        """Return a line for each thing that is not as desired in *status*."""
        return "\n".join(map(str, explain(status)))

    def get(self, path: str) -> Mapping[str, Any]:
        """Return the JSON object that the master has at *path*."""
        return self._asked().source.ask(lambda api: api.get(path))

    def text(self, path: str) -> str:
        """Return the text that the master has at *path*."""
        return self._asked().source.ask(lambda api: api.text(path))

    def logs(self, instance: str, tail: int | None) -> Iterator[str]:
        """Yield the last *tail* lines of an instance's log; '' is the master's."""
        return self._asked().logs(instance, tail)

    def logged(self) -> tuple[str, ...]:
        """Return the ids of the instances that have logs."""
        return tuple(one for one in self._asked().logged() if one != MASTER)

    def api_token(self) -> str:
        """Return the api token that this process was given, or ''."""
        given = self.environment.api_token
        return (given() if given is not None else "") or ""

    def stored_secrets(self) -> tuple[str, ...]:
        """Return every value in the secret stores of the spec."""
        if self.spec is None or not self.spec.secrets:
            return ()
        return tuple(one.value.reveal() for one in stores.held(self.spec, self.environment))

    def doctor(self) -> tuple[list[dict[str, object]], str]:
        """Return the result of `tarn doctor`: a row for each check, and as text."""
        from tarn.cluster.examining import around_spec  # noqa: PLC0415 (seldom)

        if self.spec is None:
            raise NotFoundError("without a spec nothing says what to examine")
        found = around_spec(self.spec, self.environment, self.progress, probe=False)
        return found.plain(), f"{found}\n\n{found.summary}"

    def lint(self) -> Mapping[str, Any]:
        """Return the findings of `tarn lint` in the spec's model repository."""
        from tarn.cluster.start import linting  # noqa: PLC0415 (seldom)

        where = self.spec.models.repository if self.spec is not None else ""
        report = linting.examine(
            where, self.environment, self.progress, repair=False, spec=self.spec
        )
        return attrs.asdict(report)

    def providers(self) -> list[Mapping[str, str]]:
        """Return ``kind``, ``name`` and ``plugin`` of each provider that plugins offer."""
        plugins = self.environment.plugins()
        return [
            {"kind": kind, "name": name, "plugin": plugins.owner(kind, name)}
            for kind in KINDS
            for name in plugins.offers(kind)
        ]

    def close(self) -> None:
        """Close the connection to the master, and finish the output of *progress*."""
        if self.cluster is not None:
            self.cluster.source.close()
        self.done()
