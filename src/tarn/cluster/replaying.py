"""A load met by a policy without a cluster: what `tarn simulate` and `Cluster.replay` share.

Nothing runs and nobody is asked: the spec says what the guard is, the plugins make the policy, and
`tarn.simulator` does the rest.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tarn.domain import ClusterSpec
from tarn.domain.spec import ModelsSpec, ReplicasSpec, ScalingSpec
from tarn.errors import ConfigError, ConfigErrors, TarnError
from tarn.plain import structure
from tarn.plugins import Plugins
from tarn.simulator import FAMILIES, Run, Trace, WorldModel, enter, generated, simulate
from tarn.simulator.page import page
from tarn.simulator.png import png

__all__ = ["default_spec", "load_of", "plot", "replayed", "world"]

_GENERATED = re.compile(r"([a-z]+):(\d+)")


def replayed(  # noqa: PLR0913, PLR0917 (all that a run depends on)
    spec: ClusterSpec,
    plugins: Plugins,
    trace: Trace,
    model: WorldModel,
    policy: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Run:
    """Return what *policy* (None: the spec's) makes of *trace* within the limits of *spec*."""
    return simulate(enter(spec, plugins, policy, options), trace, model)


def default_spec(low: int, high: int) -> ClusterSpec:
    """Return a spec without a cluster: limits, and defaults for all else."""
    return ClusterSpec(
        "simulated",
        ModelsSpec("/nonexistent"),
        replicas=ReplicasSpec(low, high),
        scaling=ScalingSpec("target"),
    )


def load_of(source: Any) -> Trace:
    """Return a trace from a file, a frame, or ``FAMILY:SEED``.

    Raises:
        ConfigError: It is none of these, or a line cannot be meant.
    """
    if isinstance(source, str) and not Path(source).exists():
        made = _GENERATED.fullmatch(source)
        if made is not None and made[1] in FAMILIES:
            return generated(made[1], int(made[2]))
        families = ", ".join(f"{family}:1" for family in FAMILIES)
        raise ConfigError(
            "no such file",
            where=source,
            right="Expected a CSV file with the columns t_s and requests_per_s, or a generated "
            f"load: {families}",
        )
    return Trace.of(source, "frame")


def world(given: Mapping[str, object], where: str = "world") -> WorldModel:
    """Return the model that *given* says, with units as in the spec: ``{"start": "45s"}``.

    Raises:
        ConfigErrors: Everything in it that cannot be meant.
    """
    model, problems = structure(WorldModel, given, where)
    if problems or model is None:
        raise ConfigErrors(
            [ConfigError(p.found, code=p.code, right=p.right, next_step=p.next_step)
             for p in problems]
        )  # fmt: skip
    return model


def plot(runs: Sequence[Run], path: Path) -> None:
    """Write a drawing of *runs* to *path*, whose ending says as what.

    Raises:
        ConfigError: Another ending than .png or .html.
        ProviderMissingError: A PNG needs matplotlib.
        TarnError: The file cannot be written.
    """
    match path.suffix.lower():
        case ".html":
            content = page(runs).encode()
        case ".png":
            content = png(runs)
        case other:
            raise ConfigError(
                f"'{other}' is not a plot format" if other else "its name has no extension",
                where=str(path),
                right="Expected a name that ends in .png or .html",
            )
    try:
        path.write_bytes(content)
    except OSError as error:
        raise TarnError(f"the plot cannot be written: {error.strerror}", where=str(path)) from error
