import pytest
from fake_fleet import holds, instance, status

from tarn.cluster.explain import causes, explain
from tarn.cluster.read.table import age, span
from tarn.domain import Issue

WELL = "demo: 2 of 2 ready; nothing is wrong"


UNWELL = {
    "symptom": "failing",
    "model": "m",
    "message": "model 'm' failed 9 of 9",
    "ejected": False,
    "confirmed": False,
}


def said(shown, id_=None) -> tuple[str, ...]:
    """What `tarn why` prints, a line each."""
    return tuple(map(str, explain(shown, id_)))


def waits(what: str, until_in_s: float | None = None, *followers: str) -> dict[str, object]:
    return {"for": what, "until_in_s": until_in_s, "followers": list(followers)}


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(None, ""), (0.4, "0s"), (59.9, "59s"), (60, "1m00s"), (192, "3m12s"), (3600, "1h00m"),
     (18_125, "5h02m"), (183_600, "2d03h"), (-3, "0s")],
)  # fmt: skip
def test_says_an_age_in_the_two_units_that_matter(seconds, expected):
    """A person wants the order of magnitude, not a number of seconds."""
    assert age(seconds) == expected


def test_what_is_to_come_is_never_in_no_time():
    """Rounded up: in 0.2 s is not now."""
    assert (span(0.2), span(1.0), span(59.1)) == ("1s", "1s", "1m00s")


def test_a_cause_ends_in_its_own_step_or_in_that_of_its_code():
    """Where only time helps, neither is made up."""
    assert str(Issue("a", "it broke.", "Mend it.", "TARN-1005")) == "it broke. Mend it."
    assert str(Issue("a", "it is late", code="TARN-1301")) == "it is late. Restart the follower."
    assert str(Issue("a", "it is ready", code="TARN-1102")) == "it is ready"
    plain = {"subject": "a", "found": "it is late", "next_step": "Restart the follower."}
    assert Issue("a", "it is late", code="TARN-1301").plain() == {
        **plain,
        "code": "TARN-1301",
    }


def test_says_so_when_nothing_is_amiss():
    """Silence could mean that nobody looked."""
    assert said(status()) == (WELL,)
    assert causes(status()) == ()


