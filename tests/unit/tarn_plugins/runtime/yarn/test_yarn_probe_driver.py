"""The client's end of probes: whatever YARN does, each ends, once, and says what came of it."""

import itertools
import threading

import attrs
import pytest

from tarn.clock import SystemClock
from tarn.errors import LaunchError, ProviderError, TimedOutError, UnreachableError
from tarn_plugins.runtime.yarn.probe.driver import Patience, ProbeRound
from tarn_plugins.runtime.yarn.probe.messages import (
    ProbeProgress,
    ProbeRequest,
    ProbeStarted,
    WaitContext,
)
from tarn_plugins.runtime.yarn.survey import Queue, YarnNode, YarnOverview

QUICK = Patience(grant_s=0.4, look_s=0.1, run_s=0.5, poll_s=0.02)
FULL = YarnNode(
    "nm1", total={"memory-mb": 8192, "vcores": 8}, used={"memory-mb": 8000, "vcores": 1}
)
SAID = "Last 4096 bytes of probe.stderr :\ntarn-probe begin=1\ntarn-probe uid=7\ntarn-probe end=1"


@attrs.define
class Yarn:
    """A door whose applications go through *steps*; the last one is said again and again."""

    steps: dict[str, list[ProbeProgress | Exception]]
    """By label, or by application: ``<label>-<how many were begun>``."""
    crowd: WaitContext = attrs.field(factory=WaitContext)
    refuses: Exception | None = None
    begun: list[ProbeRequest] = attrs.field(factory=list, init=False)
    ended: list[str] = attrs.field(factory=list, init=False)
    closed: int = attrs.field(default=0, init=False)
    _at: dict[str, int] = attrs.field(factory=dict, init=False)

    def ask(self, question, within_s, *, do, **parts):
        assert question == "probe"
        return attrs.asdict(self.crowd) if do == "crowd" else getattr(self, do)(**parts)

    def close(self):
        self.closed += 1

    def begin(self, order):
        if self.refuses is not None:
            raise self.refuses
        self.begun.append(ProbeRequest(**order))
        return attrs.asdict(
            ProbeStarted(f"{order['label']}-{len(self.begun)}", (("RM", "rm:8030"),))
        )

    def step(self, application_id):
        steps = self.steps.get(application_id) or self.steps[application_id.partition("-")[0]]
        at = self._at[application_id] = self._at.get(application_id, -1) + 1
        said = steps[min(at, len(steps) - 1)]
        if isinstance(said, Exception):
            raise said
        return attrs.asdict(said)

    def end(self, application_id, why):
        self.ended.append(application_id)


def order(label="", **parts):
    return ProbeRequest(queue="default", label=label, memory_mib=512, vcores=1, **parts)


def round_of(yarn, *orders, call=lambda host, port, word: "Connection refused"):
    keyed = {one.label: one for one in orders}
    return ProbeRound(lambda: yarn, keyed, SystemClock(), QUICK, call)


RUNNING = ProbeProgress("running", node="nm1", container_id="container_1", started_at=10.0)
ENDED = ProbeProgress("ended", SAID, "nm1", "container_1", 90, 10.0, 12.0)


def test_what_a_container_said_comes_back():
    """With where it was; the application is ended, and the child, too."""
    yarn = Yarn({"": [ProbeProgress("submitted"), ProbeProgress("asked"), RUNNING, ENDED]})
    one = round_of(yarn, order())
    outcome = one.outcome("")
    one.join()
    assert (outcome.failure, outcome.node, outcome.facts.get("uid")) == (None, "nm1", "7")
    assert (outcome.started_at, outcome.heard_at) == (10.0, 12.0)
    assert (yarn.ended, yarn.closed) == (["-1"], 1)


