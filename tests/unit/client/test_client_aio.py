"""The client for asyncio."""

import asyncio
import contextlib
import inspect
import threading

import pytest
from client_stage import Misbehaving, answer, http_of, publish, resets, says, tensor
from fake_master import TOKEN, FakeMaster, snapshot
from tritonclient.http.aio import InferenceServerClient, InferenceServerClientPlugin
from tritonclient.utils import InferenceServerException

import tarn.client
from tarn.client.awaiting import AioClient
from tarn.errors import NotAuthorizedError, RefusedError, TimedOutError, UnreachableError
from tarn.testing.fake_triton import FakeModel, FakeTriton


@pytest.fixture
def three():
    with FakeTriton("echo") as a, FakeTriton("echo") as b, FakeTriton("echo") as c:
        yield a, b, c


async def asks(client, number, **named):
    result = await client.infer("echo", tensor(number), **named)
    return float(result.as_numpy("OUT")[0])


async def true(ask, within_s=10.0):
    async with asyncio.timeout(within_s):
        while not ask():  # noqa: ASYNC110 (what is waited for has no event)
            await asyncio.sleep(0.005)


def run(work, *given, **named):
    """Run *work* with a client; nothing of it is left behind."""
    before = set(threading.enumerate())

    async def main():
        async with tarn.client.aio(*given, **named) as client:
            return await work(client)

    got = asyncio.run(main())
    assert {t.name for t in set(threading.enumerate()) - before} <= {"http", "misbehaving-one"}
    return got


def test_one_caller_spreads_its_calls_evenly(three):
    """300 calls in a row on three instances: a hundred each."""

    async def work(client):
        for number in range(300):
            assert await asks(client, number) == number

    run(work, http_of(three))
    assert [len(triton.requests) for triton in three] == [100, 100, 100]


def test_thirty_at_once_spread_over_three_idle_instances():
    """Ten each, give or take two."""
    models = [FakeModel("echo", latency_s=0.8, instances=30) for _ in range(3)]
    with FakeTriton(models[0]) as a, FakeTriton(models[1]) as b, FakeTriton(models[2]) as c:

        async def work(client):
            return await asyncio.gather(*(asks(client, n) for n in range(30)))

        assert run(work, http_of((a, b, c))) == list(range(30))
        assert all(8 <= len(triton.requests) <= 12 for triton in (a, b, c))


def test_a_dead_instance_costs_no_call(three):
    """Refused, reset before the answer, and cut in its middle: all are tried elsewhere."""
    with (
        Misbehaving(resets) as bad,
        Misbehaving(says(answer(1)[:-5], then_close=True)) as half,
    ):

        async def work(client):
            three[0].crash()
            return [await asks(client, number) for number in range(20)]

        addresses = [bad.address, half.address, *http_of(three[:2])]
        assert run(work, addresses) == list(range(20))
        assert bad.requests
        assert half.requests


def test_without_retries_a_reset_says_that_it_may_have_run():
    """As the client for threads."""
    with Misbehaving(resets) as bad, pytest.raises(UnreachableError, match="may have been"):
        run(lambda client: asks(client, 1), bad.address, retry_resets=False)


def test_an_instance_that_hangs_costs_its_time_limit(three):
    """And is named."""
    three[0].hang()
    address = three[0].endpoint.http
    with pytest.raises(TimedOutError, match=address):
        run(lambda client: asks(client, 1), address, answer_within_s=0.2)
    three[0].thaw()


def test_says_what_was_tried_when_nobody_takes_it(three):
    """Within the time to wait."""
    three[0].crash()
    address = three[0].endpoint.http
    with pytest.raises(UnreachableError, match=address):
        run(lambda client: asks(client, 1), address, wait_s=0.3)


def test_an_answer_503_is_asked_of_one_other(three):
    """It was not executed."""
    with Misbehaving(says(answer(0, "503 Service Unavailable"))) as bad:

        async def work(client):
            return [await asks(client, number) for number in range(6)]

        assert run(work, [bad.address, three[0].endpoint.http]) == list(range(6))


