"""Compare our default scaling policy with those of others, and write docs/reference/policies.md.

    python -m bench.policies            # from tests/; `nox -s policies` does it

Twenty traces: two seeds of each family that were fixed before anything was tuned, two that are
drawn now from the operating system (and printed, so that ``--seeds`` repeats them). On each, every
contender runs with its documented defaults, and every rival once more for each target of a grid:
what it can reach at our cost. Exit code 1 when the aim is missed.
"""

import argparse
import contextlib
import functools
import math
import multiprocessing
import os
import secrets
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from tarn.domain import ClusterSpec
from tarn.domain.spec import ModelsSpec, ReplicasSpec, ScalingSpec
from tarn.plugins import Plugins, load
from tarn_plugins.cli.simulate.model import WorldModel
from tarn_plugins.cli.simulate.replay import enter, simulate
from tarn_plugins.cli.simulate.trace import FAMILIES, Trace, generated

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "policies.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
OURS = "target"
FIXED = (11, 12)
"""Seeds of each family, fixed before tuning; the drawn ones are above a thousand."""
GRID: Mapping[str, tuple[Mapping[str, object], ...]] = {
    "hpa": tuple({"target": target} for target in (0.3, 0.4, 0.5, 0.6, 0.7, 0.9)),
    "knative": tuple({"target": target} for target in (0.3, 0.4, 0.5, 0.6, 0.8, 0.9)),
    "java": tuple(
        {"scale_up": up, "scale_down": round(up * 2 / 7, 3)}
        for up in (0.3, 0.4, 0.5, 0.6, 0.8, 0.9)
    ),
}
"""Besides its default, what each rival is tried with."""
SAME_COST = 1.02
TIED, TIED_S = 1.05, 0.001
AIM = 0.8
MODEL = WorldModel()
FITS = 0.75
"""Every contender begins with the size at which slots are so busy at first."""


@attrs.frozen
class Job:
    """One simulation."""

    family: str
    seed: int
    use: str
    options: tuple[tuple[str, object], ...] = ()

    @property
    def trace(self) -> str:
        return f"{self.family}-{self.seed}"


@attrs.frozen
class Score:
    """What came of it."""

    p95_s: float
    hours: float
    flaps: int
    lost: float

    def dominates(self, other: "Score") -> bool:
        """No worse on both p95 and cost, and better on one."""
        no_worse = self.p95_s <= other.p95_s and self.hours <= other.hours
        return no_worse and (self.p95_s, self.hours) != (other.p95_s, other.hours)


def tied(one_s: float, other_s: float) -> bool:
    """Say whether two queue times are within 5 % or 1 ms."""
    return abs(one_s - other_s) <= max(TIED_S, (TIED - 1) * min(one_s, other_s))


@attrs.frozen
class Verdict:
    """What one trace says of our default."""

    trace: str
    ours: Score
    defaults: Mapping[str, Score]
    dominated_by: tuple[str, ...]
    best_at_cost: tuple[str, Score] | None
    """The rival's run with the lowest p95 that costs at most ours; None: none is so cheap."""

    @property
    def best_or_tied(self) -> bool:
        best = self.best_at_cost
        return best is None or self.ours.p95_s <= best[1].p95_s or self.tied

    @property
    def tied(self) -> bool:
        best = self.best_at_cost
        return best is not None and tied(self.ours.p95_s, best[1].p95_s)


@functools.cache
def plugins() -> Plugins:
    return load()


def specified(trace: Trace) -> ClusterSpec:
    """Return the spec of every contender: only a load that goes to zero lets a fleet sleep."""
    least = 0 if min(trace.rates) == 0 else 1
    per_instance = MODEL.slots / MODEL.service_s
    first = max(least, math.ceil(trace.rates[0] / (per_instance * FITS)))
    return ClusterSpec(
        "contest", ModelsSpec("/models"), replicas=ReplicasSpec(least, 24, first),
        scaling=ScalingSpec(OURS),
    )  # fmt: skip


def scored(job: Job) -> Score:
    """Run one simulation."""
    trace = generated(job.family, job.seed)
    entrant = enter(specified(trace), plugins(), job.use, dict(job.options))
    run = simulate(entrant, trace, MODEL)
    summary = run.summary
    return Score(summary.queue_p95_s, summary.instance_hours, summary.flaps, summary.lost)


def jobs_of(family: str, seed: int) -> Iterator[Job]:
    yield Job(family, seed, OURS)
    for use, grid in GRID.items():
        yield Job(family, seed, use)
        yield from (Job(family, seed, use, tuple(options.items())) for options in grid)


