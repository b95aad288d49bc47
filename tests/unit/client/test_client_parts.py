"""The pure parts: addresses, requests as bytes, sums, sequences."""

import numpy as np
import pytest
from client_stage import tensor
from tritonclient.utils import InferenceServerException

import tarn.client
from tarn.client import affinity
from tarn.client.affinity import AffinityRouter, RequestKey
from tarn.client.pool import PoolMember
from tarn.client.requests import inference, plain
from tarn.client.targets import ServiceAddress, parse
from tarn.errors import ConfigError
from tarn.testing.fakes import FakeClock
from tarn.triton.merged_answers import summed_statistics


@pytest.mark.parametrize(
    ("text", "target", "url"),
    [
        ("gpu-1:8000", ServiceAddress("gpu-1", 8000), "http://gpu-1:8000"),
        ("http://gpu-1:8000/", ServiceAddress("gpu-1", 8000), "http://gpu-1:8000"),
        ("https://lb/t/", ServiceAddress("lb", 443, path="t", tls=True), "https://lb:443/t"),
        ("[::1]:8000", ServiceAddress("::1", 8000), "http://[::1]:8000"),
    ],
)
def test_reads_an_address_with_and_without_a_scheme(text, target, url):
    """As tritonclient writes it, and as everybody else does."""
    assert parse(text) == target
    assert parse(text).url == url


def test_a_large_tensor_is_sent_as_binary_in_one_piece():
    """Triton 2.51 dies of a body in half a million chunks; ours has its length at the head."""
    request = inference("echo", tensor(0.5, 256_000))
    assert len(request.body) < 256_000 * 4 + 1000
    assert "Inference-Header-Content-Length" in request.headers
    head = request.head(ServiceAddress("gpu-1", 8000)).decode()
    assert f"Content-Length: {len(request.body)}\r\n" in head
    assert "Transfer-Encoding" not in head


@pytest.mark.parametrize(
    "text", ["gpu-1", "ftp://a:1", "http://", "a:b", "http://a:1?x=1", "u:p@a:1", ""]
)
def test_refuses_what_is_no_address(text):
    """The message quotes it, and says what would be right; a password is not repeated."""
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert "host:port" in str(caught.value)
    assert "u:p" not in str(caught.value)


def test_an_unknown_option_is_refused_with_the_known_ones():
    """A misspelt option is never silently without effect."""
    with pytest.raises(ConfigError, match=r"(?s)wait_seconds.*wait_s"):
        tarn.client.http("127.0.0.1:1", wait_seconds=3)
    with pytest.raises(ConfigError, match="above 0"):
        tarn.client.http("127.0.0.1:1", answer_within_s=0)
    with pytest.raises(ConfigError, match="empty"):
        tarn.client.http([])


def test_puts_a_request_into_words_once_for_any_instance():
    """Only the host and the path's prefix differ."""
    request = inference("a model", tensor(1), model_version="3", query_params={"q": ["1", "&"]})
    head = request.head(parse("https://lb/prefix")).decode()
    assert head.startswith("POST /prefix/v2/models/a%20model/versions/3/infer?q=1&q=%26 HTTP/1.1")
    assert "\r\nHost: lb:443\r\n" in head
    assert f"\r\nContent-Length: {len(request.body)}\r\n" in head
    assert head.endswith("\r\n\r\n")


def test_a_header_cannot_smuggle_another_one():
    """A line break in a value is refused."""
    request = plain("GET", "v2", b"", {"X-User": "me\r\nX-Admin: yes"}, None)
    with pytest.raises(ConfigError, match="line break"):
        request.head(parse("a:1"))


def test_leaves_the_callers_headers_alone():
    """As tritonclient does not: it writes into them."""
    own = {"X-User": "me"}
    inference("echo", tensor(1), headers=own, request_compression_algorithm="gzip")
    assert own == {"X-User": "me"}


def test_refuses_what_tritonclient_refuses():
    """A version that is no string, and a header that would change the framing."""
    with pytest.raises(InferenceServerException):
        inference("echo", tensor(1), model_version=3)
    with pytest.raises(InferenceServerException):
        inference("echo", tensor(1), headers={"Transfer-Encoding": "chunked"})


def test_sums_the_statistics_of_a_fleet():
    """Counters add up, the last inference is the latest, batches are matched by size."""

    def one(count, last, batches, name="echo"):
        stats = {"success": {"count": count, "ns": 10 * count}}
        sizes = [{"batch_size": size, "compute_infer": {"count": n}} for size, n in batches]
        model = {"name": name, "version": "1", "last_inference": last, "inference_count": count}
        return {"model_stats": [{**model, "inference_stats": stats, "batch_stats": sizes}]}

    (echo, other) = summed_statistics(
        [one(2, 50, [(1, 2)]), one(3, 40, [(1, 1), (4, 7)]), one(1, 1, [], name="other")]
    )["model_stats"]
    assert (echo["version"], echo["last_inference"], echo["inference_count"]) == ("1", 50, 5)
    assert echo["inference_stats"]["success"] == {"count": 5, "ns": 50}
    assert [(b["batch_size"], b["compute_infer"]["count"]) for b in echo["batch_stats"]] == [
        (1, 3),
        (4, 7),
    ]
    assert other["name"] == "other"
    assert summed_statistics([]) == {"model_stats": []}


def test_forgets_the_oldest_sequence_that_nobody_ended():
    """A caller that never ends its sequences does not fill the memory."""
    homes, slot = AffinityRouter(FakeClock()), PoolMember(parse("a:1"))
    keys = [RequestKey("acc", b"%d" % number) for number in range(affinity.MOST + 1)]
    for key in keys:
        homes.settle(key, slot)
    assert homes.home(keys[0]) is None
    assert homes.home(keys[1]) is slot
    homes.forget(keys[1])
    assert homes.home(keys[1]) is None


def test_tensors_are_serialized_when_the_call_begins():
    """What the caller writes into its array afterwards is not sent."""
    inputs = tensor(1)
    request = inference("echo", inputs)
    inputs[0].set_data_from_numpy(np.array([2], np.float32))
    assert request.body == inference("echo", tensor(1)).body
