"""Run every measurement, and write them into docs/reference/performance.md.

A measurement is a public function of ``tests/bench/bench_*.py`` without parameters, annotated to
return ``list[Row]``. What is compared is measured in interleaved rounds inside it. Each file is a
part of the page, with where and under which load it was measured; naming one measures it alone.
"""

import argparse
import importlib
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bench import bench_java
from bench.row import Row

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "performance.md"
Measure = Callable[[], list[Row]]


def parts() -> Iterator[tuple[str, dict[str, Measure]]]:
    """Yield each part with its measurements by name: ``yarn``, ``yarn.fleet_rows``."""
    for path in sorted(HERE.glob("bench_*.py")):
        part = path.stem.removeprefix("bench_")
        yield part, dict(_measurements(part, vars(importlib.import_module(f"bench.{path.stem}"))))


def _measurements(part: str, names: Mapping[str, Any]) -> Iterator[tuple[str, Measure]]:
    for name, measure in names.items():
        own = getattr(measure, "__module__", "") == f"bench.bench_{part}"
        returns = getattr(measure, "__annotations__", {})
        if own and not name.startswith("_") and returns == {"return": list[Row]}:
            yield f"{part}.{name}", measure


def measured(measurements: Mapping[str, Measure]) -> list[Row]:
    """Measure one after another, and tell of it."""
    rows: list[Row] = []
    for name, measure in measurements.items():
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
    return rows


def table(rows: Iterable[Row], environment: str) -> str:
    """Return *rows* as Markdown, below a line on where they were measured."""
    lines = [environment, "", "| what | measured | aim | compared with |", "|---|---|---|---|"]
    for row in rows:
        aim = "" if row.aim is None else f"≤ {row.aim:g} {row.unit}" + " (missed)" * row.missed
        than = row.baseline_value
        other = "" if than is None else f"{row.baseline_name}: {than:.4g} {row.unit}"
        lines.append(f"| {row.name} | {row.value:.3g} {row.unit} | {aim} | {other} |")
    return "\n".join(lines)


def replaced(page: str, part: str, text: str) -> str:
    """Return *page* with *text* between the markers of *part*."""
    begin, end = f"<!-- measured: {part} -->", f"<!-- end: {part} -->"
    before, marked, rest = page.partition(begin)
    if not marked:
        raise SystemExit(f"{PAGE} has no place for the part '{part}': {begin} and {end}")
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def main() -> None:
    """Measure what was asked for; write each part that was measured as a whole."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "only", nargs="?", default="", help="a part, or a piece of a measurement's name"
    )
    parser.add_argument(
        "--against",
        metavar="JAR",
        type=lambda path: str(Path(path).resolve(strict=True)),
        help="measure the Java TARN of this jar, too (part 'java'; needs root)",
    )
    given = parser.parse_args()
    only = given.only
    if given.against is not None:
        only = only or "java"
        os.environ[bench_java.AGAINST] = given.against  # noqa: TID251 (of this program)
    for part, every in parts():
        chosen = {name: each for name, each in every.items() if only in name}
        began_load = os.getloadavg()[0]
        rows = measured(chosen)
        if rows and only in ("", part):
            where = f"Python {platform.python_version()}, {os.cpu_count()} cores"
            load = f"load average {began_load:.1f} before, {os.getloadavg()[0]:.1f} after"
            text = table(rows, f"{where}; {load}.")
            PAGE.write_text(replaced(PAGE.read_text("utf-8"), part, text), "utf-8")


if __name__ == "__main__":
    main()
