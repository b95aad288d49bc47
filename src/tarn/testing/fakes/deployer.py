"""A deployer without processes."""

import threading
from collections.abc import Iterator, Mapping

import attrs

from tarn.domain import ClusterSpec, Epoch
from tarn.errors import LaunchError, NotFoundError, RefusedError
from tarn.interfaces import ClusterRef, Ending, Finding, LaunchPlan, Staged

__all__ = ["FakeClusters", "FakeDeployer"]


class FakeClusters:
    """What outlives a deployer: the clusters that run, and their logs."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: dict[str, ClusterRef] = {}
        self.findings: dict[str, tuple[Finding, ...]] = {}
        """Cluster name to what a check finds."""
        self.doomed: dict[str, str] = {}
        """Cluster name to why its master does not come up."""
        self.log_lines: dict[tuple[str, str], list[str]] = {}
        """(cluster name, instance id or '') to its log."""
        self.files: dict[str, dict[str, bytes]] = {}
        """Cluster name to the files that were handed over with it."""
        self.endings: dict[str, Ending] = {}
        """Cluster name to how its last cluster ended."""
        self.incarnation = 0

    def finish(self, name: str, state: str, reason: str) -> None:
        """Let a running cluster come to its end by itself."""
        with self.lock:
            ref = self.running.pop(name)
            self.endings[name] = Ending(name, state, reason, at=1.7e9, ref=ref)


class FakeDeployer:
    """Starts clusters by writing their names down."""

    def __init__(self, land: FakeClusters | None = None) -> None:
        self.land = land or FakeClusters()

    def check(self, spec: ClusterSpec) -> tuple[Finding, ...]:
        """Return what the land has against *spec*."""
        return self.land.findings.get(spec.name, ())

    def plan(self, spec: ClusterSpec, staged: Staged) -> LaunchPlan:
        """Return a command with the models, the environment of the spec, and two places."""
        command = ("tritonserver", f"--model-repository={staged.location}")
        places = {"models": staged.location, "cluster": f"the land/{spec.name}"}
        return LaunchPlan((command,), dict(spec.triton.env), places)

    def submit(self, spec: ClusterSpec, staged: Staged, files: Mapping[str, bytes]) -> ClusterRef:
        """Write the cluster down as running."""
        with self.land.lock:
            if spec.name in self.land.running:
                raise RefusedError(f"'{spec.name}' runs already", where=spec.name)
            if spec.name in self.land.doomed:
                raise LaunchError("fake", self.land.doomed[spec.name], where=spec.name)
            self.land.incarnation += 1
            epoch = Epoch(self.land.incarnation, 1)
            ref = ClusterRef(spec.name, "fake", epoch, url="http://127.0.0.1:1")
            self.land.running[spec.name] = ref
            lines = [f"started from {staged.location}", "listens"]
            self.land.log_lines[spec.name, ""] = lines
            self.land.files[spec.name] = dict(files)
        return ref

    def find(self, name: str) -> ClusterRef | None:
        """Return the cluster if it is written down."""
        with self.land.lock:
            return self.land.running.get(name)

    def ended(self, name: str) -> Ending | None:
        """Return how it was struck out, or finished, last."""
        with self.land.lock:
            return self.land.endings.get(name)

    def end(self, ref: ClusterRef) -> None:
        """Strike it out, unless a later one of the same name runs."""
        with self.land.lock:
            present = self.land.running.get(ref.name)
            if present is None or present.epoch != ref.epoch:
                return
        self.land.finish(ref.name, "stopped", "ended by force")

    def move(self, ref: ClusterRef, url: str) -> ClusterRef:
        """Let the master of *ref* listen at *url*, and return its new ref."""
        moved = attrs.evolve(ref, url=url)
        with self.land.lock:
            self.land.running[ref.name] = moved
        return moved

    def logs(self, ref: ClusterRef, instance_id: str, tail: int | None) -> Iterator[str]:
        """Yield the lines that the land holds."""
        lines = self.land.log_lines.get((ref.name, instance_id))
        if lines is None:
            raise NotFoundError(f"there is no log of '{instance_id}'", where=ref.name)
        yield from lines if tail is None else lines[max(0, len(lines) - tail) :]

    def logged(self, ref: ClusterRef) -> tuple[str, ...]:
        """Return the ids of whose logs the land holds."""
        held = self.land.log_lines
        return tuple(sorted(id_ for name, id_ in held if name == ref.name and id_))
