"""An update on a real YARN: another repository on HDFS, a killed master, no request lost."""

import shutil
import signal

import pytest
from house import until
from versions import VersionLoad, changed, written
from yarn_fleet import Fleet

pytestmark = [pytest.mark.yarn, pytest.mark.triton]


@pytest.mark.timeout(300)
def test_an_update_outlives_its_master_and_loses_no_request(
    yarn_house, hadoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next attempt knows both specs from its state; the address of the models is new."""
    for name, value in yarn_house.environ.items():
        monkeypatch.setenv(name, value)
    root = f"{yarn_house.staging}-versions"
    hadoop.hdfs_make(root)
    for number in (1, 2):
        folder = written(yarn_house.root / f"models-{number}", number)
        hadoop.run("hdfs", "dfs", "-put", str(folder), f"{root}/{number}")
        shutil.rmtree(folder)
    size = {"min": 2, "max": 2, "initial": 2}
    spec = yarn_house.spec(
        "updated",
        models={"repository": f"hdfs://{root}/1"},
        replicas=size,
        update={"watch": "500ms"},
    )
    fleet = Fleet(yarn_house, hadoop, "updated")
    fleet.up(spec)
    fleet.settled(2)
    with VersionLoad("updated") as load:
        until(lambda: load.answers, 20, "an answer")
        changed(spec, models={"repository": f"hdfs://{root}/2"})
        done = yarn_house.tarn("update", "-f", spec, "--no-wait")
        assert done.returncode == 0, done.stderr
        fleet.after(fleet.kill_master(signal.SIGKILL))
        until(lambda: (fleet.answered() or {}).get("last_update"), 120, "its end", 0.2)
        assert fleet.status()["last_update"]["state"] == "done"
        until(lambda: load.answers[-1] == 2, 10, "answers of the new version")
        fleet.settled(2)
        fleet.tarn("rollback")
        until(lambda: load.answers[-1] == 1, 10, "answers of the version before")
    assert load.lost == []
    fleet.down()
    hadoop.hdfs_remove(root)
