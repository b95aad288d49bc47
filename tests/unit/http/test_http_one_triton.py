"""The fleet as one Triton: who may ask, what is asked of whom, and what is answered."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import attrs
import httpx
import pytest
from fake_master import TOKEN, FakeAuthorizer, FakeMaster, PolicyAuthorizer
from triton_stub import TritonStub, fleet_of, statistics, stub_answers

from tarn.domain import ControlRequest, InstanceState, Verdict
from tarn.domain.control_calls import CallKind, CallOutcome, ControlCall, WantedCalls
from tarn.http.blocking_pool import DirectAuthorizer
from tarn.plain.credentials import load_balancer_token
from tarn.triton.restricted import Keys

OF_LB = {"X-TARN-Token": load_balancer_token(TOKEN).decode()}
OWNER = {"X-TARN-Token": TOKEN.decode()}


@attrs.define
class Stand:
    master: FakeMaster
    tritons: tuple[TritonStub, ...]
    web: httpx.Client

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.web.get(f"/triton{path}", headers=headers or OWNER)

    def post(self, path: str, body: Any = None, **headers: str) -> httpx.Response:
        return self.web.post(f"/triton{path}", json=body or {}, headers=headers or OWNER)


@pytest.fixture
def tritons() -> Iterator[tuple[TritonStub, ...]]:
    with TritonStub(stub_answers(3)) as one, TritonStub(stub_answers(4)) as two:
        yield one, two


@pytest.fixture
def stand(tritons: tuple[TritonStub, ...]) -> Iterator[Stand]:
    with started(tritons) as one:
        yield one


class started:  # noqa: N801 (a context)
    def __init__(self, tritons: tuple[TritonStub, ...], **more: Any) -> None:
        self._master = FakeMaster(fleet_of(tritons), **more)
        self._tritons = tritons

    def __enter__(self) -> Stand:
        self._master.__enter__()
        self._web = httpx.Client(base_url=self._master.url, trust_env=False, timeout=30)
        return Stand(self._master, self._tritons, self._web)

    def __exit__(self, *exc: object) -> None:
        self._web.close()
        self._master.__exit__(*exc)


def test_statistics_are_summed_over_all(stand: Stand) -> None:
    rows = stand.get("/v2/models/stats").json()["model_stats"]
    assert [row["inference_count"] for row in rows] == [7]
    assert stand.get("/v2/models/echo/stats").json()["model_stats"] == rows
    assert [len(one.asked) for one in stand.tritons] == [2, 2]


def test_one_that_is_gone_is_left_out_and_one_that_hangs_is_not(stand: Stand) -> None:
    """A load balancer sends the requests of one that is gone elsewhere; a sum needs all."""
    one, two = stand.tritons
    two.__exit__()
    assert stand.get("/v2").status_code == 200
    assert stand.get("/v2/models/echo/ready").status_code == 200
    one.go_on.clear()
    hung = stand.get("/v2/models/stats")
    assert hung.status_code == 503
    assert hung.headers["Retry-After"] == "2"
    assert "not every instance told its statistics: llama-0001" in hung.json()["error"]


def test_without_an_instance_it_is_503(stand: Stand) -> None:
    stand.master.publish(instances=())
    for path in ("/v2", "/v2/models/stats", "/v2/models/echo", "/v2/models/echo/ready"):
        answer = stand.get(path)
        assert (answer.status_code, answer.json()) == (503, {"error": "no instance is ready"})


def test_counts_of_an_instance_that_left_stay(stand: Stand) -> None:
    """And only once: also if it answers while it leaves."""
    assert count(stand) == 7
    now = stand.master.board.current
    one, two = now.instances
    stand.tritons[1].answers = stub_answers(9)
    draining = attrs.evolve(two, state=InstanceState.DRAINING)
    stand.master.publish(instances=(one, draining))
    seen(stand.tritons[1], 3)
    stand.tritons[1].answers = {}  # its models are unloaded before it ends
    assert count(stand) == 12
    stand.master.publish(instances=(one,))
    assert count(stand) == 12
    stand.tritons[0].answers = stub_answers(5)
    assert count(stand) == 14
    stand.tritons[0].answers["/v2/models/echo/stats"] = (400, {"error": "not available"})
    assert stand.get("/v2/models/echo/stats").json() == {"error": "not available"}
    stand.tritons[0].answers = stub_answers(1)
    assert count(stand) == 1


def seen(triton: TritonStub, times: int) -> None:
    pause, end = threading.Event(), 500
    while len(triton.asked) < times and end:
        pause.wait(0.02)
        end -= 1
    assert end


def count(stand: Stand) -> int:
    (row,) = stand.get("/v2/models/stats").json()["model_stats"]
    return int(row["inference_count"])


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/models/echo/infer", 404),
        ("GET", "/v2/repository/index", 405),
        ("POST", "/v2", 405),
        ("HEAD", "/v2", 405),
        ("PUT", "/v2/logging", 405),
    ],
)
def test_other_paths_and_methods_are_refused(
    stand: Stand, method: str, path: str, status: int
) -> None:
    answer = stand.web.request(method, f"/triton{path}", headers=OWNER)
    assert answer.status_code == status
    if method != "HEAD":
        assert isinstance(answer.json()["error"], str)
    assert [one.asked for one in stand.tritons] == [[], []]


def test_refusals_are_in_tritons_form(stand: Stand) -> None:
    """Its clients show the text of ``error``."""
    for headers in ({"X": "y"}, {"X-TARN-Token": "wrong"}, {"Authorization": "Bearer wrong"}):
        answer = stand.get("/v2", **headers)
        assert answer.status_code == 401
        assert "api token is missing or wrong" in answer.json()["error"]


# -- who may ask


def test_the_token_of_load_balancers_opens_this_and_nothing_else(stand: Stand) -> None:
    assert stand.get("/v2", **OF_LB).status_code == 200
    assert stand.get("/v2/models/stats", **OF_LB).status_code == 200
    for path in ("/api/v1/status", "/instances", "/metrics", "/api/v1/load-balancer"):
        assert stand.web.get(path, headers=OF_LB).status_code == 401
    assert stand.web.put("/api/v1/load", json={"model": "m"}, headers=OF_LB).status_code == 401


def test_it_is_told_to_those_who_may_follow(stand: Stand) -> None:
    said = stand.web.get("/api/v1/load-balancer", headers=OWNER).json()
    assert said == {
        "token": OF_LB["X-TARN-Token"],
        "grpc_port": 0,
        "grpc_lack": "it was not asked for",
    }
    path = "/api/v1/load-balancer?grpc=true"
    said = stand.web.get(path, headers=OWNER).json()
    assert (said["grpc_port"], said["grpc_lack"]) == (0, "it has no service for gRPC")


RESTRICTED = Keys((("model-repository", "tarn-key", "k"), ("logging", "tarn-key", "k")))


def test_who_proves_nothing_may_do_what_an_instance_lets_everybody_do(
    tritons: tuple[TritonStub, ...],
) -> None:
    with started(tritons, keys_of=lambda _id: RESTRICTED) as stand:
        for ask, path in (
            (stand.post, "/v2/repository/index"),
            (stand.get, "/v2/logging"),
            (stand.post, "/v2/repository/models/echo/load"),
        ):
            answer = ask(path, **OF_LB)
            assert answer.status_code == 403
            assert "Authorization: Bearer" in answer.json()["error"]
        assert [one.asked for one in tritons] == [[], []]
        assert stand.master.commands == []
        assert stand.get("/v2/trace/setting", **OF_LB).status_code == 200
        assert stand.post("/v2/repository/index").status_code == 200
        assert tritons[0].asked[-1] == ("POST", "/v2/repository/index", "k")


def test_code_needs_a_proof_although_the_repository_is_open(stand: Stand) -> None:
    code = {"parameters": {"file:1/model.py": "aW1wb3J0IG9z"}}
    answer = stand.post("/v2/repository/models/echo/load", code, **OF_LB)
    assert answer.status_code == 403
    assert "as the cluster's owner" in answer.json()["error"]
    assert stand.master.commands == []


def test_rights_to_models_count_for_readers(tritons: tuple[TritonStub, ...]) -> None:
    """Nobody is named, so the authorizer is asked about anonymous."""
    policy = PolicyAuthorizer()
    policy.rights = {("anonymous", "list", "echo"), ("anonymous", "metadata", "echo")}
    for one in tritons:
        both = [*statistics(3)["model_stats"], *statistics(2, "secret")["model_stats"]]
        one.answers["/v2/models/stats"] = (200, {"model_stats": both})
        one.answers["/v2/models/secret"] = (200, {"name": "secret"})
    with started(tritons, gate=DirectAuthorizer(policy)) as stand:
        known = (("echo", "READY", ""), ("secret", "READY", ""))
        rows = [attrs.evolve(i, models=known) for i in stand.master.board.current.instances]
        stand.master.publish(instances=tuple(rows))
        assert stand.get("/v2/models/echo", **OF_LB).status_code == 200
        assert stand.get("/v2/models/secret", **OF_LB).status_code == 403
        shown = stand.get("/v2/models/stats", **OF_LB).json()["model_stats"]
        assert [row["name"] for row in shown] == ["echo"]
        assert len(stand.get("/v2/models/stats").json()["model_stats"]) == 2


def test_changes_need_the_right_of_control_calls(tritons: tuple[TritonStub, ...]) -> None:
    no = DirectAuthorizer(FakeAuthorizer(Verdict(allowed=False, reason="no")))
    with started(tritons, gate=no, api_token=None) as stand:
        for path in ("/v2/repository/models/echo/load", "/v2/repository/models/echo/unload"):
            assert stand.post(path, X="y").status_code == 403
        assert stand.post("/v2/logging", {"log_info": False}, X="y").status_code == 403
        assert stand.get("/v2/logging", X="y").status_code == 403
        assert stand.master.commands == []


def test_a_page_of_another_site_changes_nothing(stand: Stand) -> None:
    headers = {**OWNER, "Origin": "http://evil.example"}
    answer = stand.post("/v2/logging", {"log_info": False}, **headers)
    assert answer.status_code == 403
    assert stand.master.commands == []


# -- changes


def test_loads_and_settings_become_control_calls(stand: Stand) -> None:
    master = stand.master
    master.publish(control=done(1, CallKind.LOAD))
    loaded = stand.post("/v2/repository/models/echo/load")
    assert (loaded.status_code, loaded.json()) == (200, {"instances": ["llama-0001", "llama-0002"]})
    no = {"parameters": {"unload_dependents": False}}
    assert stand.post("/v2/repository/models/echo/unload", no).status_code == 200
    assert stand.post("/v2/logging", {"log_verbose_level": 1}).json() == {"log_info": True}
    assert stand.post("/v2/trace/setting", {"trace_rate": None}).json() == {"trace_rate": "1"}
    assert stand.post("/v2/trace/setting").json() == {"trace_rate": "1"}
    asked = [(c.kind, c.model, c.body) for c in master.commands if isinstance(c, ControlRequest)]
    assert asked == [
        ("load", "echo", "{}"),
        ("unload", "echo", "{}"),
        ("log", "", '{"log_verbose_level": 1}'),
        ("trace", "", '{"trace_rate": null}'),
    ]
    assert {one[0] for triton in stand.tritons for one in triton.asked} == {"GET"}


def done(number: int, kind: CallKind, *refused: tuple[str, str]) -> WantedCalls:
    over = (CallOutcome(ControlCall(number, kind, "echo"), refused),)
    return WantedCalls(number, over=over)


def test_a_failure_names_the_instance_and_tritons_reason(stand: Stand) -> None:
    stand.master.publish(control=done(1, CallKind.LOAD, ("llama-0002", "400 no weights")))
    answer = stand.post("/v2/repository/models/echo/load")
    assert answer.status_code == 400
    assert "llama-0002: 400 no weights" in answer.json()["error"]


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"parameters": 3}'])
def test_a_body_that_is_not_valid_is_refused(stand: Stand, body: bytes) -> None:
    path = "/triton/v2/repository/models/echo/load"
    answer = stand.web.post(path, content=body, headers=OWNER)
    assert answer.status_code == 400
    assert isinstance(answer.json()["error"], str)
    assert stand.master.commands == []
    large = stand.web.post(path, content=b" " * (1 << 19), headers=OWNER)
    assert large.status_code == 413


# -- shared memory

REGION = "/v2/systemsharedmemory/region/frames"
FRAMES = {"key": "/frames", "offset": 0, "byte_size": 64}


def registers(triton: TritonStub, status: int = 200) -> None:
    said = None if status == 200 else {"error": "Unable to open shared memory region"}
    triton.answers[f"{REGION}/register"] = (status, said)
    triton.answers[f"{REGION}/unregister"] = (200, None)


def asked(triton: TritonStub) -> list[str]:
    return [path.removeprefix(REGION) for _, path, _ in triton.asked]


def test_a_region_is_registered_with_every_instance_also_with_one_that_comes(
    stand: Stand, tritons: tuple[TritonStub, ...]
) -> None:
    for one in tritons:
        registers(one)
    now = stand.master.board.current
    with TritonStub(stub_answers()) as third, TritonStub(stub_answers()) as fourth:
        registers(third)
        answer = stand.post(f"{REGION}/register", FRAMES)
        assert (answer.status_code, answer.content) == (200, b"")
        assert [asked(one) for one in tritons] == [["/register"], ["/register"]]
        more = fleet_of((*tritons, third))
        stand.master.publish(instances=more.instances)
        seen(third, 1)
        assert asked(third) == ["/register"]
        assert [asked(one) for one in tritons] == [["/register"], ["/register"]]
        stand.master.publish(instances=now.instances)
        assert stand.post(f"{REGION}/unregister").status_code == 200
        assert [asked(one)[1:] for one in tritons] == [["/unregister"], ["/unregister"]]
        stand.master.publish(instances=fleet_of((*tritons, fourth)).instances)
        assert stand.get("/v2").status_code == 200
        assert [path for _, path, _ in fourth.asked] == ["/v2"]  # nothing is left to register


def test_a_region_is_registered_with_every_instance_or_with_none(
    stand: Stand, tritons: tuple[TritonStub, ...]
) -> None:
    """As an instance on another machine refuses memory of this one."""
    registers(tritons[0])
    registers(tritons[1], 400)
    answer = stand.post(f"{REGION}/register", FRAMES)
    assert answer.status_code == 400
    assert answer.json() == {"error": "Unable to open shared memory region"}
    assert [asked(one) for one in tritons] == [["/register", "/unregister"], ["/register"]]


def test_an_instance_that_comes_gets_what_was_registered_last(
    stand: Stand, tritons: tuple[TritonStub, ...]
) -> None:
    """A client that is back registers other memory by the same name, where no instance knows it."""
    for one in tritons:
        registers(one)
    for key in ("/frames", "/more_frames"):
        assert stand.post(f"{REGION}/register", {**FRAMES, "key": key}).status_code == 200
    with TritonStub(stub_answers()) as third:
        registers(third)
        stand.master.publish(instances=fleet_of((*tritons, third)).instances)
        seen(third, 1)
        assert [json.loads(body)["key"] for body in third.bodies] == ["/more_frames"]


def test_regions_are_told_if_every_instance_has_them(
    stand: Stand, tritons: tuple[TritonStub, ...]
) -> None:
    frames = {"name": "frames", **FRAMES}
    path = "/v2/systemsharedmemory/status"
    for one, rows in zip(tritons, ([frames, {"name": "other"}], [frames]), strict=True):
        one.answers[path] = (200, rows)
    assert stand.get(path).json() == [frames]


def test_shared_memory_needs_the_right_of_control_calls_where_it_is_restricted(
    tritons: tuple[TritonStub, ...],
) -> None:
    keys = Keys((("shared-memory", "tarn-key", "k"),))
    with started(tritons, keys_of=lambda _id: keys) as stand:
        refused = stand.post(f"{REGION}/register", FRAMES, **OF_LB)
        assert refused.status_code == 403
        assert [one.asked for one in tritons] == [[], []]
