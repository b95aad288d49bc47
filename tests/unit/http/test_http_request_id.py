"""Each request has an id, which leads to what it did."""

import asyncio
import logging
import re

import httpx
import pytest
from fake_master import TOKEN, FakeMaster, event, instance, snapshot
from hypothesis import given
from hypothesis import strategies as st

from tarn import log
from tarn.domain import Requester
from tarn.http.app import request_id_of
from tarn.http.blocking_pool import BlockingPool

PROOF = {"X-TARN-Token": TOKEN.decode()}


def test_every_answer_has_one_of_its_own() -> None:
    """A refused one, one of no page, and the text of /instances, too."""
    with FakeMaster(snapshot(instance(1))) as master, httpx.Client(trust_env=False) as web:
        answers = [web.get(f"{master.url}{path}") for path in ("/health", "/config", "/nowhere")]
        answers += [web.get(f"{master.url}/instances", headers=PROOF) for _ in range(2)]
    numbers = [answer.headers.get_list("x-request-id") for answer in answers]
    assert all(len(one) == 1 and re.fullmatch("[0-9a-f]{16}", one[0]) for one in numbers)
    assert len({one[0] for one in numbers}) == 5


def test_one_that_a_proxy_gave_is_kept_where_it_is_one() -> None:
    """Anything else would be a way to write into somebody's log."""
    with FakeMaster(api_token=None) as master, httpx.Client(trust_env=False) as web:
        for brought, kept in (
            ("gateway-7f3a:42", True),
            ("short", False),
            ("x" * 65, False),
            ("has a blank in it", False),
            ('quote"in-it', False),
        ):
            answer = web.get(f"{master.url}/health", headers={"X-Request-Id": brought})
            assert (answer.headers["x-request-id"] == brought) is kept
        two = [("X-Request-Id", "gateway-1"), ("X-Request-Id", "gateway-2")]
        answer = web.get(f"{master.url}/health", headers=two)
        assert re.fullmatch("[0-9a-f]{16}", answer.headers["x-request-id"])


@given(st.lists(st.binary(max_size=80), max_size=2))
def test_whatever_is_brought_the_id_is_a_word(brought: list[bytes]) -> None:
    """It stands in headers and lines of a log."""
    number = request_id_of((b"x-request-id", value) for value in brought)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:-]{7,63}", number)


def test_a_command_brings_who_asked_and_from_where() -> None:
    """The control thread gets it with the command."""
    with FakeMaster() as master, httpx.Client(trust_env=False, headers=PROOF) as web:
        answer = web.put(f"{master.url}/api/v1/scale", json={"replicas": 2})
        assert answer.status_code == 200
    (asked,) = master.askers
    number = answer.headers["x-request-id"]
    assert asked == Requester(number, "owner", "token", "127.0.0.1")


def test_writes_are_lines_of_the_log_and_reads_are_not(caplog: pytest.LogCaptureFixture) -> None:
    """Who, from where, and how it ended; without what stood in the query."""
    caplog.set_level(logging.INFO)
    with FakeMaster() as master, httpx.Client(trust_env=False, headers=PROOF) as web:
        web.get(f"{master.url}/api/v1/status")
        web.put(f"{master.url}/api/v1/followers/lb1", json={"epoch": "1-1", "revision": 1})
        web.put(f"{master.url}/api/v1/resume?token={TOKEN.decode()}", json={})
        httpx.put(f"{master.url}/api/v1/down", json={}, trust_env=False)
    said = [one.getMessage() for one in caplog.records if one.name == "tarn.http.requests"]
    assert len(said) == 1
    assert re.fullmatch(
        r"PUT '/api/v1/resume' answered 200 to owner \(token\) at 127.0.0.1 in [\d.]+ ms", said[0]
    )


def test_an_event_names_its_cluster() -> None:
    """As in the log and in the file."""
    picture = snapshot(events=(event("up"),))
    with FakeMaster(picture, api_token=None) as master:
        rows = httpx.get(f"{master.url}/api/v1/events", trust_env=False).json()["events"]
    assert rows[0]["cluster"] == "llama"


def test_what_is_asked_elsewhere_is_asked_under_the_same_id() -> None:
    """An authorizer's lines are about the request that it is asked for."""
    desk = BlockingPool("the authorizer", threads=1)

    async def ask(number: str) -> str:
        with log.within(number):
            return await desk.ask(log.request_id)

    async def both() -> list[str]:
        return await asyncio.gather(ask("request-1"), ask("request-2"))

    try:
        assert asyncio.run(both()) == ["request-1", "request-2"]
    finally:
        desk.close()
    assert log.request_id() == ""
