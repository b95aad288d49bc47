"""The client over gRPC, against small servers of Triton's own protocol."""

import contextlib
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from certificates import Authority
from client_stage import publish
from fake_master import TOKEN, FakeMaster, snapshot
from tritonclient.utils import InferenceServerException

import tarn.client
from tarn.client.pool import MODEL_FAILURES, SERVER_FAILURES
from tarn.domain import Endpoint
from tarn.errors import ConfigError, RefusedError, TimedOutError, UnreachableError
from tarn.testing.wait import until

grpc = pytest.importorskip("grpc", reason="pip install 'tarn-orchestrator[grpc]'")
from tritonclient.grpc import (  # noqa: E402
    InferenceServerClient,
    InferInput,
    InferRequestedOutput,
    service_pb2,
    service_pb2_grpc,
)


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
        self.newest = None
        self.fails: Callable[[grpc.ServicerContext, int], None] = lambda _context, _said: None

    def ModelInfer(self, request, context):  # noqa: N802 (Triton's name)
        self.asked += 1
        self.newest = request
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
    def __init__(self, credentials=None):
        self.service = Service()
        self.pool = ThreadPoolExecutor(8)
        self.server = grpc.server(self.pool)
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(self.service, self.server)
        if credentials is None:
            self.port = self.server.add_insecure_port("127.0.0.1:0")
        else:
            self.port = self.server.add_secure_port("127.0.0.1:0", credentials)
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


@pytest.mark.parametrize(
    ("code", "said", "failures"),
    [
        (grpc.StatusCode.INTERNAL, "Stub process 'echo_0_0' is not healthy.", SERVER_FAILURES),
        (grpc.StatusCode.INTERNAL, "Failed to process the request(s)", MODEL_FAILURES),
        (grpc.StatusCode.INVALID_ARGUMENT, "unexpected shape for input 'IN'", 20),
        (grpc.StatusCode.UNAVAILABLE, "Exceeds maximum queue size", 0),
    ],
)
def test_an_instance_that_answers_badly_is_left_alone(two, code, said, failures):
    """Not for what the caller got wrong; a full queue is asked of the other one."""
    two[0].service.fails = lambda context, _: context.abort(code, said)
    lost = 0
    with tarn.client.grpc(of(two)) as client:
        for number in range(40):
            try:
                asks(client, number)
            except InferenceServerException:
                lost += 1
        alone = [slot.alone_for("echo") for slot in client._fleet.slots]
        assert sorted(alone) == [False, 0 < failures < 20]
    assert lost == failures


def test_late_answers_of_calls_and_streams_count(two):
    """As of any server that does not answer."""
    release = threading.Event()
    two[0].service.fails = lambda _context, _: release.wait(5)
    with tarn.client.grpc(of(two), answer_within_s=0.2) as client:
        (hung,) = (s for s in client._fleet.slots if s.target.port == two[0].port)
        for ask in (
            lambda: asks(client, 1),
            lambda: list(client.stream("echo", tensor(1))),
        ):
            hung.models.clear()
            while not (record := hung.models.get("echo")) or not record.failed:
                with contextlib.suppress(TimedOutError):
                    ask()
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
        with pytest.raises(UnreachableError, match="cut after it had begun"):
            next(results)
    two[0].service.fails, two[1].service.fails = unavailable, lambda _context, _said: None
    with tarn.client.grpc(of(two)) as client:
        for _ in range(4):
            assert len(list(client.stream("counter", tensor(1)))) == 3


def _inputs(*counts):
    every = [InferInput(f"IN{n}", [count], "FP32") for n, count in enumerate(counts)]
    for one in every:
        one.set_data_from_numpy(np.arange(one.shape()[0], dtype=np.float32))
    return every


def _in_shared_memory():
    (one,) = _inputs(1)
    shared = InferInput("SHARED", [4], "FP32")
    shared.set_shared_memory("region", 16)
    return [one, shared]


@pytest.mark.parametrize(
    ("inputs", "named"),
    [
        (_inputs(1), {}),
        (_inputs(31, 32, 5000, 600_000), {"outputs": [InferRequestedOutput("OUT")]}),
        (_in_shared_memory(), {"model_version": "2", "request_id": "seven"}),
        (_inputs(1), {"sequence_id": "a", "sequence_start": True, "sequence_end": True}),
        (_inputs(1), {"sequence_id": 7, "priority": 3, "timeout": 9}),
        (_inputs(1), {"parameters": {"text": "t", "flag": True, "count": 4, "share": 0.5}}),
        (_inputs(5000), {"compression_algorithm": "gzip", "headers": {"who": "me"}}),
    ],
)
def test_a_request_is_the_same_as_tritonclients(two, inputs, named):
    """Byte for byte, though the bytes of tensors never are in a message."""
    server = two[0]
    with InferenceServerClient(server.address) as plain:
        plain.infer("echo", inputs, **named)
    theirs = server.service.newest
    with tarn.client.grpc(server.address) as client:
        client.infer("echo", inputs, **named)
    assert server.service.newest == theirs
    assert theirs.raw_input_contents[0] == inputs[0]._get_content()


