"""Keep what instances counted before they left, so that the sum of a fleet does not fall.

One Triton's counters only grow, and load generators take differences of them. Once somebody has
asked for statistics, each draining instance is looked at until it ends.
"""

import asyncio
import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tarn.domain import Instance, InstanceState
from tarn.errors import ProviderError
from tarn.http.instance_questions import InstanceQuestions
from tarn.interfaces import Clock
from tarn.read.snapshot import Snapshot
from tarn.triton.merged_answers import OK, InstanceAnswer, summed_statistics
from tarn.triton.server_questions import QuestionKind, TritonQuestion

__all__ = ["DepartedCounts"]

Row = Mapping[str, Any]
Key = tuple[str, str]

EVERYTHING = TritonQuestion(QuestionKind.STATISTICS, "/v2/models/stats")
LOOK_EVERY_S = 0.2
# How long after the last request for statistics draining instances are looked at.
WANTED_FOR_S = 900.0
# Models and versions of which the counts of former instances are kept.
MOST_FORMER = 4096


class DepartedCounts:
    """The newest statistics of each instance, and the sum of those that left. One event loop.

    An instance that is killed counts as it did when it was last asked.
    """

    def __init__(self, questions: InstanceQuestions, clock: Clock) -> None:
        self._questions, self._clock = questions, clock
        self._newest: dict[str, dict[Key, Row]] = {}
        self._former: dict[Key, Row] = {}
        self._watched: dict[str, asyncio.Task[None]] = {}
        self._alive: frozenset[str] = frozenset()
        self._draining: frozenset[str] = frozenset()
        self._asked_s = float("-inf")

    def wanted(self) -> None:
        """Note that somebody asks for statistics."""
        self._asked_s = self._clock.now_s()

    def former(self, question: TritonQuestion) -> list[Row]:
        """Return the rows of instances that have left, of those that *question* is about."""
        return [row for key, row in self._former.items() if _about(question, key)]

    def of_alive(self, answers: Iterable[InstanceAnswer]) -> list[InstanceAnswer]:
        """Return the answers without those of instances that left meanwhile.

        These are in the sum of the former ones already, and must not be counted twice.
        """
        return [one for one in answers if one.instance_id in self._alive]

    def noted(self, question: TritonQuestion, answers: Iterable[InstanceAnswer]) -> None:
        """Keep what instances in the view answered to *question*."""
        for one in self.of_alive(answers):
            if one.status == OK:
                kept = self._newest.setdefault(one.instance_id, {})
                for key in [key for key in kept if _about(question, key)]:
                    del kept[key]
                kept.update(_rows(one))

    def grown(self, answers: Iterable[InstanceAnswer]) -> None:
        """Keep what draining instances answered; their models are unloaded before they end."""
        for one in self.of_alive(answers):
            if one.status == OK:
                kept = self._newest.setdefault(one.instance_id, {})
                kept.update(
                    (key, row) for key, row in _rows(one) if _count(row) >= _count(kept.get(key))
                )

    def kept(self, question: TritonQuestion, instance_id: str) -> InstanceAnswer:
        """Return what the instance is last known to have counted; empty if nothing is known."""
        newest = self._newest.get(instance_id, {})
        rows = [row for key, row in newest.items() if _about(question, key)]
        return InstanceAnswer(instance_id, OK, {"model_stats": rows})

    def forget(self, question: TritonQuestion) -> None:
        """Forget a model that no instance has any more, as Triton does."""
        for key in [key for key in self._former if question.model and _about(question, key)]:
            del self._former[key]

    def fold(self, snapshot: Snapshot) -> None:
        """Take in a newer snapshot: add up what has left, and look at what drains."""
        self._alive = frozenset(instance.id for instance in snapshot.instances)
        for instance_id in [one for one in self._newest if one not in self._alive]:
            self._leave(self._newest.pop(instance_id))
        draining = [one for one in snapshot.instances if one.state is InstanceState.DRAINING]
        self._draining = frozenset(one.id for one in draining)
        if self._clock.now_s() - self._asked_s > WANTED_FOR_S:
            return
        for instance in draining:
            if instance.id not in self._watched:
                task = asyncio.create_task(self._watch(instance))
                self._watched[instance.id] = task
                task.add_done_callback(functools.partial(self._watch_over, instance.id))

    def close(self) -> None:
        """End the looks at draining instances. Event loop only, idempotent."""
        for task in tuple(self._watched.values()):
            task.cancel()

    async def _watch(self, instance: Instance) -> None:
        while instance.id in self._draining:
            with contextlib.suppress(ProviderError):  # too much is being asked: a little later
                self.grown(await self._questions.ask([instance], EVERYTHING))
            await asyncio.sleep(LOOK_EVERY_S)

    def _watch_over(self, instance_id: str, _task: object) -> None:
        self._watched.pop(instance_id, None)

    def _leave(self, rows: Mapping[Key, Row]) -> None:
        for key, row in rows.items():
            if key in self._former or len(self._former) < MOST_FORMER:
                old = self._former.get(key)
                self._former[key] = row if old is None else _sum((old, row))


def _sum(rows: Sequence[Row]) -> Row:
    (total,) = summed_statistics({"model_stats": [row]} for row in rows)["model_stats"]
    return dict(total)


def _rows(answer: InstanceAnswer) -> Iterator[tuple[Key, Row]]:
    body = answer.body if isinstance(answer.body, Mapping) else {}
    for row in body.get("model_stats") or ():
        yield (str(row.get("name", "")), str(row.get("version", ""))), row


def _count(row: Row | None) -> float:
    value = 0 if row is None else row.get("inference_count", 0)
    return float(value) if isinstance(value, int | float) else 0.0


def _about(question: TritonQuestion, key: Key) -> bool:
    name, version = key
    return question.model in ("", name) and question.version in ("", version)
