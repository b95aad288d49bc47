"""The token of the metrics, which a Prometheus sends as it is: it opens them, and nothing else."""

import httpx
import pytest
from fake_master import TOKEN, FakeMaster

from tarn.domain.request_proof import scrape_token
from tarn.http.actions import ACTIONS

SCRAPE = scrape_token(TOKEN).decode()


def test_it_opens_the_metrics_and_where_triton_gives_its_own() -> None:
    """As a bearer's, as Prometheus sends it, and in the address."""
    bearer = {"Authorization": f"Bearer {SCRAPE}"}
    with FakeMaster() as master:
        for path in ("/metrics", "/api/v1/sd"):
            assert httpx.get(f"{master.url}{path}", headers=bearer).status_code == 200
        assert httpx.get(f"{master.url}/metrics?token={SCRAPE}").status_code == 200


def test_it_opens_nothing_else() -> None:
    """Of every route there is, whatever method."""
    closed = [path for path, need in ACTIONS.items() if need.action != "open"]
    closed = [path for path in closed if path not in ("/metrics", "/api/v1/sd")]
    with FakeMaster() as master:
        for path in closed:
            url = f"{master.url}{path.replace('{name}', 'lb1')}"
            method = ACTIONS[path].methods[0]
            answer = httpx.request(method, url, headers={"X-TARN-Token": SCRAPE}, json={})
            assert answer.status_code == 403, path
        assert master.commands == []
        for path in ("/api/v1/session",):
            said = httpx.put(f"{master.url}{path}", json={"token": SCRAPE})
            assert said.status_code == 401


@pytest.mark.parametrize("token", [b"another", TOKEN + b"x"])
def test_it_is_another_one_for_another_token(token: bytes) -> None:
    """So it goes with the api token."""
    assert scrape_token(token) != scrape_token(TOKEN)
    assert TOKEN not in scrape_token(TOKEN)
