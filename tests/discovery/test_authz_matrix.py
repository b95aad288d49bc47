"""Knox' rows of the table of who may what: real Knox, real HAProxy, a real master behind it."""

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import httpx
import pytest
from master_in_thread import at_work, brought
from security.matrix_master import API_TOKEN, PlayedPlugins
from security.truth import table
from servers.guarded_haproxy import TOKEN
from servers.knox import ALICE, BOB

from tarn.domain import Choice
from tarn.domain.spec import TrustedProxy
from tarn.http.issued_tokens import Sessions
from tarn.testing.context import cluster_spec

pytestmark = pytest.mark.discovery
SESSION = Sessions(API_TOKEN.encode(), cluster_spec().name, time.time).begin()
CLAIM = {"X-TARN-User": "alice"}
SENT: Mapping[str, tuple[tuple[str, str] | None, Mapping[str, str]]] = {
    "none": (None, {}),
    "token": (None, {"X-TARN-Token": API_TOKEN}),
    "session": (None, {"X-TARN-Session": SESSION}),
    "wrong token": (None, {"X-TARN-Token": "a-token-that-is-nobody-s"}),
    "SPNEGO": (ALICE, {}),
    "header": (None, CLAIM),
    "forged header": (BOB, CLAIM),
    "cookie": (None, {"Cookie": "proxy-user=alice"}),
}
"""What proves somebody to Knox, and what else is sent. A password stands for a ticket."""


@pytest.fixture(scope="module")
def gateway(perimeter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a master that trusts HAProxy by its token; yield where Knox answers."""
    directory = tmp_path_factory.mktemp("master")
    _files(directory)
    stage = PlayedPlugins()
    with at_work(directory, stage, stage.runtime):
        port = httpx.URL(stage.runtime.api_url).port
        for backend in ("tarn_master", "tarn_master_api"):
            perimeter.manned.command(f"set server {backend}/master addr 127.0.0.1 port {port}")
            perimeter.manned.command(f"set server {backend}/master state ready")
        yield perimeter.knox.url("manned", "triton")


def _files(directory: Path) -> None:
    spec = cluster_spec()
    lb = TrustedProxy("lb1", "127.0.0.1", "token", token="env:LB")
    spec = attrs.evolve(
        spec,
        models=attrs.evolve(spec.models, repository="/models", serve=("echo",)),
        runtime=Choice("stage"),
        authorizer=Choice("alices"),
        api=attrs.evolve(spec.api, port=0, trusted_proxies=(lb,)),
        replicas=attrs.evolve(spec.replicas, min=0),
    )
    brought(directory, spec, API_TOKEN)
    (directory / "proxy_tokens.json").write_text(json.dumps({"lb1": TOKEN}))


QUESTION = "/tarn/authorize?model=echo&action="
ASKED = {
    "read": ("GET", "/tarn/api/v1/status"),
    "list": ("GET", "/tarn/config"),
    "metadata": ("GET", f"{QUESTION}metadata"),
    "authorize self": ("GET", f"{QUESTION}infer"),
    "authorize other": ("GET", f"{QUESTION}infer&user="),
    "admin": ("PUT", "/tarn/api/v1/resume"),
    "model control": ("POST", "/v2/repository/models/echo/unload"),
}
"""Action to method and path: the master's own API below ``/tarn``, Triton's at ``/v2``."""


def _ask(perimeter, gateway: str, action: str, proof: str, whom: str) -> str:
    """Return the answer in the words of the table."""
    user, headers = SENT[proof]
    method, path = ASKED[action]
    url = gateway + path + (whom if path.endswith("user=") else "")
    answer = perimeter.knox.client.request(method, url, headers=headers, auth=user)
    if answer.status_code != 200:
        return f"{answer.status_code}"
    words = {
        "list": "yes" if "echo" in answer.text else "no",
        "metadata": "yes" if answer.text == "true" else "no",
        "authorize self": answer.text,
        "authorize other": answer.text,
    }
    return f"200 {words[action]}" if action in words else "200"


@pytest.mark.parametrize("proof", SENT)
def test_a_row_of_the_table(perimeter, gateway: str, proof: str) -> None:
    """Seven answers, by HAProxy's word for the user; the last is Triton's own API."""
    rows = {
        action: said
        for (door, by, action), said in table().items()
        if (door, by) == ("Knox", proof)
    }
    whom = "bob" if proof == "SPNEGO" else "alice"
    assert {one: _ask(perimeter, gateway, one, proof, whom) for one in rows} == rows


def test_a_model_is_used_through_knox_by_whom_the_master_lets(perimeter, gateway: str) -> None:
    """The same two users at Triton's own API, through the same doors."""
    found = {
        (user[0], model): perimeter.knox.client.post(
            f"{gateway}/v2/models/{model}/infer", json={}, auth=user
        ).status_code
        for user in (ALICE, BOB)
        for model in ("echo", "slow")
    }
    assert found == {
        ("alice", "echo"): 200,
        ("alice", "slow"): 403,
        ("bob", "echo"): 403,
        ("bob", "slow"): 403,
    }
