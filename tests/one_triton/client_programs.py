"""Small programs that use tritonclient in each of the ways in which people use it.

NVIDIA publishes some two dozen example clients. Each program here makes the calls of one of them on
our own models, and returns what it learned as plain values, so that two servers can be compared.
"""

import asyncio
import contextlib
import itertools
import os
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import attrs
import grpc as plain_grpc
import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_http_aio
from house import until
from one_address import Addresses
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import (
    InferenceServerException,
    serialize_byte_tensor,
    shared_memory,
)

__all__ = ["PROGRAMS", "ClientProgram", "Needs"]

WITHIN_S = 20.0
A = np.arange(16, dtype=np.int32).reshape(1, 16)
B = np.ones((1, 16), np.int32)
_numbers = itertools.count(os.getpid() % 10_000 * 1_000)
"""For the ids of sequences and the names of memory: no two runs share one."""


class Needs:
    """What a program asks of a server that not each has."""

    GPU = "a GPU on this machine, and the module cuda"
    READABLE = "messages whose model and sequence a load balancer can read, or the header with it"


@attrs.frozen
class ClientProgram:
    """One program."""

    run: Callable[[Addresses], Any]
    """Returns what it learned."""
    like: str
    """NVIDIA's example that makes the same calls, without its ending."""
    needs: str = ""


PROGRAMS: dict[str, ClientProgram] = {}


def _program(like: str, needs: str = "") -> Callable[[Callable[[Addresses], Any]], Any]:
    def keep(run: Callable[[Addresses], Any]) -> Callable[[Addresses], Any]:
        PROGRAMS[run.__name__] = ClientProgram(run, like, needs)
        return run

    return keep


@contextlib.contextmanager
def _http(at: Addresses, **options: Any) -> Iterator[Any]:
    client = triton_http.InferenceServerClient(
        at.http, connection_timeout=WITHIN_S, network_timeout=WITHIN_S, **options
    )
    with contextlib.closing(client):
        yield client


@contextlib.contextmanager
def _grpc(at: Addresses, **options: Any) -> Iterator[Any]:
    with contextlib.closing(triton_grpc.InferenceServerClient(at.grpc, **options)) as client:
        yield client


def _tensor(module: ModuleType, name: str, array: np.ndarray, datatype: str) -> Any:
    tensor = module.InferInput(name, list(array.shape), datatype)
    tensor.set_data_from_numpy(array)
    return tensor


def _rows(module: ModuleType) -> list[Any]:
    return [_tensor(module, name, array, "INT32") for name, array in (("A", A), ("B", B))]


def _outputs(result: Any) -> dict[str, Any]:
    return {name: result.as_numpy(name).tolist() for name in ("SUM", "DIFFERENCE")}


def _text(module: ModuleType) -> list[Any]:
    words = np.array([[b"mizzen", "größer".encode(), b"", b"a\0b"]], object)
    return [_tensor(module, "IN", words, "BYTES")]


def _refused(call: Callable[[], Any]) -> str:
    """Return Triton's own words for a call that it refuses."""
    try:
        call()
    except InferenceServerException as error:
        return str(error.message())
    return "not refused"


# Inference over HTTP


@_program("simple_http_infer_client")
def http_binary(at: Addresses) -> Any:
    with _http(at) as client:
        asked = [
            triton_http.InferRequestedOutput("SUM"),
            triton_http.InferRequestedOutput("DIFFERENCE"),
        ]
        result = client.infer("add_sub", _rows(triton_http), outputs=asked, query_params={"n": 1})
        one = client.infer("add_sub", _rows(triton_http), outputs=asked[:1], request_id="seven")
        packed = [
            client.infer(
                "add_sub",
                _rows(triton_http),
                request_compression_algorithm=how,
                response_compression_algorithm=how,
            )
            for how in ("gzip", "deflate")
        ]
        wrong = _refused(lambda: client.infer("add_sub", _rows(triton_http)[:1]))
        return (
            _outputs(result),
            one.get_response()["id"],
            [output["name"] for output in one.get_response()["outputs"]],
            [_outputs(each) for each in packed],
            wrong,
        )


