"""Read the secret stores of a spec; the client does so at a start, a master never."""

import json
from collections.abc import Callable, Iterator, Mapping

import attrs

from tarn.cluster import given_secrets as rule
from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.given_secrets import StoredSecret
from tarn.domain import ClusterSpec, Secret
from tarn.errors import ConfigError, ConfigErrors, TarnError
from tarn.interfaces import Finding, Progress, SecretStore
from tarn.plain import join
from tarn.plain.master_files import SECRETS

__all__ = ["Store", "carried", "given", "held", "look", "stores"]

Hear = Callable[[Progress], None]


@attrs.frozen
class Store:
    """One entry of ``secrets``."""

    where: str
    """``secrets[0]``."""
    use: str
    names: Mapping[str, str] = attrs.field(hash=False)
    """The variables that its options choose, by secret name."""
    open: SecretStore


def held(
    spec: ClusterSpec, environment: ClusterEnvironment, hear: Hear | None = None
) -> tuple[StoredSecret, ...]:
    """Read every secret of every store of *spec*.

    Raises:
        ConfigErrors: A store cannot be read, lacks a secret that its options name, or two stores
            or settings contradict each other; every error at once, without a value.
    """
    found: list[StoredSecret] = []
    errors: list[ConfigError] = []
    for store in stores(spec, environment, hear):
        try:
            found += _read(store)
        except TarnError as error:
            where = f"{store.where}: {error.where}" if error.where else store.where
            told = ConfigError(
                error.found,
                code=error.code,
                where=where,
                right=error.right,
                next_step=error.next_step,
            )
            told.__cause__ = error
            errors.append(told)
    errors += [
        ConfigError(text, code="TARN-3743", where=where)
        for where, text in rule.problems(found, spec.triton.env)
    ]
    if errors:
        raise ConfigErrors(errors)
    return tuple(found)


def given(found: tuple[StoredSecret, ...]) -> Mapping[str, Secret]:
    """Return the environment variables of instances, with their values."""
    return rule.environ(found)


def carried(found: tuple[StoredSecret, ...]) -> Mapping[str, bytes]:
    """Return the file with the variables of instances, for the master; empty without secrets.

    Secrets that no instance gets, such as the password of a keystore, are not in it.
    """
    values = {variable: secret.reveal() for variable, secret in given(found).items()}
    return {SECRETS: json.dumps(values).encode()} if values else {}


def look(
    spec: ClusterSpec, environment: ClusterEnvironment
) -> tuple[tuple[StoredSecret, ...], tuple[Finding, ...]]:
    """Return the secrets as `held` does, and its errors as findings."""
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
    """Return the stores of *spec*; none is opened before it is read.

    Raises:
        ConfigErrors: A store has wrong options.
        ProviderMissingError: No plugin offers a store, or its modules are not installed.
    """
    plugins, found = environment.plugins(), list[Store]()
    for number, choice in enumerate(spec.secrets):
        where = join("secrets", number)
        factory = plugins.choose("secrets", choice.use, join(where, "use"))
        settings = plugins.settings(factory, choice.options, join(where, "options"))
        made: SecretStore = factory.create(settings, environment.context(hear))
        found.append(Store(where, choice.use, factory.names(settings), made))
    return tuple(found)


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
