"""The alert rules over made-up hours, by Prometheus' own tool: when each fires, and when not."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from tarn.cluster.monitoring import RULES, shipped

ALERTS = {
    rule["alert"]: rule
    for name in RULES
    for group in yaml.safe_load(shipped(name))["groups"]
    for rule in group["rules"]
}
AT = 'cluster="ocr", instance="host:1", job="tarn"'
EACH = "1m"
"""Between two values of a series."""


@attrs.frozen
class Hours:
    """What a fleet's series were, and when the alert must be pending, fire, and be over.

    Values are as promtool writes them: ``1x9`` is ten times 1; ``0+2x9`` rises by 2; ``_`` is none.
    """

    alert: str
    series: Mapping[str, str]
    fires: str
    """A moment at which it fires."""
    quiet: tuple[str, ...]
    """Moments at which it does not: too early, or when all is well again."""
    labels: Mapping[str, str] = {"cluster": "ocr", "instance": "host:1", "job": "tarn"}


OF_CLUSTER = {"cluster": "ocr"}
OF_MODEL = {"cluster": "ocr", "model": "yolo"}
FOLLOWER = {"cluster": "ocr", "follower": "lb1", "instance": "host:1", "job": "tarn"}
ON_GPU = 'cluster="ocr", container_id="c1", gpu="GPU-1", host="n1"'
GPU = {"cluster": "ocr", "gpu": "GPU-1", "host": "n1", "container_id": "c1"}
STORY = (
    Hours("TarnMasterDown", {f"up{{{AT}}}": "1x2 0x4 1x5"}, "5m", ("2m", "3m", "8m")),
    Hours("TarnMasterFenced", {f"tarn_master_fenced{{{AT}}}": "0 1x5 0x5"}, "3m", ("1m", "8m")),
    Hours(
        "TarnMasterRestarts",
        {f"tarn_master_start_time_seconds{{{AT}}}": "10x4 20x4 30x4 40x60"},
        "16m",
        ("11m", "50m"),
        OF_CLUSTER,
    ),
    Hours(
        "TarnMasterRestarts",
        {  # each master listened elsewhere
            'tarn_master_start_time_seconds{cluster="ocr", instance="h:1"}': "10x3 stale",
            'tarn_master_start_time_seconds{cluster="ocr", instance="h:2"}': "_x4 20x3 stale",
            'tarn_master_start_time_seconds{cluster="ocr", instance="h:3"}': "_x8 30x3 stale",
            'tarn_master_start_time_seconds{cluster="ocr", instance="h:4"}': "_x12 40x60",
        },
        "16m",
        ("11m", "50m"),
        OF_CLUSTER,
    ),
    Hours(
        "TarnMasterSlow",
        {
            f'tarn_tick_duration_seconds_bucket{{{AT}, le="1.0"}}': "0x60",
            f'tarn_tick_duration_seconds_bucket{{{AT}, le="2.5"}}': "0+60x30 1800x30",
            f'tarn_tick_duration_seconds_bucket{{{AT}, le="+Inf"}}': "0+60x30 1800x30",
        },
        "20m",
        ("5m", "55m"),
        OF_CLUSTER,
    ),
    Hours("TarnFault", {f"tarn_faults{{{AT}}}": "0x2 2x9 0x5"}, "9m", ("5m", "14m")),
    Hours(
        "TarnNothingReady",
        {
            f"tarn_ready_instances{{{AT}}}": "2x2 0x9 1x5",
            f"tarn_target_containers{{{AT}}}": "2x20",
        },
        "7m",
        ("2m", "4m", "14m"),
    ),
    Hours(
        "TarnLaunchingHalted", {f"tarn_launching_halted{{{AT}}}": "0x2 1x3 0x5"}, "4m", ("1m", "8m")
    ),
    Hours(
        "TarnBelowTarget",
        {
            f"tarn_ready_instances{{{AT}}}": "2x30 3x9",
            f"tarn_target_containers{{{AT}}}": "2x5 3x40",
        },
        "25m",
        ("5m", "20m", "35m"),
    ),
    Hours(
        "TarnReplacementsFrozen",
        {f"tarn_replacements_frozen{{{AT}}}": "0x2 1x4 0x5"},
        "5m",
        ("3m", "9m"),
    ),
    Hours(
        "TarnInstancesFail",
        {
            f'tarn_instance_failures_total{{{AT}, reason="exit"}}': "0x2 1 2 3 3x40",
            f'tarn_instance_failures_total{{{AT}, reason="start"}}': "0x4 1 2 2x40",
        },
        "10m",
        ("3m", "40m"),
        OF_CLUSTER,
    ),
    Hours(
        "TarnInstanceUnwell",
        {
            f'tarn_unwell_instances{{{AT}, symptom="failing"}}': "0x2 1x9 0x9",
            f'tarn_unwell_instances{{{AT}, symptom="stalled"}}': "0x2 1x2 0x20",  # replaced soon
            f'tarn_unwell_instances{{{AT}, symptom="slow"}}': "0x30",
        },
        "9m",
        ("2m", "6m", "14m"),
        {"cluster": "ocr", "symptom": "failing"},
    ),
    Hours(
        "TarnRequestsLostInDrains",
        {
            f'tarn_drained_requests_total{{{AT}, result="finished"}}': "0+9x60",
            f'tarn_drained_requests_total{{{AT}, result="cut"}}': "0x4 1x60",
            f'tarn_drained_requests_total{{{AT}, result="lost"}}': "0x60",
        },
        "8m",
        ("3m", "40m"),
        OF_CLUSTER,
    ),
    Hours(
        "TarnModelUnavailable",
        {
            f'tarn_model_instances{{{AT}, model="yolo", state="UNAVAILABLE"}}': "0x4 2x20 0x5",
            f'tarn_model_instances{{{AT}, model="yolo", state="READY"}}': "2x4 0x20 2x5",
            f'tarn_model_instances{{{AT}, model="other", state="UNAVAILABLE"}}': "0x30",
        },
        "20m",
        ("8m", "29m"),
        OF_MODEL,
    ),
    Hours(
        "TarnFollowerLost",
        {
            f'tarn_follower_lost{{{AT}, follower="lb1", required="true"}}': "0x2 1x5 0x5",
            f'tarn_follower_lost{{{AT}, follower="lb2", required="false"}}': "1x20",
        },
        "5m",
        ("3m", "10m"),
        {**FOLLOWER, "required": "true"},
    ),
    Hours(
        "TarnFollowerBehind",
        {f'tarn_follower_lag_seconds{{{AT}, follower="lb1", required="false"}}': "0x2 0+60x5 0x5"},
        "8m",
        ("4m", "10m"),
        {**FOLLOWER, "required": "false"},
    ),
    Hours(
        "TarnRequestsFail",
        {
            f'tarn_inference_requests_total{{{AT}, model="yolo", status="success"}}': "0+90x60",
            f'tarn_inference_requests_total{{{AT}, model="yolo", status="error"}}': (
                "0+10x20 200x40"
            ),
            f'tarn_inference_requests_total{{{AT}, model="idle", status="success"}}': "7x60",
            f'tarn_inference_requests_total{{{AT}, model="idle", status="error"}}': "7x60",
        },
        "15m",
        ("3m", "40m"),
        OF_MODEL,
    ),
    Hours(
        "TarnFull",
        {
            f'tarn_container_load{{{AT}, container_id="c1", host="n1"}}': "0.5x2 1x20 1x20",
            f'tarn_container_load{{{AT}, container_id="c2", host="n2"}}': "0.5x2 0.95x20 1x20",
            f"tarn_target_containers{{{AT}}}": "2x60",
            f"tarn_max_instances{{{AT}}}": "2x25 4x40",
        },
        "20m",
        ("8m", "30m"),
        OF_CLUSTER,
    ),
    Hours(
        "TarnGpuMemoryFull",
        {
            f"tarn_gpu_memory_used_bytes{{{ON_GPU}}}": "70e9x2 79e9x20 70e9x9",
            f"tarn_gpu_memory_total_bytes{{{ON_GPU}}}": "80e9x60",
        },
        "20m",
        ("8m", "30m"),
        GPU,
    ),
)


def test_every_alert_has_its_hours() -> None:
    """One without would be believed unseen."""
    assert {hours.alert for hours in STORY} == set(ALERTS)


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rules as they are written for a user."""
    folder = tmp_path_factory.mktemp("rules")
    for name in RULES:
        (folder / name).write_text(shipped(name), "utf-8")
    return folder


