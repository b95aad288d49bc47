"""How fast ``/authorize`` is answered while the control thread is busy."""

import sys
from collections.abc import Sequence

import attrs
from bench.bench_http import BusyControl, percentiles, rounds
from bench.row import Row
from fake_master import FakeAuthorizer, FakeMaster, instance, snapshot

from tarn.domain import Principal, Verdict
from tarn.http.blocking_pool import AuthorizerPool

POLICIES = 1000
RATE = 300
AIM_P99_MS = 25.0
MODELS = 100


@attrs.define
class _Policies(FakeAuthorizer):
    """Finds its policies by an index, as an engine does."""

    policies: frozenset[tuple[str, str, str]] = frozenset()

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        allowed = (principal.user, action, model) in self.policies
        return Verdict(allowed=allowed, reason="a policy")

    def check_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        return tuple(self.check(principal, action, model) for model in models)


def authorize_rows() -> list[Row]:
    """Measure one question at a time, 300 a second, and the status with a hundred models in it."""
    policies = frozenset((f"user{n}", "infer", f"model{n}") for n in range(POLICIES))
    gate = AuthorizerPool(_Policies(policies=policies))
    models = tuple((f"model{n}", "READY", "") for n in range(MODELS))
    fleet = snapshot(*(instance(number, models=models) for number in range(10)))
    asked = f"/authorize?model=model{POLICIES - 1}&action=infer&user=user{POLICIES - 1}"
    try:
        with FakeMaster(fleet, gate=gate) as master, BusyControl(master):
            name = f"/authorize, {POLICIES} policies in Python, 8 connections, {RATE}/s"
            one = [part["took_s"] for part in rounds(master, asked, 8, RATE)]
            listed = (
                f"/api/v1/status, {MODELS} models looked through and hidden, 1 connection, 10/s"
            )
            many = [part["took_s"] for part in rounds(master, "/api/v1/status", 1, 10)]
    finally:
        gate.close()
    return [*percentiles(name, one, (None, AIM_P99_MS)), *percentiles(listed, many, (None, None))]


if __name__ == "__main__":
    for row in authorize_rows():
        sys.stdout.write(f"{row.name}: {row.value:.2f} {row.unit} (aim {row.aim})\n")
