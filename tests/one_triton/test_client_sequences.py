"""Sequences through `cluster.client()` while real Tritons come, go and die: no sum is wrong."""

import contextlib
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from house import until
from servers.triton import needed
from tritonclient.http import InferInput
from tritonclient.utils import InferenceServerException

import tarn
from tarn.errors import TarnError, UnreachableError

pytestmark = [pytest.mark.one_triton, pytest.mark.timeout(400), *needed[1:]]

SEQUENCES = 500
AT_ONCE = 24
CODE = '''import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    """Adds up each sequence; one whose beginning it did not see has a sum that cannot be."""

    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        value, start, sequence = (
            pb.get_input_tensor_by_name(request, name).as_numpy().ravel()[0]
            for name in ("IN", "START", "CORRID")
        )
        before = 0 if start else self.sums.get(int(sequence), -1_000_000)
        self.sums[int(sequence)] = before + int(value)
        out = np.array([[self.sums[int(sequence)]]], np.int32)
        return pb.InferenceResponse([pb.Tensor("OUT", out)])
'''
CONFIG = """backend: "python"
max_batch_size: 8
input [{name: "IN" data_type: TYPE_INT32 dims: [1]}]
output [{name: "OUT" data_type: TYPE_INT32 dims: [1]}]
sequence_batching {
  max_sequence_idle_microseconds: 20000000
  oldest { max_candidate_sequences: 200 }
  control_input [
    { name: "START" control [{kind: CONTROL_SEQUENCE_START int32_false_true: [0, 1]}] },
    { name: "CORRID" control [{kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64}] }
  ]
}
instance_group [{kind: KIND_CPU count: 1}]
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tarn.Cluster]:
    """Two Tritons with a model that keeps sums."""
    monkeypatch.setenv("TARN_HOME", str(tmp_path / "home"))
    version = tmp_path / "models" / "sums" / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(CODE)
    (version.parent / "config.pbtxt").write_text(CONFIG)
    spec = {
        "name": "sums",
        "models": {"repository": str(tmp_path / "models")},
        "replicas": {"min": 1, "max": 4, "initial": 2},
        "drain": {"timeout": "30s", "quiesce": "1s"},
        "triton": {"exit_timeout": "3s"},
    }
    with tarn.Cluster(spec) as running:
        running.wait(ready=2, timeout="90s")
        yield running


def value(number: int) -> list[InferInput]:
    one = InferInput("IN", [1, 1], "INT32")
    one.set_data_from_numpy(np.array([[number]], np.int32))
    return [one]


class SumLoad:
    """Threads that each send one sequence after the other, until they are stopped."""

    def __init__(self, client: Any) -> None:
        self._client, self._stop = client, threading.Event()
        self._lock = threading.Lock()
        self._last = 2**63  # ids that a float cannot hold
        self.ends: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(AT_ONCE)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def pass_(self, count: int) -> None:
        """Wait until so many sequences have ended."""
        until(lambda: sum(self.ends.values()) >= count or self.wrong, 180, f"{count} sequences")

    def _run(self, seed: int) -> None:
        drawn = random.Random(seed)
        while not self._stop.is_set():
            with self._lock:
                self._last += 1
                sequence: int | str = self._last
            end = self._sequence(sequence, drawn)
            with self._lock:
                self.ends[end] += 1

    def _sequence(self, sequence: int, drawn: random.Random) -> str:
        """Send one sequence, some steps of it even after an error; return how it ended."""
        steps, total, error = drawn.randint(3, 20), 0, ""
        for step in range(steps):
            number = drawn.randint(1, 1000)
            total += number
            try:
                answer = self._client.infer(
                    "sums",
                    value(number),
                    sequence_id=sequence,
                    sequence_start=step == 0,
                    sequence_end=step == steps - 1,
                )
            except (TarnError, InferenceServerException) as failure:
                error = error or type(failure).__name__
                if drawn.random() < 0.5:
                    break
                continue
            found = int(answer.as_numpy("OUT").ravel()[0])
            if error or found != total:
                self.wrong.append(f"{sequence} step {step}: {found}, not {total}; {error}")
            self._stop.wait(drawn.random() * 0.1)
        return error or "right"


def test_every_sum_is_right_or_a_typed_error(
    cluster: tarn.Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """2 to 4, one killed, to 2: five hundred sequences, none gets the state of another instance."""
    with cluster.client(answer_within_s=20.0) as client, SumLoad(client) as load:
        load.pass_(SEQUENCES // 5)
        cluster.scale(4)
        cluster.wait(ready=4, timeout="120s")
        load.pass_(2 * SEQUENCES // 5)
        victim = cluster.status()["instances"][0]
        os.kill(int(victim["container_id"]), signal.SIGKILL)
        load.pass_(3 * SEQUENCES // 5)
        cluster.scale(2)
        load.pass_(SEQUENCES)
    with capsys.disabled():
        print(f"\n{sum(load.ends.values())} sequences: {dict(load.ends)}")
    assert not load.wrong
    assert set(load.ends) <= {"right", "UnreachableError", "TimedOutError",
                              "InferenceServerException"}  # fmt: skip
    assert load.ends["right"] > 0.9 * sum(load.ends.values())
    assert load.ends["UnreachableError"] > 0


def test_the_master_tells_the_rule_of_a_model_that_keeps_sequences(cluster: tarn.Cluster) -> None:
    """A ready Triton says it; a sequence whose instance died says so until it begins again."""
    with contextlib.closing(cluster.source.open()) as api:
        told = until(lambda: _complete(api.affinity()), 20, "complete rules")
    (rule,) = told["rules"]
    assert (rule["models"], rule["key"], rule["idle_s"]) == (["sums"], "sequence", 25.0)
    with cluster.client() as client:
        for number in (1, 2):
            client.infer("sums", value(number), sequence_id=7, sequence_start=number == 1)
        (home,) = [
            row for row in cluster.status()["instances"]
            if row["id"] == client._router.home(client._router.key_of("sums", 7, {}, b""))
            .target.instance_id
        ]  # fmt: skip
        os.kill(int(home["container_id"]), signal.SIGKILL)
        for _ in range(3):
            with pytest.raises(UnreachableError, match="held the state of sequence '7'"):
                client.infer("sums", value(3), sequence_id=7)
        gone = home["id"]
        until(lambda: all(one.instance_id != gone for one in client.targets), 60, "its leaving")
        answer = client.infer("sums", value(5), sequence_id=7, sequence_start=True)
        assert int(answer.as_numpy("OUT").ravel()[0]) == 5


def _complete(answer: Any) -> Any:
    return answer if answer["complete"] else None
