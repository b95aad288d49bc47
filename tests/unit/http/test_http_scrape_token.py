"""The token of the metrics, which a Prometheus sends as it is: it opens them, and nothing else."""

import httpx
import pytest
from fake_master import TOKEN, FakeMaster

from tarn.http.admission import ACTIONS
from tarn.plain.credentials import scrape_token

SCRAPE = scrape_token(TOKEN).decode()


def test_it_opens_the_metrics_and_where_triton_gives_its_own() -> None:
    """As a bearer's, as Prometheus sends it, and in the address."""
    bearer = {"Authorization": f"Bearer {SCRAPE}"}
    with FakeMaster() as master, httpx.Client(base_url=master.url, trust_env=False) as web:
        for path in ("/metrics", "/api/v1/sd"):
            assert web.get(path, headers=bearer).status_code == 200
        assert web.get(f"/metrics?token={SCRAPE}").status_code == 200


def test_it_opens_nothing_else() -> None:
    """Of every route there is, whatever method."""
    closed = [path for path, need in ACTIONS.items() if need.action != "open"]
    closed = [path for path in closed if path not in ("/metrics", "/api/v1/sd")]
    with FakeMaster() as master, httpx.Client(base_url=master.url, trust_env=False) as web:
        for path in closed:
            method, place = (
                ACTIONS[path].methods[0],
                path.replace("{name}", "lb1").replace("{path:path}", "v2"),
            )
            answer = web.request(method, place, headers={"X-TARN-Token": SCRAPE}, json={})
            assert answer.status_code == 403, path
        assert master.commands == []
        assert web.put("/api/v1/session", json={"token": SCRAPE}).status_code == 401


@pytest.mark.parametrize("token", [b"another", TOKEN + b"x"])
def test_it_is_another_one_for_another_token(token: bytes) -> None:
    """So it goes with the api token."""
    assert scrape_token(token) != scrape_token(TOKEN)
    assert TOKEN not in scrape_token(TOKEN)
