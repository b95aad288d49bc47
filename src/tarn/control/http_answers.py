"""What a Triton answered over HTTP, read. Pure."""

import functools
import json
import re

from tarn.control.http1 import Reply
from tarn.domain import Known, ModelState, Sample, Unknown
from tarn.triton.index import parse_index

__all__ = ["is_ensemble", "may_warm", "models_of", "other_id"]

_AN_ID = re.compile(r".+-[0-9]{4,}")


def other_id(reply: Reply, instance_id: str) -> str:
    """Return the id of another instance that answers in place of *instance_id*; '' for none.

    Two clusters that share a node may want one port; until the later Triton finds it taken and
    ends, the other one would pass for it. Our runtimes start each with its id as ``--id``; who is
    called otherwise is not doubted: a runtime, or a user's own ``id``, may do without.
    """
    try:
        said = json.loads(reply.body) if reply.status == 200 else None  # noqa: PLR2004
    except ValueError:
        return ""
    name = said.get("name") if isinstance(said, dict) else None
    if not isinstance(name, str) or name == instance_id or not _AN_ID.fullmatch(name):
        return ""
    return name


def models_of(reply: Reply) -> Sample[tuple[ModelState, ...]]:
    """Return the models of a repository index; Unknown, and why, where it is none."""
    if reply.status != 200:  # noqa: PLR2004
        return Unknown(f"the repository index answered {reply.status}")
    try:
        return Known(_index(reply.body))
    except ValueError as error:
        return Unknown(f"cannot read the repository index: {error}")


@functools.lru_cache(maxsize=256)
def _index(body: bytes) -> tuple[ModelState, ...]:
    """Equal instances answer the same bytes, second after second."""
    return parse_index(body)


def is_ensemble(reply: Reply) -> bool:
    """Say whether a model's configuration is that of an ensemble; one that is not given is not."""
    try:
        said = json.loads(reply.body) if reply.status == 200 else None  # noqa: PLR2004
    except ValueError:
        return False
    return isinstance(said, dict) and said.get("platform") == "ensemble"


def may_warm(models: Sample[tuple[ModelState, ...]]) -> bool:
    """Say whether at least one model is READY and none is LOADING."""
    if isinstance(models, Unknown):
        return False
    states = {model.state for model in models.value}
    return "READY" in states and "LOADING" not in states