def test_a_request_that_tritonclient_refuses_is_refused(two):
    """A version that is a number, a reserved parameter, and a parameter that does not exist."""
    with tarn.client.grpc(of(two)) as client:
        with pytest.raises(InferenceServerException, match="must be a string"):
            asks(client, 1, model_version=1)
        with pytest.raises(InferenceServerException, match="reserved"):
            asks(client, 1, parameters={"priority": 1})
        with pytest.raises(TypeError, match="no_such"):
            asks(client, 1, no_such=1)
    assert [server.service.asked for server in two] == [0, 0]


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
            assert len(client._channels) == 1
        with pytest.raises(RefusedError, match="closed"):
            asks(client, 1)
    assert [server.service.asked for server in two] == [1, 1]


@pytest.fixture
def encrypted(tmp_path):
    authority = Authority(tmp_path)
    issued = authority.issue("triton")
    pair = issued.key.read_bytes(), issued.cert.read_bytes()
    server = Server(grpc.ssl_server_credentials([pair]))
    yield server, authority.ca
    server.close()


def test_an_address_with_https_is_spoken_to_by_tls(encrypted):
    """Inferences, streams, and what has one instance alone; known by the file that is given."""
    server, ca = encrypted
    with tarn.client.grpc([f"https://{server.address}"], ca=ca) as client:
        assert asks(client, 3) == 3
        assert len(list(client.stream("counter", tensor(1)))) == 3
        with client.single() as one:
            assert one.infer("echo", tensor(5)).as_numpy("OUT")[0] == 5


def test_who_is_not_believed_gets_nothing(encrypted, tmp_path):
    """By another authority's file, or by none; and nothing is sent in clear text."""
    server, _ = encrypted
    other = Authority(tmp_path / "other").ca
    for ca in (other, None):
        with (
            tarn.client.grpc([f"https://{server.address}"], ca=ca, wait_s=0.2) as client,
            pytest.raises(UnreachableError),
        ):
            asks(client, 3)
    assert server.service.asked == 0


def test_what_grpc_cannot_do_with_https_is_refused(tmp_path):
    """Never is not an https:// address in silence."""
    ca = Authority(tmp_path).ca
    with pytest.raises(ConfigError, match="has a path"):
        tarn.client.grpc(["https://lb.example/triton"], ca=ca)
    with pytest.raises(ConfigError, match=r"ca=FILE"):
        tarn.client.grpc(["https://lb.example"], tls=ssl.create_default_context())
    with pytest.raises(ConfigError, match="is not an https:// address"):
        tarn.client.grpc(["lb.example:8001"], ca=ca)
    with pytest.raises(ConfigError, match="cannot be read"):
        tarn.client.grpc(["https://lb.example"], ca=tmp_path / "none.pem")


def test_no_channel_is_made_after_the_close(two):
    """A call that chose its instance before finds the client closed; nothing is left open."""
    client = tarn.client.grpc(of(two))
    slot = client._take(client._course({}))
    client.close()
    with pytest.raises(RefusedError, match="closed"):
        client._channel(slot)
    assert client._channels == {}


def test_a_dead_instance_is_ejected_once_for_each_failure(two):
    """Its back-off doubles with each try, and not with each of two notes of one."""
    two[0].service.fails = unavailable
    with tarn.client.grpc(two[0].address, wait_s=0.1) as client:
        slot = client._fleet.slots[0]
        with pytest.raises(UnreachableError):
            asks(client, 1)
        assert slot.failures == two[0].service.asked == 1


def test_a_sequence_stays_where_it_began_and_its_id_is_sent_as_a_header(two):
    """A load balancer cannot read the message, but it can read the metadata."""
    seen = []

    def note(server):
        def of(context, _said):
            seen.append((server, dict(context.invocation_metadata()).get("x-sequence-id")))

        return of

    for number, server in enumerate(two):
        server.service.fails = note(number)
    with tarn.client.grpc(of(two)) as client:
        for sequence in range(1, 41):  # so many that both get some, whatever their ports are
            for step in range(4):
                asks(client, 1, sequence_id=sequence, sequence_start=step == 0)
        homes = {
            number: {server for server, sent in seen if sent == str(number)}
            for number in range(1, 41)
        }
        assert all(len(home) == 1 for home in homes.values())
        assert set.union(*homes.values()) == {0, 1}
        (home,) = homes[1]
        two[home].close()
        for _ in range(2):
            with pytest.raises(UnreachableError, match="held the state of sequence '1'"):
                asks(client, 1, sequence_id=1)
        assert asks(client, 5, sequence_id=1, sequence_start=True) == 5
    assert seen[-1] == (1 - home, "1")
