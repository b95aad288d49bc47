"""Callers that each wait for their answer are seen as the load they are, in one decision."""

import asyncio
import itertools
import threading
import time
from pathlib import Path
from typing import Any, Self

import pytest
from house import until
from open_wave import Client
from proxied_load import MODEL, TIMEOUT_S, LoadTally, inputs, wrong
from scaling.load_step import answer, grown
from scaling.scene import real, up
from tritonclient import http as triton

CALLERS = 12
STEADY = 100
"""Answers after which a second decision would have come."""


class ClosedLoop(LoadTally):
    """So many callers; each sends the next request once the last one was answered."""

    def __init__(self, client: Client, callers: int) -> None:
        super().__init__("the fleet")
        self._client, self._callers = client, callers
        self._numbers = itertools.count()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="callers")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._ended.set()
        self._thread.join(TIMEOUT_S + 10)

    async def _run(self) -> None:
        async with self._client() as client:
            await asyncio.gather(*(self._call(client) for _ in range(self._callers)))

    async def _call(self, client: Any) -> None:
        while not self._ended.is_set():
            number, sent_s = next(self._numbers), time.monotonic()
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    tensors = inputs(triton, number)
                    result = await client.infer(MODEL, tensors, request_id=str(number))
                problem = wrong(result, number)
            except Exception as error:  # noqa: BLE001 (whatever it is, the request is lost)
                problem = f"{type(error).__name__}: {error}"
            self.note(number, sent_s, sent_s, problem)


@pytest.mark.triton
@pytest.mark.endurance
def test_twelve_callers_of_a_slow_model_are_one_decision(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Real Tritons that execute one request at once, 0.2 s each: from 1 straight to 3, the most."""
    scaling = {"use": "target", "interval": "1s", "cooldown": "60s"}
    keys = {"replicas": {"min": 1, "max": 3, "initial": 1}, "scaling": scaling}
    with up(tmp_path, "loop", **real(tmp_path, 0.2), **keys) as scene:
        began = time.time()
        with ClosedLoop(scene.balanced, CALLERS) as load:
            until(lambda: answer(scene, began).asked, 60, "an ask")
            ready_s = grown(scene, began)
            load.pass_(STEADY)
            said = answer(scene, began)
    with capsys.disabled():
        print(
            f"\n  {CALLERS} callers: asked after {said.asks_s:.1f} s, ready after {ready_s:.1f} s"
        )
        print(f"  {said.decisions}")
    assert [decision["desired"] for decision in said.decisions] == [3]
    assert len(said.asked) == 2
    assert load.missed == []