def judged(trace: str, scores: Mapping[Job, Score]) -> Verdict:
    """Compare our default on one trace with everything that rivals did there."""
    here = {job: score for job, score in scores.items() if job.trace == trace}
    ours = next(score for job, score in here.items() if job.use == OURS)
    defaults = {j.use: s for j, s in here.items() if j.use != OURS and not j.options}
    affordable = [
        (_named(job), score)
        for job, score in here.items()
        if job.use != OURS and score.hours <= ours.hours * SAME_COST
    ]
    return Verdict(
        trace,
        ours,
        defaults,
        tuple(name for name, score in defaults.items() if score.dominates(ours)),
        min(affordable, key=lambda named: named[1].p95_s, default=None),
    )


def _named(job: Job) -> str:
    told = ", ".join(f"{name} {value}" for name, value in job.options)
    return f"{job.use} ({told})" if told else job.use


def run_all(jobs: Sequence[Job], processes: int) -> dict[Job, Score]:
    """Run *jobs* on every core, with a line of progress."""
    began_s = time.monotonic()
    scores: dict[Job, Score] = {}
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        for job, score in zip(jobs, pool.imap(scored, jobs, chunksize=1), strict=True):
            scores[job] = score
            told = f"{len(scores)} of {len(jobs)} runs, {time.monotonic() - began_s:.0f} s"
            sys.stderr.write(f"\r{told}: {job.trace} {_named(job)}\x1b[K")
            sys.stderr.flush()
    sys.stderr.write("\n")
    return scores


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _cell(score: Score, *, bold: bool = False) -> str:
    text = f"{_ms(score.p95_s)}, {score.hours:.2f} h, {score.flaps}"
    return f"**{text}**" if bold else text


def _count(verdicts: Sequence[Verdict], *, fixed: bool) -> str:
    seeds = {str(seed) for seed in FIXED}
    those = [v for v in verdicts if (v.trace.rpartition("-")[2] in seeds) is fixed]
    return f"{sum(v.best_or_tied for v in those)} of the {len(those)}"


def table(verdicts: Sequence[Verdict], drawn: Iterable[int]) -> str:
    """Return the region of the page."""
    best = sum(v.best_or_tied for v in verdicts)
    dominated = [v for v in verdicts if v.dominated_by]
    told, of = ", ".join(map(str, drawn)), f"{len(verdicts)} traces"
    whom = "".join(f"; {v.trace} by {', '.join(v.dominated_by)}" for v in dominated)
    share = best / len(verdicts)
    fixed, rest = (_count(verdicts, fixed=fixed) for fixed in (True, False))
    split = f"{fixed} that were fixed before tuning, {rest} that were drawn"
    lines = [
        f"Drawn seeds: {told}; `nox -s policies -- --seeds {told.replace(' ', '')}` repeats it.",
        "",
        f"- Dominated by a rival's default: {len(dominated)} of {of}{whom}.",
        f"- Best or tied at equal cost: {best} of {of} ({share:.0%}, aim {AIM:.0%}): {split}.",
        "",
        "| trace | `target` (ours) | hpa | knative | java | best rival at our cost | |",
        "|---|---|---|---|---|---|---|",
    ]
    for v in verdicts:
        at_cost = "none is so cheap"
        if v.best_at_cost:
            name, score = v.best_at_cost
            at_cost = f"{name}: {_ms(score.p95_s)}, {score.hours:.2f} h"
        word = ("tied" if v.tied else "best") if v.best_or_tied else "missed"
        cells = [_cell(v.defaults[use]) for use in ("hpa", "knative", "java")]
        row = [v.trace, _cell(v.ours, bold=True), *cells, at_cost, word]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def written(page: str, region: str) -> str:
    """Return *page* with its marked region replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{region}\n\n{END}{after}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", help="the drawn seeds, two for each family: 1234,5678")
    parser.add_argument("--fixed-only", action="store_true", help="only the seeds fixed before")
    parser.add_argument("--dry", action="store_true", help="print the table, write no page")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    given = parser.parse_args(arguments)
    drawn = [int(seed) for seed in given.seeds.split(",")] if given.seeds else []
    if not drawn and not given.fixed_only:
        drawn = [1000 + secrets.randbelow(1_000_000) for _ in FIXED]
    sys.stdout.write(f"seeds: {FIXED} fixed, {drawn} drawn\n")
    sys.stdout.flush()
    pairs = [(family, seed) for seed in (*FIXED, *drawn) for family in FAMILIES]
    jobs = [job for family, seed in pairs for job in jobs_of(family, seed)]
    scores = run_all(jobs, given.processes)
    verdicts = [judged(f"{family}-{seed}", scores) for family, seed in sorted(pairs)]
    region = table(verdicts, drawn)
    sys.stdout.write(f"{region}\n")
    if not (given.dry or given.fixed_only):
        PAGE.write_text(written(PAGE.read_text("utf-8"), region), "utf-8")
    best = sum(v.best_or_tied for v in verdicts) / len(verdicts)
    missed = best < AIM or any(v.dominated_by for v in verdicts)
    return int(missed)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
