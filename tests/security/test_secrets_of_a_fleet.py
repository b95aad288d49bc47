"""From a keystore that Hadoop made to the environment of Triton, and to nowhere else."""

import base64
import json
import os
import shutil
import signal
from pathlib import Path
from urllib.parse import quote

import pytest
from compat.fleets import house, spec
from house import House, until

__all__ = ["house"]

HF = "hf_gr\u00fc\u00dfe\u2603 "
KEYSTORE = Path(__file__).parents[1] / "keystores" / "hadoop.jceks"
CHOSEN = {"use": "jceks", "options": {"path": "hf.jceks", "names": {"Tarn.Env.AWS_key": "aws"}}}
GIVEN = {"HUGGING_FACE_HUB_TOKEN": HF, "HF_TOKEN": HF, "aws": "two words"}


@pytest.fixture
def fleet(house: House) -> str:
    shutil.copyfile(KEYSTORE, house.root / "hf.jceks").chmod(0o600)
    return spec(house, secrets=[CHOSEN])


def environ(pid: int) -> dict[str, str]:
    words = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(word.split("=", 1) for word in words if "=" in word)


def shown(house: House, *arguments: str) -> str:
    done = house.tarn(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_instances_get_them_and_nobody_else(house: House, fleet: str) -> None:
    """Also those of a master that was killed and restarted; the file goes with the cluster."""
    said = shown(house, "up", "-f", fleet, "--dry-run", "-o", "json")
    assert json.loads(said)["environment"].items() >= dict.fromkeys(GIVEN, "***").items()
    said += shown(house, "up", "-f", fleet)
    (first,) = house.tritons("w")
    assert environ(first).items() >= GIVEN.items()
    file = house.directory("w") / "secrets.json"
    assert file.stat().st_mode & 0o777 == 0o600
    os.kill(house.ref("w")["pid"], signal.SIGKILL)
    os.kill(first, signal.SIGKILL)
    (second,) = until(lambda: house.tritons("w") - {first}, 30, "another instance")
    until(lambda: environ(second).items() >= GIVEN.items(), 10, "its secrets")
    for verb in ("status", "events", "logs", "why"):
        said += shown(house, verb, "-c", "w")
    said += shown(house, "status", "-c", "w", "-o", "json") + shown(
        house, "config", "explain", "-f", fleet
    )
    said += _api(house, "config") + _api(house, "metrics") + _api(house, "api/v1/status")
    others = {pid: words for pid, words in house.processes("w").items() if pid != second}
    for pid, words in others.items():
        said += " ".join(words) + json.dumps(environ(pid))
    said += (house.directory("w") / "logs" / "master.log").read_text()
    said += (house.directory("w") / "spec.yaml").read_text()
    for value in GIVEN.values():
        for form in (value, quote(value), base64.b64encode(value.encode()).decode()):
            assert form not in said
    shown(house, "down", "-c", "w")
    assert not file.exists()


def test_another_value_replaces_no_instance(house: House, fleet: str) -> None:
    """It is not part of the spec: `up` attaches; and a start without secrets leaves none behind."""
    shown(house, "up", "-f", fleet)
    before = house.tritons("w")
    (house.root / "hf.jceks").unlink()
    assert "already" in shown(house, "up", "-f", fleet), "is running and holds what it needs"
    assert house.tritons("w") == before
    shown(house, "down", "-c", "w")
    (house.directory("w")).mkdir(exist_ok=True)
    (house.directory("w") / "secrets.json").write_text('{"OLD": "value"}')
    shown(house, "up", "-f", spec(house))
    (pid,) = house.tritons("w")
    assert "OLD" not in environ(pid)
    assert not (house.directory("w") / "secrets.json").exists()


def _api(house: House, path: str) -> str:
    import httpx  # noqa: PLC0415

    token = (house.directory("w") / "api_token").read_text()
    answer = httpx.get(f"{house.ref('w')['url']}/{path}", headers={"X-TARN-Token": token})
    assert answer.status_code == 200
    return answer.text
