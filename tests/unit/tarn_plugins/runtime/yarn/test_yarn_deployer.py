"""The deployer over a door that answers what a YARN would."""

import base64
import os
from pathlib import Path
from typing import Any

import attrs
import pytest

from tarn.domain import ClusterSpec, Epoch
from tarn.errors import LaunchError, NotFoundError, RefusedError, TarnError, TimedOutError
from tarn.interfaces import ClientContext, ClusterRef, Paths, Progress, Staged
from tarn.testing.context import cluster_spec
from tarn_plugins.runtime.yarn import Docker, YarnSettings
from tarn_plugins.runtime.yarn.client import deployer as module
from tarn_plugins.runtime.yarn.client.deployer import YarnDeployer, keep, read_ref
from tarn_plugins.runtime.yarn.client.reports import ApplicationAttempt, ApplicationReport
from tarn_plugins.runtime.yarn.staging import FETCHED
from tarn_plugins.runtime.yarn.survey import (
    NodeSettings,
    QueueFacts,
    Scheduler,
    Survey,
    YarnNode,
    YarnOverview,
)

ID = "application_1_0001"
RUNNING = ApplicationReport(ID, "RUNNING", host="nm1", port=80, submitted_ms=1000)
QUEUED = ApplicationReport(ID, "ACCEPTED", queue="root.q", diagnostics="AM resource limit exceeded")
FILES = {"spec.yaml": b"s", "staged.json": b"{}", "api_token": b"t0ken"}
OLD = ClusterRef("llama", "yarn", Epoch(1, 1), "http://n:1", application_id="application_1_0000")
STAGED = Staged("/models", "in_place")


class Clock:
    """Moves a second at each look."""

    seconds = 0.0

    def now_s(self) -> float:
        self.seconds += 1
        return self.seconds

    def at(self) -> float:
        return self.seconds


class FakeHadoop:
    """Answers `report` from a list (the last one for ever), and the rest from a table."""

    def __init__(self, *reports: ApplicationReport | BaseException | None, **answers: Any) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._reports, self._answers = list(reports), answers

    def ask(self, question: str, within_s: float, **parts: Any) -> Any:
        assert within_s > 0
        self.asked.append((question, parts))
        if question == "report":
            report = self._reports.pop(0) if len(self._reports) > 1 else self._reports[0]
            if isinstance(report, BaseException):
                raise report
            return None if report is None else attrs.asdict(report)
        answer = self._answers.get(question)
        if isinstance(answer, TarnError):
            raise answer
        return answer(**parts) if callable(answer) else answer

    def questions(self) -> list[str]:
        return [question for question, _ in self.asked]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_POLL_S", 0.0)
    monkeypatch.setattr(module, "_ASK_AGAIN_S", 0.0)


@pytest.fixture
def said() -> list[Progress]:
    return []


@pytest.fixture
def context(tmp_path: Path, said: list[Progress]) -> ClientContext:
    paths = Paths(tmp_path / "home", tmp_path / "cache")
    return ClientContext(Clock(), {"PATH": os.defpath}, paths, said.append)


SUBMITTED = {"application_id": ID, "notes": ["a note"]}
SPEC: ClusterSpec = cluster_spec("llama")


def test_a_master_that_comes_up_is_kept_with_its_token(context, said) -> None:
    """Reference, token and spec lie in the client's home; progress was told."""
    hadoop = FakeHadoop(QUEUED, RUNNING, submit=SUBMITTED)
    ref = YarnDeployer(YarnSettings(), context, hadoop).submit(SPEC, STAGED, FILES)
    assert ref.url == "http://nm1:80"
    directory = context.paths.cluster("llama")
    assert read_ref(directory) == ref
    assert (directory / "api_token").read_bytes() == b"t0ken"
    assert [(p.message, p.note) for p in said] == [
        ("submitting the application to YARN", False),
        ("a note", True),
        ("it waits in the queue 'root.q': AM resource limit exceeded", False),
    ]


def test_secrets_pass_through_the_pipe_only_as_files(context) -> None:
    """No other part of the question holds the api token."""
    hadoop = FakeHadoop(RUNNING, submit=SUBMITTED)
    YarnDeployer(YarnSettings(), context, hadoop).submit(SPEC, STAGED, FILES)
    parts = dict(hadoop.asked[0][1])
    assert base64.b64decode(parts.pop("files")["api_token"]) == b"t0ken"
    assert "t0ken" not in str(parts)


