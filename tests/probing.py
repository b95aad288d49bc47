"""A client that probes and does nothing else: one JVM, not the three of a whole `tarn doctor`."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
from servers.yarn import YarnHouse, context

from tarn.config import load
from tarn_plugins.runtime.yarn import tarn_doctor_probes


def probe(house: YarnHouse, name: str, **keys: Any) -> "subprocess.Popen[str]":
    """Start one for a spec of the house."""
    return subprocess.Popen(
        [sys.executable, __file__, house.spec(name, **keys)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**house.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )


def rows(process: "subprocess.Popen[str]") -> dict[str, dict[str, Any]]:
    """Return what each check saw, by its name: the parts of a `CheckResult`."""
    said, talk = process.communicate(timeout=110)
    assert said, talk
    found: dict[str, dict[str, Any]] = json.loads(said)
    return found


def main() -> None:
    """Print what each check saw, as JSON."""
    spec = load(Path(sys.argv[1]), environ={}).spec
    checks = list(tarn_doctor_probes(spec, context()))
    with ThreadPoolExecutor(len(checks)) as pool:
        looked = pool.map(lambda check: check.look(), checks)
        found = {c.name: attrs.asdict(seen) for c, seen in zip(checks, looked, strict=True)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
