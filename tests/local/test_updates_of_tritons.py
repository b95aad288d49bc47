"""Updates of real Tritons under load: each request is answered, by the old or the new version."""

import shutil
import signal
from pathlib import Path

import pytest
from house import House, kill, until
from versions import SMOKE, VersionLoad, changed, written

pytestmark = pytest.mark.triton


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return written(tmp_path / "models-1", 1)


@pytest.mark.timeout(280)
def test_updates_lose_no_request_and_a_bad_one_goes_back(
    house: House, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three versions, one of which does not load and one of which answers wrongly."""
    monkeypatch.setenv("TARN_HOME", str(house.home))
    size = {"min": 2, "max": 2, "initial": 2}
    smoke = house.root / "smoke.json"
    spec = house.spec(
        "moved",
        models={"repository": str(repository)},
        replicas=size,
        update={"watch": "500ms"},
    )
    done = house.tarn("up", "-f", spec)
    assert done.returncode == 0, done.stderr
    with VersionLoad("moved") as load:
        changed(spec, models={"repository": str(written(house.root / "models-2", 2))})
        planned = house.tarn("update", "-f", spec, "--dry-run")
        assert planned.returncode == 0, planned.stderr
        assert "models.repository" in planned.stdout
        assert "rolling: instances are replaced" in planned.stdout
        done = house.tarn("update", "-f", spec)
        assert done.returncode == 0, done.stderr
        until(lambda: load.answers[-1] == 2, 10, "answers of the new version")

        broken = written(house.root / "models-3", 3, "raise RuntimeError('no weights')")
        changed(spec, models={"repository": str(broken)})
        done = house.tarn("update", "-f", spec)
        assert done.returncode == 1
        assert "no weights" in done.stderr
        assert "TARN-1184" in done.stderr

        smoke.write_text(SMOKE % 4)
        wrong = written(house.root / "models-4", 5)
        changed(
            spec, models={"repository": str(wrong)}, update={"watch": "500ms", "smoke": str(smoke)}
        )
        done = house.tarn("update", "-f", spec)
        assert done.returncode == 1
        assert "fails update.smoke" in done.stderr

        right = written(house.root / "models-5", 4)
        changed(spec, models={"repository": str(right)})
        done = house.tarn("update", "-f", spec)
        assert done.returncode == 0, done.stderr
        done = house.tarn("rollback", "-c", "moved")
        assert done.returncode == 0, done.stderr
        until(lambda: load.answers[-1] == 2, 10, "answers of the version before")
    assert load.lost == []
    assert set(load.answers) == {1, 2, 4}, "3 and 5 were never given to a user"


@pytest.mark.timeout(200)
def test_a_killed_master_goes_on_with_the_update(
    house: House, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At whatever step: the next one knows both specs, and where it was."""
    monkeypatch.setenv("TARN_HOME", str(house.home))
    size = {"min": 2, "max": 2, "initial": 2}
    spec = house.spec(
        "killed", models={"repository": str(repository)}, replicas=size, update={"watch": "500ms"}
    )
    done = house.tarn("up", "-f", spec)
    assert done.returncode == 0, done.stderr
    with VersionLoad("killed") as load:
        changed(spec, models={"repository": str(written(house.root / "models-2", 2))})
        done = house.tarn("update", "-f", spec, "--no-wait")
        assert done.returncode == 0, done.stderr
        for _ in range(2):
            kill(int(house.ref("killed")["pid"]), signal.SIGKILL)
            until(lambda: house.answered("killed"), 30, "the next master")
        until(lambda: (house.status("killed")["last_update"] or {}).get("state"), 90, "its end")
        assert house.status("killed")["last_update"]["state"] == "done"
        until(lambda: load.answers[-1] == 2, 10, "answers of the new version")
    assert load.lost == []
    shutil.rmtree(repository)  # nothing needs the old one any more
    assert house.status("killed")["state"] == "ready"


@pytest.mark.timeout(100)
def test_what_cannot_change_is_refused_and_what_is_live_replaces_nobody(
    house: House, repository: Path
) -> None:
    """Each refused key with its reason; a larger limit needs no new instance."""
    spec = house.spec("live", models={"repository": str(repository)}, replicas={"min": 1, "max": 1})
    assert house.tarn("up", "-f", spec).returncode == 0
    (before,) = (row["id"] for row in house.status("live")["instances"])
    changed(spec, api={"rate_limit": 10}, log={"level": "debug"})
    done = house.tarn("update", "-f", spec)
    assert done.returncode == 2, done.stderr
    for key in ("api.rate_limit", "log.level"):
        assert key in done.stderr
    assert "TARN-2105" in done.stderr
    changed(spec, api={}, log={}, replicas={"min": 1, "max": 3})
    done = house.tarn("update", "-f", spec)
    assert done.returncode == 0, done.stderr
    status = house.status("live")
    assert status["limits"]["max"] == 3
    assert [row["id"] for row in status["instances"]] == [before]
