"""A real Prometheus looks at real fleets for a minute, while things happen to them."""

import contextlib
import math
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
import yaml
from certificates import Authority
from grafana import dashboard, queries, substituted
from house import House, clear, ids, kill, until
from servers.lb_agent import fake_tritons
from servers.prometheus import PrometheusServer

from tarn.cluster.monitoring import DASHBOARDS, shipped
from tarn.domain import Applied, Epoch
from tarn.errors import NotAuthorizedError, TarnError
from tarn.follow import MasterApi, Trust

pytestmark = pytest.mark.triton

SCRAPES_S = 6.0
"""After each step: enough scrapes for a rate, and for who asks what was before it."""
REAL, GPUS = "real", "gpus"
LOOKS_ONLY = "a-token-that-may-only-look"
INTERVAL = "1s"
FOR = "2s"
OF_REAL = f'{{cluster="{REAL}"}}'
GRAFANAS = {"__rate_interval": "15s", "__interval": "5s", "__range": "60s", "datasource": "x"}
"""What Grafana itself puts in."""
LABEL_VALUES = re.compile(r"label_values\((.+), (\w+)\)")
"""In place of minutes: how long an alert waits is tried with promtool, on made-up series."""


@attrs.define
class Stage:
    """Two fleets, and the Prometheus that looks at them."""

    house: House
    prometheus: PrometheusServer
    began: float
    """Unix seconds of the first scrape."""
    killed: str = ""
    """The container id of the instance that was killed."""
    stale_after_s: float = math.inf
    """From its death until its series were gone."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Everything happens here, once; the tests ask what Prometheus kept of it."""
    root = tmp_path_factory.mktemp("watched")
    house = House(root)
    with contextlib.ExitStack() as followers, contextlib.ExitStack() as stack:
        stack.callback(clear, house)  # the drains of which wait for a follower
        _up(house, house.spec(REAL))
        _up(house, _spec_with_gpus(house, root))
        one = stack.enter_context(PrometheusServer(root / "prometheus", _config(house, root)))
        stage = Stage(house, one, time.time())
        stack.enter_context(_load(house, REAL))
        followers.enter_context(_follower(house, REAL))
        _story(stage)
        yield stage


def _up(house: House, spec: str) -> None:
    done = house.tarn("up", "-f", spec, "--timeout", "60s")
    assert done.returncode == 0, done.stderr


def _spec_with_gpus(house: House, root: Path) -> str:
    """Return the spec of a fleet with GPUs, which this machine need not have.

    Its master speaks HTTPS, and Prometheus is a trusted proxy there, with a token of its own: it
    may look, and nothing else.
    """
    program = Path(__file__).with_name("gpu_triton.py")
    (root / "fakes").mkdir()
    (root / "prometheus.token").write_text(LOOKS_ONLY)
    authority = Authority(root / "tls")
    issued = authority.issue("master")
    tls = {"cert": str(issued.cert), "key": str(issued.key), "ca": str(authority.ca)}
    looks = {
        "name": "prometheus",
        "address": "127.0.0.1",
        "authenticated_by": "token",
        "token": "file:prometheus.token",
    }
    return house.spec(
        GPUS,
        replicas={"min": 1, "max": 1, "initial": 1},
        api={"trusted_proxies": [looks], "tls": tls},
        **fake_tritons(root / "fakes", "-IS", str(program)),
    )


def _config(house: House, root: Path) -> dict[str, Any]:
    """Return Prometheus' configuration: the seeds' way to one fleet, ours to the other."""
    rules = root / "prometheus" / "rules.yaml"
    rules.parent.mkdir()
    rules.write_text(yaml.safe_dump(_hurried(yaml.safe_load(shipped("tarn-alerts.yaml")))))
    token = root / "prometheus.token"
    jobs = [*_jobs(house, REAL), *_jobs(house, GPUS, "--credentials-file", str(token))]
    _as_the_seeds_say(jobs[0])
    return {
        "global": {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL},
        "rule_files": [str(rules)],
        "scrape_configs": jobs,
    }


def _jobs(house: House, name: str, *options: str) -> list[dict[str, Any]]:
    done = house.tarn("metrics", "scrape-config", "-c", name, *options)
    assert done.returncode == 0, done.stderr
    jobs: list[dict[str, Any]] = yaml.safe_load(done.stdout)["scrape_configs"]
    for job in jobs:
        job["scrape_interval"] = job["scrape_timeout"] = INTERVAL
        for found in job.get("http_sd_configs", ()):
            found["refresh_interval"] = INTERVAL
    return jobs


def _as_the_seeds_say(job: dict[str, Any]) -> None:
    """Let the job ask for ``/metrics?token=``."""
    token = Path(job.pop("authorization")["credentials_file"]).read_text().strip()
    job["params"] = {"token": [token]}


