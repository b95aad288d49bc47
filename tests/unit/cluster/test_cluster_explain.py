import pytest
from fake_fleet import instance, status

from tarn.cluster.explain import age, explain


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, ""), (0.4, "0s"), (59.9, "59s"), (60, "1m00s"), (192, "3m12s"), (3600, "1h00m"),
     (18_125, "5h02m"), (183_600, "2d03h"), (-3, "0s")],
)  # fmt: skip
def test_says_an_age_in_the_two_units_that_matter(seconds, said):
    """A person wants the order of magnitude, not a number of seconds."""
    assert age(seconds) == said


def test_says_so_when_nothing_is_amiss():
    """Silence could mean that nobody looked."""
    assert explain(status()) == ("demo: 2 of 2 ready; nothing is amiss",)


def test_says_a_sentence_for_each_thing_that_is_not_as_desired():
    """State, size, instances, suspects, models, and what the master warns of."""
    broken = {"name": "bad", "state": "UNAVAILABLE", "reason": "no version"}
    shown = status(
        "degraded",
        (
            instance(1, models=[broken]),
            instance(2, "starting", reason="loads", age_s=70),
            instance(3, suspect="silent for 4 s"),
        ),
        reason="a model is unavailable",
        desired=3,
        ready=1,
        warnings=["follower lb1 never came"],
        faults=["TARN-1303 discovery behind"],
    )
    assert explain(shown) == (
        "demo is degraded: a model is unavailable",
        "demo: 1 of 3 ready",
        "demo-0001: model 'bad' is unavailable: no version",
        "demo-0002 is starting for 1m10s: loads",
        "demo-0003 is kept out of the view: silent for 4 s",
        "follower lb1 never came",
        "TARN-1303 discovery behind",
    )


def test_names_the_newest_failure_while_instances_are_missing():
    """Five equal failures are one fact; a failure of yesterday in a whole fleet is none."""
    ended = [
        instance(1, "failed", reason="old"),
        instance(2, "failed", reason="error: unable to find backend"),
        instance(3, "stopped"),
    ]
    missing = status("starting", (instance(4, "requested"),), ended=ended)
    assert "demo-0002 failed: error: unable to find backend" in explain(missing)
    assert explain(status(ended=ended)) == ("demo: 2 of 2 ready; nothing is amiss",)


def test_says_one_cause_once_and_on_one_line():
    """Triton's traceback is in the log; the first paragraph is the cause."""
    cause = "Internal: ModuleNotFoundError: No module named 'x'"
    why = f"{cause}\n\nAt:\n  model.py(13): <module>\n"
    broken = [{"name": "ocr", "state": "UNAVAILABLE", "reason": why}]
    starting = instance(1, "starting", reason=f"model ocr is unavailable: {why}", models=broken)
    assert explain(status("starting", (starting,))) == (
        "demo is starting",
        "demo: 0 of 1 ready",
        f"demo-0001 is starting for 1m15s: model ocr is unavailable: {cause}",
    )


def test_says_who_holds_the_size():
    """Pause, hand and ceiling each hold the size, and each says how it ends."""
    shown = status(
        manual=2,
        pause={"until": 1_800_000_000.0, "reason": "load test"},
        limits={"min": 1, "max": 5, "ceiling": 2, "ceiling_reason": "farm alice has 2"},
    )
    assert explain(shown) == (
        "at most 2 replicas: farm alice has 2",
        "scaling is paused until 08:00:00Z: load test (`tarn resume` ends it)",
        "the size was set by hand to 2 (`tarn scale --auto` gives it back)",
    )


def test_explains_one_instance_alone():
    """Alive or ended; nothing of the others; empty for one that nobody knows."""
    shown = status(ended=[instance(9, "failed", reason="exit code 1")])
    assert explain(shown, "demo-0001") == (
        "demo-0001 is ready at 127.0.0.1:41001; nothing is amiss",
    )
    assert explain(shown, "demo-0009") == ("demo-0009 is failed for 1m15s: exit code 1",)
    assert explain(shown, "demo-0404") == ()


def test_says_that_a_fenced_masters_word_is_old():
    """What a fenced master shows is what it last knew."""
    assert "last knew" in explain(status(stale=True))[0]