def test_says_a_sentence_for_each_thing_that_is_not_as_desired():
    """State, size, instances, suspects, models, and what the master complains of."""
    broken = {"name": "bad", "state": "UNAVAILABLE", "reason": "no version"}
    lost = "follower lb1 is lost: its lease ran out"
    shown = status(
        "degraded",
        (
            instance(1, models=[broken]),
            instance(2, "starting", reason="loads", state_for_s=70, waits=waits("models", 830)),
            instance(3, suspect="silent for 4 s", waits=waits("answer", 25.2)),
        ),
        reason="a model is unavailable",
        desired=3,
        ready=1,
        warnings=[lost, "the disk is nearly full"],
        faults=["a required follower is lost"],
        troubles=[{"code": "TARN-1301", "subject": "lb1", "message": lost}],
    )
    assert said(shown) == (
        "demo is degraded, 1 of 3 ready",
        (
            "demo-0001: model 'bad' is unavailable: no version. Fix the model in the "
            "repository; `tarn logs demo-0001` shows more."
        ),
        (
            "demo-0002 is starting for 1m10s: loads; it will be replaced unless it is ready in "
            "13m50s. `tarn logs demo-0002` shows Triton's log."
        ),
        (
            "demo-0003 is kept out of the view: silent for 4 s; it will be killed and replaced "
            "unless it answers in 26s. `tarn logs demo-0003` shows Triton's log."
        ),
        f"{lost}. Restart the follower.",
        "the disk is nearly full",
    )


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (
            instance(1, "requested", state_for_s=3),
            "demo-0001 has waited for 3s for a place; nothing is known to be wrong",
        ),
        (
            instance(1, "requested", reason="no node without tag 'nvidia' is free (3 of 3 used)"),
            (
                "demo-0001 has waited for 1m15s for a place: no node without tag 'nvidia' is free"
                " (3 of 3 used). Free what it waits for, or lower `instance.resources` or the size."
            ),
        ),
        (
            instance(1, "draining", reason="asked", waits=waits("followers", None, "lb1", "lb2")),
            (
                "demo-0001 is draining for 1m15s (asked): waits for lb1, lb2 to acknowledge. "
                "Restart lb1, lb2 if lost; the wait also ends when its lease expires."
            ),
        ),
        (
            instance(1, suspect=UNWELL["message"], unwell=UNWELL | {"ejected": True}),
            (
                "demo-0001 is failing: model 'm' failed 9 of 9; it is out of the view, and gets"
                " test requests. `tarn logs demo-0001` shows Triton's log."
            ),
        ),
        (  # it does not even answer: that is what ends it
            instance(1, suspect="no answer", unwell=UNWELL | {"ejected": True}),
            (
                "demo-0001 is kept out of the view: no answer."
                " `tarn logs demo-0001` shows Triton's log."
            ),
        ),
        (
            instance(1, unwell=UNWELL | {"confirmed": True}),
            (
                "demo-0001 is failing: model 'm' failed 9 of 9; it stays in the view."
                " `tarn logs demo-0001` shows Triton's log."
            ),
        ),
        (
            instance(1, unwell=UNWELL | {"symptom": "slow", "message": "it is slow"}),
            "demo-0001 is slow: it is slow. `tarn logs demo-0001` shows Triton's log.",
        ),
        (
            instance(1, "draining", waits=waits("followers")),
            "demo-0001 is draining for 1m15s: waits until it has left every follower's view",
        ),
        (
            instance(1, "draining", waits=waits("unload", 588)),
            (
                "demo-0001 is draining for 1m15s: waits for its models to unload, each with the "
                "last request in it; what is left will be cut in 9m48s"
            ),
        ),
        (
            instance(1, "draining", waits=waits("quiesce", 1.5)),
            "demo-0001 is draining for 1m15s: it has no requests, and stops after `drain.quiesce`",
        ),
        (
            instance(1, "draining", busy=3.0, waits=waits("requests", 588)),
            (
                "demo-0001 is draining for 1m15s: waits for 3 requests in flight; what is left "
                "will be cut in 9m48s"
            ),
        ),
        (
            instance(1, "draining", busy=None, waits=waits("requests", 588)),
            (
                "demo-0001 is draining for 1m15s: waits for requests in flight; how many is "
                "unknown; what is left will be cut in 9m48s"
            ),
        ),
        (
            instance(1, "draining", waits={**waits("sessions", 588, "lb1"), "sessions": 1}),
            (
                "demo-0001 is draining for 1m15s: waits for 1 open session at lb1; what is left "
                "will be cut in 9m48s"
            ),
        ),
        (
            instance(1, "draining", waits={**waits("sessions", 588, "lb1", "lb2"), "sessions": 3}),
            (
                "demo-0001 is draining for 1m15s: waits for 3 open sessions at lb1, lb2; what "
                "is left will be cut in 9m48s"
            ),
        ),
        (
            instance(1, "draining", waits={**waits("sessions", 588, "lb1"), "sessions": 0}),
            (
                "demo-0001 is draining for 1m15s: waits for lb1 to report its open sessions; "
                "what is left will be cut in 9m48s"
            ),
        ),
        (
            instance(1, "draining", waits=waits("end")),
            "demo-0001 is draining for 1m15s: the runtime was asked to stop it",
        ),
        (instance(1, "draining"), "demo-0001 is draining for 1m15s"),
        (
            instance(1, "failed", reason="exit code 1"),
            "demo-0001 failed 1m15s ago: exit code 1. `tarn logs demo-0001` shows Triton's log.",
        ),
        (
            instance(1, "failed"),
            (
                "demo-0001 failed 1m15s ago: no reason is known."
                " `tarn logs demo-0001` shows Triton's log."
            ),
        ),
        (
            instance(1, "stopped", reason="drained in 2.0 s, 0 cut"),
            "demo-0001 stopped 1m15s ago: drained in 2.0 s, 0 cut",
        ),
        (instance(1), "demo-0001 is ready at 127.0.0.1:41001; nothing is wrong"),
    ],
)
def test_explains_one_instance_from_its_facts(item, expected):
    """In each state: what it waits for, until when, and what can be done."""
    over = item["state"] in ("failed", "stopped")
    shown = status(instances=(instance(2),), ended=[item]) if over else status(instances=(item,))
    assert said(shown, "demo-0001") == (expected,)
    assert said(shown, "demo-0404") == ()


