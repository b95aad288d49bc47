"""``GET /api/v1/scaling``."""

import httpx
from fake_master import TOKEN, FakeMaster, StillClock, decision, instance, snapshot

from tarn.domain import Known, Limits, Pause, Unknown
from tarn.domain.outlook import Holds, SizeOutlook
from tarn.domain.sizing import Hold, SizeHold
from tarn.follow import MasterApi
from tarn.http.render_details import scaling_json
from tarn.read.snapshot import SignalStatus

NOW_S = StillClock().now_s()
SIZE = SizeOutlook(
    desired=2,
    ready=2,
    policy="target",
    answered=True,
    wanted=1,
    reason="in_flight is 3",
    allowed=1,
    held=(SizeHold(Hold.DOWN_WINDOW, "a wish for 2 in the last 300 s", NOW_S + 180.0),),
    next_size=1,
    next_s=NOW_S + 180.0,
    cooldown_s=60.0,
    up_s=0.0,
    down_s=300.0,
)
SIGNALS = (
    SignalStatus(
        "in_flight", Known(3.0, 0.25), NOW_S - 0.5, "requests", "metrics of 2 instances", read=True
    ),
    SignalStatus("latency", Unknown("nobody asked"), NOW_S, "", "a plugin", read=False),
    SignalStatus("odd", Known(float("nan")), NOW_S + 1.0, "", "a plugin", read=False),
)
PICTURE = snapshot(
    instance(1),
    instance(2),
    limits=Limits(1, 8, 6, "the pool is full"),
    pause=Pause(1.8e9, "load test"),
    holds=Holds(size=SIZE),
    signals=SIGNALS,
    decisions=tuple(decision(n) for n in range(12)),
)


def test_everything_that_makes_a_size_is_in_one_answer() -> None:
    """What is, what is wanted, what holds it, what comes next and when; settings; ages now."""
    body = scaling_json(PICTURE, NOW_S)
    signals, decisions = body.pop("signals"), body.pop("decisions")
    assert body == {
        "name": "llama",
        "at": PICTURE.at,
        "stale": False,
        "sentence": (
            "2 replicas; policy target wants 1: in_flight is 3; it shrinks to 1 in 180 s,"
            " held back by a wish for 2 in the last 300 s."
        ),
        "policy": "target",
        "desired": 2,
        "ready": 2,
        "wanted": 1,
        "allowed": 1,
        "reason": "in_flight is 3",
        "held": [
            {"by": "down_window", "reason": "a wish for 2 in the last 300 s", "left_s": 180.0}
        ],
        "next": {"replicas": 1, "in_s": 180.0, "words": "shrinks to 1 in 180 s"},
        "manual": None,
        "limits": {"min": 1, "max": 8, "ceiling": 6, "ceiling_reason": "the pool is full"},
        "pause": {"until": 1.8e9, "reason": "load test"},
        "cooldown_s": 60.0,
        "windows": {"up_s": 0.0, "down_s": 300.0},
    }
    assert signals == [
        {
            "name": "in_flight",
            "value": 3.0,
            "unit": "requests",
            "age_s": 0.75,
            "source": "metrics of 2 instances",
            "reason": "",
            "read": True,
        },
        {
            "name": "latency",
            "value": None,
            "unit": "",
            "age_s": None,
            "source": "a plugin",
            "reason": "nobody asked",
            "read": False,
        },
        {
            "name": "odd",
            "value": None,
            "unit": "",
            "age_s": 0.0,
            "source": "a plugin",
            "reason": "",
            "read": False,
        },
    ]
    assert isinstance(decisions, list)
    assert [row["desired"] for row in decisions] == list(range(2, 12))


def test_where_nothing_is_to_come_nothing_is_said_to_come() -> None:
    """Null, not a moment that there is not."""
    body = scaling_json(snapshot(instance(1), holds=Holds(size=SizeOutlook(1, 1))), NOW_S)
    assert (body["next"], body["held"]) == (None, [])


def test_a_client_of_the_api_gets_it_and_a_stranger_does_not() -> None:
    """It is a route like any other: closed without the api token."""
    with FakeMaster(PICTURE) as master:
        url = f"http://127.0.0.1:{master.server.port}"
        with MasterApi(url, TOKEN.decode()) as api:
            assert api.scaling()["next"]["replicas"] == 1
        assert httpx.get(f"{url}/api/v1/scaling").status_code == 401
