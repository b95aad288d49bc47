"""41: to the Java TARN anybody could write HTML that its dashboard showed to everybody."""

import httpx
from fake_master import FakeMaster, instance, snapshot

from tarn.domain import Issue, PauseScaling

SCRIPT = "<script>alert(1)</script>"


def test_what_anybody_sends_is_shown_as_text_or_not_at_all() -> None:
    """Headers are kept nowhere; a reason is text on the page, which may run nothing anyway."""
    sent = {"X-Forwarded-User": SCRIPT, "X-TARN-User": SCRIPT, "User-Agent": SCRIPT}
    odd = snapshot(instance(1, reason=SCRIPT), reason=SCRIPT, issues=(Issue("llama", SCRIPT),))
    with (
        FakeMaster(odd, api_token=None) as master,
        httpx.Client(base_url=master.url, headers=sent, trust_env=False) as web,
    ):
        assert web.put("/api/v1/pause", json={"for": 60, "reason": SCRIPT}).status_code == 200
        page = web.get("/")
        others = [web.get(p) for p in ("/config", "/metrics", "/health", "/instances", "/nowhere")]
        status = web.get("/api/v1/status")
    assert SCRIPT not in page.text
    assert "&lt;script&gt;" in page.text
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert [SCRIPT in other.text for other in others] == [False] * 5
    assert status.headers["Content-Type"] == "application/json"
    assert status.headers["X-Content-Type-Options"] == "nosniff"
    assert PauseScaling(60.0, SCRIPT) in master.commands