@pytest.mark.parametrize(
    "last",
    [
        attrs.evolve(QUEUED, state="FAILED", diagnostics="why"),
        attrs.evolve(QUEUED, attempts=(ApplicationAttempt(1, "FAILED", "exitCode: 1 why"),)),
        QUEUED,
        None,
    ],
)
def test_one_that_does_not_is_ended_and_leaves_nothing(
    context, last: ApplicationReport | None
) -> None:
    """Failed, exited, silent or forgotten: killed, removed, and nothing is kept here."""
    over = attrs.evolve(QUEUED, state="KILLED")
    looks = [QUEUED, last] if last is not QUEUED else [QUEUED] * 40
    hadoop = FakeHadoop(*looks, over, submit=SUBMITTED)
    with pytest.raises(LaunchError) as caught:
        YarnDeployer(YarnSettings(), context, hadoop).submit(SPEC, STAGED, FILES)
    assert caught.value.found
    assert {"kill", "remove"} <= set(hadoop.questions())
    assert not context.paths.cluster("llama").exists()


NO_ANSWER = TimedOutError("YARN gave no answer to 'report' within 45 s")


def test_an_rm_that_fails_over_ends_nothing(context, said) -> None:
    """No answer is no verdict: it is asked again until the master listens."""
    lost = OSError("the pipe broke")
    hadoop = FakeHadoop(QUEUED, NO_ANSWER, lost, RUNNING, submit=SUBMITTED)
    assert YarnDeployer(YarnSettings(), context, hadoop).submit(SPEC, STAGED, FILES).url
    assert hadoop.questions() == ["submit", *["report"] * 4]
    assert "the pipe broke" in said[-1].message


def test_one_of_which_yarn_tells_nothing_is_left_alone(context) -> None:
    """Nobody knows whether it came up: the message says how to look, and how to end it."""
    hadoop = FakeHadoop(QUEUED, NO_ANSWER, submit=SUBMITTED)
    with pytest.raises(TimedOutError, match="left alone") as caught:
        YarnDeployer(YarnSettings(), context, hadoop).submit(SPEC, STAGED, FILES)
    assert f"yarn application -kill {ID}" in caught.value.next_step
    assert set(hadoop.questions()) == {"submit", "report"}


def test_an_end_that_fails_is_said(context) -> None:
    """The verdict comes first; then, that the application may still run."""
    hadoop = FakeHadoop(*[QUEUED] * 40, submit=SUBMITTED, kill=NO_ANSWER)
    with pytest.raises(LaunchError, match="did not come up within 60 s after its sub") as caught:
        YarnDeployer(YarnSettings(), context, hadoop).submit(SPEC, STAGED, FILES)
    assert "ending it failed, too" in caught.value.found
    assert f"`yarn application -kill {ID}`" in caught.value.next_step
    assert caught.value.code == "TARN-3141"


def test_a_master_that_has_its_container_and_is_silent_has_a_log(context) -> None:
    """Another queue would not help it."""
    silent = attrs.evolve(QUEUED, attempts=(ApplicationAttempt(1, "LAUNCHED"),))
    hadoop = FakeHadoop(*[silent] * 60, attrs.evolve(QUEUED, state="KILLED"), submit=SUBMITTED)
    with pytest.raises(LaunchError, match="within 60 s after it got its container") as caught:
        YarnDeployer(YarnSettings(), context, hadoop).submit(SPEC, STAGED, FILES)
    assert "yarn logs" in caught.value.next_step


def test_a_refusal_ends_nothing(context) -> None:
    """The application that has the name is another one's."""
    hadoop = FakeHadoop(None, submit=RefusedError("runs already", code="TARN-2103"))
    with pytest.raises(RefusedError):
        YarnDeployer(YarnSettings(), context, hadoop).submit(SPEC, STAGED, FILES)
    assert hadoop.questions() == ["submit"]


def test_found_from_another_machine_with_token_and_spec(context) -> None:
    """What is missing here comes from the staging directory."""
    hadoop = FakeHadoop(
        find=attrs.asdict(RUNNING), read=lambda name, file: base64.b64encode(file.encode()).decode()
    )
    ref = YarnDeployer(YarnSettings(), context, hadoop).find("llama")
    directory = context.paths.cluster("llama")
    assert read_ref(directory) == ref
    assert (directory / "api_token").read_bytes() == b"api_token"
    assert (directory / "spec.yaml").read_bytes() == b"spec.yaml"