@_program("simple_http_infer_client, with tensors as JSON")
def http_json(at: Addresses) -> Any:
    with _http(at) as client:
        tensors = []
        for name, array in (("A", A), ("B", B)):
            tensor = triton_http.InferInput(name, list(array.shape), "INT32")
            tensor.set_data_from_numpy(array, binary_data=False)
            tensors.append(tensor)
        asked = [
            triton_http.InferRequestedOutput(name, binary_data=False)
            for name in ("SUM", "DIFFERENCE")
        ]
        return client.infer("add_sub", tensors, outputs=asked).get_response()["outputs"]


@_program("simple_http_async_infer_client")
def http_async(at: Addresses) -> Any:
    with _http(at, concurrency=4) as client:
        waiting = [client.async_infer("add_sub", _rows(triton_http)) for _ in range(8)]
        return [_outputs(one.get_result()) for one in waiting]


@_program("simple_http_aio_infer_client")
def http_asyncio(at: Addresses) -> Any:
    async def run() -> Any:
        async with triton_http_aio.InferenceServerClient(at.http) as client:
            each = [client.infer("add_sub", _rows(triton_http)) for _ in range(8)]
            return [_outputs(result) for result in await asyncio.gather(*each)]

    return asyncio.run(asyncio.wait_for(run(), WITHIN_S))


@_program("simple_http_string_infer_client")
def http_text(at: Addresses) -> Any:
    with _http(at) as client:
        return client.infer("words", _text(triton_http)).as_numpy("OUT").tolist()


# Inference over gRPC


@_program("simple_grpc_infer_client")
def grpc_binary(at: Addresses) -> Any:
    with _grpc(at) as client:
        result = client.infer(
            "add_sub", _rows(triton_grpc), client_timeout=WITHIN_S, headers={"test": "1"}
        )
        wrong = _refused(lambda: client.infer("add_sub", _rows(triton_grpc)[:1]))
        return _outputs(result), wrong


@_program("simple_grpc_infer_client, compressed", Needs.READABLE)
def grpc_compressed(at: Addresses) -> Any:
    with _grpc(at) as client:
        return [
            _outputs(client.infer("add_sub", _rows(triton_grpc), compression_algorithm=how))
            for how in ("gzip", "deflate")
        ]


@_program("simple_grpc_async_infer_client")
def grpc_async(at: Addresses) -> Any:
    answers: queue.Queue[Any] = queue.Queue()
    with _grpc(at) as client:
        for _ in range(8):
            client.async_infer(
                "add_sub", _rows(triton_grpc), lambda result, error: answers.put(error or result)
            )
        return [_outputs(answers.get(timeout=WITHIN_S)) for _ in range(8)]


@_program("simple_grpc_aio_infer_client")
def grpc_asyncio(at: Addresses) -> Any:
    async def run() -> Any:
        async with triton_grpc_aio.InferenceServerClient(at.grpc) as client:
            each = [client.infer("add_sub", _rows(triton_grpc)) for _ in range(8)]
            return [_outputs(result) for result in await asyncio.gather(*each)]

    return asyncio.run(asyncio.wait_for(run(), WITHIN_S))


@_program("simple_grpc_string_infer_client")
def grpc_text(at: Addresses) -> Any:
    with _grpc(at) as client:
        return client.infer("words", _text(triton_grpc)).as_numpy("OUT").tolist()


@_program("simple_grpc_keepalive_client")
def grpc_keepalive(at: Addresses) -> Any:
    options = triton_grpc.KeepAliveOptions(
        keepalive_time_ms=10_000,
        keepalive_timeout_ms=5_000,
        keepalive_permit_without_calls=False,
        http2_max_pings_without_data=2,
    )
    with _grpc(at, keepalive_options=options) as client:
        return _outputs(client.infer("add_sub", _rows(triton_grpc)))


@_program("simple_grpc_custom_args_client")
def grpc_channel_arguments(at: Addresses) -> Any:
    arguments = [
        ("grpc.max_receive_message_length", 1 << 24),
        ("grpc.lb_policy_name", "pick_first"),
    ]
    with _grpc(at, channel_args=arguments) as client:
        return _outputs(client.infer("add_sub", _rows(triton_grpc)))


@contextlib.contextmanager
def _stub(at: Addresses) -> Iterator[Any]:
    with plain_grpc.insecure_channel(at.grpc) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def _request(model: str, **tensors: tuple[str, list[int]]) -> Any:
    request = service_pb2.ModelInferRequest(model_name=model)
    for name, (datatype, shape) in tensors.items():
        request.inputs.add(name=name, datatype=datatype, shape=shape)
    return request


