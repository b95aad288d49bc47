"""Runtimes with one fault each."""

import threading

import attrs

from tarn.domain import (
    Ended,
    ExitStatus,
    Fact,
    Pending,
    Recovered,
    Running,
    RuntimeWish,
    StubEnded,
)
from tarn.errors import LaunchError, NotFoundError
from tarn.interfaces import LogTail
from tarn.testing.fakes import FakeRuntime


class StartsTwice(FakeRuntime):
    """Starts what runs already once more, in another container."""

    def apply(self, wish: RuntimeWish) -> None:
        running = {f.instance_id for f in super().facts() if isinstance(f, Running)}
        super().apply(wish)
        for instance_id, _ in wish.want:
            if instance_id in running:
                self.world.double(instance_id)


class StopsWhatIsNotWanted(FakeRuntime):
    """Takes an id in neither set for one to be stopped."""

    def apply(self, wish: RuntimeWish) -> None:
        wanted = {instance_id for instance_id, _ in wish.want}
        known = {fact.instance_id for fact in super().facts()}
        super().apply(attrs.evolve(wish, stop=wish.stop | (known - wanted)))


class KnowsWhatItStops(FakeRuntime):
    """Raises at the stop of an unknown id."""

    def apply(self, wish: RuntimeWish) -> None:
        known = {fact.instance_id for fact in super().facts()}
        wanted = {instance_id for instance_id, _ in wish.want}
        if wish.stop - known - wanted:
            raise NotFoundError("no such instance")
        super().apply(wish)


class BlocksReaders(FakeRuntime):
    """Waits for the world when facts are read."""

    def facts(self) -> tuple[Fact, ...]:
        threading.Event().wait(0.8)
        return super().facts()


class SaysItTwice(FakeRuntime):
    """Has two facts for one id."""

    def facts(self) -> tuple[Fact, ...]:
        return tuple(fact for fact in super().facts() for _ in range(2))


class RaisesAtAFailedStart(FakeRuntime):
    """Turns a failed launch into an exception."""

    def apply(self, wish: RuntimeWish) -> None:
        super().apply(wish)
        for fact in super().facts():
            if isinstance(fact, Ended) and not fact.exit.expected:
                raise LaunchError("fake", fact.exit.reason)


class ForgetsEnds(FakeRuntime):
    """Tells an end once."""

    def facts(self) -> tuple[Fact, ...]:
        told = self.__dict__.setdefault("told", set())
        said = tuple(f for f in super().facts() if f.instance_id not in told)
        told.update(f.instance_id for f in said if isinstance(f, Ended))
        return said


class RemembersEnds(FakeRuntime):
    """Tells an end for ever, even when nobody names the id."""

    def facts(self) -> tuple[Fact, ...]:
        ends = self.__dict__.setdefault("ends", {})
        said = {f.instance_id: f for f in super().facts()}
        ends.update({i: f for i, f in said.items() if isinstance(f, Ended)})
        return tuple({**ends, **said}.values())


class IgnoresEpochs(FakeRuntime):
    """Obeys an old master as if it were the newest."""

    def apply(self, wish: RuntimeWish) -> None:
        super().apply(attrs.evolve(wish, epoch=max(wish.epoch, self.world.epoch)))


class FencesAfterTheAct(FakeRuntime):
    """Compares epochs, but only when everything is done."""

    def apply(self, wish: RuntimeWish) -> None:
        super().apply(attrs.evolve(wish, epoch=max(wish.epoch, self.world.epoch)))
        self.world.check_epoch(wish.epoch)


class AdoptsNothing(FakeRuntime):
    """Finds nothing at its start."""

    def start(self, api_url: str) -> Recovered:
        super().start(api_url)
        return Recovered()


class AdoptsByRestarting(FakeRuntime):
    """Puts what it recovers into new containers."""

    def start(self, api_url: str) -> Recovered:
        for fact in super().start(api_url).running:
            self.world.double(fact.instance_id)
        return super().start(api_url)


class TakesCreditForOthers(FakeRuntime):
    """Does not mark what it adopted."""

    def start(self, api_url: str) -> Recovered:
        found = super().start(api_url).running
        return Recovered(tuple(attrs.evolve(fact, adopted=False) for fact in found))


class KillsWhenItLeaves(FakeRuntime):
    """Ends the instances when it is closed."""

    def close(self) -> None:
        super().close()
        for fact in super().facts():
            self.world.vanish(fact.instance_id)


