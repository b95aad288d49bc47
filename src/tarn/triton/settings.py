"""What of a spec no tritonserver of this version can be started with, wherever it runs. Pure."""

import ipaddress
import re
from collections.abc import Iterator

from tarn.domain import ClusterSpec
from tarn.interfaces import Finding
from tarn.triton import restricted
from tarn.triton.command import OWNED

__all__ = ["findings"]

_HOST = re.compile(r"(?=.{1,253}\.?$)(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})(?:\.|$))+")


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
                f"is set by {key}",
                f"Set {key} and remove it here",
            )
    if spec.triton.bind is not None and not _is_host(spec.triton.bind):
        yield Finding(
            "TARN-2002",
            f"triton.bind = '{spec.triton.bind}'",
            "is neither an address nor the name of a host",
            "Write an address, such as 127.0.0.1 or 0.0.0.0 for all, or leave it out",
        )
    yield from restricted.findings(spec, bind)


def _is_host(text: str) -> bool:
    """Say whether *text* can be an address or a name; 999.1.1.1 is neither."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        last = text.rstrip(".").rpartition(".")[2]
        return bool(_HOST.fullmatch(text)) and not last.isdigit()
    return True