@_program("grpc_client")
def grpc_stub(at: Addresses) -> Any:
    request = _request("add_sub", A=("INT32", [1, 16]), B=("INT32", [1, 16]))
    request.raw_input_contents.extend((A.tobytes(), B.tobytes()))
    with _stub(at) as stub:
        live = stub.ServerLive(service_pb2.ServerLiveRequest(), timeout=WITHIN_S).live
        ready = stub.ServerReady(service_pb2.ServerReadyRequest(), timeout=WITHIN_S).ready
        model = service_pb2.ModelReadyRequest(name="add_sub")
        serves = stub.ModelReady(model, timeout=WITHIN_S).ready
        answer = stub.ModelInfer(request, timeout=WITHIN_S)
        return live, ready, serves, [bytes(one) for one in answer.raw_output_contents]


@_program("grpc_explicit_int_content_client")
def grpc_explicit_numbers(at: Addresses) -> Any:
    request = _request("add_sub", A=("INT32", [1, 16]), B=("INT32", [1, 16]))
    for tensor, array in zip(request.inputs, (A, B), strict=True):
        tensor.contents.int_contents[:] = array.ravel().tolist()
    with _stub(at) as stub:
        return [
            bytes(one) for one in stub.ModelInfer(request, timeout=WITHIN_S).raw_output_contents
        ]


@_program("grpc_explicit_int8_content_client")
def grpc_explicit_small_numbers(at: Addresses) -> Any:
    request = _request("identity", IN=("UINT8", [16]))
    request.inputs[0].contents.uint_contents[:] = range(16)
    with _stub(at) as stub:
        return [
            bytes(one) for one in stub.ModelInfer(request, timeout=WITHIN_S).raw_output_contents
        ]


@_program("grpc_explicit_byte_content_client")
def grpc_explicit_text(at: Addresses) -> Any:
    request = _request("words", IN=("BYTES", [1, 2]))
    request.inputs[0].contents.bytes_contents[:] = [b"fore", b"aft"]
    with _stub(at) as stub:
        return [
            bytes(one) for one in stub.ModelInfer(request, timeout=WITHIN_S).raw_output_contents
        ]


# Sequences and streams


def _step(module: ModuleType, value: float) -> list[Any]:
    return [_tensor(module, "IN", np.array([[value]], np.float32), "FP32")]


def _sequences(module: ModuleType, client: Any, model: str, *ids: int | str) -> list[Any]:
    """Send sequences in turns, one step of each; return their sums."""
    steps, sums = (3, 5, 7, 11), []
    for number, value in enumerate(steps):
        for one in ids:
            result = client.infer(
                model,
                _step(module, value),
                sequence_id=one,
                sequence_start=number == 0,
                sequence_end=number == len(steps) - 1,
            )
            sums.append(result.as_numpy("OUT").tolist())
    return sums


@_program("simple_http_sequence_sync_infer_client")
def http_sequences(at: Addresses) -> Any:
    with _http(at) as client:
        first = next(_numbers)
        return (
            _sequences(triton_http, client, "accumulate", first, next(_numbers)),
            _sequences(triton_http, client, "accumulate_oldest", first, next(_numbers)),
            _sequences(triton_http, client, "accumulate_text", f"a{first}", f"b{first}"),
            _refused(
                lambda: client.infer("accumulate", _step(triton_http, 1), sequence_id=900_000_001)
            ),
        )


@_program("simple_grpc_sequence_sync_infer_client")
def grpc_sequences(at: Addresses) -> Any:
    with _grpc(at) as client:
        first = next(_numbers)
        return (
            _sequences(triton_grpc, client, "accumulate", first, next(_numbers)),
            _sequences(triton_grpc, client, "accumulate_oldest", first, next(_numbers)),
            _sequences(triton_grpc, client, "accumulate_text", f"a{first}", f"b{first}"),
        )


