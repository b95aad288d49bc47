"""Control calls of a client that follows a master go through it."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_master import TOKEN, FakeMaster, instance, snapshot

import tarn.client
from tarn.client.control import load_call
from tarn.domain import CallKind, ControlRequest
from tarn.domain.control_calls import CallProgress, ControlCall, WantedCalls
from tarn.errors import RefusedError

CALL = ControlCall(1, CallKind.LOAD, "second", asked_at=1.0)
HAD = CallProgress(upto=1)


@pytest.fixture
def master() -> Iterator[FakeMaster]:
    """A master whose two instances have had call 1."""
    with FakeMaster(snapshot(*(instance(n).but(calls=HAD) for n in (1, 2)))) as one:
        one.publish(control=WantedCalls(1, (CALL,)))
        yield one


def client(master: FakeMaster, make: Callable[..., Any] = tarn.client.http, **options: Any) -> Any:
    return make(master.url, api_token=TOKEN.decode(), **options)


def asked(master: FakeMaster) -> list[tuple[CallKind, str, str]]:
    commands = [c for c in master.commands if isinstance(c, ControlRequest)]
    return [(c.kind, c.model, c.body) for c in commands]


WORDS = [
    (CallKind.LOAD, "second", '{"config": "{}", "file:1/a": "eA=="}'),
    (CallKind.UNLOAD, "second", '{"unload_dependents": true}'),
    (CallKind.TRACE, "second", '{"trace_rate": "1"}'),
    (CallKind.LOG, "", '{"log_info": false}'),
]


def test_each_control_call_is_the_masters(master: FakeMaster) -> None:
    """With tritonclient's parameters; what was changed comes back."""
    with client(master) as one:
        one.load_model("second", config="{}", files={"file:1/a": b"x"})
        one.unload_model("second", unload_dependents=True)
        trace = one.update_trace_settings("second", {"trace_rate": "1"})
        log = one.update_log_settings({"log_info": False})
    assert (trace, log) == ({"trace_rate": "1"}, {"log_info": False})
    assert asked(master) == WORDS


def test_the_client_for_asyncio_asks_the_same(master: FakeMaster) -> None:
    """Its loop goes on meanwhile."""

    async def work() -> None:
        async with client(master, tarn.client.aio) as one:
            await one.load_model("second", config="{}", files={"file:1/a": b"x"})
            await one.unload_model("second", unload_dependents=True)
            await one.update_trace_settings("second", {"trace_rate": "1"})
            await one.update_log_settings({"log_info": False})

    asyncio.run(work())
    assert asked(master) == WORDS


def test_an_instance_that_refuses_is_named(master: FakeMaster) -> None:
    """With its own words."""
    wanted = WantedCalls(1, (CALL,))
    no = CallProgress()
    for _ in range(4):
        no = no.said_no(1, "400 no weights", 0.0, wanted)
    master.publish(instances=(instance(1).but(calls=HAD), instance(2).but(calls=no)))
    with client(master) as one, pytest.raises(RefusedError, match="llama-0002: 400 no weights"):
        one.load_model("second")


def test_headers_of_ones_own_are_refused() -> None:
    """They would reach no Triton, and nobody would be told."""
    with pytest.raises(RefusedError, match="reach no Triton"):
        load_call("second", headers={"a": "b"})
