"""A real notebook over a real fleet: numbers as frames and drawings, and they outlive a master."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from house import House, kill, until

NAME = "diary"
SAID = """
import json

rows, total = cluster.history('10m'), report.total
rate = max(row['requests_per_s'] or 0 for row in rows)
latency = max(row['latency_ms'] or 0 for row in rows)
requests, seconds = usage['requests'].to_dict(), usage['instance_s'].to_dict()
print(json.dumps([total.sent, total.answered, requests, seconds, rows[0]['at'], rate, latency]))
"""
CELLS = (
    f'import tarn\n\ncluster = tarn.connect("{NAME}")\nreport = cluster.verify(rps=20, seconds=8)',
    "cluster.history('10m')",
    "cluster.plot('10m')",
    "cluster.history('10m').to_pandas().tail(3)",
    "usage = cluster.usage('1h').to_pandas().set_index('name')\nusage",
    "cluster.metrics().to_pandas().query('name == \"tarn_target_containers\"')",
    "cluster.events().to_pandas()[['code', 'first', 'subject']]",
    "cluster.alerts()",
    SAID,
)
EXECUTE = """
import sys
import nbformat
from nbclient import NotebookClient

folder, target, *cells = sys.argv[1:]
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
NotebookClient(notebook, timeout=120, resources={"metadata": {"path": folder}}).execute()
nbformat.write(notebook, target)
"""

pytestmark = pytest.mark.triton


def outputs(house: House, target: Path) -> list[list[dict[str, Any]]]:
    """Execute the cells in a kernel of their own; return what each shows."""
    command = [sys.executable, "-c", EXECUTE, str(house.root), str(target), *CELLS]
    kept = {name: str(house.root / name.lower()) for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR")}
    done = subprocess.run(
        command,
        env={**house.environ, **kept},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [cell["outputs"] for cell in json.loads(target.read_text())["cells"]]


def shown(output: list[dict[str, Any]], kind: str) -> str:
    """Return the one output of a cell in the form *kind*."""
    (one,) = output
    return "".join(one["data"][kind])


def history(house: House) -> list[list[float | None]]:
    """Return the rows of the last ten minutes, as the HTTP API has them."""
    program = (
        f"import tarn, json; print(json.dumps([list(row.values()) "
        f"for row in tarn.connect('{NAME}').history('10m')]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=house.environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows: list[list[float | None]] = json.loads(done.stdout)
    return rows


@pytest.mark.timeout(240)
def test_a_notebook_has_the_numbers_of_a_real_fleet_and_a_new_master_goes_on_with_them(
    house: House, tmp_path: Path
) -> None:
    """As many requests as were sent, by instance; drawn, and in frames."""
    for module in ("nbclient", "pandas", "matplotlib"):
        pytest.importorskip(module, reason=f"needs pip install {module} ipykernel")
    assert house.tarn("up", "-f", house.spec(NAME)).returncode == 0
    assert house.tarn("wait", "-c", NAME).returncode == 0
    _, table, drawn, tail, usage, metrics, events, alerts, said = outputs(
        house, tmp_path / "done.ipynb"
    )
    assert "requests per s" in shown(table, "text/html")
    assert "image/png" in drawn[0]["data"]
    assert "<table" in shown(tail, "text/html")
    assert "request_s" in shown(usage, "text/html")
    assert "gauge" in shown(metrics, "text/plain")
    assert "TARN-1102" in shown(events, "text/plain")
    assert "nothing is wrong" in shown(alerts, "text/html")
    sent, answered, requests, seconds, first, rate, latency = json.loads("".join(said[0]["text"]))
    assert (sent, answered) == (160, 160)
    instances = {name: count for name, count in requests.items() if name.startswith(NAME)}
    assert len(instances) == 2
    # a scrape a second behind, and requests of the warm-up before the first one
    assert 130 <= sum(instances.values()) <= 180
    assert all(seconds[name] > 10 for name in instances)
    assert 130 <= requests["echo"] <= 180
    assert seconds["echo"] > 20
    assert 5 < rate < 30
    assert 0 < latency < 1000
    master = int(house.ref(NAME)["pid"])
    kill(master, signal.SIGTERM)
    until(lambda: not Path(f"/proc/{master}").exists(), 20, "a master that left")
    assert house.tarn("up", "-f", house.spec(NAME)).returncode == 0

    def goes_on() -> list[list[float | None]] | None:
        rows = history(house)
        return rows if rows and rows[0][0] == first and rows[-1][2] == 2 else None

    until(goes_on, 30, "a new master that remembers", pause_s=0.5)
