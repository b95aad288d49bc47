"""63: the Java TARN counted characters where bytes are asked, and never answered whole again."""

import http.client
import json
from urllib.parse import urlsplit

import pytest
from fake_master import TOKEN, FakeMaster, instance, snapshot

from tarn.domain import Issue

NAMES = ("été", "模型")


@pytest.mark.parametrize("path", ["/api/v1/status", "/metrics", "/instances", "/config"])
def test_the_length_is_that_of_the_bytes(path: str) -> None:
    """With names from outside ASCII, as models and people have them."""
    models = tuple((name, "READY", "") for name in NAMES)
    fleet = snapshot(
        instance(1, models=models, node="knoten-ü"),
        issues=tuple(Issue("llama", name) for name in NAMES),
    )
    with FakeMaster(fleet, config={"models": {"serve": NAMES}}) as master:
        connection = http.client.HTTPConnection(urlsplit(master.url).netloc, timeout=5)
        connection.request("GET", path, headers={"X-TARN-Token": TOKEN.decode()})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
    assert answer.status == 200
    assert int(answer.headers["Content-Length"]) == len(body)
    body.decode("utf-8")
    if path == "/api/v1/status":
        shown = json.loads(body)["instances"][0]["models"]
        assert [model["name"] for model in shown] == list(NAMES)
