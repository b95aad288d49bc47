"""A support bundle of a real fleet whose logs told all: alive, without a master, and over."""

import json
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import pytest
from canaries import Canaries, canary
from house import House, clear, kill, until
from servers.triton import needed

pytestmark = [*needed, pytest.mark.timeout(150)]

NAME = "open"
PERSON, MACHINE = "jabberwock", "gpu7.looking.glass.example.org"


@attrs.frozen
class Told:
    """What came of the command at each time of the cluster's life."""

    canaries: Canaries
    bundles: Mapping[str, Mapping[str, str]]
    """``alive``, ``orphaned``, ``over``, ``unsearched``: name of each file to its text."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """One fleet, and three bundles."""
    one = House(tmp_path_factory.mktemp("bundle"))
    secrets = {name: canary(name) for name in ("variable", "shell", "api")}
    canaries = Canaries()
    for name, secret in secrets.items():
        canaries.add(name, secret)
    one.environ |= {"CI_DEPLOY_TOKEN": secrets["shell"], "TARN_API": secrets["api"]}
    spec = one.spec(
        NAME,
        replicas={"min": 1, "max": 2},
        triton={"env": {"MODEL_PASSWORD": secrets["variable"]}},
        api={"token": "env:TARN_API"},
    )
    try:
        assert one.tarn("up", "-f", spec).returncode == 0
        canaries.add("triton", (one.directory(NAME) / "triton.secret").read_text())
        _leak(one.directory(NAME) / "logs", canaries, NAME)
        yield Told(canaries, dict(_lived(one, canaries, spec)))
    finally:
        clear(one)


def _leak(logs: Path, canaries: Canaries, name: str) -> None:
    """Write every form of every secret where a careless program would; and who did it where."""
    for log in (logs / "master.log", logs / f"{name}-0001" / "triton.stderr"):
        with log.open("a") as file:
            for forms in canaries.forms.values():
                file.writelines(f"sent {form.decode()} on\n" for form in sorted(forms))
            file.write(f"ugi={PERSON} at http://{MACHINE}:8042/ of {PERSON}@GLASS.EXAMPLE.ORG\n")


def _lived(one: House, canaries: Canaries, spec: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    yield "alive", _bundle(one, canaries, "alive")
    keeper, master = _keeper_and_master(one)
    kill(keeper)
    kill(master)
    until(lambda: one.status(NAME)["state"] == "degraded", 20, "only instances are left")
    yield "orphaned", _bundle(one, canaries, "orphaned")
    for triton in one.tritons(NAME):
        kill(triton)
    until(lambda: not one.processes(NAME), 20, "nothing runs any more")
    assert one.tarn("down", "-c", NAME).returncode == 0
    yield "over", _bundle(one, canaries, "over", "-f", spec)
    yield "unsearched", _bundle(one, canaries, "unsearched", "--without", "machine")


def _keeper_and_master(one: House) -> tuple[int, int]:
    keeper = json.loads((one.directory(NAME) / "keeper.json").read_text())["pid"]
    return int(keeper), int(one.ref(NAME)["pid"])


def _bundle(one: House, canaries: Canaries, when: str, *more: str) -> Mapping[str, str]:
    path = one.root / f"{when}.tar.gz"
    done = one.tarn("support-bundle", "-c", NAME, "-o", str(path), *more)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(path)
    canaries.look(f"{when}: what is printed", done.stdout + done.stderr)
    found = {}
    with tarfile.open(path) as tar:
        for member in tar:
            held = tar.extractfile(member)
            assert held is not None
            name = member.name.partition("/")[2]
            found[name] = held.read().decode()
            canaries.look(f"{when}: {name}", member.name + "\n" + found[name])
    return found


@pytest.mark.parametrize("when", ["alive", "orphaned", "over"])
def test_the_logs_are_there_without_what_they_told(told: Told, when: str) -> None:
    """Every line is, with a mark where a secret was and a stand-in where a name was."""
    log = told.bundles[when][f"logs/{NAME}-0001/triton.stderr"]
    assert "successfully loaded 'echo'" in log
    assert log.count("sent ***") >= sum(map(len, told.canaries.forms.values()))
    assert not any(PERSON in text or MACHINE in text for text in told.bundles[when].values())
    assert "ugi=user-" in log


def test_no_secret_in_any_form_is_in_any_bundle(told: Told) -> None:
    """Nor in what the command prints."""
    assert told.canaries.leaks == set()
    assert told.canaries.looked > 50_000


def test_a_living_cluster_tells_of_itself(told: Told) -> None:
    """Everything that its master says is there, and parses."""
    files = told.bundles["alive"]
    assert json.loads(files["cluster/status.json"])["ready"] == 1
    for name in ("events", "decisions", "scaling", "instances"):
        assert json.loads(files[f"cluster/{name}.json"])
    assert "tarn_target_containers 1" in files["cluster/metrics.txt"]
    assert json.loads(files["doctor/doctor.json"])
    assert json.loads(files["config/spec.json"])["triton"]["env"] == {"MODEL_PASSWORD": "***"}
    state = next(text for name, text in files.items() if name.startswith("kept/state-"))
    assert json.loads(state)["state"]["desired"] == "int"


def test_the_manifest_says_why_something_is_missing(told: Told) -> None:
    """Without a master its pages are; when all is over, what was kept of it."""
    orphaned = json.loads(told.bundles["orphaned"]["manifest.json"])
    (why,) = {row["why"] for row in orphaned["left_out"] if row["path"] == "cluster/metrics.txt"}
    assert "no master" in why
    assert json.loads(told.bundles["orphaned"]["cluster/status.json"])["code"] == "TARN-4003"
    over = json.loads(told.bundles["over"]["manifest.json"])
    missing = {row["path"]: row["why"] for row in over["left_out"]}
    assert "does not run" in missing["cluster/status.json"]


def test_what_happened_is_there_without_a_master(told: Told) -> None:
    """From the file that its masters wrote; an event of one is as good as the API's."""
    for when in ("orphaned", "over"):
        events = map(json.loads, told.bundles[when]["kept/events.jsonl"].splitlines())
        assert {"TARN-1002", "TARN-1102"} <= {event["code"] for event in events}


def test_logs_that_cannot_be_searched_are_not_taken(told: Told) -> None:
    """Who does not know the spec does not know which secrets to look for."""
    files = told.bundles["unsearched"]
    assert not any(name.startswith("logs/") for name in files)
    assert "--unsearched-logs" in files["README.txt"]
