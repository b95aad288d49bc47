"""Ask the Tritons of a fleet the same question at once, with deadlines and bounds."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

import attrs

from tarn.control.http1 import Reply, request
from tarn.control.port_watcher import ask_once
from tarn.domain import Instance
from tarn.errors import ProviderError
from tarn.triton.merged_answers import InstanceAnswer
from tarn.triton.restricted import Keys
from tarn.triton.server_questions import TritonQuestion

__all__ = ["InstanceQuestions", "Unanswered", "of_present"]

# Requests to Tritons at one time, of all questions together.
MOST_AT_ONCE = 64
# Questions that wait or are being asked; one more is refused.
MOST_QUESTIONS = 256
# Bytes of one instance's answer: the statistics of some thousand models.
LONGEST_ANSWER = 4 << 20
READY_WITHIN_S = 5.0
# For an instance that is out of the view, which may not answer for long.
OTHERS_WITHIN_S = 1.0


@attrs.frozen
class Unanswered(InstanceAnswer):
    """No answer came."""

    gone: bool = False
    """Nothing serves there any more: a load balancer sends its requests elsewhere."""


def of_present(answers: Iterable[InstanceAnswer]) -> list[InstanceAnswer]:
    """Return the answers without those of instances that are gone."""
    return [one for one in answers if not (isinstance(one, Unanswered) and one.gone)]


class InstanceQuestions:
    """Asks instances. Lives on one event loop.

    Args:
        keys_of: Returns the keys of an instance's restricted API.
        within_s: How long an instance in the view may take.
    """

    def __init__(self, keys_of: Callable[[str], Keys], *, within_s: float = READY_WITHIN_S) -> None:
        self._keys_of, self._within_s = keys_of, within_s
        self._places = asyncio.Semaphore(MOST_AT_ONCE)
        self._asked = 0

    def restricted(self, instances: Iterable[Instance], question: TritonQuestion) -> bool:
        """Return whether an instance would ask a client for a key."""
        return any(self._keys_of(one.id).of(question.part) for one in instances)

    async def ask(
        self,
        instances: Sequence[Instance],
        question: TritonQuestion,
        method: str = "GET",
        body: bytes = b"",
    ) -> list[InstanceAnswer]:
        """Return the answer of each of *instances*, in their order.

        Raises:
            ProviderError: Too many questions are being asked.
        """
        if self._asked >= MOST_QUESTIONS:
            raise ProviderError("master", "too many requests wait for instances", retry_after_s=1.0)
        self._asked += 1
        try:
            async with asyncio.TaskGroup() as group:
                asked = [
                    group.create_task(self._one(instance, question, method, body))
                    for instance in instances
                ]
        finally:
            self._asked -= 1
        return [task.result() for task in asked]

    async def _one(
        self, instance: Instance, question: TritonQuestion, method: str, body: bytes
    ) -> InstanceAnswer:
        endpoint = instance.endpoint
        if endpoint is None:
            return Unanswered(instance.id, failure="it has no address yet", gone=True)
        headers = self._keys_of(instance.id).of(question.part)
        asked = request(method, question.path, endpoint.http, body=body, headers=headers)
        within_s = self._within_s if instance.in_view else OTHERS_WITHIN_S
        async with self._places:
            reply = await ask_once(endpoint, asked, within_s, LONGEST_ANSWER)
        if isinstance(reply, Reply):
            return InstanceAnswer.read(instance.id, reply.status, reply.body)
        return Unanswered(instance.id, failure=reply.reason, gone=reply.gone)
