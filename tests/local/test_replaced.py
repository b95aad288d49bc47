"""Real Tritons are replaced: nothing that was served is lost, and blindness is told."""

import shutil
import time

import pytest
from house import MODELS, House, until
from servers.triton import BAD, CONFIG, NAP

pytestmark = pytest.mark.triton


def serving(house: House, name: str) -> dict[str, set[str]]:
    """Return the READY models of each instance in the view, by id."""
    rows = house.status(name)["instances"]
    return {
        row["id"]: {model["name"] for model in row["models"] if model["state"] == "READY"}
        for row in rows
        if row["state"] == "ready" and not row["suspect"]
    }


@pytest.mark.timeout(240)
def test_a_drain_loses_no_model(house: House) -> None:
    """A new version that does not load keeps the old instance; once it is right, it is replaced."""
    repository = house.root / "models"
    shutil.copytree(MODELS / "echo", repository / "echo")
    (repository / "nap" / "1").mkdir(parents=True)
    (repository / "nap" / "config.pbtxt").write_text(CONFIG)
    (repository / "nap" / "1" / "model.py").write_text(NAP)
    spec = house.spec("kept", models=str(repository), replicas={"min": 1, "max": 1, "initial": 1})
    done = house.tarn("up", "-f", spec)
    assert done.returncode == 0, done.stderr
    (old,) = serving(house, "kept")
    (repository / "nap" / "2").mkdir()
    (repository / "nap" / "2" / "model.py").write_text(BAD)
    told = house.tarn("drain", old, "-c", "kept")
    assert told.returncode == 0
    assert "serves until a replacement does" in told.stdout

    def failed() -> bool:
        assert serving(house, "kept") == {old: {"echo", "nap"}}
        return any("no weights" in row["reason"] for row in house.status("kept")["ended"])

    until(failed, 60, "a replacement that fails")
    waited = house.tarn("wait", "-c", "kept")
    assert (waited.returncode, house.status("kept")["state"]) == (7, "degraded")
    assert "no weights" in waited.stderr
    assert f"{old} keeps serving until a replacement" in house.tarn("why", "-c", "kept").stdout
    (repository / "nap" / "2" / "model.py").write_text(NAP)

    def replaced() -> bool:
        now = serving(house, "kept")
        assert now  # somebody serves all the while
        assert any(models == {"echo", "nap"} for models in now.values())
        return old not in now

    until(replaced, 90, "its replacement")
    assert house.tarn("wait", "-c", "kept").returncode == 0


@pytest.mark.timeout(200)
def test_a_repository_that_changed_is_told_and_a_drain_brings_all_up_to_date(house: House) -> None:
    """A model came in while one served: who lacks it, no word against it, and the way out."""
    repository = house.root / "models"
    shutil.copytree(MODELS / "echo", repository / "echo")
    spec = house.spec("mixed", models=str(repository), replicas={"min": 1, "max": 3, "initial": 1})
    done = house.tarn("up", "-f", spec)
    assert done.returncode == 0, done.stderr
    (old,) = serving(house, "mixed")
    (repository / "nap" / "1").mkdir(parents=True)
    (repository / "nap" / "1" / "model.py").write_text(NAP)
    (repository / "nap" / "config.pbtxt").write_text(CONFIG)
    assert house.tarn("scale", "2", "-c", "mixed").returncode == 0
    lacks = f"model 'nap': version 1 on mixed-0002; not served by {old}"
    said = until(
        lambda: (out := house.tarn("why", "-c", "mixed").stdout) and lacks in out and out,
        60,
        lambda: house.tarn("why", "-c", "mixed").stdout,
    )
    assert "Fix the model" not in said
    assert "`tarn drain` of each older one replaces it" in said
    status = house.status("mixed")
    assert (status["state"], status["reason"]) == ("degraded", lacks)
    assert any(lacks in line for line in status["warnings"])
    assert house.tarn("drain", old, "-c", "mixed").returncode == 0

    def equal() -> bool:
        now = serving(house, "mixed")
        return old not in now and list(now.values()) == [{"echo", "nap"}] * 2

    until(equal, 60, "two that serve the same")
    until(lambda: house.status("mixed")["state"] == "ready", 20, "ready")


@pytest.mark.timeout(150)
def test_without_metrics_a_drain_ends_when_the_requests_do(house: House) -> None:
    """A note at `up`, an alert while it lasts, and `down` in seconds, not after drain.timeout."""
    spec = house.spec(
        "blind",
        triton={"args": {"allow-metrics": False}},
        replicas={"min": 1, "max": 1, "initial": 1},
        drain={"timeout": "10m", "quiesce": "500ms"},
    )
    done = house.tarn("up", "-f", spec)
    assert done.returncode == 0, done.stderr
    assert "triton.args.allow-metrics: switches Triton's metrics off" in done.stderr

    def alert() -> str:
        said = house.tarn("why", "-c", "blind").stdout
        return said if "the metrics of 1 of 1 instances cannot be read" in said else ""

    until(alert, 30, "the alert")
    began_s = time.monotonic()
    assert house.tarn("down", "-c", "blind").returncode == 0
    assert time.monotonic() - began_s < 30
