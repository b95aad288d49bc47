"""When lines were written, and several logs as one."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.cluster.read.logs import LogLine, Reader, merged, stamp

NEAR = datetime(2026, 1, 15, 12, 0, 0, tzinfo=UTC).timestamp()
MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


def at(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("line", "moment", "level"),
    [
        ('I0115 11:59:58.250000 25 s.cc:604] "x"', at(2026, 1, 15, 11, 59, 58, 250000), "info"),
        ("W0114 00:00:00.000000 1 a.cc:1] x", at(2026, 1, 14), "warning"),
        ("E0115 12:00:01.000000 1 a.cc:1] x", at(2026, 1, 15, 12, 0, 1), "error"),
        ("I1231 23:59:59.000000 1 a.cc:1] x", at(2025, 12, 31, 23, 59, 59), "info"),
        ('2026-01-15T11:00:00Z E 4036 server.cc:241] "x"', at(2026, 1, 15, 11), "error"),
        (
            "2026-01-15T11:00:00.123Z WARNING control tarn.x: said [epoch=1-1]",
            at(2026, 1, 15, 11, 0, 0, 123000),
            "warning",
        ),
        ("2026-01-15 12:00:00,500+01:00 said", at(2026, 1, 15, 11, 0, 0, 500000), ""),
        (
            '{"at": "2026-01-15T11:00:00.250Z", "level": "error", "message": "x"}',
            at(2026, 1, 15, 11, 0, 0, 250000),
            "error",
        ),
        ('{"at": "2026-01-15T11:00:00Z"}', at(2026, 1, 15, 11), ""),
    ],
)  # fmt: skip
def test_a_line_says_when_it_was_written(line: str, moment: float, level: str) -> None:
    """Triton's two formats, and a master's two; the last New Year's Eve was last year."""
    assert stamp(line, NEAR) == (moment, level)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "+-------+--------+",
        "Signal (15) received.",
        "2026-01-15 12:00:00,500 no zone",
        "2026-13-45T99:00:00Z no time",
        "I1332 11:59:58.250000 1 no day",
        "I0115 11:59:58 1 too short",
        "{",
        '{"at": 12}',
        '{"at": "yesterday"}',
        "[1]",
        "{" * 5000,
    ],
)
def test_a_line_that_says_nothing_of_time_has_none(line: str) -> None:
    """It is part of what stands before it."""
    assert stamp(line, NEAR) is None


@given(st.text())
def test_no_line_is_an_error(line: str) -> None:
    """Whatever a program writes."""
    stamp(line, NEAR)
    stamp('{"at": ' + line, NEAR)


@given(st.datetimes(datetime(2023, 1, 2), datetime(2029, 1, 2)), st.floats(0, 80 * 86400.0))  # noqa: DTZ001
def test_a_year_is_found_again(moment: datetime, later_s: float) -> None:
    """Of a line that was written up to half a year before somebody reads it."""
    written = moment.replace(tzinfo=UTC)
    line = f"I{written:%m%d %H:%M:%S.%f} 1 a.cc:1] x"
    found = stamp(line, written.timestamp() + later_s)
    assert found is not None
    assert abs(found[0] - written.timestamp()) < 1e-5


def test_a_29_february_needs_its_year() -> None:
    """It is the last one that there was."""
    assert stamp("I0229 12:00:00.000000 1 x", at(2024, 3, 1)) == (at(2024, 2, 29, 12), "info")


def test_what_has_no_time_stands_with_what_is_before_it() -> None:
    """A table, a traceback; what begins a log stands with its first line."""
    texts = ["+---+", "I0101 00:00:01.000000 1 x", "| a |", "W0101 00:00:02.000000 1 y", "| b |"]
    lines = list(Reader("a", NEAR).lines(texts))
    assert [line.text for line in lines] == texts
    assert [line.at for line in lines] == [MIDNIGHT + s for s in (1, 1, 1, 2, 2)]
    assert [line.level for line in lines] == ["", "info", "info", "warning", "warning"]
    assert [line.at for line in Reader("a", NEAR).lines(["x", "y"])] == [None, None]


def test_a_reader_goes_on_where_it_was() -> None:
    """The second piece of a log may begin in the middle of something."""
    reader = Reader("a", NEAR)
    list(reader.lines(["I0101 00:00:01.000000 1 x"]))
    assert [line.at for line in reader.lines(["| a |"])] == [MIDNIGHT + 1]


LOGS = st.dictionaries(
    st.sampled_from(["master", "a-0001", "a-0002"]),
    st.lists(st.none() | st.integers(0, 50).map(float), max_size=12),
)


@given(LOGS, st.none() | st.integers(0, 50).map(float))
def test_several_logs_are_one(times: dict[str, list[float | None]], since: float | None) -> None:
    """No line is lost or doubled, each log keeps its order, and where times rise so does it all."""
    logs = {
        source: [LogLine(source, at, "", str(number)) for number, at in enumerate(moments)]
        for source, moments in times.items()
    }
    found = list(merged(logs, since))
    for source, lines in logs.items():
        kept = [x for x in lines if since is None or x.at is None or x.at >= since]
        assert [line for line in found if line.source == source] == kept
    rising = {
        source: sorted(lines, key=lambda line: line.at or 0.0)
        for source, lines in logs.items()
        if all(line.at is not None for line in lines)
    }
    whole = [line.at for line in merged(rising)]
    assert whole == sorted(whole, key=lambda at: at or 0.0)
