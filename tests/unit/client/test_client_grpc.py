"""The client over gRPC, against small servers of Triton's own protocol."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from client_stage import publish
from fake_master import TOKEN, FakeMaster, snapshot
from tritonclient.utils import InferenceServerException

import tarn.client
from tarn.domain import Endpoint
from tarn.errors import RefusedError, TimedOutError, UnreachableError
from tarn.testing.wait import until

grpc = pytest.importorskip("grpc", reason="pip install 'tarn-orchestrator[grpc]'")
from tritonclient.grpc import InferInput, service_pb2, service_pb2_grpc  # noqa: E402


def tensor(number):
    one = InferInput("IN", [1], "FP32")
    one.set_data_from_numpy(np.array([number], np.float32))
    return [one]


def answer(request, number, *, last=None):
    response = service_pb2.ModelInferResponse(model_name=request.model_name, id=request.id)
    if number is not None:
        response.outputs.add(name="OUT", datatype="FP32", shape=[1])
        response.raw_output_contents.append(np.array([number], np.float32).tobytes())
    if last is not None:
        response.parameters["triton_final_response"].bool_param = last
    return response


class Service(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Echoes; as a stream it counts up from what it got, three answers and an empty last one."""

    def __init__(self):
        self.asked = 0
        self.fails: Callable[[grpc.ServicerContext, int], None] = lambda _context, _said: None

    def ModelInfer(self, request, context):  # noqa: N802 (Triton's name)
        self.asked += 1
        self.fails(context, 0)
        return answer(request, np.frombuffer(request.raw_input_contents[0], np.float32)[0])

    def ModelStreamInfer(self, requests, context):  # noqa: N802 (Triton's name)
        for request in requests:
            self.asked += 1
            first = np.frombuffer(request.raw_input_contents[0], np.float32)[0]
            for said in range(3):
                self.fails(context, said)
                whole = answer(request, first + said, last=False)
                yield service_pb2.ModelStreamInferResponse(infer_response=whole)
            empty = answer(request, None, last=True)
            yield service_pb2.ModelStreamInferResponse(infer_response=empty)


class Server:
    def __init__(self):
        self.service = Service()
        self.pool = ThreadPoolExecutor(8)
        self.server = grpc.server(self.pool)
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(self.service, self.server)
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{self.port}"
        self.server.start()

    def close(self):
        self.server.stop(0).wait(5)
        self.pool.shutdown()


@pytest.fixture
def two():
    servers = [Server(), Server()]
    yield servers
    for server in servers:
        server.close()


def of(servers):
    return [server.address for server in servers]


def asks(client, number, **named):
    return float(client.infer("echo", tensor(number), **named).as_numpy("OUT")[0])


def unavailable(context, _said):
    context.abort(grpc.StatusCode.UNAVAILABLE, "gone")


def test_inferences_are_spread_and_shared_by_threads(two):
    """Two instances, eight threads, one client."""
    with tarn.client.grpc(of(two)) as client, ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda n: asks(client, n), range(100))) == list(range(100))
    assert all(server.service.asked > 20 for server in two)


def test_a_dead_instance_costs_no_call(two):
    """The other one takes it, and the dead one is left alone for a while."""
    with tarn.client.grpc(of(two)) as client:
        two[0].close()
        assert [asks(client, n) for n in range(20)] == list(range(20))
        assert sorted(slot.failures > 0 for slot in client._fleet.slots) == [False, True]


def test_without_retries_it_says_that_it_may_have_run(two):
    """With gRPC there is no telling refused from cut."""
    two[0].service.fails = unavailable
    with (
        tarn.client.grpc(two[0].address, retry_resets=False) as client,
        pytest.raises(UnreachableError, match="may have been executed"),
    ):
        asks(client, 1)
    assert two[0].service.asked == 1


