"""What goes wrong on one machine, and what must happen then."""

import json
import re
import shutil
from pathlib import Path

import pytest
from house import MODELS, House, until

pytestmark = pytest.mark.triton

CONFIG = (MODELS / "echo" / "config.pbtxt").read_text()


def repository(root: Path, **models: str) -> Path:
    """Make a repository of python models: name to the text of ``model.py``."""
    for name, text in models.items():
        version = root / name / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(text)
        (root / name / "config.pbtxt").write_text(CONFIG.replace("echo", name))
    return root


def echo() -> str:
    return (MODELS / "echo" / "1" / "model.py").read_text()


@pytest.mark.parametrize(
    ("kind", "code", "said"),
    [
        ("missing", "TARN-2200", "does not exist"),
        ("empty", "TARN-2201", "is empty"),
        ("one model", "TARN-2202", "looks like a model directory was given as the repository"),
        ("a folder of repositories", "TARN-2202", "looks like a folder of repositories"),
        ("a file", "TARN-2200", ""),
    ],
)
def test_a_wrong_repository_is_refused_before_anything_starts(
    house: House, kind: str, code: str, said: str
) -> None:
    """Exit 2, a code, what was found and what was meant; no process, no directory."""
    place = house.root / "models"
    match kind:
        case "empty":
            place.mkdir()
        case "one model":
            shutil.copytree(MODELS / "echo", place)
        case "a folder of repositories":
            shutil.copytree(MODELS, place / "mine")
        case "a file":
            place.write_text("not a directory")
    done = house.tarn("up", "-f", house.spec("bad", models=str(place)))
    assert done.returncode == 2, done.stderr
    assert code in done.stderr
    assert said in done.stderr
    assert str(place) in done.stderr
    assert not house.processes("bad")
    assert not (house.home / "clusters" / "bad").exists()


def test_a_broken_model_beside_a_good_one_leaves_the_good_one_serving(house: House) -> None:
    """The cluster is degraded, and names the bad model with Triton's own error line."""
    place = repository(house.root / "models", good=echo(), bad='raise RuntimeError("no weights")\n')
    done = house.tarn("up", "-f", house.spec("two", models=str(place), replicas={"max": 2}))
    assert done.returncode == 7, done.stderr
    assert "no weights" in done.stdout + done.stderr
    status = house.status("two")
    assert status["state"] == "degraded"
    assert status["ready"] == 1
    assert "model bad is unavailable" in status["reason"]
    assert "no weights" in status["reason"]
    assert "no weights" in house.tarn("why", "-c", "two").stdout


def test_a_triton_that_crashes_at_start_ends_in_a_failed_cluster(house: House) -> None:
    """Five quick failures with a growing back-off: failed, exit 1, Triton's own line is shown."""
    spec = house.spec("crash", triton={"args": {"cache-config": "no-such-cache,size=1048576"}})
    done = house.tarn("up", "-f", spec)
    assert done.returncode == 1, done.stdout + done.stderr
    status = house.status("crash")
    assert status["state"] == "failed"
    assert "no-such-cache" in done.stderr, done.stderr
    assert "no-such-cache" in status["reason"]
    failed = [i for i in status["ended"] if i["state"] == "failed"]
    assert 5 <= len(failed) <= 6
    events = json.loads(house.tarn("events", "-c", "crash", "-o", "json").stdout)
    assert any(e["code"] == "TARN-1112" for e in events)
    until(lambda: not house.tritons("crash"), 10, "the end of the last one")
    # nothing ever served, so the corrected file replaces it
    corrected = house.tarn("up", "-f", house.spec("crash"))
    assert corrected.returncode == 0, corrected.stderr


def test_a_repository_of_broken_models_only_ends_in_a_failed_cluster(house: House) -> None:
    """Nothing can ever be served: failed in seconds, not after the start deadline; exit 1."""
    place = repository(house.root / "models", bad='raise RuntimeError("no weights")\n')
    done = house.tarn("up", "-f", house.spec("vain", models=str(place)), timeout_s=90)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "no weights" in done.stderr
    assert house.status("vain")["state"] == "failed"
    assert house.tarn("down", "-c", "vain").returncode == 0


def test_a_triton_that_can_never_start_is_not_tried_five_times(house: House) -> None:
    """An option that it does not know: failed at once, with its own line."""
    done = house.tarn("up", "-f", house.spec("never", triton={"args": {"no-such-option": 1}}))
    assert done.returncode == 1
    assert "unrecognized option '--no-such-option=1'" in done.stderr


def test_a_cluster_of_one_name_runs_once(house: House) -> None:
    """Two `up` at once: one starts, the other attaches, both succeed; there is one master."""
    spec = house.spec("once")
    first, second = house.start("up", "-f", spec), house.start("up", "-f", spec)
    outs = [p.communicate(timeout=60) for p in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], outs
    assert any("already running" in err for _, err in outs), outs
    masters = [argv for argv in house.processes("once").values() if "tarn.master" in argv]
    assert len(masters) == 1
    assert len(house.tritons("once")) == 2