def test_a_trouble_of_one_instance_is_told_of_that_one():
    """It is ready, and yet something is amiss; of the others nothing is."""
    trouble = {"code": "TARN-1124", "subject": "demo-0001", "message": "demo-0001: m_0_0 died"}
    shown = status(instances=(instance(1), instance(2)), troubles=[trouble])
    (line,) = said(shown, "demo-0001")
    assert line.startswith("demo-0001: m_0_0 died. ")
    assert said(shown, "demo-0002")[0].endswith("nothing is wrong")


def test_an_older_master_says_less_and_is_understood():
    """Neither `holds` nor `waits` nor `troubles` need be there."""
    item = instance(1, "starting", reason="loads")
    for key in ("waits", "state_for_s"):
        del item[key]
    shown = status("starting", (item,), faults=["TARN-1303 discovery behind"])
    for key in ("holds", "troubles"):
        del shown[key]
    assert said(shown) == (
        "demo is starting, 0 of 1 ready",
        "demo-0001 is starting for 1m15s: loads. `tarn logs demo-0001` shows Triton's log.",
        "discovery behind. Check that the master can reach it; it is tried again.",
    )


def test_names_the_newest_failure_while_instances_are_missing():
    """Five equal failures are one fact; a failure of yesterday in a whole fleet is none."""
    ended = [
        instance(1, "failed", reason="old"),
        instance(2, "failed", reason="error: unable to find backend", state_for_s=4),
        instance(3, "stopped"),
    ]
    missing = status("starting", (instance(4, "requested"),), ended=ended)
    line = "demo-0002 failed 4s ago: error: unable to find backend."
    assert f"{line} `tarn logs demo-0002` shows Triton's log." in said(missing)
    assert said(status(ended=ended)) == (WELL,)


def test_says_one_cause_once_and_on_one_line():
    """Triton's traceback is in the log; the first paragraph is the cause."""
    cause = "Internal: ModuleNotFoundError: No module named 'x'"
    why = f"{cause}\n\nAt:\n  model.py(13): <module>\n"
    broken = [{"name": "ocr", "state": "UNAVAILABLE", "reason": why}]
    starting = instance(1, "starting", reason=f"model ocr is unavailable: {why}", models=broken)
    assert said(status("starting", (starting,))) == (
        "demo is starting, 0 of 1 ready",
        (
            f"demo-0001 is starting for 1m15s: model ocr is unavailable: {cause}."
            " `tarn logs demo-0001` shows Triton's log."
        ),
    )


def test_the_masters_own_reason_stands_where_no_cause_says_more():
    """A master that takes up its work knows of nothing else."""
    shown = status("submitted", desired=0, ready=0, reason="the master takes up its work")
    shown["instances"] = []
    assert said(shown) == ("demo is submitted, 0 of 0 ready: the master takes up its work",)


def test_says_when_the_next_launch_is_tried():
    """The back-off in seconds and as a time; a resume does not wait for it."""
    held = holds(failures_in_a_row=3, retry_in_s=3.2)
    shown = status("starting", (instance(1),), desired=2, ready=1, holds=held)
    assert said(shown)[1:] == (
        (
            "after 3 quick failures in a row, the next launch is in 4s (at 08:00:03Z). `tarn "
            "resume` tries at once."
        ),
    )
    once = {**shown, "holds": holds(failures_in_a_row=1, retry_in_s=1)}
    assert "after a quick failure, the next launch" in said(once)[1]
    assert said({**shown, "desired": 1}) == ("demo is starting, 1 of 1 ready",)