def test_prometheus_takes_the_rules(rules: Path) -> None:
    """Its own check, which also parses the templates."""
    _promtool("check", "rules", *(str(rules / name) for name in RULES))


def test_each_alert_fires_when_it_should_and_only_then(rules: Path) -> None:
    """Too early it is pending at most; afterwards it is over."""
    _tried(rules, [_hours(hours) for hours in STORY])


def test_a_story_without_its_series_fails(rules: Path) -> None:
    """So each of them is told of its own alert, and a rule that never fires would be seen."""
    mute = [_hours(attrs.evolve(hours, series={"up": "1x60"})) for hours in STORY]
    with pytest.raises(AssertionError) as raised:
        _tried(rules, mute)
    said = str(raised.value)
    assert [hours.alert for hours in STORY if hours.alert not in said] == []


def test_what_a_person_reads(rules: Path) -> None:
    """Names, and numbers with their units, stand in the words."""
    read = (
        (
            "TarnFollowerBehind",
            "8m",
            {
                "summary": "lb1 does not follow ocr",
                "description": (
                    "It has not applied the newest view for 5m 0s: new instances get nothing "
                    "from it, and drains may wait for it."
                ),
                "next_step": "`tarn status -c ocr` shows its last message; its log says more.",
            },
        ),
        (
            "TarnRequestsFail",
            "15m",
            {
                "summary": "10% of the requests to yolo fail in ocr",
                "description": "More than one in twenty, for five minutes.",
                "next_step": "`tarn logs INSTANCE -c ocr` shows the model's own errors.",
            },
        ),
        (
            "TarnMasterDown",
            "5m",
            {
                "summary": "The master of ocr does not answer",
                "description": (
                    "No scrape of host:1 worked for a minute. Its instances keep serving; nobody "
                    "scales or replaces them."
                ),
                "next_step": (
                    "`tarn status -c ocr` says whether a master answers elsewhere: then write its "
                    "scrape config again. `tarn up` starts one that takes the fleet over."
                ),
            },
        ),
    )
    stories = {hours.alert: hours for hours in STORY}
    _tried(rules, [_words(stories[alert], at, words) for alert, at, words in read])