@_program("simple_grpc_sequence_stream_infer_client")
def grpc_sequence_stream(at: Addresses) -> Any:
    answers: queue.Queue[Any] = queue.Queue()
    first, second, sums = next(_numbers), next(_numbers), []
    with _grpc(at) as client:
        client.start_stream(lambda result, error: answers.put(error or result))
        for number, value in enumerate((3, 5, 7, 11)):
            for one in (first, second):
                client.async_stream_infer(
                    "accumulate_oldest",
                    _step(triton_grpc, value),
                    request_id=f"{one - first and 1}/{number}",
                    sequence_id=one,
                    sequence_start=number == 0,
                    sequence_end=number == 3,
                )
        for _ in range(8):
            got = answers.get(timeout=WITHIN_S)
            if isinstance(got, Exception):
                raise got
            sums.append((got.get_response().id, got.as_numpy("OUT").tolist()))
        client.stop_stream()
    return sorted(sums)


@_program("simple_grpc_aio_sequence_stream_infer_client")
def grpc_asyncio_sequence_stream(at: Addresses) -> Any:
    key = next(_numbers)

    async def steps() -> AsyncIterator[dict[str, Any]]:
        for number, value in enumerate((2, 4, 6)):
            yield {
                "model_name": "accumulate",
                "inputs": _step(triton_grpc, value),
                "sequence_id": key,
                "sequence_start": number == 0,
                "sequence_end": number == 2,
            }

    async def run() -> Any:
        async with triton_grpc_aio.InferenceServerClient(at.grpc) as client:
            sums = []
            async for result, error in client.stream_infer(steps()):
                if error is not None:
                    raise error
                sums.append(result.as_numpy("OUT").tolist())
                if len(sums) == 3:
                    return sums
        return sums

    return asyncio.run(asyncio.wait_for(run(), WITHIN_S))


@_program("simple_grpc_custom_repeat")
def grpc_decoupled(at: Addresses) -> Any:
    answers: queue.Queue[Any] = queue.Queue()
    with _grpc(at) as client:
        client.start_stream(lambda result, error: answers.put(error or result))
        numbers = np.array([4, 1, 3], np.int32)
        tensors = [_tensor(triton_grpc, "IN", numbers, "INT32")]
        client.async_stream_infer("repeat", tensors, enable_empty_final_response=True)
        got = []
        while True:
            result = answers.get(timeout=WITHIN_S)
            if isinstance(result, Exception):
                raise result
            if result.get_response().parameters["triton_final_response"].bool_param:
                break
            got.append(result.as_numpy("OUT").tolist())
        client.stop_stream()
    return got


# Objects that are used again, and shared memory


@_program("reuse_infer_objects_client, without shared memory")
def reused_objects(at: Addresses) -> Any:
    found = []
    for module, opened in ((triton_http, _http), (triton_grpc, _grpc)):
        with opened(at) as client:
            tensors, asked = _rows(module), [module.InferRequestedOutput("SUM")]
            for factor in (1, 2, 1):
                tensors[1].set_data_from_numpy(B * factor)
                result = client.infer("add_sub", tensors, outputs=asked)
                found.append(result.as_numpy("SUM").tolist())
    return found


@contextlib.contextmanager
def _region(client: Any, size: int) -> Iterator[tuple[str, Any]]:
    """Make memory that a server on this machine shares, and register it."""
    name = f"tarn_{os.getpid()}_{next(_numbers)}"
    handle = shared_memory.create_shared_memory_region(name, f"/{name}", size)
    try:
        client.register_system_shared_memory(name, f"/{name}", size)
        try:
            yield name, handle
        finally:
            until(lambda: _unregistered(client, name), 10, f"the end of {name}")
    finally:
        shared_memory.destroy_shared_memory_region(handle)


def _unregistered(client: Any, name: str) -> bool:
    """Whether it could be: a region is in use until a moment after the last answer."""
    try:
        client.unregister_system_shared_memory(name)
    except InferenceServerException as error:
        if "currently in use" in str(error):
            return False
        raise
    return True


def _in_shared_memory(module: ModuleType, client: Any) -> Any:
    size, found = A.nbytes, []
    with _region(client, 2 * size) as (given, inside), _region(client, size) as (taken, outside):
        shared_memory.set_shared_memory_region(inside, [A, B])
        tensors = [module.InferInput(name, [1, 16], "INT32") for name in "AB"]
        for number, tensor in enumerate(tensors):
            tensor.set_shared_memory(given, size, offset=number * size)
        asked = [module.InferRequestedOutput("SUM")]
        asked[0].set_shared_memory(taken, size)
        for _ in range(6):  # whichever instance answers must know the region
            client.infer("add_sub", tensors, outputs=asked)
            got = shared_memory.get_contents_as_numpy(outside, np.int32, [1, 16])
            found.append(got.tolist())
        listed = client.get_system_shared_memory_status()
        names = [one["name"] for one in listed] if module is triton_http else list(listed.regions)
    return found, {given, taken} <= set(names)