def test_says_that_launching_was_given_up_and_names_the_last_failure_once():
    """The reason holds the failure; a back-off means nothing any more."""
    why = "5 instances in a row failed quickly; the last, demo-0005: exit code 1"
    held = holds(halted=why, failures_in_a_row=5, retry_in_s=30.0)
    ended = [instance(5, "failed", reason="exit code 1")]
    shown = status("failed", (), desired=1, ready=0, holds=held, ended=ended, reason=why)
    shown["instances"] = []
    assert said(shown) == (
        "demo is failed, 0 of 1 ready",
        (
            f"launching is given up: {why}. Fix the cause, then run `tarn resume -c demo`; "
            "`tarn help TARN-1112` says more."
        ),
    )


def test_nothing_is_replaced_where_launching_is_given_up():
    """One that still starts, or is silent, is the last: both lines say the same."""
    six = instance(6, "starting", reason="loads", waits=waits("models", 825.0), state_for_s=70)
    silent = instance(7, suspect="no answer for 3 s", waits=waits("answer", 12.0))
    given_up = holds(halted="5 instances in a row failed quickly; the last, demo-0005: no backend")
    shown = status("degraded", (six, silent), holds=given_up)
    for lines in (said(shown), (*said(shown, "demo-0006"), *said(shown, "demo-0007"))):
        text = " ".join(lines)
        assert "demo-0006 is starting for 1m10s: loads; it will be ended, and not replaced," in text
        assert "it will be killed, and not replaced, unless it answers in 12s" in text
        assert "is replaced" not in text


def test_a_drain_that_waits_for_its_replacement_says_what_is_lacking():
    """And how not to wait."""
    wait = {**waits("replacement"), "lacks": "no other instance serves model 'b'"}
    assert said(status("ready", (instance(1, waits=wait),)))[-1] == (
        "demo-0001 keeps serving until a replacement serves all its models, then drains: no "
        "other instance serves model 'b'. `tarn drain demo-0001 --now` does not wait for a "
        "replacement."
    )


def test_says_that_replacements_are_frozen_and_until_when():
    """The fact says more than the fault, which is not said again."""
    trouble = {"code": "TARN-1010", "subject": "demo", "message": "replacements are frozen"}
    held = holds(frozen_for_s=12.0, thaws_in_s=288.0)
    assert said(status(holds=held, troubles=[trouble], faults=["replacements are frozen"])) == (
        (
            "replacements are frozen for 12s: most instances fell silent at once, so the master "
            "itself is suspect; they thaw in 4m48s at the latest."
            " Check the network between master and instances; `tarn resume` thaws at once."
        ),
    )


def test_says_who_holds_the_size():
    """Pause, hand and ceiling each hold the size, and each says how it ends."""
    shown = status(
        manual=2,
        pause={"until": 1_800_000_000.0, "reason": "load test"},
        limits={"min": 1, "max": 5, "ceiling": 2, "ceiling_reason": "farm alice has 2"},
    )
    assert said(shown) == (
        "at most 2 replicas: farm alice has 2",
        "scaling is paused until 08:00:00Z: load test. `tarn resume` ends the pause.",
        "the size was set by hand to 2. `tarn scale --auto` lets the policy choose the size again.",
    )


def test_says_who_waits_for_an_instance():
    """While there is none; a cluster that serves needs no such word."""
    one = {"from": "lb1", "waiting": 1, "age_s": 0.5}
    asleep = status(instances=(), demand=one, desired=0, ready=0, manual=0)
    assert said(asleep)[-1] == "asked for by lb1: 1 request waits there for an instance"
    two = status(instances=(), state="starting", demand={**one, "waiting": 2}, desired=1, ready=0)
    assert "asked for by lb1: 2 requests wait there for an instance" in said(two)
    assert said(status(demand=one)) == (WELL,)
    refused = status(instances=(), demand={**one, "waiting": 0, "refused": 79}, desired=1, ready=0)
    told = "asked for by lb1: 79 requests were refused there per second, every attempt counted"
    assert told in said(refused)


