"""Who a client of a real Knox is to HAProxy: whom Knox authenticated, whatever the client says."""

import http.client
import ssl
from base64 import b64encode

import pytest
from servers.knox import ALICE, BOB

pytestmark = pytest.mark.discovery


@pytest.fixture
def guarded(perimeter):
    """Return the stage, with nothing asked yet."""
    perimeter.master.asked.clear()
    perimeter.triton.seen.clear()
    yield perimeter
    perimeter.master.rights = lambda _asked: True
    perimeter.master.mode = "well"


@pytest.mark.parametrize("topology", ["guarded", "guarded2"])
def test_the_user_is_whom_knox_authenticated(guarded, topology):
    """With one URL or several; neither gate nor query reaches the instance."""
    answer = guarded.knox.get(topology, f"v2/models/{topology}")
    assert answer.status_code == 200, answer.text
    assert guarded.master.asked == [("alice", "metadata", topology)]
    assert guarded.triton.paths == [f"/v2/models/{topology}"]
    assert guarded.triton.last("x-tarn-user") == ["alice"]
    assert guarded.triton.last("x-tarn-gate") == []
    assert guarded.knox.get(topology, "v2/models/x", BOB).status_code == 403
    assert guarded.knox.get(topology, "v2/models/x", None).status_code == 401


def test_a_no_and_an_unknown_pass_through_knox_as_they_are(guarded):
    """403 with the reason; 503 with the time after which to come again."""
    guarded.master.rights = lambda _asked: False
    denied = guarded.knox.get("guarded", "v2/models/denied")
    assert (denied.status_code, denied.json()) == (403, {"error": "forbidden"})
    guarded.master.mode = "fails"
    unknown = guarded.knox.get("guarded", "v2/models/unknown")
    assert (unknown.status_code, unknown.headers["Retry-After"]) == (503, "2")
    assert guarded.triton.seen == []


CLAIMS = {
    "?user.name=root": 200,
    "?x=1&user.name=root&y=2": 200,
    "?user.name=root&user.name=root": 200,
    "?User.Name=root": 200,
    "?USER.NAME=root": 200,
    "?user%2ename=root": 200,
    "?%75ser.name=root": 200,
    "?user%252ename=root": 400,
    "?user.name=": 200,
    "?user.name": 200,
    "?user.name+=root": 400,
    "?user.name%00=root": 400,
    "?doAs=root": 200,
    "?doas=root": 200,
    "?DOAS=root": 200,
    "?doAs%20=root": 200,
    "?a=1;user.name=root": 200,
    "?a=1%26user.name=root": 200,
    "?x=1?user.name=root": 200,
    ";user.name=root": 403,
    "%3Fuser.name=root": 403,
    "?": 200,
    "?&": 200,
    "?user.name=root%26user.name=root": 200,
    "#?user.name=root": 200,
}
"""What a client adds to a path, and what comes of it: Knox takes most claims away."""


@pytest.mark.parametrize("claim", CLAIMS)
def test_whatever_a_client_claims_it_is_alice_or_nobody(guarded, claim):
    """Over a raw connection, so that nothing tidies it up; headers, too."""
    status = raw(guarded.knox.port, f"/gateway/guarded/triton/v2/models/claimed{claim}")
    assert status == CLAIMS[claim]
    assert len(guarded.triton.seen) == (status == 200)
    assert {user for user, _, _ in guarded.master.asked} <= {"alice"}
    for _, path, headers in guarded.triton.seen:
        named = {name.lower(): value for name, value in headers}
        assert (path, named["x-tarn-user"]) == ("/v2/models/claimed", "alice")
        assert "x-tarn-gate" not in named


@pytest.mark.parametrize(
    "path",
    [
        "//v2/models/turned",
        "/v2//models/turned",
        "/v2/models/turned/",
        "/v2/models/other/../turned",
        "/v2/models/other/%2e%2e/turned",
        "/v2/models/./turned",
        "/v2/models/turn%65d",
        "/v2/models/turned%2f..%2fother",
        "/v2/models/other/..%2fturned",
        "/v2/repository/models/turned/load",
        "/V2/models/turned",
    ],
)
def test_what_is_asked_about_is_what_the_instance_is_asked_for(guarded, path):
    """Knox tidies up some paths and passes on others; the question is about the result."""
    raw(guarded.knox.port, f"/gateway/guarded/triton{path}")
    asked = {model for _, _, model in guarded.master.asked}
    served = set(guarded.triton.paths)
    assert served <= {f"/v2/models/{model}" for model in asked | {"turned"}}
    assert served <= {"/v2/models/turned", "/v2/models/other"}


def raw(port: int, target: str) -> int:
    """Ask Knox as alice with headers that she has no right to; return the status."""
    context = ssl._create_unverified_context()
    client = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)
    client.putrequest("GET", target, skip_accept_encoding=True)
    client.putheader("Authorization", f"Basic {b64encode(':'.join(ALICE).encode()).decode()}")
    for name in ("X-TARN-User", "X-Forwarded-User", "X-Tarn-Gate", "X-Tarn-From-Knox"):
        client.putheader(name, "root")
    client.putheader("X-Forwarded-For", "127.0.0.1")
    client.endheaders()
    status = client.getresponse().status
    client.close()
    return status
