"""A real Prometheus in a folder of its own, on loopback."""

import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml

from servers.process import ServerProcess, free_port
from tarn.cluster.monitoring import rows

__all__ = ["PrometheusServer"]

JsonList = list[dict[str, Any]]


class PrometheusServer(ServerProcess):
    """One with *config*, which promtool must find good; its files lie in *root*."""

    def __init__(self, root: Path, config: Mapping[str, Any]) -> None:
        root.mkdir(parents=True, exist_ok=True)
        path = root / "prometheus.yml"
        path.write_text(yaml.safe_dump(dict(config)))
        check = ["promtool", "check", "config", str(path)]
        checked = subprocess.run(check, check=False, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        port = free_port()
        argv = [
            "prometheus",
            f"--config.file={path}",
            f"--storage.tsdb.path={root / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(root)}
        super().__init__(argv, root / "prometheus.log", environ)
        self.url = f"http://127.0.0.1:{port}"
        self._client = httpx.Client(base_url=self.url, trust_env=False, timeout=10)

    def stop(self) -> None:
        self._client.close()
        super().stop()

    def answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/-/ready", trust_env=False).status_code == 200
        except (httpx.TransportError, json.JSONDecodeError):
            return False

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
