"""15: the Java TARN listened before its authorizer was there, and took none for a yes."""

import http.client

import httpx
from fake_master import FakeAuthorizer, FakeMaster

from tarn.domain import Readiness
from tarn.http.admission import ACTIONS, OPEN, SELF
from tarn.http.blocking_pool import DirectAuthorizer


def test_a_request_at_the_very_start_is_never_let_in() -> None:
    """Sent before anything serves, answered while the authorizer is not ready yet: no 200."""
    authorizer = FakeAuthorizer()
    early = Readiness(ready=False, reason="the engine starts")
    master = FakeMaster(api_token=None, gate=DirectAuthorizer(authorizer), readiness=early)
    connections = []
    for path in ("/health", "/instances"):
        connection = http.client.HTTPConnection("127.0.0.1", master.server.port, timeout=10)
        connection.request("GET", path)
        connections.append(connection)
    with master:
        statuses = [connection.getresponse().status for connection in connections]
        with httpx.Client(base_url=master.url, trust_env=False) as web:
            later = {
                path: web.request(need.methods[0], path.format(name="lb1")).status_code
                for path, need in ACTIONS.items()
                if need.action not in {OPEN, SELF}
            }
            asked = web.get("/authorize", params={"model": "ocr", "action": "infer"})
    for connection in connections:
        connection.close()
    assert statuses == [503, 403]
    assert set(later.values()) == {403}
    assert asked.status_code == 503
    assert "true" not in asked.text
    assert authorizer.asked == []
