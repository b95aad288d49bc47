"""Deployers with one fault each."""

import shlex
import threading
from collections.abc import Iterator, Mapping

import attrs

from tarn.domain import ClusterSpec, Epoch
from tarn.errors import LaunchError, NotFoundError
from tarn.interfaces import ClusterRef, Finding, LaunchPlan, Staged
from tarn.testing.fakes import FakeDeployer

Files = Mapping[str, bytes]


class SubmitsTwice(FakeDeployer):
    """Starts a second cluster of a running name."""

    def submit(self, spec: ClusterSpec, staged: Staged, files: Files) -> ClusterRef:
        with self.land.lock:
            self.land.running.pop(spec.name, None)
        return super().submit(spec, staged, files)


class LooksBeforeItWrites(FakeDeployer):
    """Of two at once both win, since looking and writing are two steps."""

    def submit(self, spec: ClusterSpec, staged: Staged, files: Files) -> ClusterRef:
        if self.find(spec.name) is None:
            threading.Event().wait(0.05)
            with self.land.lock:
                self.land.running.pop(spec.name, None)
        return super().submit(spec, staged, files)


class FindsWhatNeverWas(FakeDeployer):
    """Makes up a cluster for an unknown name."""

    def find(self, name: str) -> ClusterRef | None:
        return super().find(name) or ClusterRef(name, "fake", Epoch(1, 1))


class RaisesForTheUnknown(FakeDeployer):
    """Takes an unknown name for an error."""

    def find(self, name: str) -> ClusterRef | None:
        found = super().find(name)
        if found is None:
            raise NotFoundError(f"no cluster '{name}'")
        return found


class FindsOnlyItsOwn(FakeDeployer):
    """Does not find what another client started."""

    def submit(self, spec: ClusterSpec, staged: Staged, files: Files) -> ClusterRef:
        self.__dict__["mine"] = spec.name
        return super().submit(spec, staged, files)

    def find(self, name: str) -> ClusterRef | None:
        return super().find(name) if self.__dict__.get("mine") == name else None


class EndsOnce(FakeDeployer):
    """Raises when what it should end is over."""

    def end(self, ref: ClusterRef) -> None:
        if self.find(ref.name) is None:
            raise NotFoundError("ended already")
        super().end(ref)


class EndsNothing(FakeDeployer):
    """Leaves the master running."""

    def end(self, ref: ClusterRef) -> None:
        return


class EndsWhoeverHasTheName(FakeDeployer):
    """Ends a later cluster by an old ref."""

    def end(self, ref: ClusterRef) -> None:
        with self.land.lock:
            self.land.running.pop(ref.name, None)


class StartsInTheSameEpoch(FakeDeployer):
    """Gives every cluster the same epoch."""

    def submit(self, spec: ClusterSpec, staged: Staged, files: Files) -> ClusterRef:
        self.land.incarnation = 0
        return super().submit(spec, staged, files)


class LeavesHalfAStart(FakeDeployer):
    """Keeps the name of a cluster whose master did not come up."""

    def submit(self, spec: ClusterSpec, staged: Staged, files: Files) -> ClusterRef:
        try:
            return super().submit(spec, staged, files)
        except LaunchError:
            self.land.running[spec.name] = ClusterRef(spec.name, "fake", Epoch(1, 1))
            raise


class StartsTheDoomed(FakeDeployer):
    """Says that a master came up which did not."""

    def submit(self, spec: ClusterSpec, staged: Staged, files: Files) -> ClusterRef:
        self.land.doomed.clear()
        return super().submit(spec, staged, files)


class ChecksByStarting(FakeDeployer):
    """Starts a cluster in order to check its spec."""

    def check(self, spec: ClusterSpec) -> tuple[Finding, ...]:
        self.submit(spec, Staged("/models", "in_place"), {})
        return ()


class ShowsEverything(FakeDeployer):
    """Ignores the tail."""

    def logs(self, ref: ClusterRef, instance_id: str, tail: int | None) -> Iterator[str]:
        return super().logs(ref, instance_id, None)


class ForgetsTheRuntime(FakeDeployer):
    """Does not say which runtime a cluster has."""

    def submit(self, spec: ClusterSpec, staged: Staged, files: Files) -> ClusterRef:
        return attrs.evolve(super().submit(spec, staged, files), runtime="")


class PlansByStarting(FakeDeployer):
    """Starts a cluster in order to see what it would do."""

    def plan(self, spec: ClusterSpec, staged: Staged) -> LaunchPlan:
        if self.find(spec.name) is None:
            self.submit(spec, staged, {})
        return super().plan(spec, staged)


class PlansWithoutTheModels(FakeDeployer):
    """Leaves out of the command what it should serve."""

    def plan(self, spec: ClusterSpec, staged: Staged) -> LaunchPlan:
        plan = super().plan(spec, staged)
        return attrs.evolve(plan, commands=tuple(words[:1] for words in plan.commands))


class PlansForAShell(FakeDeployer):
    """Quotes the environment, so that it is another one."""

    def plan(self, spec: ClusterSpec, staged: Staged) -> LaunchPlan:
        plan = super().plan(spec, staged)
        quoted = {name: shlex.quote(value) for name, value in plan.environ.items()}
        return attrs.evolve(plan, environ=quoted)


class PlansOnlyWhatCanStart(FakeDeployer):
    """Raises where it should say what it can."""

    def plan(self, spec: ClusterSpec, staged: Staged) -> LaunchPlan:
        if spec.name in self.land.doomed:
            raise LaunchError("fake", self.land.doomed[spec.name])
        return super().plan(spec, staged)


class NamesTheMasterAsAnInstance(FakeDeployer):
    """Counts the log of the master among those of the instances."""

    def logged(self, ref: ClusterRef) -> tuple[str, ...]:
        return ("", *super().logged(ref))


class ShowsTheMastersLogForAnyId(FakeDeployer):
    """Takes an id that nobody has for the master's."""

    def logs(self, ref: ClusterRef, instance_id: str, tail: int | None) -> Iterator[str]:
        known = (ref.name, instance_id) in self.land.log_lines
        return super().logs(ref, instance_id if known else "", tail)