def test_many_ask_and_it_runs_once():
    """All checks of one container share it, and those of another run beside it."""
    yarn = Yarn({"": [RUNNING, ENDED], "gpu": [RUNNING, RUNNING, RUNNING, ENDED]})
    one = round_of(yarn, order(), order("gpu"))
    heard = []
    threads = [
        threading.Thread(target=lambda key=key: heard.append(one.outcome(key)))
        for key in ["", "gpu"] * 6
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    one.join()
    assert len(heard) == 12
    assert [each.label for each in yarn.begun] == ["", "gpu"]
    assert sorted(yarn.ended) == ["-1", "gpu-2"]


def test_a_label_without_nodes_is_given_up_early():
    """It says which labels there are."""
    others = YarnOverview(nodes=(attrs.evolve(FULL, label="cpu"),))
    yarn = Yarn({"gpu": [ProbeProgress("asked")]}, WaitContext(others))
    outcome = round_of(yarn, order("gpu")).outcome("gpu")
    assert outcome.failure.code == "TARN-3180"
    assert "no running node has the label 'gpu'; those that run have: cpu" in (
        outcome.failure.found
    )


def test_a_container_that_never_comes_says_what_there_is_no_room_for():
    """On the nodes and in the queue, with YARN's own words."""
    queues = (Queue("root.default"),)
    crowd = WaitContext(
        YarnOverview(queues=queues, nodes=(FULL,)), 100, "Queue's AM resource limit exceeded."
    )
    yarn = Yarn({"": [ProbeProgress("asked")]}, crowd)
    found = round_of(yarn, order()).outcome("").failure.found
    assert "none that is in the default partition has 512 MiB, 1 vcores free" in found
    assert "the queue 'default' has 100 MiB left" in found
    assert "AM resource limit" in found


def test_without_its_gpus_the_rest_is_seen():
    """It is asked for once more, and says that none was free."""
    nodes = (attrs.evolve(FULL, used={}),)
    yarn = Yarn(
        {"": [ProbeProgress("asked")], "-2": [ENDED]}, WaitContext(YarnOverview(nodes=nodes))
    )
    outcome = round_of(yarn, order(gpus=2)).outcome("")
    assert [each.gpus for each in yarn.begun] == [2, 0]
    assert (outcome.gpus, outcome.failure) == (0, None)
    assert "2 yarn.io/gpu free" in outcome.gpus_wait


def test_more_gpus_than_any_container_may_have_keep_nothing_else_from_being_seen():
    """YARN calls such an ask invalid at once; the rest is asked for without them."""
    yarn = Yarn({"-1": [ProviderError("yarn", "rejected a request as invalid")], "-2": [ENDED]})
    outcome = round_of(yarn, order(gpus=9)).outcome("")
    assert [each.gpus for each in yarn.begun] == [9, 0]
    assert yarn.ended == ["-1", "-2"]
    assert (outcome.failure, outcome.facts.get("uid")) == (None, "7")
    assert "9 of yarn.io/gpu" in outcome.gpus_wait


def test_a_container_that_says_nothing_in_time_is_ended():
    """Nothing need be wrong with it."""
    yarn = Yarn({"": [RUNNING]})
    one = round_of(yarn, order())
    outcome = one.outcome("")
    one.join()
    assert (outcome.failure, yarn.ended) == (None, ["-1"])
    assert "reported nothing within 0.5 s" in outcome.untold


def test_a_container_without_facts_says_how_it_ended():
    """In the words of an instance's end."""
    died = attrs.evolve(ENDED, exit_code=127, diagnostics="sh: tarn: not found")
    failure = round_of(Yarn({"": [died]}), order()).outcome("").failure
    assert (failure.code, failure.where) == ("TARN-3181", "container_1 on nm1")
    assert "exit code 127" in failure.found


@pytest.mark.parametrize(
    ("yarn", "code", "words"),
    [
        (
            Yarn({}, refuses=LaunchError("yarn", "YARN refused the application: no queue")),
            "TARN-3180",
            "unmanaged application",
        ),
        (Yarn({}, refuses=TimedOutError("no answer")), "TARN-", "no answer"),
        (Yarn({"": [ProviderError("yarn", "invalid label")]}), "TARN-3180", "invalid label"),
        (
            Yarn({"": [ProbeProgress("over", "Killed by an operator")]}),
            "TARN-3180",
            "Killed by an operator",
        ),
        (Yarn({}, refuses=LaunchError("java", "no Java", code="TARN-3122")), "TARN-3122", "Java"),
        (Yarn({}, refuses=OSError("no memory")), "TARN-3181", "no memory"),
        (Yarn({}, refuses=ZeroDivisionError()), "TARN-3181", "ZeroDivisionError"),
    ],
)
def test_whatever_fails_is_told(yarn, code, words):
    """Nobody waits for ever, and what was begun is ended."""
    one = round_of(yarn, order())
    failure = one.outcome("").failure
    one.join()
    assert failure.code.startswith(code)
    assert words in failure.found
    assert (len(yarn.ended), yarn.closed) == (len(yarn.begun), 1)


def test_what_this_machine_does_not_reach_is_left_to_yarn():
    """The container is then asked for as a master's; its node may be told by itself only."""
    said = attrs.evolve(ENDED, node="", diagnostics="tarn-probe node=nm7\ntarn-probe uid=7")
    yarn = Yarn({"": [UnreachableError("not from here")], "-2": [said]})
    one = round_of(yarn, order())
    outcome = one.outcome("")
    one.join()
    assert [each.managed for each in yarn.begun] == [False, True]
    assert (outcome.failure, outcome.node, outcome.facts.get("uid")) == (None, "nm7", "7")
    assert yarn.ended == ["-1", "-2"]


def test_the_client_calls_until_it_is_heard():
    """At each of the ports; then never again."""
    answers = itertools.chain(["refused", "refused", "refused", ""], itertools.repeat("again"))
    called = []

    def call(host, port, word):
        called.append((host, port, word))
        return next(answers)

    yarn = Yarn({"": [RUNNING, RUNNING, RUNNING, ENDED]})
    outcome = round_of(yarn, order(ports=(1, 2), word="w"), call=call).outcome("")
    assert called == [("nm1", 1, "w"), ("nm1", 2, "w")] * 2
    assert (outcome.heard, outcome.call_error) == (True, "")


def test_a_door_that_does_not_open_is_told():
    """As the finding of each container."""

    def broken():
        raise LaunchError("java", "no Java", code="TARN-3122")

    one = ProbeRound(broken, {"": order()}, SystemClock(), QUICK)
    assert one.outcome("").failure.code == "TARN-3122"