@_program("simple_http_shm_client")
def http_shared_memory(at: Addresses) -> Any:
    with _http(at) as client:
        return _in_shared_memory(triton_http, client)


@_program("simple_grpc_shm_client")
def grpc_shared_memory(at: Addresses) -> Any:
    with _grpc(at) as client:
        return _in_shared_memory(triton_grpc, client)


def _text_in_shared_memory(module: ModuleType, client: Any) -> Any:
    words = np.array([[b"port", b"starboard"]], object)
    size = sum(4 + len(word) for word in words.ravel())
    with _region(client, size) as (given, inside), _region(client, size) as (taken, outside):
        shared_memory.set_shared_memory_region(inside, [serialize_byte_tensor(words)])
        tensor = module.InferInput("IN", [1, 2], "BYTES")
        tensor.set_shared_memory(given, size)
        asked = module.InferRequestedOutput("OUT")
        asked.set_shared_memory(taken, size)
        client.infer("words", [tensor], outputs=[asked])
        return shared_memory.get_contents_as_numpy(outside, np.object_, [1, 2]).tolist()


@_program("simple_http_shm_string_client")
def http_text_in_shared_memory(at: Addresses) -> Any:
    with _http(at) as client:
        return _text_in_shared_memory(triton_http, client)


@_program("simple_grpc_shm_string_client")
def grpc_text_in_shared_memory(at: Addresses) -> Any:
    with _grpc(at) as client:
        return _text_in_shared_memory(triton_grpc, client)


@_program("simple_http_cudashm_client, simple_grpc_cudashm_client", Needs.GPU)
def cuda_shared_memory(at: Addresses) -> Any:
    from tritonclient.utils import cuda_shared_memory as cuda  # noqa: PLC0415 (needs a driver)

    name, size = f"tarn_{next(_numbers)}", A.nbytes
    handle = cuda.create_shared_memory_region(name, 2 * size, 0)
    cuda.set_shared_memory_region(handle, [A, B])
    with _http(at) as client:
        client.register_cuda_shared_memory(name, cuda.get_raw_handle(handle), 0, 2 * size)
        tensors = [triton_http.InferInput(each, [1, 16], "INT32") for each in "AB"]
        for number, tensor in enumerate(tensors):
            tensor.set_shared_memory(name, size, offset=number * size)
        found = _outputs(client.infer("add_sub", tensors))
        client.unregister_cuda_shared_memory(name)
    cuda.destroy_shared_memory_region(handle)
    return found


# What a server says of itself and its models


def _metadata(client: Any, as_plain: Callable[[Any], Any]) -> Any:
    wrong = [
        _refused(lambda: client.get_model_metadata("no_such_model")),
        _refused(lambda: client.get_model_config("no_such_model")),
    ]
    server = as_plain(client.get_server_metadata())
    config = as_plain(client.get_model_config("accumulate"))
    return (
        client.is_server_live(headers={"test": "1"}),
        client.is_server_ready(),
        client.is_model_ready("add_sub"),
        client.is_model_ready("no_such_model"),
        server["name"],
        sorted(server["extensions"]),
        as_plain(client.get_model_metadata("add_sub", headers={"test": "1"})),
        config,
        wrong,
    )


@_program("simple_http_health_metadata")
def http_metadata(at: Addresses) -> Any:
    with _http(at) as client:
        return _metadata(client, lambda answer: answer)


@_program("simple_grpc_health_metadata")
def grpc_metadata(at: Addresses) -> Any:
    from google.protobuf.json_format import MessageToDict  # noqa: PLC0415 (comes with grpc)

    with _grpc(at) as client:
        return _metadata(client, MessageToDict)


