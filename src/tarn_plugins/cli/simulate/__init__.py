"""`tarn simulate` and `Cluster.replay`: run scaling policies in discrete time.

The code of the master runs over a modelled world. An entrant (a policy, its options and its guard)
meets a trace of arrivals, and each step records the load, the size, the queue and the cost. Only
the runtime, the clock and Triton are modelled (`world`, `model`).
"""

from collections.abc import Mapping
from typing import Any

import click

from tarn.domain import Choice, ClusterSpec
from tarn.hookspecs import hookimpl

__all__ = ["tarn_cli", "tarn_replay"]


@hookimpl
def tarn_cli(commands: click.Group) -> None:
    """Add ``tarn simulate``."""
    from tarn_plugins.cli.simulate.command import simulate_command  # noqa: PLC0415 (only when it is asked)

    commands.add_command(simulate_command)


@hookimpl
def tarn_replay(
    spec: ClusterSpec, plugins: Any, load: Any, policy: Choice, assumed: Mapping[str, object]
) -> Any:
    """Return the `tarn.cluster.simulated.Run` of *policy* under *load*."""
    from tarn_plugins.cli.simulate.replay import (  # noqa: PLC0415 (only when it is asked)
        load_of,
        replayed,
        world,
    )

    trace, model = load_of(load), world(assumed)
    return replayed(spec, plugins, trace, model, policy.use, policy.options)
