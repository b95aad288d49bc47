"""Many sequences at once while a fleet grows, loses an instance, and shrinks: no sum is wrong.

``TARN_TEST_MANY_SEQUENCES`` says how many are under way at once (100; a whole run is 5000, which
takes some ten minutes).
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
from gray_fleet import stubs
from house import until
from many_sequences import SequenceLoad
from one_address import Addresses, SharedAddress, no_haproxy, shared_address

AT_ONCE = int(os.environ.get("TARN_TEST_MANY_SEQUENCES", "100"))  # noqa: TID251
RATE = max(150.0, AT_ONCE / 6)
"""Steps a second: each sequence pauses for 6 s at most, nine with bad luck."""
IDLE_S = 15.0 if AT_ONCE <= 500 else 120.0
MOST_LOST = 0.02
"""Of those that did not lose their instance, so many may end with an error."""

pytestmark = pytest.mark.timeout(240 if AT_ONCE <= 500 else 3000)


def test_one_triton_answers_every_sequence_right(alone: Addresses) -> None:
    """What the load asks of a fleet, one Triton gives."""
    with SequenceLoad(alone, 30, 150, seed=1) as load:
        load.tally.pass_(10, 60)
    assert not load.tally.wrong
    assert not load.tally.failed(), load.tally


STREAMS = 300


def test_one_connection_carries_hundreds_of_streams(
    alone: Addresses, shared: SharedAddress
) -> None:
    """All are open at once, as at one Triton: the last one does not wait for another to end."""
    for at in (alone, shared.addresses):
        assert asyncio.run(asyncio.wait_for(_streams_at_once(at, STREAMS), 60)) == [1.0] * STREAMS


async def _streams_at_once(at: Addresses, count: int) -> list[float]:
    """Open so many streams on one channel; none ends before each has its first answer."""
    answered, sums = asyncio.Semaphore(0), list[float]()
    over = asyncio.Event()

    async def stream(client: Any, key: int) -> None:
        async def requests() -> AsyncIterator[dict[str, Any]]:
            for start in (True, False):
                tensor = triton_grpc.InferInput("IN", [1, 1], "FP32")
                tensor.set_data_from_numpy(np.ones((1, 1), np.float32))
                yield {
                    "model_name": "accumulate_oldest",
                    "inputs": [tensor],
                    "sequence_id": key,
                    "sequence_start": start,
                    "sequence_end": not start,
                }
                await over.wait()

        async for result, error in client.stream_infer(requests()):
            assert error is None, error
            sums.append(float(result.as_numpy("OUT")[0, 0]))
            answered.release()
            if over.is_set():
                return

    async with triton_grpc_aio.InferenceServerClient(at.grpc) as client:
        running = [asyncio.create_task(stream(client, 2**41 + key)) for key in range(count)]
        for _ in range(count):
            await answered.acquire()
        first = list(sums)
        over.set()
        await asyncio.gather(*running)
    return first


def test_no_sum_is_wrong_while_a_fleet_grows_breaks_and_shrinks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """2 to 6, one killed, one drained, to 3: each sequence is right, or gets an error."""
    if reason := no_haproxy():
        pytest.skip(reason)
    models = ("accumulate", "accumulate_oldest")
    drain = {"timeout": f"{8 * IDLE_S:.0f}s", "quiesce": "500ms"}
    with shared_address(tmp_path, "many", *models, size=2, idle_s=IDLE_S, drain=drain) as one:
        with SequenceLoad(one.addresses, AT_ONCE, RATE, seed=2) as load:
            load.tally.pass_(AT_ONCE // 4, 600)
            one.scale(6)
            one.ready(6)
            load.tally.pass_(AT_ONCE // 4, 600)
            lost = _kill(one)
            load.tally.pass_(AT_ONCE // 4, 600)
            one.ready(6)
            drained = str(one.row()["id"])
            one.fleet.api.drain(drained)
            load.tally.pass_(AT_ONCE // 4, 600)
            one.scale(3)
            one.ready(3)
            load.tally.pass_(AT_ONCE // 2, 600)
        receipts = [event["message"] for event in one.fleet.api.events() if _is_receipt(event)]
    tally = load.tally
    others = [*tally.failed(of=lost)]
    with capsys.disabled():
        print(f"\n{len(tally.outcomes)} sequences, {AT_ONCE} at once")
        print(f"{tally}\n{len(others)} errors without the killed instance\n{receipts}")
    assert not tally.wrong
    assert len(others) <= MOST_LOST * len(tally.outcomes), tally


def _kill(one: SharedAddress) -> frozenset[int]:
    """Kill an instance, and return the processes of its models."""
    victim: Mapping[str, Any] = one.row(1)
    processes = frozenset(stubs(int(victim["container_id"])))
    one.kill(victim)
    gone = str(victim["id"])
    until(lambda: all(row["id"] != gone for row in one.fleet.ready().values()), 60, "its end")
    return processes


def _is_receipt(event: Mapping[str, Any]) -> bool:
    """Say whether *event* tells of a drain that ended."""
    return "drain" in str(event["message"])
