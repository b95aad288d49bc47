import pytest

from tarn.cluster.operate.verifying import RequestSummary, Shot, percentile, report


def made(*shots: Shot):
    """Report over *shots*."""
    return report("demo", shots, models=("ocr",), rps=20.0, seconds=30.0, slow_s=1.0)


@pytest.mark.parametrize(
    ("count", "fraction", "expected"),
    [(0, 0.5, None), (1, 0.5, 1), (1, 0.99, 1), (4, 0.5, 2), (100, 0.95, 95), (100, 0.99, 99),
     (101, 0.99, 100)],
)  # fmt: skip
def test_a_percentile_is_one_of_the_values(count, fraction, expected):
    """The smallest that the fraction does not exceed; nothing of nothing."""
    assert percentile(list(range(1, count + 1)), fraction) == expected


def test_counts_by_instance_and_over_all():
    """Lost ones have no latency; slow is beyond the limit, not at it."""
    one = made(
        Shot("demo-0002", "ocr", 0.5),
        Shot("demo-0001", "ocr", 1.0),
        Shot("demo-0001", "ocr", 1.5),
        Shot("demo-0001", "ocr", 9.0, "connection refused"),
    )
    assert one.instances == (
        RequestSummary("demo-0001", 3, 2, 1, 1, 1.0, 1.5, 1.5, 1.5),
        RequestSummary("demo-0002", 1, 1, 0, 0, 0.5, 0.5, 0.5, 0.5),
    )
    assert one.total == RequestSummary("all", 4, 3, 1, 1, 1.0, 1.5, 1.5, 1.5)
    assert one.errors == (("demo-0001", "ocr", "connection refused", 1),)


def test_is_ok_only_when_something_was_sent_and_nothing_lost():
    """Nothing sent proves nothing; slow is not lost."""
    assert not made().ok
    assert made(Shot("a", "ocr", 5.0)).ok
    assert not made(Shot("a", "ocr", 0.1), Shot("a", "ocr", 0.1, "500: no")).ok


def test_says_what_was_lost_where_and_why():
    """The most frequent first, each kind once."""
    refused = [Shot("demo-0001", "ocr", 0.0, "connection refused") for _ in range(3)]
    one = made(*refused, Shot("demo-0002", "ocr", 0.0021), Shot("demo-0002", "ocr", 1.25))
    assert str(one).splitlines() == [
        "demo: 5 sent in 30 s to ocr, 2 answered, 3 lost, 1 slower than 1 s",
        "",
        "INSTANCE   SENT  ANSWERED  LOST  SLOW  P50     P95     P99     MAX",
        "demo-0001  3     0         3     0",
        "demo-0002  2     2         0     1     2.1 ms  1.25 s  1.25 s  1.25 s",
        "all        5     2         3     1     2.1 ms  1.25 s  1.25 s  1.25 s",
        "",
        "3 lost on demo-0001 (ocr): connection refused",
    ]
    assert repr(one) == str(one)


def test_one_instance_is_its_own_sum():
    """A second line with the same numbers says nothing."""
    assert len(str(made(Shot("demo-0001", "ocr", 0.1))).splitlines()) == 4


def test_many_kinds_of_loss_are_cut():
    """Ten tell enough."""
    one = made(*(Shot(f"demo-{n:04}", "ocr", 0.1, "reset") for n in range(12)))
    assert str(one).splitlines()[-1] == "… and 2 more kinds of loss"


def test_a_notebook_and_a_program_get_the_same_numbers():
    """HTML with everything escaped; plain data with names."""
    one = made(Shot("demo-0001", "ocr", 0.1, "<b>no</b>"))
    html = one._repr_html_()
    assert "&lt;b&gt;no&lt;/b&gt;" in html
    assert "<b>no" not in html
    plain = one.plain()
    assert plain["ok"] is False
    assert plain["total"]["lost"] == 1
    assert plain["errors"] == [
        {"instance": "demo-0001", "model": "ocr", "error": "<b>no</b>", "count": 1}
    ]
