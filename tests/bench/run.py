"""Run every measurement, and write them into docs/reference/performance.md.

A measurement is a function ``bench_*`` in ``tests/bench/bench_*.py``; it returns `Row`s, or
mappings with the same keys. What is compared is measured in interleaved rounds inside it.
"""

import argparse
import importlib
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import attrs

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "performance.md"
BEGIN, END = "<!-- measured: nox -s bench -->", "<!-- end of the measured part -->"


@attrs.frozen
class Row:
    """One line of the table."""

    what: str
    aim: str
    measured: str
    note: str = ""
    """Why an aim was missed, or what else must be known."""


Measure = Callable[[], Iterable[Row | Mapping[str, str]]]


def found(only: str = "") -> Iterator[tuple[str, Measure]]:
    """Yield (name, function) of every measurement whose name contains *only*."""
    for path in sorted(HERE.glob("bench_*.py")):
        module = importlib.import_module(f"bench.{path.stem}")
        for name, measure in vars(module).items():
            if name.startswith("bench_") and callable(measure) and only in name:
                yield name, measure


def table(rows: Iterable[Row], surroundings: str) -> str:
    """Return *rows* as Markdown, below a line on where they were measured."""
    lines = [surroundings, "", "| what | aim | measured | note |", "|---|---|---|---|"]
    lines += [f"| {row.what} | {row.aim} | {row.measured} | {row.note} |" for row in rows]
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
    for name, measure in found(only):
        loads = ", ".join(f"{load:.1f}" for load in os.getloadavg())
        sys.stdout.write(f"{name} (load average {loads})\n")
        began_s = time.monotonic()
        for row in measure():
            rows.append(row if isinstance(row, Row) else Row(**row))
            sys.stdout.write(f"  {rows[-1].what}: {rows[-1].measured} (aim {rows[-1].aim})\n")
        sys.stdout.write(f"  took {time.monotonic() - began_s:.1f} s\n")
    if rows and not only:
        python = f"Python {platform.python_version()}, {os.cpu_count()} cores"
        load = f"load average {os.getloadavg()[0]:.1f} at the end"
        PAGE.write_text(
            replaced(PAGE.read_text("utf-8"), table(rows, f"{python}, {load}.")), "utf-8"
        )


if __name__ == "__main__":
    main()
