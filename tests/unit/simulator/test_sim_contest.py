"""How policies are compared: what counts as better, and what the page gets."""

import pytest
from bench.policies import OURS, Job, Score, jobs_of, judged, specified, table, tied, written

from tarn_plugins.cli.simulate.trace import generated


def score(p95_s: float, hours: float) -> Score:
    return Score(p95_s, hours, 0, 0.0)


@pytest.mark.parametrize(
    ("rival", "ours", "dominates"),
    [
        ((0.010, 5.0), (0.020, 5.0), True),
        ((0.020, 4.5), (0.020, 5.0), True),
        ((0.010, 4.5), (0.020, 5.0), True),
        ((0.010, 5.1), (0.020, 5.0), False),  # dearer
        ((0.030, 4.0), (0.020, 5.0), False),  # slower
        ((0.020, 5.0), (0.020, 5.0), False),  # the same
    ],
)
def test_who_dominates_is_no_worse_on_both_and_better_on_one(
    rival: tuple[float, float], ours: tuple[float, float], dominates: bool
) -> None:
    """To the last digit, for ours as for theirs."""
    assert score(*rival).dominates(score(*ours)) is dominates


def test_what_is_tied() -> None:
    """Within 5 % of the lower one, or 1 ms."""
    assert tied(0.1, 0.105)
    assert not tied(0.1, 0.106)
    assert tied(0.0, 0.001)


def test_at_equal_cost_a_rival_may_choose_its_target() -> None:
    """The best of all its runs that cost at most ours and 2 %; dearer ones do not count."""
    hpa, tuned = Job("step", 1, "hpa"), Job("step", 1, "hpa", (("target", 0.5),))
    rest = {Job("step", 1, "knative"): score(9, 9), Job("step", 1, "java"): score(9, 9)}
    ours = Job("step", 1, OURS)
    scores = {ours: score(0.02, 5), hpa: score(0.03, 4), tuned: score(0.01, 5.2), **rest}
    verdict = judged("step-1", scores)
    assert verdict.best_at_cost == ("hpa", score(0.03, 4))
    assert verdict.best_or_tied
    missed = judged("step-1", {**scores, tuned: score(0.01, 5.09)})
    assert missed.best_at_cost == ("hpa (target 0.5)", score(0.01, 5.09))
    assert not missed.best_or_tied
    assert missed.dominated_by == ()  # only defaults dominate


def test_each_trace_has_one_run_of_ours_and_a_sweep_of_each_rival() -> None:
    """Seven targets each, one of them the default."""
    jobs = list(jobs_of("step", 1))
    assert [job.use for job in jobs].count(OURS) == 1
    assert [job.use for job in jobs].count("hpa") == 7
    assert len(set(jobs)) == 22


def test_only_a_load_that_goes_to_zero_lets_the_fleet_sleep() -> None:
    """All contenders have one spec, and begin with what fits."""
    assert specified(generated("sparse", 1)).replicas.min == 0
    spec = specified(generated("step", 1))
    assert spec.replicas.min == 1
    assert spec.scaling.use == OURS
    assert spec.replicas.initial


def test_the_page_keeps_what_stands_around_the_table() -> None:
    """Only the marked region is made anew."""
    page = "above\n<!-- table: begin -->\nold\n<!-- table: end -->\nbelow\n"
    rest = {Job("step", 1, use): score(9, 9) for use in ("hpa", "knative", "java")}
    region = table([judged("step-1", {Job("step", 1, OURS): score(0.02, 5), **rest})], [7, 8])
    made = written(page, region)
    assert made.startswith("above\n")
    assert made.endswith("below\n")
    assert "old" not in made
    assert "--seeds 7,8" in made
    assert "| step-1 | **20.0 ms, 5.00 h, 0** |" in made
    assert written(made, region) == made
