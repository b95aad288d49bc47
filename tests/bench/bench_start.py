"""What `import tarn` and `tarn --help` cost, compared with Python itself."""

import json
import statistics
import subprocess
import sys
import time

from bench.row import Row

ROUNDS = 9
HEAVY = ("asyncio", "attrs", "click", "httpx", "pluggy", "starlette", "yaml")


def import_and_help() -> list[Row]:
    """Start Python with nothing, with `import tarn`, and as `tarn --help`, in turn."""
    nothing, imported, helped = [], [], []
    for _ in range(ROUNDS):
        nothing.append(_timed("-c", "pass"))
        imported.append(_timed("-c", "import tarn"))
        helped.append(_timed("-m", "tarn", "--help"))
    bare_ms = statistics.median(nothing)
    modules, heavy = _loaded("import tarn")
    of_help, _ = _loaded("import tarn.cli")
    bare, _ = _loaded("")
    assert heavy == [], f"import tarn loads {heavy}"
    base = "python -c pass"
    return [
        Row(
            "`import tarn`, the whole process",
            statistics.median(imported),
            "ms",
            150.0,
            base,
            bare_ms,
        ),
        Row(
            "`tarn --help`, the whole process",
            statistics.median(helped),
            "ms",
            300.0,
            base,
            bare_ms,
        ),
        Row("modules that `import tarn` loads", modules - bare, "modules", 20.0, base, 0.0),
        Row(
            "modules that the command line's entry loads",
            of_help - bare,
            "modules",
            150.0,
            base,
            0.0,
        ),
    ]


def _timed(*arguments: str) -> float:
    began_s = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, timeout=60)
    return 1000 * (time.perf_counter() - began_s)


def _loaded(statement: str) -> tuple[int, list[str]]:
    """Return how many modules *statement* leaves loaded, and the heavy ones among them."""
    code = f"{statement}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    names = json.loads(done.stdout)
    return len(names), [name for name in names if name in HEAVY]
