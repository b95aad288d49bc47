"""Which scaling policy decides, where nobody named one."""

from tarn.config.draft import Draft
from tarn.domain.spec import ReplicasSpec

__all__ = ["choose_policy"]

_UNBOUND = ReplicasSpec()


def choose_policy(draft: Draft) -> None:
    """Name the policy ``target`` where *draft* bounds the size, leaves room, and names none.

    Who writes ``replicas: {min: 1, max: 8}`` wants a size between them, and not always the first
    one. Bounds that nobody wrote are there for ``tarn scale``: then the size stays ``fixed``.
    Bounds that are not numbers are told elsewhere.
    """
    if draft.get("scaling.use") is not None:
        return
    low, high = draft.get("replicas.min"), draft.get("replicas.max")
    if low is None and high is None:
        return
    low, high = _UNBOUND.min if low is None else low, _UNBOUND.max if high is None else high
    if type(low) is int and type(high) is int and low < high:
        draft.put(("scaling", "use"), "target", "replicas.min is below replicas.max")
