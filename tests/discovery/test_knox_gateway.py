"""What clients see through a real Knox: who gets in, what reaches the fleet, and what cannot."""

import json
import subprocess
import sys
import threading
import time
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor

import pytest
from house import House, clear, ids
from knox_load import Load
from servers.knox import ALICE, BOB

from tarn.testing.fake_triton import FakeModel, FakeTriton
from tarn.testing.wait import until

pytestmark = pytest.mark.discovery


def looks(perimeter, topology: str, times: int = 6) -> list[int]:
    """Return how many of *times* requests each of the two that stand still got."""
    before = [one.looks for one in perimeter.still]
    for _ in range(times):
        assert perimeter.knox.get(topology, "v2").status_code == 200
    return [one.looks - was for one, was in zip(perimeter.still, before, strict=True)]


def test_who_gets_in_is_who_the_topology_names(perimeter):
    """401 without a password or with a wrong one, 403 for whom the access list does not name."""
    knox = perimeter.knox
    assert knox.get("plain", "v2/health/ready").status_code == 200
    assert knox.get("plain", "v2/health/ready", None).status_code == 401
    assert knox.get("plain", "v2/health/ready", ("alice", "wrong")).status_code == 401
    assert knox.get("plain", "v2/health/ready", BOB).status_code == 403


def test_what_is_not_there_is_not_found(perimeter):
    """A path outside the service, a topology that nobody wrote, a model that Triton lacks."""
    knox = perimeter.knox
    assert knox.get("plain", "v3/health/ready").status_code == 404
    assert knox.get("nowhere", "v2/health/ready").status_code == 404
    unknown = knox.get("plain", "v2/models/nix")
    assert unknown.status_code == 404
    assert "nix" in unknown.json()["error"]


def test_without_an_authentication_provider_nobody_gets_in(perimeter):
    """The topology as it is rendered is closed until somebody says who authenticates."""
    for user in (None, ALICE, BOB):
        assert perimeter.knox.get("nobody", "v2/health/ready", user).status_code == 500


def test_a_body_arrives_in_chunks_with_knox_word_for_the_user(perimeter):
    """No Content-Length and no password reach the fleet; Triton's own header does."""
    knox = perimeter.knox
    answer = knox.client.post(
        f"{knox.url('recorder', 'triton/v2/models/echo/infer')}?user.name=root",
        content=b"x" * 70_000,
        headers={
            "Content-Type": "application/octet-stream",
            "Inference-Header-Content-Length": "17",
        },
        auth=ALICE,
    )
    assert answer.status_code == 200
    path, headers = perimeter.recorder.seen[-1]
    assert path == "/v2/models/echo/infer?user.name=alice"
    assert headers["Transfer-Encoding"] == "chunked"
    assert headers["Inference-Header-Content-Length"] == "17"
    assert not {"Content-Length", "Authorization"} & set(headers)


def test_a_stream_arrives_in_one_block(perimeter):
    """Knox 2.0.0 keeps events until the end: who streams must ask HAProxy."""
    knox = perimeter.knox
    url = knox.url("recorder", "triton/v2/models/echo/generate_stream")
    with knox.client.stream("POST", url, json={}, auth=ALICE) as answer:
        came = [(line, time.monotonic()) for line in answer.iter_lines() if line]
    assert [line for line, _ in came] == [f"data: {number}" for number in range(4)]
    assert came[-1][1] - came[0][1] < 0.5, (
        "they arrived 0.2 s apart each, as sent: correct the guide"
    )


def test_without_any_server_the_words_of_haproxy_pass(perimeter):
    """503 with Retry-After, so that a client knows when to come again."""
    answer = perimeter.knox.get("empty", "v2/health/ready")
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "2"


def test_a_descriptor_does_what_a_topology_does(perimeter):
    """With several HAProxys Knox takes turns; only alice may."""
    until(lambda: perimeter.knox.get("described", "v2").status_code == 200, 30, "the descriptor")
    assert looks(perimeter, "described") == [3, 3]
    assert perimeter.knox.get("described", "v2", BOB).status_code == 403
    assert perimeter.knox.get("described", "v2", None).status_code == 401


def test_the_mistakes_that_the_doctor_names_are_mistakes_of_this_knox(perimeter):
    """Several lines: no key is known. No HaProvider, no enableLoadBalancing: one URL gets all."""
    assert perimeter.knox.get("lines", "v2").status_code == 500
    (written,) = perimeter.knox.home.glob("data/deployments/lines.topo.*/*/WEB-INF/ha.xml")
    text = written.read_text()
    assert 'enableLoadBalancing="false"' in text
    assert "zookeeper" not in text
    assert looks(perimeter, "plain") == [6, 0]
    assert looks(perimeter, "lazy") == [6, 0]


