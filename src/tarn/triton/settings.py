"""What of a spec no tritonserver of this version can be started with, wherever it runs. Pure."""

from collections.abc import Iterator

from tarn.domain import ClusterSpec
from tarn.interfaces import Finding
from tarn.triton import restricted
from tarn.triton.command import OWNED

__all__ = ["findings"]


def findings(spec: ClusterSpec, bind: str) -> Iterator[Finding]:
    """Yield what a runtime must refuse before it starts anything, and what a person should know.

    *bind* is where instances listen; empty: at the address of their node.
    """
    ranks = spec.instance.parallelism.ranks
    if ranks > 1:
        yield Finding(
            "TARN-2004",
            "instance.parallelism",
            f"tensor x pipeline = {ranks}; instances of several ranks come with the parts GPU and "
            "MODELS, not in this version",
            "Remove it",
        )
    for name in spec.triton.args:
        key = OWNED.get(name.lstrip("-").replace("_", "-"))
        if key is not None:
            yield Finding(
                "TARN-2003",
                f"triton.args.{name}",
                f"is decided by {key}",
                f"Set {key} and remove it here",
            )
    yield from restricted.findings(spec, bind)