def _control(client: Any, index: Callable[[], Mapping[str, str]], proof: Mapping[str, str]) -> Any:
    """Unload the spare model, load it with another configuration, and load it as it is."""

    def load(name: str, **options: Any) -> None:
        client.load_model(name, headers=proof, **options)

    found: list[Any] = [index()["spare"]]
    client.unload_model("spare", headers=proof)
    pause = threading.Event()
    for _ in range(100):  # Triton unloads in the background
        if (state := index()["spare"]) == "UNAVAILABLE":
            break
        pause.wait(0.05)
    found.append((client.is_model_ready("spare"), state))
    found.append("failed to load" in _refused(lambda: load("spare", config="{{}")))
    load("spare", config='{"max_batch_size": "2"}')
    config = client.get_model_config("spare")
    number = config.config.max_batch_size if hasattr(config, "config") else config["max_batch_size"]
    load("spare")
    found += [number, client.is_model_ready("spare"), index()["spare"]]
    found.append("failed to load" in _refused(lambda: load("no_such_model")))
    return found


@_program("simple_http_model_control")
def http_model_control(at: Addresses) -> Any:
    with _http(at) as client:

        def index() -> Mapping[str, str]:
            return {
                row["name"]: row.get("state", "")
                for row in client.get_model_repository_index(headers=at.proof)
            }

        return _control(client, index, at.proof)


@_program("simple_grpc_model_control")
def grpc_model_control(at: Addresses) -> Any:
    with _grpc(at) as client:

        def index() -> Mapping[str, str]:
            return {
                row.name: row.state
                for row in client.get_model_repository_index(headers=at.proof).models
            }

        return _control(client, index, at.proof)


def _counted(client: Any, count: Callable[[], int], module: ModuleType) -> Any:
    """Return by how much the statistics grew with five requests."""
    before = _settled(count)
    for _ in range(5):
        client.infer("scores", [_tensor(module, "IN", np.ones((1, 4), np.float32), "FP32")])
    return _settled(count) - before


def _settled(count: Callable[[], int]) -> int:
    """Return what *count* tells twice in a row: Triton counts a request after its answer."""
    last = count()
    while True:
        threading.Event().wait(0.3)
        last, before = count(), last
        if last == before:
            return last


@_program("the statistics of simple_http_health_metadata")
def http_statistics(at: Addresses) -> Any:
    with _http(at) as client:

        def count() -> int:
            (row,) = client.get_inference_statistics("scores")["model_stats"]
            return int(row["inference_stats"]["success"]["count"])

        return _counted(client, count, triton_http)


@_program("the statistics of simple_grpc_health_metadata")
def grpc_statistics(at: Addresses) -> Any:
    with _grpc(at) as client:

        def count() -> int:
            (row,) = client.get_inference_statistics("scores").model_stats
            return int(row.inference_stats.success.count)

        return _counted(client, count, triton_grpc)


@_program("the settings that NVIDIA's command lines change")
def settings(at: Addresses) -> Any:
    with _http(at) as client:
        proof = {"headers": at.proof}
        trace = client.update_trace_settings(settings={"trace_rate": "500"}, **proof)
        again = [client.get_trace_settings(**proof)["trace_rate"] for _ in range(4)]
        client.update_trace_settings(settings={"trace_rate": None}, **proof)
        log = client.update_log_settings({"log_verbose_level": 0}, **proof)
        return trace["trace_rate"], again, log["log_verbose_level"]


# Models of more than one part


@_program("ensemble_image_client")
def ensemble(at: Addresses) -> Any:
    found = []
    for module, opened in ((triton_http, _http), (triton_grpc, _grpc)):
        with opened(at) as client:
            found.append(_outputs(client.infer("add_sub_twice", _rows(module))))
    return found


@_program("image_client, grpc_image_client")
def classification(at: Addresses) -> Any:
    found = []
    scores = np.array([[0.1, 0.7, 0.2, 0.0], [0.9, 0.0, 0.05, 0.05]], np.float32)
    for module, opened in ((triton_http, _http), (triton_grpc, _grpc)):
        with opened(at) as client:
            asked = [module.InferRequestedOutput("OUT", class_count=2)]
            tensors = [_tensor(module, "IN", scores, "FP32")]
            found.append(client.infer("scores", tensors, outputs=asked).as_numpy("OUT").tolist())
    return found


@_program("memory_growth_test")
def many_in_a_row(at: Addresses) -> Any:
    data = np.arange(4096, dtype=np.uint32).astype(np.uint8)
    same = 0
    with _http(at) as client:
        for _ in range(50):
            tensors = [_tensor(triton_http, "IN", data, "UINT8")]
            same += bool((client.infer("identity", tensors).as_numpy("OUT") == data).all())
    return same
