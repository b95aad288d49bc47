"""The pages of section 3 under a real master: paths, the token, first lines, and their headers."""

import re
from collections.abc import Iterator

import attrs
import httpx
import pytest
from compat.fleets import spec
from house import House, clear, ids, until

PAGES = ("/instances", "/dashboard", "/metrics", "/health", "/config", "/authorize", "/alerts")
OPEN = ("/health", "/dashboard")
"""The dashboard is a page without content: it asks for the rest as whoever looks at it."""
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


@attrs.frozen
class Asking:
    """Asks one master, with its token or without."""

    url: str
    token: str

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(self.url + path, headers=headers, trust_env=False)

    def known(self, path: str) -> httpx.Response:
        return self.get(path, **{"X-TARN-Token": self.token})


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    """A fleet of one."""
    one = House(tmp_path_factory.mktemp("pages"))
    try:
        done = one.tarn("up", "-f", spec(one))
        assert done.returncode == 0, done.stderr
        until(lambda: ids(one.status("w")), 20, "it is ready")
        yield Asking(one.ref("w")["url"], (one.directory("w") / "api_token").read_text())
    finally:
        clear(one)


@pytest.mark.parametrize("path", PAGES)
def test_each_page_is_there_and_guarded(asking: Asking, path: str) -> None:
    """Without the token: 401, and a body that says what to send; none for those that are open."""
    stranger, known = asking.get(path), asking.known(path)
    if path in OPEN:
        assert stranger.status_code == 200
    else:
        assert stranger.status_code == 401
        assert "X-TARN-Token" in stranger.json()["error"]["next_step"]
    assert known.status_code == (400 if path == "/authorize" else 200)
    for name, value in HEADERS.items():
        assert known.headers[name] == value
        assert stranger.headers[name] == value


def test_the_texts_begin_as_they_always_did(asking: Asking) -> None:
    """Scripts of sites read them line by line."""
    assert asking.get("/health").text.splitlines()[0] == "OK"
    assert re.fullmatch(r"(\S+:\d+\n)+", asking.known("/instances").text)
    assert all(": " in line for line in asking.known("/config").text.splitlines())
    assert "Missing 'action' or 'model' parameter" in asking.known("/authorize").text
    assert asking.known("/authorize?action=infer&model=x").text.strip() in ("true", "false")
    assert asking.known("/dashboard").headers["content-type"].startswith("text/html")


def test_alerts_are_three_counters_and_lines_for_people(asking: Asking) -> None:
    """A Prometheus reads the counters, and skips the rest as comments."""
    lines = asking.known("/alerts").text.splitlines()
    names = ["tarn_alerts_total", "tarn_container_failures_total", "tarn_scaling_events_total"]
    assert [line.split()[0] for line in lines[:3]] == names
    assert all(float(line.split()[1]) >= 0 for line in lines[:3])
    form = re.compile(r"# \[\S+\] (INFO|WARNING|ALERT) - .+: .+")
    assert all(form.fullmatch(line) for line in lines[3:])


def test_metrics_take_the_token_of_the_seeds_in_the_query(asking: Asking) -> None:
    """The five names; and nowhere else does a token in a query open anything."""
    names = {"tarn_target_containers", "tarn_running_containers", "tarn_container_load"}

    def told() -> bool:
        text = asking.get(f"/metrics?token={asking.token}").text
        return names <= set(re.findall(r"^(\w+)[ {]", text, re.MULTILINE))

    until(told, 20, "a load was scraped")
    for path in ("/config", "/alerts", "/instances"):
        assert asking.get(f"{path}?token={asking.token}").status_code == 401
