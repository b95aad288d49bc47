"""Regions of shared memory that clients registered: every instance of the fleet gets each of them.

A region is memory of one machine, so an instance elsewhere refuses it. Nothing is saved: a client's
region ends with the client, and a new master knows only what is registered from then on.
"""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence

from tarn.domain import Instance
from tarn.errors import ProviderError
from tarn.http.instance_questions import InstanceQuestions, of_present
from tarn.read.snapshot import Snapshot
from tarn.triton.merged_answers import BAD_REQUEST, OK, FleetAnswer, everywhere
from tarn.triton.server_questions import QuestionKind, TritonQuestion

__all__ = ["SharedRegions"]

log = logging.getLogger(__name__)

MOST_REGIONS = 256
_REGISTER, _UNREGISTER = "/register", "/unregister"


class SharedRegions:
    """Registers regions everywhere. Lives on one event loop."""

    def __init__(self, questions: InstanceQuestions) -> None:
        self._questions = questions
        self._bodies: dict[str, bytes] = {}
        """Path of a region's registration to the body of the request."""
        self._has: frozenset[str] = frozenset()
        self._tasks: set[asyncio.Task[None]] = set()

    async def change(
        self, question: TritonQuestion, body: Mapping[str, object], ready: Sequence[Instance]
    ) -> FleetAnswer:
        """Register or unregister at every instance of *ready*: all have the region, or none."""
        raw = json.dumps(body).encode()
        if not question.path.endswith(_REGISTER):
            region = question.path.removesuffix(_UNREGISTER)
            for path in [path for path in self._bodies if path.startswith(f"{region}/")]:
                del self._bodies[path]
            return everywhere(of_present(await self._questions.ask(ready, question, "POST", raw)))
        if len(self._bodies) >= MOST_REGIONS:
            said = f"{MOST_REGIONS} regions of shared memory are registered: unregister some"
            return FleetAnswer.refusal(BAD_REQUEST, said)
        is_known = question.path in self._bodies
        self._bodies.setdefault(question.path, raw)  # an instance that comes meanwhile gets it
        answers = of_present(await self._questions.ask(ready, question, "POST", raw))
        did = everywhere(answers)
        if did.status == OK:
            self._bodies[question.path] = raw
        elif not is_known:
            self._bodies.pop(question.path, None)
            got = {one.instance_id for one in answers if one.status == OK}
            back = question.path.removesuffix(_REGISTER) + _UNREGISTER
            undo = TritonQuestion(QuestionKind.MEMORY, back)
            await self._questions.ask([one for one in ready if one.id in got], undo, "POST")
        return did

    def fold(self, snapshot: Snapshot) -> None:
        """Take in a newer snapshot: instances that are new in the view get the regions."""
        here = [one for one in snapshot.instances if one.in_view]
        new = [one for one in here if one.id not in self._has]
        self._has = frozenset(one.id for one in here)
        if new and self._bodies:
            task = asyncio.create_task(self._register(new))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """End what registers. Event loop only, idempotent."""
        for task in tuple(self._tasks):
            task.cancel()

    async def _register(self, new: Sequence[Instance]) -> None:
        for path, raw in tuple(self._bodies.items()):
            question = TritonQuestion(QuestionKind.MEMORY, path)
            try:
                did = everywhere(await self._questions.ask(new, question, "POST", raw))
            except ProviderError as error:
                did = FleetAnswer.refusal(BAD_REQUEST, str(error))
            if did.status != OK:
                # Mostly its client is gone, and the memory with it.
                log.info("%s: %s", path, did.error)
