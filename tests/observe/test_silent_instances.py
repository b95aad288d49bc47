"""Who asks the master waits for no instance: one hangs, ten cannot be reached."""

from collections.abc import Iterator

import httpx
import pytest
from bench.bench_observe import asked, ready
from silent_master import API_TOKEN, UNREACHABLE, silent_master

WITHIN_S = 0.150
"""Three times the aim: this machine has other work, too."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with silent_master(tmp_path_factory.mktemp("silent")) as one:
        ready(one)
        yield one


@pytest.mark.parametrize("page", ["/metrics", "/instances", "/health", "/dashboard"])
def test_each_page_is_answered_in_no_time(url: str, page: str) -> None:
    """Nineteen of twenty-and-more: the p99 of a hundred answers, best of three tries.

    The Java TARN asked its instances one after another while somebody waited: 6 s.
    """
    p99_s = []
    for _ in range(3):
        took_s = sorted(asked(url, page, 2.0, 60)["took_s"])
        p99_s.append(took_s[int(len(took_s) * 0.99)])
        if p99_s[-1] < WITHIN_S:
            break
    assert min(p99_s) < WITHIN_S


def test_what_cannot_be_known_is_not_said(url: str) -> None:
    """The good one has its series; of the others only that they start."""
    headers = {"X-TARN-Token": API_TOKEN}
    text = httpx.get(f"{url}/metrics", headers=headers, trust_env=False).text
    assert text.count("\ntarn_container_queue_depth{") == 1
    assert f'tarn_instances{{state="starting"}} {UNREACHABLE + 1}.0\n' in text
    assert "tarn_ready_instances 1.0\n" in text