def _hours(hours: Hours) -> dict[str, Any]:
    """Return one test of promtool's: which series of the alert there are at each moment."""
    severity = ALERTS[hours.alert]["labels"]["severity"]
    labels = {"alertname": hours.alert, "severity": severity, **hours.labels}
    firing = f'ALERTS{{alertname="{hours.alert}", alertstate="firing"}}'
    written = ", ".join(f'{name}="{value}"' for name, value in labels.items())
    expected = {"labels": f'ALERTS{{alertstate="firing", {written}}}', "value": 1}
    return {
        "interval": EACH,
        "name": hours.alert,
        "input_series": [{"series": k, "values": v} for k, v in hours.series.items()],
        "promql_expr_test": [
            {"expr": firing, "eval_time": hours.fires, "exp_samples": [expected]},
            *({"expr": firing, "eval_time": at, "exp_samples": []} for at in hours.quiet),
        ],
    }


def _words(hours: Hours, at: str, annotations: Mapping[str, str]) -> dict[str, Any]:
    severity = ALERTS[hours.alert]["labels"]["severity"]
    expected = {
        "exp_labels": {**hours.labels, "severity": severity},
        "exp_annotations": dict(annotations),
    }
    return {
        "interval": EACH,
        "name": hours.alert,
        "input_series": [{"series": k, "values": v} for k, v in hours.series.items()],
        "alert_rule_test": [
            {"alertname": hours.alert, "eval_time": at, "exp_alerts": [expected]},
        ],
    }


def _tried(rules: Path, tests: list[dict[str, Any]]) -> None:
    plain = {"rule_files": list(RULES), "evaluation_interval": "1m", "tests": tests}
    path = rules / "test.yaml"
    path.write_text(yaml.safe_dump(plain))
    _promtool("test", "rules", str(path))


def _promtool(*arguments: str) -> None:
    done = subprocess.run(["promtool", *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
