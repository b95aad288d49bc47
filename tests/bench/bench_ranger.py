"""How fast Ranger's own engine decides in a process, audited, with a thousand policies."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import attrs
from bench.bench_http import BusyControl, percentiles, rounds
from bench.row import Row
from fake_master import FakeMaster, instance, snapshot
from servers.ranger import PolicyServer, item, opened, policy

from tarn.domain import Principal
from tarn.http.blocking_pool import AuthorizerPool
from tarn.java import leave
from tarn_plugins.authorizer.ranger.authorizer import RangerAuthorizer

POLICIES = 1000
QUESTIONS = 5000
ROUNDS = 5
AIM_P99_MS = 2.0
RATE = 300
AIM_HTTP_P99_MS = 25.0


def decision_rows() -> list[Row]:
    """Measure one question at a time, and a list of all models as one question.

    In a process of its own: another part's JVM has other jars.
    """
    done = subprocess.run(
        [sys.executable, "-m", "bench.bench_ranger"], check=True, capture_output=True, text=True
    )
    return [Row(**row) for row in json.loads(done.stdout)]


def _measured() -> list[Row]:
    policies = [
        policy(n, [f"model-{n}"], [item(["infer"], [f"user{n}"], [f"group{n % 20}"])])
        for n in range(1, POLICIES + 1)
    ]
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)  # a master's
    try:
        with tempfile.TemporaryDirectory() as folder, PolicyServer(policies) as stage:
            authorizer = opened(Path(folder), stage.url)
            assert authorizer.wait(60)
            rows = [*_rows(authorizer), *_over_http(authorizer)]
            authorizer.close()
    finally:
        sys.setswitchinterval(interval_s)
    return rows


def _rows(authorizer: RangerAuthorizer) -> list[Row]:
    asker = Principal("user7", frozenset({"group3", "users"}), "spnego")
    models = [f"model-{n}" for n in range(1, POLICIES + 1)]
    assert authorizer.check(asker, "infer", "model-7").allowed
    assert not authorizer.check(asker, "infer", "model-8").allowed
    p50s, p99s, lists = [], [], []
    for _ in range(ROUNDS + 1):  # the first one warms Java up
        took = sorted(_took(authorizer, asker, models[n % POLICIES]) for n in range(QUESTIONS))
        p50s.append(took[QUESTIONS // 2])
        p99s.append(took[QUESTIONS * 99 // 100])
        began_s = time.perf_counter()
        assert sum(one.allowed for one in authorizer.check_each(asker, "list", models)) == 51
        lists.append(1000 * (time.perf_counter() - began_s))
    name = f"a decision of Ranger's engine, {POLICIES} policies, audited"
    return [
        Row(f"{name}: p50", _median(p50s), "ms"),
        Row(f"{name}: p99", _median(p99s), "ms", aim=AIM_P99_MS),
        Row(f"who may list {POLICIES} models, one question", _median(lists), "ms"),
    ]


def _over_http(authorizer: RangerAuthorizer) -> list[Row]:
    """Ask a master, whose control thread is busy, 300 times a second."""
    gate = AuthorizerPool(authorizer)
    asked = "/authorize?model=model-7&action=infer&user=user7"
    try:
        with FakeMaster(snapshot(instance(1)), gate=gate) as master, BusyControl(master):
            took = [part["took_s"] for part in rounds(master, asked, 8, RATE)]
    finally:
        gate.close()
    name = f"/authorize, {POLICIES} policies of Ranger's engine, 8 connections, {RATE}/s"
    return percentiles(name, took, (None, AIM_HTTP_P99_MS))


def _took(authorizer: RangerAuthorizer, asker: Principal, model: str) -> float:
    began_s = time.perf_counter()
    authorizer.check(asker, "infer", model)
    return 1000 * (time.perf_counter() - began_s)


def _median(values: list[float]) -> float:
    return sorted(values[1:])[ROUNDS // 2]


if __name__ == "__main__":
    sys.stdout.write(json.dumps([attrs.asdict(row) for row in _measured()]))
    leave(0)
