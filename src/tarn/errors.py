"""Every error that TARN raises on purpose.

::

    TarnError                    where, found, right, next_step; exit code 1
    ├── ConfigError              (also ValueError) an invalid configuration; exit code 2
    │   └── ConfigErrors         several of them at once
    ├── RefusedError             a request that the limits or the present state forbid; exit code 2
    ├── ConflictError            the cluster was changed meanwhile (If-Match); exit code 1
    ├── PluginError              a plugin broke the rules of its hook
    │   └── ProviderMissingError no plugin offers the name, or modules are missing; exit code 6
    ├── ProviderError            a provider could not do its work
    │   ├── LaunchError
    │   ├── StorageError
    │   │   └── RepositoryError  what the spec names is not a repository; exit code 2
    │   └── DiscoveryError
    ├── NotFoundError            no such cluster, instance or code; exit code 3
    ├── UnreachableError         a cluster exists, but does not answer; exit code 3
    ├── TimedOutError            a deadline passed; exit code 4
    ├── NotAuthorizedError       access was denied, or the api token is wrong; exit code 5
    └── Superseded               a master with a higher epoch is at work

Callers branch on the class and the attributes, never on the text.
"""

from collections.abc import Sequence

__all__ = [
    "ConfigError",
    "ConfigErrors",
    "ConflictError",
    "DiscoveryError",
    "LaunchError",
    "NotAuthorizedError",
    "NotFoundError",
    "PluginError",
    "ProviderError",
    "ProviderMissingError",
    "RefusedError",
    "RepositoryError",
    "StorageError",
    "Superseded",
    "TarnError",
    "TimedOutError",
    "UnreachableError",
]


class TarnError(Exception):
    """An error that says where it is, what was found, what would be right, and what to do.

    Args:
        found: What was found, with values quoted and units written. The only required part.
        code: ``TARN-nnnn`` from the table in ``tarn.domain.codes``.
        where: File and key, instance, or address; may be empty.
        right: What would have been right.
        next_step: What the reader can do now, preferably a command to paste.
    """

    exit_code = 1
    default_code = "TARN-1000"

    def __init__(
        self, found: str, *, code: str = "", where: str = "", right: str = "", next_step: str = ""
    ) -> None:
        self.found = found
        self.code = code or self.default_code
        self.where = where
        self.right = right
        self.next_step = next_step
        super().__init__(found)

    def __str__(self) -> str:
        """Render the parts as sentences on one line."""
        text = f"{self.where}: {self.found}" if self.where else self.found
        for part in (self.right, self.next_step):
            if part:
                text = f"{text.rstrip('.')}. {part}"
        return text


class ConfigError(TarnError, ValueError):
    """The user's configuration is invalid."""

    exit_code = 2
    default_code = "TARN-2000"


class ConfigErrors(ConfigError):  # noqa: N818 (a plural on purpose)
    """Every error of one configuration."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        self.errors = tuple(errors)
        super().__init__(
            "\n".join(str(e) for e in self.errors), code=self.errors[0].code if self.errors else ""
        )


class RefusedError(TarnError):
    """The limits or the present state forbid the request."""

    exit_code = 2
    default_code = "TARN-2100"


class ConflictError(TarnError):
    """The cluster was changed since the revision that the request names."""

    default_code = "TARN-2101"

    def __init__(self, found: str, *, spec_revision: int, next_step: str = "") -> None:
        self.spec_revision = spec_revision
        super().__init__(found, next_step=next_step)


class PluginError(TarnError):
    """A plugin broke the rules of its hook; ``plugin`` is its name."""

    default_code = "TARN-6000"

    def __init__(self, plugin: str, found: str, *, right: str = "", next_step: str = "") -> None:
        self.plugin = plugin
        super().__init__(found, where=f"plugin {plugin}", right=right, next_step=next_step)


class ProviderMissingError(PluginError):
    """No plugin offers the name, or the modules it needs are not installed."""

    exit_code = 6
    default_code = "TARN-6001"
    of_choice = ""
    """The part of ``found`` after the key of the choice: `` = 'x': no plugin offers it``."""

    @staticmethod
    def reason(module: str, error: ImportError) -> str:
        """Return why *module* cannot be used: it is not installed, or its import failed."""
        # A library that wraps an ImportError often hides the reason, so the deepest cause counts.
        deepest = error
        while isinstance(deepest.__cause__, ImportError):
            deepest = deepest.__cause__
        if isinstance(deepest, ModuleNotFoundError) and deepest.name == module:
            return f"the module {module} is not installed"
        return f"the module {module} cannot be used here: {deepest}"


class ProviderError(TarnError):
    """A provider could not do its work; ``retry_after_s`` is None if a retry is pointless."""

    default_code = "TARN-3000"

    def __init__(  # noqa: PLR0913 (the parts of a message, all by keyword)
        self,
        provider: str,
        found: str,
        *,
        retry_after_s: float | None = None,
        code: str = "",
        where: str = "",
        right: str = "",
        next_step: str = "",
    ) -> None:
        self.provider = provider
        self.retry_after_s = retry_after_s
        super().__init__(
            found, code=code, where=where or provider, right=right, next_step=next_step
        )


class LaunchError(ProviderError):
    """A runtime could not start an instance."""

    default_code = "TARN-3100"


class StorageError(ProviderError):
    """A storage could not find, read or copy what the spec names."""

    default_code = "TARN-3200"


class RepositoryError(StorageError):
    """The model repository that the spec names is missing, or is not a repository."""

    exit_code = 2
    default_code = "TARN-2200"


class DiscoveryError(ProviderError):
    """A discovery could not publish a view."""

    default_code = "TARN-3300"


class NotFoundError(TarnError):
    """There is no such cluster, instance or code."""

    exit_code = 3
    default_code = "TARN-4000"


class UnreachableError(TarnError):
    """A cluster exists, but does not answer."""

    exit_code = 3
    default_code = "TARN-4001"


class TimedOutError(TarnError):
    """A deadline passed."""

    exit_code = 4
    default_code = "TARN-4002"


class NotAuthorizedError(TarnError):
    """Access was denied, or the api token is missing or wrong."""

    exit_code = 5
    default_code = "TARN-5000"

    def __init__(
        self,
        principal: str,
        action: str,
        model: str = "",
        *,
        next_step: str = "",
        negotiates: bool = False,
    ) -> None:
        self.principal, self.action, self.model = principal, action, model
        self.negotiates = negotiates
        """Whether the server would accept a Kerberos ticket."""
        of = f" on model '{model}'" if model else ""
        super().__init__(f"{principal} may not {action}{of}", next_step=next_step)


class Superseded(TarnError):  # noqa: N818 (a state of affairs, not a fault)
    """A master with a higher epoch is at work, so this one must not change anything."""

    default_code = "TARN-1001"

    def __init__(self, mine: str, theirs: str) -> None:
        self.mine, self.theirs = mine, theirs
        super().__init__(f"epoch {mine} was superseded by {theirs}")
