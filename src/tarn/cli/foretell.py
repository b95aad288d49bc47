"""What `tarn up --dry-run` prints for people."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tarn.cli.show import columns
from tarn.cluster.difference import flat

__all__ = ["exit_code", "foretold"]


def foretold(plan: Mapping[str, Any]) -> str:
    """Return the plan as text: spec with origins, command, environment, ask, files, findings."""
    state = "runs: `tarn up` would attach to it" if plan["running"] else "would be started"
    return "\n".join(
        (
            f"{plan['name']} {state}; this is a dry run; nothing was done",
            *_part("spec", _spec(plan)),
            *_part("command of each instance", _commands(plan["commands"])),
            *_part(
                "environment of each instance (the rest is inherited; paths go before its own)",
                [f"{name}={shlex.quote(value)}" for name, value in plan["environment"].items()],
            ),
            *_part("ask", _ask(plan["ask"])),
            *_part("files", columns(("", ""), plan["files"].items()).splitlines()[1:]),
            *_part("findings", map(_finding, plan["findings"])),
        )
    )


def exit_code(plan: Mapping[str, Any]) -> int:
    """Return what `tarn up` would end with: 0, 2 for what was written, 1 for what is lacking."""
    fatal = [finding["code"] for finding in plan["findings"] if finding["fatal"]]
    if not fatal:
        return 0
    return 2 if any(code.startswith("TARN-2") for code in fatal) else 1


def _part(title: str, lines: Sequence[str] | Iterator[str]) -> list[str]:
    shown = list(lines)
    return ["", f"{title}:", *(f"  {line}" for line in shown)] if shown else []


def _spec(plan: Mapping[str, Any]) -> list[str]:
    origins = plan["origins"]
    rows = [
        (key, value if isinstance(value, str) else json.dumps(value), origins.get(key, "default"))
        for key, value in flat(plan["spec"])
    ]
    return columns(("KEY", "VALUE", "FROM"), rows).splitlines()


def _commands(commands: Sequence[Sequence[str]]) -> Iterator[str]:
    for words in commands:
        yield shlex.quote(words[0])
        yield from (f"  {shlex.quote(word)}" for word in words[1:])


def _ask(ask: Mapping[str, Any]) -> list[str]:
    replicas = ask["replicas"]
    rows = [
        ("each instance", *_amounts(ask["instance"])),
        (f"{replicas['initial']} at first", *_amounts(ask["initial"])),
        (f"{replicas['max']} at most", *_amounts(ask["max"])),
    ]
    table = columns(("", "VCORES", "MEMORY", "GPUS"), rows).splitlines()
    kind = ask["instance"]["gpu_resource"]
    return [*table, *([f"GPUs are {kind}"] if ask["instance"]["gpus"] else [])]


def _amounts(amounts: Mapping[str, Any]) -> tuple[str, str, str]:
    return str(amounts["vcores"]), f"{amounts['memory_mib']} MiB", str(amounts["gpus"])


def _finding(finding: Mapping[str, Any]) -> str:
    mark = "!" if finding["fatal"] else "note"
    return (
        f"{mark} [{finding['code']}] {finding['where']}: {finding['found']}. {finding['next_step']}"
    )