@pytest.mark.parametrize(
    ("by", "step"),
    [
        ("limits", "`tarn adapt --min N --max M` changes the limits."),
        ("down_window", "`scaling.down.window` sets how long; `tarn scale N` does not wait."),
        ("up_window", "`scaling.up.window` sets how long; `tarn scale N` does not wait."),
        ("cooldown", "`scaling.cooldown` sets how long; `tarn scale N` does not wait."),
    ],
)
def test_says_what_holds_the_size_back_and_until_when(by, step):
    """In the master's own sentence, with what can be done about it."""
    policy = {"use": "target", "wanted": 9, "reason": "queue 40 ms"}
    sentence = "2 replicas; policy target wants 9: queue 40 ms; it grows to 9 in 42 s."
    size = {"sentence": sentence, "held": [{"by": by, "reason": "", "left_s": 42.0}]}
    assert said(status(holds=holds(policy=policy, size=size))) == (f"{sentence} {step}",)


def test_says_nothing_of_a_policy_that_is_obeyed_or_not_heard():
    """A pause or a person says that of itself."""
    policy = {"use": "target", "wanted": 9, "reason": "queue 40 ms"}
    size = {"sentence": "so.", "held": [{"by": "manual", "reason": "", "left_s": None}]}
    assert said(status(holds=holds(policy={**policy, "wanted": 2}))) == (WELL,)
    assert said(status(holds=holds(policy=policy))) == (WELL,)
    assert len(said(status(manual=2, holds=holds(policy=policy, size=size)))) == 1
    stopping = said(status("stopping", holds=holds(policy=policy, size=size)))
    assert not any("so." in line for line in stopping)


def test_says_that_a_follower_could_not_apply_the_view():
    """With its own words."""
    follower = {"name": "lb1", "required": True, "revision": 2, "age_s": 1.0, "lost": False}
    shown = status(followers=[{**follower, "error": "no such backend 'triton'"}])
    assert said(shown)[0].startswith(
        "follower lb1 could not apply the view: no such backend 'triton'."
    )


def test_says_that_a_fenced_masters_word_is_old():
    """What a fenced master shows is what it last knew, said once."""
    trouble = {"code": "TARN-1008", "subject": "demo", "message": "the master has lost its runtime"}
    assert said(status(stale=True, troubles=[trouble])) == (
        (
            "demo: the master stopped acting, and this is its last known state. Check the "
            "runtime; the master acts again as soon as it answers."
        ),
    )


def test_says_how_a_fleet_without_a_master_is_taken_over():
    """The status was made without one, and its code has the next step."""
    reason = "no master is running; 1 instance serves; `tarn up` takes it over"
    shown = status("degraded", (instance(1),), code="TARN-4003", reason=reason, stale=True)
    assert said(shown) == (
        "demo is degraded, 1 of 1 ready",
        f"{reason}. `tarn up` starts one that takes them over.",
    )


def test_a_warning_with_a_code_in_front_is_explained_by_the_table():
    """A runtime writes its codes so."""
    shown = status(warnings=["TARN-1014 no keeper: nobody restarts the master"])
    assert said(shown) == ("no keeper: nobody restarts the master. `tarn up` starts a keeper.",)


def test_a_trouble_without_a_code_is_told_as_it_stands():
    """It is about the cluster, and the fault that says the same is not told again."""
    lost = "3 announcements to plugins were lost"
    shown = status(troubles=[{"code": "", "subject": "", "message": lost}], faults=[lost])
    assert explain(shown) == (Issue("demo", lost),)


def test_a_discovery_of_the_masters_own_is_complained_of_once():
    """It is a follower, and a worker that fails: two reports of one thing."""
    lost = "HAProxy at /ha.sock: there is no such socket. Start HAProxy."
    follower = {"name": "haproxy", "error": lost}
    trouble = {"code": "TARN-1303", "subject": "discovery haproxy"}
    (line,) = said(
        status(
            followers=[follower], troubles=[{**trouble, "message": f"discovery haproxy: {lost}"}]
        )
    )
    assert line.startswith(f"follower haproxy could not apply the view: {lost}")
    assert len(said(status(troubles=[{**trouble, "message": "discovery other: away"}]))) == 1