def test_a_request_of_a_sequence_is_never_repeated(two):
    """Even where inferences are."""
    for server in two:
        server.service.fails = unavailable
    with tarn.client.grpc(of(two)) as client, pytest.raises(UnreachableError):
        asks(client, 1, sequence_id=4, sequence_start=True)
    assert sum(server.service.asked for server in two) == 1


def test_tritons_own_errors_and_late_answers_are_told_apart(two):
    """An error is Triton's word; a late answer names the instance."""
    release = threading.Event()
    two[0].service.fails = lambda context, _: context.abort(grpc.StatusCode.NOT_FOUND, "no model")
    two[1].service.fails = lambda _context, _: release.wait(5)
    with (
        tarn.client.grpc(two[0].address) as client,
        pytest.raises(InferenceServerException, match="no model"),
    ):
        asks(client, 1)
    with (
        tarn.client.grpc(two[1].address, answer_within_s=0.2) as client,
        pytest.raises(TimedOutError, match=two[1].address),
    ):
        asks(client, 1)
    release.set()


def test_a_stream_yields_every_answer_of_one_instance(two):
    """Three answers, and an end; the next stream goes to the other instance."""
    with tarn.client.grpc(of(two)) as client:
        for begin in (10, 20):
            results = client.stream("counter", tensor(begin))
            assert [r.as_numpy("OUT")[0] for r in results] == [begin, begin + 1, begin + 2]
        assert [slot.in_flight for slot in client._fleet.slots] == [0, 0]
    assert [server.service.asked for server in two] == [1, 1]


def test_a_stream_that_is_left_early_ends(two):
    """Its instance is not counted as busy any longer, and no thread stays."""
    before = set(threading.enumerate())
    with tarn.client.grpc(two[0].address) as client:
        results = client.stream("counter", tensor(1))
        next(results)
        assert client._fleet.slots[0].in_flight == 1
        results.close()
        assert client._fleet.slots[0].in_flight == 0
    mine = [t for t in threading.enumerate() if t not in before and "ThreadPool" not in t.name]
    until(lambda: not any(t.is_alive() for t in mine))


def test_a_stream_is_asked_of_another_one_only_before_its_first_answer(two):
    """After that it would begin anew, so it says that it was cut."""
    two[0].service.fails = two[1].service.fails = lambda context, said: (
        unavailable(context, said) if said == 1 else None
    )
    with tarn.client.grpc(of(two)) as client:
        results = client.stream("counter", tensor(1))
        assert next(results).as_numpy("OUT")[0] == 1
        with pytest.raises(UnreachableError, match="cut after its begin"):
            next(results)
    two[0].service.fails, two[1].service.fails = unavailable, lambda _context, _said: None
    with tarn.client.grpc(of(two)) as client:
        for _ in range(4):
            assert len(list(client.stream("counter", tensor(1)))) == 3


def test_one_instance_can_be_had_alone(two):
    """For sequences and streams of several requests: tritonclient's own client."""
    with tarn.client.grpc(of(two)) as client:
        with client.single() as one:
            assert one.infer("echo", tensor(5)).as_numpy("OUT")[0] == 5
            assert sorted(slot.in_flight for slot in client._fleet.slots) == [0, 1]
        assert [slot.in_flight for slot in client._fleet.slots] == [0, 0]


def test_follows_the_master_to_the_grpc_ports(two):
    """And says so when it is closed."""
    endpoints = [Endpoint("127.0.0.1", 1 + n, server.port, 1) for n, server in enumerate(two)]
    with FakeMaster(snapshot()) as master:
        publish(master, endpoints[:1], 4)
        with tarn.client.grpc(master.url, api_token=TOKEN.decode()) as client:
            assert asks(client, 1) == 1
            publish(master, endpoints[1:], 5)
            until(lambda: [t.grpc_port for t in client.targets] == [two[1].port])
            assert asks(client, 2) == 2
            assert len(client._clients) == 1
        with pytest.raises(RefusedError, match="closed"):
            asks(client, 1)
    assert [server.service.asked for server in two] == [1, 1]