def test_a_master_that_moved_is_written_down(context) -> None:
    """The next client finds the new address without YARN."""
    answers = iter([RUNNING, attrs.evolve(RUNNING, host="nm2", attempt=2)])
    hadoop = FakeHadoop(find=lambda **_: attrs.asdict(next(answers)), read=None)
    deployer = YarnDeployer(YarnSettings(), context, hadoop)
    deployer.find("llama")
    moved = deployer.find("llama")
    assert moved is not None
    assert moved.url == "http://nm2:80"
    assert read_ref(context.paths.cluster("llama")) == moved


def test_an_interrupted_start_is_known_and_lives(context) -> None:
    """Ctrl-C: `down`, `status` and a second `up` find the application, its token and its spec."""
    hadoop = FakeHadoop(QUEUED, KeyboardInterrupt(), submit=SUBMITTED, find=attrs.asdict(QUEUED))
    deployer = YarnDeployer(YarnSettings(), context, hadoop)
    with pytest.raises(KeyboardInterrupt):
        deployer.submit(SPEC, STAGED, FILES)
    assert "kill" not in hadoop.questions()
    directory = context.paths.cluster("llama")
    kept = read_ref(directory)
    assert kept is not None
    assert (kept.application_id, kept.url) == (ID, None)
    assert (directory / "spec.yaml").read_bytes() == FILES["spec.yaml"]
    assert (directory / "api_token").read_bytes() == FILES["api_token"]
    assert deployer.find("llama") is not None
    assert ("find", {"name": "llama", "application_id": ID}) in hadoop.asked


def test_one_that_does_not_listen_yet_is_found_with_its_files(context) -> None:
    """A second `up` on another machine compares the spec; nothing is fetched twice."""
    hadoop = FakeHadoop(
        find=attrs.asdict(QUEUED), read=lambda name, file: base64.b64encode(file.encode()).decode()
    )
    deployer = YarnDeployer(YarnSettings(), context, hadoop)
    for _ in range(3):
        ref = deployer.find("llama")
        assert ref is not None
        assert ref.url is None
    assert (context.paths.cluster("llama") / "spec.yaml").read_bytes() == b"spec.yaml"
    assert hadoop.questions() == ["find", *["read"] * len(FETCHED), "find", "find"]


def test_a_cluster_without_a_token_is_asked_for_it_once(context) -> None:
    """And nothing is written again and again."""
    hadoop = FakeHadoop(find=attrs.asdict(RUNNING), read=None)
    deployer = YarnDeployer(YarnSettings(), context, hadoop)
    deployer.find("llama")
    path = context.paths.cluster("llama") / "ref.json"
    written = path.stat().st_ino
    deployer.find("llama")
    assert path.stat().st_ino == written
    assert hadoop.questions() == ["find", *["read"] * len(FETCHED), "find"]


def test_a_token_of_an_earlier_cluster_is_not_kept_for_the_next(context) -> None:
    """Whatever becomes of the fetching."""
    keep(context.paths.cluster("llama"), OLD, {"api_token": b"old"})
    hadoop = FakeHadoop(find=attrs.asdict(RUNNING), read=TimedOutError("HDFS is slow"))
    YarnDeployer(YarnSettings(), context, hadoop).find("llama")
    assert not (context.paths.cluster("llama") / "api_token").exists()


def test_a_file_that_cannot_be_fetched_is_a_note(context, said) -> None:
    """The cluster is found nevertheless."""
    hadoop = FakeHadoop(find=attrs.asdict(RUNNING), read=TimedOutError("HDFS is slow"))
    assert YarnDeployer(YarnSettings(), context, hadoop).find("llama") is not None
    assert "HDFS is slow" in said[0].message


def test_a_master_between_two_attempts_has_no_url_and_what_is_kept_stays(context, said) -> None:
    """No url is told, and the old reference is not overwritten by it."""
    answers = iter([RUNNING, attrs.evolve(RUNNING, state="ACCEPTED", attempt=2)])
    hadoop = FakeHadoop(find=lambda **_: attrs.asdict(next(answers)), read=None)
    deployer = YarnDeployer(YarnSettings(), context, hadoop)
    first = deployer.find("llama")
    between = deployer.find("llama")
    assert between is not None
    assert between.url is None
    assert read_ref(context.paths.cluster("llama")) == first
    (progress,) = said
    assert progress.message.startswith("YARN is starting the master again (attempt 2): it waits")
    assert progress.message.endswith("the instances serve meanwhile")


