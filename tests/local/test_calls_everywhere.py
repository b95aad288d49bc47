"""Control calls reach every real Triton there is, and every one that comes later."""

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from asking import ask
from house import MODELS, House, until

import tarn

pytestmark = pytest.mark.gray


NAMES = ("echo", "second", "third", "fourth")


def ready(house: House, name: str) -> dict[str, set[tuple[str, str]]]:
    """Return (model, version) of all that each instance serves, as its Triton says."""
    served: dict[str, set[tuple[str, str]]] = {}
    for row in house.status(name)["instances"]:
        port, some = int(row["http"].rpartition(":")[2]), served.setdefault(row["id"], set())
        for model in NAMES:
            status, _, body = ask(port, "GET", f"/v2/models/{model}")
            some |= (
                {(model, one) for one in json.loads(body)["versions"]} if status == 200 else set()
            )
    return served


def at_once(*calls: Callable[[], object]) -> None:
    """Make all calls at the same time; raise what one raised."""
    failed: list[BaseException] = []

    def make(call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 (raised below)
            failed.append(error)

    threads = [threading.Thread(target=make, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    if failed:
        raise failed[0]


def version(repository: Path, number: int) -> None:
    shutil.copytree(repository / "echo" / "1", repository / "echo" / str(number))


@pytest.mark.timeout(240)
def test_calls_at_once_a_reload_and_a_later_instance(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody has all of it; what nobody can load is an error with Triton's words."""
    repository = house.root / "models"
    shutil.copytree(MODELS / "echo", repository / "echo")
    models = {"repository": str(repository), "serve": ["echo"], "control": "explicit"}
    triton = {"restricted": ["model-repository", "shared-memory"]}
    spec = house.spec("control", models=models, triton=triton)
    started = house.tarn("up", "-f", spec, "--wait")
    assert started.returncode == 0, started.stderr
    monkeypatch.setenv("TARN_HOME", str(house.home))
    for name in ("second", "third", "fourth"):
        shutil.copytree(MODELS / "echo", repository / name)
        config = repository / name / "config.pbtxt"
        config.write_text(config.read_text().replace('name: "echo"', f'name: "{name}"'))
    cluster = tarn.connect("control")
    with cluster.client() as client:
        at_once(*(lambda n=n: client.load_model(n) for n in ("second", "third", "fourth")))
        version(repository, 2)
        client.load_model("echo")
        every = {(name, "1") for name in ("second", "third", "fourth")} | {("echo", "2")}
        served = ready(house, "control")
        assert len(served) == 2
        assert all(models >= every for models in served.values()), served
        assert house.status("control")["ready"] == 2
        client.update_log_settings({"log_verbose_level": 1})
        client.unload_model("fourth")
    cluster.scale(3)
    cluster.wait(ready=3, timeout="60s")
    with cluster.client() as client:
        said = client.each(lambda one: one.get_log_settings()["log_verbose_level"])
    assert list(said.values()) == [1, 1, 1]
    until(lambda: not any(("echo", "1") in one for one in ready(house, "control").values()), 20)
    assert set(map(frozenset, ready(house, "control").values())) == {
        frozenset(every - {("fourth", "1")})
    }
    wanted = json.loads(house.tarn("models", "wanted", "-c", "control", "-o", "json").stdout)
    assert {row["model"] for row in wanted["calls"]} == {"second", "third", "echo", ""}
    refused = house.tarn("models", "load", "nowhere", "-c", "control")
    assert refused.returncode == 2
    said = "control-0001: 500 failed to load 'nowhere', failed to poll from model repository"
    assert said in refused.stderr
    cluster.close()