def _hurried(rules: dict[str, Any]) -> dict[str, Any]:
    for group in rules["groups"]:
        for rule in group["rules"]:
            if "for" in rule:
                # a start takes no longer than that
                rule["for"] = "0s" if rule.get("alert") == "TarnBelowTarget" else FOR
    return rules


@contextlib.contextmanager
def _load(house: House, name: str) -> Iterator[None]:
    """Send about ten requests a second, one of eight of them wrong, to whoever is ready."""
    url = house.ref(name)["url"]
    token = (house.directory(name) / "api_token").read_text().strip()
    over = threading.Event()

    def send() -> None:
        with httpx.Client(trust_env=False, timeout=5) as client:
            for number in range(1_000_000):
                if over.wait(0.1):
                    return
                with contextlib.suppress(httpx.HTTPError):  # who was killed answers nobody
                    text = client.get(f"{url}/instances", headers={"X-TARN-Token": token}).text
                    places = text.split()
                    if places:
                        _infer(client, places[number % len(places)], wrong=number % 8 == 0)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    try:
        yield
    finally:
        over.set()
        sender.join(10)


@contextlib.contextmanager
def _follower(house: House, name: str) -> Iterator[None]:
    """Follow the fleet as a load balancer does, with a session to each instance."""
    token = (house.directory(name) / "api_token").read_text().strip()
    over = threading.Event()

    def follow() -> None:
        with MasterApi(house.ref(name)["url"], token, timeout_s=1.0) as api:
            while not over.wait(0.5):
                with contextlib.suppress(TarnError):  # the master is held still for a while
                    _acknowledge(api)

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    try:
        yield
    finally:
        over.set()
        follower.join(10)


def _acknowledge(api: MasterApi) -> None:
    """Say that the newest view is applied, and that a session is open to each ready instance."""
    status = api.status()
    sessions = tuple((one["id"], 1) for one in status["instances"] if one["state"] == "ready")
    epoch, revision = Epoch.parse(status["epoch"]), status["view_revision"]
    api.acknowledge(Applied("lb1", epoch, revision, time.time(), "", sessions))


def _infer(client: httpx.Client, place: str, *, wrong: bool) -> None:
    tensor = {"name": "IN", "shape": [1], "datatype": "FP32", "data": [1.0]}
    parameters = {"delay": "not a number" if wrong else 0.02}
    client.post(
        f"http://{place}/v2/models/echo/infer", json={"parameters": parameters, "inputs": [tensor]}
    )


def _story(stage: Stage) -> None:
    """Scale up, kill an instance, drain by scaling down, hold the master still for a while."""
    house, one = stage.house, stage.prometheus
    until(lambda: one.up("tarn") == {"up"}, 20, "both masters scraped")
    until(lambda: one.up("tarn-triton") == {"up"}, 20, "every Triton scraped")
    _scraped()
    assert house.tarn("scale", "3", "-c", REAL).returncode == 0
    _settled(house, 3)
    _scraped()
    held = {series["metric"]["container_id"] for series in one.now(f"tarn_container_load{OF_REAL}")}
    stage.killed = min(held)
    kill(int(stage.killed))  # what runs here as a container is a process
    killed_at = time.time()
    until(lambda: stage.killed not in _containers(one), 10, "the series of who was killed")
    stage.stale_after_s = time.time() - killed_at
    _settled(house, 3)
    _scraped()
    assert house.tarn("scale", "2", "-c", REAL).returncode == 0
    _settled(house, 2)
    _scraped()
    master = int(house.ref(REAL)["pid"])
    kill(master, signal.SIGSTOP)
    try:
        until(lambda: "firing" in one.states("TarnMasterDown"), 20, "TarnMasterDown")
    finally:
        kill(master, signal.SIGCONT)
    calm = ("TarnMasterDown", "TarnBelowTarget")
    until(lambda: not any(map(one.states, calm)), 30, "the end of every alert")
    until(lambda: one.up("tarn") == one.up("tarn-triton") == {"up"}, 20, "everybody scraped again")
    _scraped()


def _scraped() -> None:
    """Let Prometheus look a few times more."""
    threading.Event().wait(SCRAPES_S)


def _settled(house: House, count: int) -> None:
    def calm() -> bool:
        status = house.status(REAL)
        return len(status["instances"]) == count == len(ids(status))

    until(calm, 60, f"{count} ready and nothing else", pause_s=0.5)


def _containers(one: PrometheusServer) -> set[str]:
    """Return the containers of the real fleet that have a series now."""
    return {series["metric"]["container_id"] for series in one.now(f"tarn_container_load{OF_REAL}")}


