"""Run every measurement, and write them into docs/reference/performance.md.

A measurement is a public function of ``tests/bench/bench_*.py`` without parameters, annotated to
return ``list[Row]``. What is compared is measured in interleaved rounds inside it.
"""

import argparse
import importlib
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bench.row import Row

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "performance.md"
BEGIN, END = "<!-- measured: nox -s bench -->", "<!-- end of the measured part -->"

Measure = Callable[[], list[Row]]


def found(only: str = "") -> Iterator[tuple[str, Measure]]:
    """Yield (name, function) of every measurement whose name contains *only*."""
    for path in sorted(HERE.glob("bench_*.py")):
        module = importlib.import_module(f"bench.{path.stem}")
        for name, measure in vars(module).items():
            own = getattr(measure, "__module__", "") == module.__name__
            returns = getattr(measure, "__annotations__", {})
            if own and not name.startswith("_") and returns == {"return": list[Row]}:
                full = f"{path.stem.removeprefix('bench_')}.{name}"
                if only in full:
                    yield full, measure


def table(rows: Iterable[Row], surroundings: str) -> str:
    """Return *rows* as Markdown, below a line on where they were measured."""
    lines = [surroundings, "", "| what | measured | aim | compared with |", "|---|---|---|---|"]
    for row in rows:
        aim = "" if row.aim is None else f"≤ {row.aim:g} {row.unit}" + " (missed)" * row.missed
        than = row.baseline_value
        other = "" if than is None else f"{row.baseline_name}: {than:.4g} {row.unit}"
        lines.append(f"| {row.name} | {row.value:.3g} {row.unit} | {aim} | {other} |")
    return "\n".join(lines)


def replaced(page: str, text: str) -> str:
    """Return *page* with *text* between its markers."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def main() -> None:
    """Measure what was asked for; write the page only when that was everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "only", nargs="?", default="", help="part of a name; the page is left alone"
    )
    only = parser.parse_args().only
    rows: list[Row] = []
    began_load = os.getloadavg()[0]
    for name, measure in found(only):
        loads = ", ".join(f"{load:.1f}" for load in os.getloadavg())
        sys.stdout.write(f"{name} (load average {loads})\n")
        sys.stdout.flush()
        began_s = time.monotonic()
        made = measure()
        rows += made
        for row in made:
            aim = "" if row.aim is None else f" (aim {row.aim:g}{', MISSED' * row.missed})"
            sys.stdout.write(f"  {row.name}: {row.value:.3g} {row.unit}{aim}\n")
        sys.stdout.write(f"  took {time.monotonic() - began_s:.1f} s\n")
    if rows and not only:
        where = f"Python {platform.python_version()}, {os.cpu_count()} cores"
        load = f"load average {began_load:.1f} before, {os.getloadavg()[0]:.1f} after"
        text = table(rows, f"{where}; {load}.")
        PAGE.write_text(replaced(PAGE.read_text("utf-8"), text), "utf-8")


if __name__ == "__main__":
    main()