def test_haproxy_grows_and_shrinks_behind_knox_and_no_request_fails(perimeter):
    """A server added, one removed, under load; Knox's topology never changes."""
    haproxy = perimeter.haproxy
    with (
        FakeTriton(FakeModel("echo", latency_s=0.05, instances=8)) as a,
        FakeTriton(FakeModel("echo", latency_s=0.05, instances=8)) as b,
    ):
        haproxy.add("scaled/a", a.endpoint.http_port)
        with Load(perimeter.knox, "scaled") as load:
            pause = threading.Event()
            pause.wait(1)
            haproxy.add("scaled/b", b.endpoint.http_port)
            until(lambda: b.model("echo").successes > 5, 5, "requests on b")
            haproxy.remove("scaled/a")
            a.crash()
            pause.wait(1)
        haproxy.remove("scaled/b")
        answered = a.model("echo").successes + b.model("echo").successes
    assert load.sent > 80
    assert load.lost == []
    assert answered == load.sent


def test_more_inferences_run_at_once_than_knox_would_allow_by_itself(perimeter):
    """Knox has 32 connections for a service; a fleet executes more than that."""
    knox = perimeter.knox
    url = knox.url("scaled", "triton/v2/models/echo/infer")
    tensor = {"name": "IN", "shape": [1], "datatype": "FP32", "data": [7]}

    def ask(_number: int) -> int:
        return knox.client.post(url, json={"inputs": [tensor]}, auth=ALICE).status_code

    with FakeTriton(FakeModel("echo", instances=64)) as one:
        perimeter.haproxy.add("scaled/one", one.endpoint.http_port)
        # Knox makes its client with the first request, and several when many are the first.
        assert ask(0) == 200
        one.model("echo").latency_s = 6.0  # the first still executes when the last one comes
        with ThreadPoolExecutor(48) as pool:
            asked = [pool.submit(ask, number) for number in range(48)]
            until(lambda: one.executing == 48, 10, "48 at once")
            assert {answer.result(30) for answer in asked} == {200}
        perimeter.haproxy.remove("scaled/one")


# -- with a real Triton

CLIENT = """
import sys, gevent.ssl, numpy
from tritonclient.http import InferenceServerClient, InferInput
url, headers = sys.argv[1], {"Authorization": sys.stdin.read()}
insecure = gevent.ssl._create_unverified_context
with InferenceServerClient(url, ssl=True, insecure=True, ssl_context_factory=insecure) as client:
    for size, binary in ((3, False), (3, True), (250_000, True)):
        sent = numpy.random.default_rng(size).random(size, numpy.float32)
        tensor = InferInput("IN", [size], "FP32")
        tensor.set_data_from_numpy(sent, binary_data=binary)
        got = client.infer("echo", [tensor], headers=headers).as_numpy("OUT")
        assert (got == sent).all(), (size, binary)
print("equal")
"""


@pytest.fixture(scope="module")
def triton(tmp_path_factory, perimeter):
    """One real Triton behind HAProxy, from the moment when it answers through Knox."""
    house = House(tmp_path_factory.mktemp("knox"))
    path = house.spec("echo", replicas={"min": 1, "max": 1, "initial": 1})
    done = house.tarn("up", "-f", path)
    try:
        assert done.returncode == 0, done.stderr
        until(lambda: ids(house.status("echo")), 60, "an instance")
        (instance,) = house.status("echo")["instances"]
        perimeter.haproxy.add("real/one", int(instance["http"].rpartition(":")[2]))
        ready = "v2/models/echo/ready"
        until(lambda: perimeter.knox.get("real", ready).status_code == 200, 30, "echo")
        yield
        perimeter.haproxy.remove("real/one")
    finally:
        clear(house)


@pytest.mark.triton
def test_json_and_binary_tensors_pass_to_a_real_triton(perimeter, triton):
    """A client names Knox as `host:port/gateway/TOPOLOGY/triton`; arrays come back equal."""
    url = f"127.0.0.1:{perimeter.knox.port}/gateway/real/triton"
    # Patched by gevent as tritonclient wants it, which is for a whole process.
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CLIENT, url],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        input=f"Basic {b64encode(':'.join(ALICE).encode()).decode()}",
    )
    assert done.stdout.strip() == "equal", done.stderr[-2000:]


@pytest.mark.triton
def test_a_form_encoded_body_fails_as_the_guide_says(perimeter, triton):
    """Knox reads it as a form, so Triton gets nothing to parse; curl's -d sends one by default."""
    knox = perimeter.knox
    tensor = {"name": "IN", "shape": [1], "datatype": "FP32", "data": [7]}
    body = json.dumps({"inputs": [tensor]})
    url = knox.url("real", "triton/v2/models/echo/infer")
    answers = {
        kind: knox.client.post(url, content=body, headers={"Content-Type": kind}, auth=ALICE)
        for kind in ("application/json", "application/x-www-form-urlencoded")
    }
    codes = [answer.status_code for answer in answers.values()]
    assert codes == [200, 500], [answer.text[:300] for answer in answers.values()]