def test_both_ways_to_a_master_are_scraped(stage: Stage) -> None:
    """By `?token=`, as the seeds say; by HTTPS and a token in a file. Tritons by discovery."""
    assert stage.prometheus.up("tarn") == {"up"}
    assert stage.prometheus.up("tarn-triton") == {"up"}
    found = stage.prometheus.now("count by (cluster, job) (up)")
    assert {(one["metric"]["cluster"], one["metric"]["job"]) for one in found} == {
        (cluster, job) for cluster in (REAL, GPUS) for job in ("tarn", "tarn-triton")
    }


def test_nothing_was_refused(stage: Stage) -> None:
    """No sample stood twice in a text or came out of order; every rule and its words were made."""
    own = stage.prometheus.own()
    assert own["prometheus_tsdb_head_samples_appended_total"] > 1000
    for trouble in (
        "prometheus_target_scrapes_sample_duplicate_timestamp_total",
        "prometheus_target_scrapes_sample_out_of_order_total",
        "prometheus_target_scrapes_sample_out_of_bounds_total",
        "prometheus_rule_evaluation_failures_total",
        "prometheus_template_text_expansion_failures_total",
    ):
        assert own[trouble] == 0, trouble


def test_who_scrapes_need_not_be_able_to_do_more(stage: Stage) -> None:
    """A token of its own lets Prometheus look, and change nothing."""
    ca = Trust(stage.house.root / "tls" / "authority.pem")
    with MasterApi(stage.house.ref(GPUS)["url"], LOOKS_ONLY, trust=ca) as api:
        assert "tarn_target_containers" in api.text("/metrics")
        with pytest.raises(NotAuthorizedError):
            api.scale(1)


def test_what_happened_is_what_was_kept(stage: Stage) -> None:
    """The scale-up and the scale-down; and no second without a number, but for the pause."""
    (series,) = stage.prometheus.over(f"tarn_target_containers{OF_REAL}", stage.began)
    sizes = [float(value) for _, value in series["values"]]
    changes = [size for size, before in zip(sizes, [None, *sizes], strict=False) if size != before]
    assert changes == [2.0, 3.0, 2.0]


def test_the_first_of_its_kind_is_counted(stage: Stage) -> None:
    """A counter that began at 1 would hide it from `increase`: the scale-up, and the kill."""
    one = stage.prometheus
    grown = f'increase(tarn_decisions_total{{cluster="{REAL}", by="scale", direction="up"}}[5m])'
    assert (one.value(grown) or 0.0) > 0.5
    failed = f'increase(tarn_events_total{{cluster="{REAL}", code="TARN-1105"}}[5m])'
    assert (one.value(failed) or 0.0) > 0.5


def test_a_dead_instance_leaves_no_series(stage: Stage) -> None:
    """Within seconds, and not after the five minutes that Prometheus keeps what it has seen."""
    assert stage.stale_after_s < 5
    last = f'tarn_container_load{{container_id="{stage.killed}"}}'
    assert stage.prometheus.now(last) == []
    assert stage.prometheus.now(f"max_over_time({last}[5m])") != []
    tritons = f'up{{job="tarn-triton", container_id="{stage.killed}"}}'
    assert stage.prometheus.now(tritons) == []
    assert stage.prometheus.now(f"max_over_time({tritons}[5m])") != []


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_query_of_a_dashboard_has_data(stage: Stage, name: str) -> None:
    """Each line of each panel, as Grafana asks for it; GPUs are asked of the fleet with some."""
    empty = []
    for query in queries(dashboard(name)):
        cluster = GPUS if "tarn_gpu_" in query.expr else REAL
        chosen = ".*" if name == "farm.json" else cluster
        expr = substituted(query.expr, {**GRAFANAS, "cluster": chosen})
        one = stage.prometheus
        found = one.now(expr) if query.instant else one.over(expr, stage.began)
        pairs = [pair for s in found for pair in (s.get("values") or [s["value"]])]
        if not any(math.isfinite(float(value)) for _, value in pairs):
            empty.append(f"{query.where}: {expr}")
    assert empty == []


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_variable_has_values(stage: Stage, name: str) -> None:
    """Else nothing of the dashboard would be shown."""
    for variable in dashboard(name)["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = LABEL_VALUES.fullmatch(variable["definition"]).groups()
            values = stage.prometheus.ask(f"label/{label}/values", **{"match[]": metric})
            assert {REAL, GPUS} <= set(values)


def test_alerts_fire_and_resolve(stage: Stage) -> None:
    """By what happened, and by nothing else; all is well again at the end."""
    fired = {
        (series["metric"]["cluster"], series["metric"]["alertname"])
        for series in stage.prometheus.over('ALERTS{alertstate="firing"}', stage.began)
    }
    assert {(REAL, "TarnMasterDown"), (REAL, "TarnBelowTarget")} <= fired
    assert not {alert for cluster, alert in fired if cluster == GPUS}
    for alert in ("TarnMasterDown", "TarnBelowTarget"):
        assert stage.prometheus.states(alert) == set()
