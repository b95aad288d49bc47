"""What a client reads on its machine for a master elsewhere: keys, keytabs, secrets."""

from collections.abc import Callable, Mapping

from tarn.cluster.stores import carried, held
from tarn.cluster.surroundings import Surroundings
from tarn.domain import ClusterSpec
from tarn.interfaces import Progress

__all__ = ["brought"]


def brought(
    spec: ClusterSpec, surroundings: Surroundings, hear: Callable[[Progress], None] | None = None
) -> Mapping[str, bytes]:
    """Return name (of `tarn.domain.brought`) to content of all that *spec* asks for.

    Raises:
        ConfigErrors: What cannot be read or does not fit together, everything at once.
    """
    return carried(held(spec, surroundings, hear))
