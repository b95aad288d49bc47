"""A Triton whose answers are made before they are asked for, so that a client is the slower part.

    python tests/bench/fixed_triton.py HTTP_PORT GRPC_PORT

A request with more than `SMALL` bytes gets the large answer, any other one the small one; each has
as many floats as the benchmark sends. It reads every byte, and understands none.
"""

import asyncio
import json
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
from tritonclient.grpc import service_pb2

FLOATS = {"1 KB": 256, "1 MB": 262_144}
SMALL = 65_536


def http_answer(floats: int) -> bytes:
    """Return a whole HTTP answer with the output ``OUT``."""
    data = bytes(4 * floats)
    output = {"name": "OUT", "datatype": "FP32", "shape": [floats]}
    output["parameters"] = {"binary_data_size": len(data)}
    header = json.dumps({"model_name": "echo", "model_version": "1", "outputs": [output]}).encode()
    head = (
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
        f"Inference-Header-Content-Length: {len(header)}\r\n"
        f"Content-Length: {len(header) + len(data)}\r\n\r\n"
    )
    return head.encode() + header + data


def grpc_answer(floats: int) -> bytes:
    """Return an encoded ``ModelInferResponse`` with the output ``OUT``."""
    response = service_pb2.ModelInferResponse(model_name="echo", model_version="1")
    response.outputs.add(name="OUT", datatype="FP32", shape=[floats])
    response.raw_output_contents.append(bytes(4 * floats))
    return response.SerializeToString()


class _Http(asyncio.Protocol):
    """One connection: each request in turn, whatever its path."""

    def __init__(self, small: bytes, large: bytes) -> None:
        self._small, self._large = small, large
        self._head = bytearray()
        self._left = self._size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._left:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            self._size = _length(bytes(self._head[:end]))
            self._left = self._size + end + 4 - len(self._head)
            self._head.clear()
        else:
            self._left -= len(data)
        if not self._left:
            self._transport.write(self._large if self._size > SMALL else self._small)


def _length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0]) if found else 0


class _Grpc(grpc.GenericRpcHandler):
    def __init__(self, small: bytes, large: bytes) -> None:
        self._handler = grpc.unary_unary_rpc_method_handler(
            lambda request, _context: large if len(request) > SMALL else small
        )

    def service(self, _call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return self._handler


async def main(http_port: int, grpc_port: int) -> None:
    """Serve until the process is ended."""
    small, large = FLOATS.values()
    service = _Grpc(grpc_answer(small), grpc_answer(large))
    server = grpc.server(ThreadPoolExecutor(8), handlers=[service])
    server.add_insecure_port(f"127.0.0.1:{grpc_port}")
    server.start()
    answers = http_answer(small), http_answer(large)
    listening = await asyncio.get_running_loop().create_server(
        lambda: _Http(*answers), "127.0.0.1", http_port
    )
    await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
