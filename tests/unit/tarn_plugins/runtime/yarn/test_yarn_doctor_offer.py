"""The checks as doctor gets them: one look for all of them, and what keeps it is told once."""

import threading
from pathlib import Path
from typing import Any

import attrs
import pytest

from tarn.doctor import CheckState, OfferedCheck, Result, examine
from tarn.domain import ClusterSpec
from tarn.domain.spec import Choice, ModelsSpec
from tarn.errors import LaunchError, TarnError, TimedOutError
from tarn.interfaces import Finding
from tarn.testing.context import client_context, cluster_spec
from tarn_plugins.runtime.yarn import tarn_doctor_checks
from tarn_plugins.runtime.yarn.doctor import offer
from tarn_plugins.runtime.yarn.survey import (
    Client,
    HdfsSurvey,
    Queue,
    Survey,
    YarnNode,
    YarnOverview,
)

YARN = attrs.evolve(cluster_spec(), runtime=Choice("yarn", {"docker": None}))
LAND = YarnOverview("ann", (Queue("root.default"),), {"memory-mb": 8192}, nodes=(YarnNode("n"),))
SEEN = Survey(
    client=Client("ann", "3.4.2"), overview=LAND, hdfs=HdfsSurvey("hdfs://nn/x", free=2**40)
)


class FakeHadoop:
    """Answers once it is let; counts who asked."""

    def __init__(self, answer: Survey | TarnError) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []
        self.threads: set[int] = set()

    def ask(self, question: str, within_s: float, **parts: Any) -> Any:
        assert question == "survey"
        assert within_s < 60
        self.asked.append(parts)
        self.threads.add(threading.get_ident())
        if isinstance(self.answer, TarnError):
            raise self.answer
        return attrs.asdict(self.answer)


def results(tmp_path: Path, hadoop: FakeHadoop, spec: ClusterSpec = YARN) -> dict[str, Result]:
    context = client_context(tmp_path)
    offered = [OfferedCheck("yarn", check) for check in offer.checks(spec, context, hadoop)]
    return {one.check: one for one in examine(offered, context.clock)}


def test_everything_is_asked_once(tmp_path: Path) -> None:
    """Thirty checks on eight threads share one look, and what they see is a survey."""
    hadoop = FakeHadoop(SEEN)
    found = results(tmp_path, hadoop)
    assert hadoop.asked == [{"repository": None, "serve": [], "copied": None, "python": ""}]
    assert found["YARN user"].seen == "ann, by name only (no Kerberos)"
    assert found["YARN queue"].state is CheckState.OK
    assert found["time to end"].state is CheckState.UNKNOWN


@pytest.mark.parametrize(
    ("code", "teller"),
    [
        ("TARN-3132", "YARN user"),
        ("TARN-3120", "Hadoop versions"),
        ("TARN-3122", "Java here"),
        ("TARN-3130", "YARN connection"),
        ("TARN-3000", "YARN connection"),
    ],
)
def test_what_keeps_the_look_is_told_by_one_check(tmp_path: Path, code: str, teller: str) -> None:
    """Thirty times the same error would hide it; all others name the one."""
    hadoop = FakeHadoop(LaunchError("yarn", "so it is", code=code, next_step="do this"))
    found = results(tmp_path, hadoop)
    assert len(hadoop.asked) == 1
    assert {name for name, one in found.items() if one.findings} == {teller}
    assert found[teller].findings[0].next_step == "do this"
    others = [one for name, one in found.items() if name != teller]
    assert all(one.seen == f"not looked at: see '{teller}'" for one in others)


def test_a_silence_is_a_finding_too(tmp_path: Path) -> None:
    """The child was killed: YARN's answer never came."""
    found = results(
        tmp_path, FakeHadoop(TimedOutError("YARN gave no answer", next_step="Is it up?"))
    )
    assert found["YARN connection"].state is CheckState.ERROR


def test_hdfs_is_seen_where_yarn_is_silent(tmp_path: Path) -> None:
    """Each tells for itself; what needs YARN says where to read why."""
    failure = Finding("TARN-3130", "yarn", "is silent", "start it")
    found = results(tmp_path, FakeHadoop(attrs.evolve(SEEN, overview=None, failure=failure)))
    assert found["YARN connection"].state is CheckState.ERROR
    assert found["free space of HDFS"].state is CheckState.OK
    assert found["largest container"].seen == "not looked at: see 'YARN connection'"


def test_what_the_spec_decides_is_asked_for(tmp_path: Path) -> None:
    """A repository on Hadoop, one of this machine that is copied, and a packed environment."""
    options = {"docker": None, "python": "hdfs:///env/tarn.tar.gz"}
    spec = attrs.evolve(
        YARN,
        models=ModelsSpec("hdfs:///models", ("echo",)),
        runtime=Choice("yarn", options),
    )
    hadoop = FakeHadoop(SEEN)
    assert "models on Hadoop" in results(tmp_path, hadoop, spec)
    assert hadoop.asked[0] == {
        "repository": "hdfs:///models",
        "serve": ["echo"],
        "copied": None,
        "python": "hdfs:///env/tarn.tar.gz",
    }
    local = attrs.evolve(YARN, models=ModelsSpec("file:///srv/models"))
    hadoop = FakeHadoop(SEEN)
    assert "models on Hadoop" not in results(tmp_path, hadoop, local)
    assert hadoop.asked[0]["copied"] == "/srv/models"


def test_only_where_the_runtime_is_yarn(tmp_path: Path) -> None:
    """Another runtime has no YARN; options that are wrong are told by who reads them all."""
    context = client_context(tmp_path)
    assert tarn_doctor_checks(cluster_spec(), context) == ()
    wrong = attrs.evolve(YARN, runtime=Choice("yarn", {"queue": 7}))
    assert tarn_doctor_checks(wrong, context) == ()


def test_docker_is_looked_at_where_it_is_used(tmp_path: Path) -> None:
    """With ``docker: null`` there is nothing to allow."""
    context = client_context(tmp_path)
    used = attrs.evolve(YARN, runtime=Choice("yarn", {}))
    assert "Docker on the nodes" in [one.name for one in tarn_doctor_checks(used, context)]
    assert "Docker on the nodes" not in [one.name for one in tarn_doctor_checks(YARN, context)]


def test_a_check_waits_longer_than_the_look() -> None:
    """Else all of them were given up while the one look still has time."""
    for check in offer.checks(YARN, client_context(Path("/nowhere"))):
        assert check.within_s > offer.WITHIN_S
