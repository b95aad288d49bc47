"""A real Prometheus in a folder of its own, on loopback."""

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml
from house import until

from tarn.plain.exposition import rows

__all__ = ["Prometheus", "prometheus"]

JsonList = list[dict[str, Any]]


class Prometheus:
    """Asks a Prometheus that runs."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = httpx.Client(base_url=url, trust_env=False, timeout=10)

    def close(self) -> None:
        self._client.close()

    def own(self) -> dict[str, float]:
        """Return Prometheus' own metrics: name to the sum over all its labels."""
        found: dict[str, float] = {}
        for row in rows(self._client.get("/metrics").text):
            found[row.name] = found.get(row.name, 0.0) + row.value
        return found

    def ask(self, path: str, **parameters: Any) -> Any:
        """Return what ``data`` says; a refused query is a failure with its words."""
        answer = self._client.get(f"/api/v1/{path}", params=parameters).json()
        assert answer["status"] == "success", f"{parameters}: {answer.get('error')}"
        return answer["data"]

    def now(self, query: str) -> JsonList:
        """Return the series that *query* has now."""
        return self.ask("query", query=query)["result"]

    def value(self, query: str) -> float | None:
        """Return the only number that *query* gives now; None: it gives nothing."""
        found = self.now(query)
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None

    def over(self, query: str, began: float, step_s: float = 1.0) -> JsonList:
        """Return the series that *query* had since *began* (Unix seconds)."""
        span = {"start": began, "end": time.time(), "step": step_s}
        return self.ask("query_range", query=query, **span)["result"]

    def states(self, alert: str) -> set[str]:
        """Return the states (``pending``, ``firing``) that an alert is in now."""
        return {one["state"] for one in self.ask("alerts")["alerts"] if _name(one) == alert}

    def up(self, job: str) -> set[str]:
        """Return the health of each target of *job*."""
        targets = self.ask("targets")["activeTargets"]
        return {one["health"] for one in targets if one["labels"]["job"] == job}


def _name(alert: Mapping[str, Any]) -> str:
    return alert["labels"]["alertname"]


@contextlib.contextmanager
def prometheus(root: Path, config: Mapping[str, Any]) -> Iterator[Prometheus]:
    """Run one with *config*; it is gone, and its files lie in *root*, after the block."""
    root.mkdir(parents=True, exist_ok=True)
    path = root / "prometheus.yml"
    path.write_text(yaml.safe_dump(dict(config)))
    check = ["promtool", "check", "config", str(path)]
    checked = subprocess.run(check, check=False, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (root / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={path}",
                f"--storage.tsdb.path={root / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
            env={"PATH": "/usr/bin:/bin", "HOME": str(root)},
        )
    one = Prometheus(f"http://127.0.0.1:{port}")
    try:
        until(lambda: _answers(one, process), 30, f"a Prometheus (see {root})")
        yield one
    finally:
        one.close()
        process.terminate()
        process.wait(30)


def _answers(one: Prometheus, process: "subprocess.Popen[bytes]") -> bool:
    assert process.poll() is None, "Prometheus ended"
    try:
        return httpx.get(f"{one.url}/-/ready", trust_env=False).status_code == 200
    except (httpx.TransportError, json.JSONDecodeError):
        return False
