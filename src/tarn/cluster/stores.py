"""The stores of ``secrets``: read by a client when a cluster is started, and never by a master."""

import json
from collections.abc import Callable, Iterator, Mapping

import attrs

from tarn.cluster.environment import ClusterEnvironment
from tarn.domain import Choice, ClusterSpec, Secret
from tarn.domain import given_secrets as rule
from tarn.domain.given_secrets import StoredSecret
from tarn.domain.master_files import SECRETS
from tarn.errors import ConfigError, ConfigErrors, TarnError
from tarn.interfaces import Finding, Progress, SecretStore
from tarn.plain import join

__all__ = ["Store", "carried", "given", "held", "look", "secrets_of", "stores"]


Hear = Callable[[Progress], None]


@attrs.frozen
class Store:
    """One entry of ``secrets``, ready to be asked."""

    where: str
    """``secrets[0]``."""
    use: str
    names: Mapping[str, str] = attrs.field(hash=False)
    """The variables that its options choose, by the name of a secret."""
    open: SecretStore


def secrets_of(
    spec: ClusterSpec, environment: ClusterEnvironment, hear: Hear | None = None
) -> Mapping[str, Secret]:
    """Return every secret of every store of *spec*, by name.

    Raises:
        ConfigErrors: As `held`.
    """
    return {one.name: one.value for one in held(spec, environment, hear)}


def held(
    spec: ClusterSpec, environment: ClusterEnvironment, hear: Hear | None = None
) -> tuple[StoredSecret, ...]:
    """Read every secret of every store of *spec*; no store is asked where there is none.

    Raises:
        ConfigErrors: A store cannot be read or asked, lacks a secret that its options name, or two
            stores or settings contradict each other: everything at once, and no value.
    """
    found: list[StoredSecret] = []
    errors: list[ConfigError] = []
    for store in stores(spec, environment, hear):
        try:
            found += _read(store)
        except TarnError as error:
            errors.append(_told(error, store.where))
    errors += [
        ConfigError(text, code="TARN-3743", where=where)
        for where, text in rule.problems(found, spec.triton.env)
    ]
    if errors:
        raise ConfigErrors(errors)
    return tuple(found)


def given(found: tuple[StoredSecret, ...]) -> Mapping[str, Secret]:
    """Return what instances get: environment variable to value."""
    return rule.environ(found)


def carried(found: tuple[StoredSecret, ...]) -> Mapping[str, bytes]:
    """Return the file with which a master gets what its instances get; none without secrets.

    What no instance gets, such as the password of a keystore, stays here.
    """
    values = {variable: secret.reveal() for variable, secret in given(found).items()}
    return {SECRETS: json.dumps(values).encode()} if values else {}


def look(
    spec: ClusterSpec, environment: ClusterEnvironment
) -> tuple[tuple[StoredSecret, ...], tuple[Finding, ...]]:
    """Return what `held` returns, or why it raises, as findings."""
    try:
        return held(spec, environment), ()
    except ConfigErrors as error:
        return (), tuple(
            Finding(one.code, one.where, one.found, one.next_step or one.right)
            for one in error.errors
        )


def stores(
    spec: ClusterSpec, environment: ClusterEnvironment, hear: Hear | None = None
) -> tuple[Store, ...]:
    """Return the stores of *spec*; nothing is opened before one is asked.

    Raises:
        ConfigErrors: Wrong options.
        ProviderMissingError: Nobody offers one, or its modules are not installed.
    """
    return tuple(
        _store(join("secrets", number), choice, environment, hear)
        for number, choice in enumerate(spec.secrets)
    )


def _store(where: str, choice: Choice, environment: ClusterEnvironment, hear: Hear | None) -> Store:
    plugins = environment.plugins()
    factory = plugins.choose("secrets", choice.use, join(where, "use"))
    settings = plugins.settings(factory, choice.options, join(where, "options"))
    made: SecretStore = factory.create(settings, environment.context(hear))
    return Store(where, choice.use, factory.names(settings), made)


def _read(store: Store) -> Iterator[StoredSecret]:
    names = store.open.names()
    for name in sorted(store.names.keys() - set(names)):
        raise ConfigError(
            f"options.names lists a secret '{name}' that the store does not have",
            code="TARN-3743",
            right=f"There are: {', '.join(names) or 'none'}.",
        )
    for name in names:
        yield StoredSecret(
            store.where, name, rule.variables(name, store.names), store.open.read(name)
        )


def _told(error: TarnError, where: str) -> ConfigError:
    """Return *error* as one of the spec's, at *where*; what was raised is its cause."""
    told = ConfigError(
        error.found,
        code=error.code,
        where=f"{where}: {error.where}" if error.where else where,
        right=error.right,
        next_step=error.next_step,
    )
    told.__cause__ = error
    return told