def test_what_yarn_says_first_is_a_finding(context) -> None:
    """A check never raises what it was asked to find."""
    error = LaunchError("yarn", "no ticket", code="TARN-3132", next_step="Run kinit")
    (finding,) = YarnDeployer(YarnSettings(), context, FakeHadoop(overview=error)).check(SPEC)
    assert (finding.code, finding.found, finding.next_step) == (
        "TARN-3132",
        "no ticket",
        "Run kinit",
    )


NODE = YarnNode("nm1", total={"memory-mb": 65536, "vcores": 32})
LAND = attrs.asdict(YarnOverview(user="ann", nodes=(NODE,), maximum=NODE.total))
IN_DOCKER = YarnSettings(docker=Docker(), python="/opt/python")
REFUSES = NodeSettings("nm1", "3.4.2", {"yarn.nodemanager.recovery.enabled": "false"})
ALLOWS = {
    "yarn.nodemanager.container-executor.class": "org.apache.x.LinuxContainerExecutor",
    "yarn.nodemanager.runtime.linux.allowed-runtimes": "docker",
}


def checked(context: ClientContext, *nodes: NodeSettings, spec: ClusterSpec = SPEC):
    overview = YarnOverview(**{**LAND, "nodes": (NODE, attrs.evolve(NODE, host="nm2"))})
    survey = attrs.asdict(Survey(overview=overview, nodes=nodes))
    hadoop = FakeHadoop(overview=LAND, survey=survey)
    return [f for f in YarnDeployer(IN_DOCKER, context, hadoop).check(spec) if f.fatal]


def test_a_start_is_refused_for_what_doctor_calls_an_error(context) -> None:
    """Nodes without Docker are found before five instances fail there; warnings stay doctor's."""
    findings = checked(context, REFUSES)
    assert {finding.code for finding in findings} == {"TARN-3164"}
    assert "LinuxContainerExecutor" in findings[0].next_step
    assert "runtime.options.docker = null" in findings[0].next_step


def test_one_node_with_docker_is_enough_for_a_start(context) -> None:
    """Instances that fail on the others are kept off them."""
    assert checked(context, REFUSES, NodeSettings("nm2", "3.4.2", ALLOWS)) == []


def test_room_that_others_hold_is_waited_for(context) -> None:
    """`up` waits for its place in a queue: only what waiting does not heal refuses it."""
    queue = QueueFacts("root.default", applications=7, most_applications=7)
    survey = Survey(overview=YarnOverview(), scheduler=Scheduler("capacity", True, (queue,)))
    hadoop = FakeHadoop(overview=LAND, survey=attrs.asdict(survey))
    assert YarnDeployer(YarnSettings(docker=None, python="/p"), context, hadoop).check(SPEC) == ()


def test_a_look_that_fails_refuses_nothing(context) -> None:
    """It is told, and the submission shows whether it matters."""
    hadoop = FakeHadoop(overview=LAND, survey=TimedOutError("no answer within 30 s"))
    found = YarnDeployer(YarnSettings(docker=None, python="/p"), context, hadoop).check(SPEC)
    assert [(f.found, f.fatal) for f in found] == [("no answer within 30 s", False)]


def test_logs_have_their_last_lines(context) -> None:
    """Only a newline ends a line; no log is `NotFoundError`."""

    def logs(into: str, **_: Any) -> bool:
        Path(into).write_bytes(b"one\ntwo\r\nthree")
        return True

    ref = YarnDeployer(YarnSettings(), context, FakeHadoop(RUNNING, submit=SUBMITTED)).submit(
        SPEC, STAGED, FILES
    )
    deployer = YarnDeployer(YarnSettings(), context, FakeHadoop(logs=logs))
    assert list(deployer.logs(ref, "", None)) == ["one", "two\r", "three"]
    assert list(deployer.logs(ref, "", 1)) == ["three"]
    assert list(deployer.logs(ref, "", 0)) == []
    with pytest.raises(NotFoundError):
        YarnDeployer(YarnSettings(), context, FakeHadoop(logs=False)).logs(ref, "", None)
