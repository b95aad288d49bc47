"""A client that probes and does nothing else: prints what each check saw, as JSON."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
from yarn_stage import context

from tarn.config import load
from tarn_plugins.runtime.yarn import tarn_doctor_probes

if __name__ == "__main__":
    spec = load(Path(sys.argv[1]), environ={}).spec
    checks = list(tarn_doctor_probes(spec, context()))
    with ThreadPoolExecutor(len(checks)) as pool:
        looked = pool.map(lambda check: check.look(), checks)
        rows = {c.name: attrs.asdict(seen) for c, seen in zip(checks, looked, strict=True)}
    print(json.dumps(rows))
