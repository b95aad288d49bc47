"""What perf_analyzer said is read right, and what went wrong is not overlooked."""

import json
from pathlib import Path

from servers.perf_analyzer import PerfReport, sequence_data

GOOD = """*** Measurement Settings ***
  Sending 600 benchmark requests

Request concurrency: 4
  Client:
    Request count: 603
    Sequence count: 31 (15.2 seq/sec)
    Throughput: 300 infer/sec
  Server:
    Inference count: 1206
    Execution count: 300
    Successful request count: 600
Concurrency: 4, throughput: 300 infer/sec, latency 778 usec
"""


def test_the_counts_of_both_sides_are_read() -> None:
    report = PerfReport(0, GOOD)
    assert (report.client, report.server, report.sequences) == (603, 600, 31)
    assert 0.004 < report.difference < 0.006
    assert not report.problem


def test_an_error_of_a_thread_is_a_problem_although_counts_were_printed() -> None:
    report = PerfReport(0, f"{GOOD}Thread [0] had error: sequence 9: 4 instead of 6\n")
    assert "4 instead of 6" in report.problem


def test_a_sequence_that_was_ended_before_it_began_is_no_problem_of_the_others() -> None:
    line = (
        "Thread [2] had error: inference request for sequence {} to model 'checked' must specify "
    )
    said = f"{GOOD}{line.format(33)}the START flag on the first request of the sequence\n"
    assert PerfReport(0, said).problem
    assert not PerfReport(0, said).problem_in(600)
    assert PerfReport(0, said).problem_in(640), "the count was not reached"
    assert PerfReport(99, said).problem_in(600)
    assert PerfReport(0, f"{said}Thread [0] had error: sequence 9: 4 instead of 6\n").problem_in(
        600
    )


def test_a_run_without_counts_or_with_another_exit_code_is_a_problem() -> None:
    assert PerfReport(0, "").problem
    assert PerfReport(99, GOOD).problem.startswith("exit code 99")


def test_the_data_of_a_sequence_has_the_sum_of_each_step(tmp_path: Path) -> None:
    (one,) = json.loads(sequence_data(tmp_path / "steps.json", [3, 4]).read_text())["data"]
    assert one == [{"IN": [3.0], "EXPECTED": [3.0]}, {"IN": [4.0], "EXPECTED": [7.0]}]