def test_follows_the_master_and_closes_what_is_withdrawn(three):
    """Who joins gets requests; idle connections to who leaves are closed at once."""
    a, b, _ = three
    with FakeMaster(snapshot()) as master:
        publish(master, [], 4)

        async def work(client):
            waiting = asyncio.create_task(asks(client, 5))
            await asyncio.sleep(0)
            publish(master, [a.endpoint], 5)
            assert await waiting == 5
            assert a.http_connections == 1
            publish(master, [b.endpoint], 6)
            await true(lambda: a.http_connections == 0)
            assert await asks(client, 6) == 6
            assert len(b.requests) == 1

        run(work, master.url, api_token=TOKEN.decode())


def test_a_wrong_token_is_said_when_it_is_first_used(three):
    """And again the next time: the client does not pretend to have a view; a right one heals it."""
    with FakeMaster(snapshot()) as master:
        publish(master, [three[0].endpoint], 4)

        class Source:
            name = "llama"
            token = "wrong"

            def open(self):
                return tarn.client.Master(master.url, self.token).open()

        async def main():
            source = Source()
            async with contextlib.AsyncExitStack() as stack:
                client = tarn.client.aio(source)
                stack.push_async_callback(client.close)
                for _ in range(2):
                    with pytest.raises(NotAuthorizedError):
                        await asks(client, 1)
                source.token = TOKEN.decode()
                assert await asks(client, 1) == 1

        asyncio.run(main())


def test_what_is_asked_of_a_server_has_its_meaning_for_a_fleet(three):
    """As the client for threads."""

    async def work(client):
        for number in range(6):
            await asks(client, number)
        (model,) = (await client.get_inference_statistics("echo"))["model_stats"]
        assert model["inference_stats"]["success"]["count"] == 6
        assert await client.is_server_live()
        assert await client.is_server_ready()
        assert await client.is_model_ready("echo")
        assert not await client.is_model_ready("nobody")
        await client.load_model("echo")
        with pytest.raises(RefusedError, match="3 of 3"):
            await client.load_model("nobody")
        assert (await client.get_model_config("echo"))["name"] == "echo"
        with pytest.raises(InferenceServerException):
            await client.infer("nobody", tensor(1))
        with pytest.raises(RefusedError):
            await client.get_cuda_shared_memory_status()

    run(work, http_of(three))


def test_a_sequence_stays_where_it_began_and_is_never_repeated(three):
    """As the client for threads."""

    async def work(client):
        await asks(client, 1, sequence_id=7, sequence_start=True)
        await asks(client, 2, sequence_id=7)
        (home,) = [triton for triton in three if triton.requests]
        assert len(home.requests) == 2
        home.crash()
        with pytest.raises(UnreachableError, match="held the state of sequence '7'"):
            await asks(client, 3, sequence_id=7)

    run(work, http_of(three))


def test_a_plugin_of_tritonclient_sees_every_request():
    """As the client for threads."""

    class Plugin(InferenceServerClientPlugin):
        def __call__(self, request):
            request.headers["Authorization"] = "Bearer x"

    with Misbehaving(says(answer(1))) as server:

        async def work(client):
            client.register_plugin(Plugin())
            await asks(client, 1)
            await client.get_server_metadata()
            await client.each(lambda one: one.is_server_live())

        run(work, server.address)
        assert len(server.requests) == 3
        assert all(b"\r\nAuthorization: Bearer x\r\n" in text for text in server.requests)


def test_a_closed_client_says_so(three):
    """Twice closed is closed."""

    async def main():
        client = tarn.client.aio(http_of(three))
        assert await asks(client, 1) == 1
        await client.close()
        await client.close()
        with pytest.raises(RefusedError, match="closed"):
            await asks(client, 1)

    asyncio.run(main())


def test_has_every_coroutine_of_tritonclient():
    """Code written for it finds what it knows."""
    for name, _ in inspect.getmembers(InferenceServerClient, inspect.iscoroutinefunction):
        if not name.startswith("_"):
            assert inspect.iscoroutinefunction(getattr(AioClient, name)), name