def test_up_with_another_spec_shows_the_difference(house: House) -> None:
    """A running cluster is not changed by `up`: exit 1, what differs, and the verb to use."""
    assert house.tarn("up", "-f", house.spec("same")).returncode == 0
    again = house.tarn("up", "-f", house.spec("same"))
    assert again.returncode == 0
    assert "already running since" in again.stderr
    other = house.tarn("up", "-f", house.spec("same", replicas={"min": 1, "max": 3, "initial": 2}))
    assert other.returncode == 1
    assert "replicas.max" in other.stderr
    assert "`tarn down -c same` ends it; then `tarn up`" in other.stderr
    assert house.status("same")["limits"]["max"] == 4


def test_down_leaves_nothing_but_logs_and_may_be_said_twice(house: House) -> None:
    """No process, no port, no shared memory, no file but logs; then: exit 0, "not running"."""
    assert house.tarn("up", "-f", house.spec("gone")).returncode == 0
    ports = [i["http"] for i in house.status("gone")["instances"]]
    regions = set(Path("/dev/shm").glob("tarn_*_gone-*"))
    assert regions
    assert house.tarn("down", "-c", "gone").returncode == 0
    until(lambda: not house.processes("gone"), 5, "the end of every process")
    assert not set(Path("/dev/shm").glob("tarn_*_gone-*"))
    files = [p for p in house.directory("gone").rglob("*") if p.is_file()]
    assert files
    assert all(p.is_relative_to(house.directory("gone") / "logs") for p in files), files
    listening = Path("/proc/net/tcp").read_text()
    assert not any(f":{int(p.rpartition(':')[2]):04X} 00000000:0000 0A" in listening for p in ports)
    again = house.tarn("down", "-c", "gone")
    assert again.returncode == 0
    assert "not running" in again.stdout + again.stderr


def test_scaling_beyond_the_limits_is_refused_with_the_limits(house: House) -> None:
    """Exit 2 and 1 to 4; a stale If-Match is answered 412 with the present revision."""
    assert house.tarn("up", "-f", house.spec("limit")).returncode == 0
    done = house.tarn("scale", "9", "-c", "limit")
    assert done.returncode == 2
    assert "1 to 4" in done.stderr
    import httpx  # noqa: PLC0415 (only here)

    token = (house.directory("limit") / "api_token").read_text().strip()
    url, headers = house.ref("limit")["url"], {"X-TARN-Token": token}
    with httpx.Client(base_url=url, headers=headers, trust_env=False) as client:
        refused = client.put("/api/v1/scale", json={"replicas": 9})
        assert refused.status_code == 409
        revision = client.get("/api/v1/status").json()["spec_revision"]
        stale = client.put(
            "/api/v1/scale", json={"replicas": 3}, headers={"If-Match": str(revision + 7)}
        )
        assert stale.status_code == 412
        assert f"{revision}" in stale.text
        right = client.put(
            "/api/v1/scale", json={"replicas": 3}, headers={"If-Match": str(revision)}
        )
        assert right.status_code == 200


def test_a_proxy_variable_never_stands_between_us_and_the_fleet(house: House) -> None:
    """HTTP_PROXY names a proxy that does not exist; everything goes on directly."""
    nowhere = dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY"), "http://127.0.0.1:9")
    assert house.tarn("up", "-f", house.spec("direct"), **nowhere).returncode == 0
    assert house.tarn("status", "-c", "direct", **nowhere).returncode == 0
    assert house.tarn("down", "-c", "direct", **nowhere).returncode == 0


def test_a_fixed_api_port_that_is_taken_fails_before_anything_starts(house: House) -> None:
    """The port and the code are named; nothing runs."""
    import socket  # noqa: PLC0415 (only here)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = house.tarn("up", "-f", house.spec("port", api={"port": port}))
    assert done.returncode in (1, 2)
    assert "TARN-3103" in done.stderr
    assert str(port) in done.stderr
    assert not house.processes("port")


def test_the_api_token_is_nowhere_to_be_seen(house: House) -> None:
    """Not in an argv, not in a child's environment, not in a log, not in an answer; mode 0600."""
    assert house.tarn("up", "-f", house.spec("quiet")).returncode == 0
    path = house.directory("quiet") / "api_token"
    token = path.read_text().strip()
    assert path.stat().st_mode & 0o777 == 0o600
    assert house.directory("quiet").stat().st_mode & 0o777 == 0o700
    for pid, argv in house.processes("quiet").items():
        assert token not in " ".join(argv)
        assert token.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    logs = "".join(
        p.read_text(errors="replace")
        for p in house.directory("quiet").rglob("logs/**/*")
        if p.is_file()
    )
    assert token not in logs
    shown = house.tarn("status", "-c", "quiet", "-o", "json").stdout
    assert token not in shown
    assert re.search(r"api_token", house.tarn("up", "-f", house.spec("quiet")).stdout)
