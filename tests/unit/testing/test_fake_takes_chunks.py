"""The fake Triton reads a body in chunks, as Triton does and gateways send it."""

import http.client
import json

from tarn.testing.fake_triton import FakeTriton


def test_a_body_in_chunks_is_the_same_body():
    """However it is cut; the connection is good for the next request."""
    tensor = {"name": "IN", "shape": [2], "datatype": "FP32", "data": [1, 2.5]}
    text = json.dumps({"inputs": [tensor]}).encode()
    with FakeTriton() as triton:
        connection = http.client.HTTPConnection("127.0.0.1", triton.endpoint.http_port, timeout=5)
        for cut in (1, 7, len(text)):
            parts = (text[at : at + cut] for at in range(0, len(text), cut))
            connection.request("POST", "/v2/models/echo/infer", parts, encode_chunked=True)
            answer = connection.getresponse()
            assert answer.status == 200
            assert json.loads(answer.read())["outputs"][0]["data"] == [1, 2.5]
        connection.close()