class ClosesOnce(FakeRuntime):
    """Raises at the second close."""

    def close(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        super().close()


class ClosesSlowly(FakeRuntime):
    """Takes longer to leave than it may."""

    def close(self) -> None:
        threading.Event().wait(0.8)
        super().close()


class HearsNothing(FakeRuntime):
    """Says for ever that it heard of the world at its birth."""

    def heard_s(self) -> float:
        return float(self.__dict__.setdefault("born_s", self.clock.now_s()))


class HearsTheFuture(FakeRuntime):
    """Names a second that has not come."""

    def heard_s(self) -> float:
        return self.clock.now_s() + 60.0


class BlamesItselfForStops(FakeRuntime):
    """Tells a stop that was asked for as a crash."""

    def facts(self) -> tuple[Fact, ...]:
        crash = ExitStatus("killed by signal 15", -15)
        return tuple(
            attrs.evolve(f, exit=crash) if isinstance(f, Ended) else f for f in super().facts()
        )


class EndsWithoutAWord(FakeRuntime):
    """Gives no reason for an end."""

    def facts(self) -> tuple[Fact, ...]:
        return tuple(
            attrs.evolve(f, exit=attrs.evolve(f.exit, reason="")) if isinstance(f, Ended) else f
            for f in super().facts()
        )


class OnlyAsks(FakeRuntime):
    """Never says that anything runs."""

    def facts(self) -> tuple[Fact, ...]:
        return tuple(
            Pending(f.instance_id, f.spec_hash) if isinstance(f, Running) else f
            for f in super().facts()
        )


class SharesPorts(FakeRuntime):
    """Gives every instance the same address."""

    def facts(self) -> tuple[Fact, ...]:
        said = super().facts()
        first = next((f.endpoint for f in said if isinstance(f, Running)), None)
        return tuple(
            attrs.evolve(f, endpoint=first) if first and isinstance(f, Running) else f for f in said
        )


class TellsAStubOnce(FakeRuntime):
    """Takes the end of a stub for news instead of a state."""

    def facts(self) -> tuple[Fact, ...]:
        told = self.__dict__.setdefault("told", set())
        said = tuple(f for f in super().facts() if not isinstance(f, StubEnded) or f not in told)
        told.update(f for f in said if isinstance(f, StubEnded))
        return said


class RemembersStubs(FakeRuntime):
    """Tells the end of a stub also when it was started again."""

    def facts(self) -> tuple[Fact, ...]:
        stubs = self.__dict__.setdefault("stubs", {})
        said = super().facts()
        running = {f.instance_id for f in said if isinstance(f, Running)}
        stubs.update({f.instance_id: f for f in said if isinstance(f, StubEnded)})
        lives = (f for f in said if not isinstance(f, StubEnded))
        return (*lives, *(f for i, f in stubs.items() if i in running))


class MournsTheStubsOfTheDead(FakeRuntime):
    """Tells the end of a stub of an instance that is over."""

    def facts(self) -> tuple[Fact, ...]:
        stubs = self.__dict__.setdefault("stubs", {})
        said = super().facts()
        running = {f.instance_id for f in said if isinstance(f, Running)}
        stubs.update({f.instance_id: f for f in said if isinstance(f, StubEnded)})
        return (*said, *(f for i, f in stubs.items() if i not in running))


class FinishesNothing(FakeRuntime):
    """Keeps what it should remove at the end of the cluster."""

    def start(self, api_url: str) -> Recovered:
        found = super().start(api_url)
        ghosts = self.world.__dict__.get("ghosts", ())
        return attrs.evolve(found, running=found.running + ghosts)

    def apply(self, wish: RuntimeWish) -> None:
        super().apply(wish)
        running = tuple(f for f in super().facts() if isinstance(f, Running))
        if running:
            self.__dict__["last"] = running

    def finish(self) -> None:
        super().finish()
        self.world.__dict__["ghosts"] = self.__dict__["last"]


class WarnsInParagraphs(FakeRuntime):
    """Puts line ends into a warning."""

    def warnings(self) -> tuple[str, ...]:
        return ("first\nsecond",)


class ShowsAWholeLog(FakeRuntime):
    """Gives every line that there is, however few were asked for."""

    def log(self, instance_id: str, lines: int) -> LogTail:
        return super().log(instance_id, 1000)


class HasALogForEverybody(FakeRuntime):
    """Answers with no lines for an id that nobody knows."""

    def log(self, instance_id: str, lines: int) -> LogTail:
        try:
            return super().log(instance_id, lines)
        except NotFoundError:
            return LogTail(())


class ForgetsTheLogsOfWhoEnded(FakeRuntime):
    """Shows logs of those that run, and of no other."""

    def log(self, instance_id: str, lines: int) -> LogTail:
        running = {f.instance_id for f in super().facts() if isinstance(f, Running)}
        if instance_id not in running:
            raise NotFoundError("it does not run")
        return super().log(instance_id, lines)
