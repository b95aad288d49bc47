"""What a client reads on its machine for a master elsewhere: keys, keytabs, secrets."""

from collections.abc import Mapping

from tarn.cluster.believed import believed
from tarn.cluster.stores import carried, held
from tarn.cluster.surroundings import Surroundings
from tarn.domain import ClusterSpec
from tarn.errors import ConfigError, ConfigErrors

__all__ = ["brought"]


def brought(spec: ClusterSpec, surroundings: Surroundings) -> Mapping[str, bytes]:
    """Return name (of `tarn.domain.brought`) to content of all that *spec* asks for.

    Raises:
        ConfigErrors: What cannot be read or does not fit together, everything at once.
    """
    files, errors = dict[str, bytes](), list[ConfigError]()
    for part in _PARTS:
        try:
            files.update(part(spec, surroundings))
        except ConfigErrors as wrong:
            errors += wrong.errors
    if errors:
        raise ConfigErrors(errors)
    return files


def _secrets(spec: ClusterSpec, surroundings: Surroundings) -> Mapping[str, bytes]:
    return carried(held(spec, surroundings))


def _believed(spec: ClusterSpec, surroundings: Surroundings) -> Mapping[str, bytes]:
    return believed(spec, surroundings.environ)


_PARTS = (_secrets, _believed)
