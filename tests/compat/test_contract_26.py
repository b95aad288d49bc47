"""26: the Java TARN's 401 had an empty body, so nobody could tell why."""

import httpx
from fake_master import FakeMaster


def test_a_wrong_token_is_answered_with_words() -> None:
    """A code, what is wrong, and what to do; never the token."""
    with FakeMaster() as master, httpx.Client(base_url=master.url, trust_env=False) as web:
        for headers in ({}, {"X-TARN-Token": "guess-that-is-wrong"}):
            answer = web.get("/instances", headers=headers)
            assert answer.status_code == 401
            assert "TARN-5000" in answer.text
            assert "token" in answer.text
            assert "guess-that-is-wrong" not in answer.text
