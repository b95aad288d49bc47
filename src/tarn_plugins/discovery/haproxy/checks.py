"""What `tarn doctor` looks at of a HAProxy that the master drives through its socket."""

from collections.abc import Iterator

from tarn.domain import ClusterSpec
from tarn.errors import DiscoveryError, ProviderMissingError
from tarn.interfaces import Check, CheckResult, Finding
from tarn.plain import structure
from tarn_plugins.discovery.haproxy.settings import HaproxySettings
from tarn_plugins.discovery.haproxy.target import HaproxyTarget

__all__ = ["checks"]

_ANSWER_WITHIN_S = 5.0


def checks(spec: ClusterSpec) -> Iterator[Check]:
    """Yield a check for each HAProxy whose socket *spec* names; agents look after the others."""
    for one in spec.discovery:
        settings = structure(HaproxySettings, one.options)[0] if one.use == "haproxy" else None
        if settings is not None and settings.socket:
            target = settings.target(spec.name, spec.replicas.max)
            yield Check(
                f"HAProxy at {target.socket} ({target.backend})",
                "Through this socket the master tells it which instances get requests.",
                _HaproxySurvey(target),
            )


class _HaproxySurvey:
    """Asks one HAProxy what the master would ask of it first; changes nothing."""

    def __init__(self, target: HaproxyTarget) -> None:
        self._target = target

    def __call__(self) -> CheckResult:
        try:
            return self._asked()
        except DiscoveryError as error:
            found = f"{error.found}. {error.right}" if error.right else error.found
            return CheckResult("", (Finding(error.code, error.where, found, error.next_step),))

    def _asked(self) -> CheckResult:
        try:
            from tarn_plugins.discovery.haproxy.backends import HaproxyBackends  # noqa: PLC0415
            from tarn_plugins.discovery.haproxy.runtime_api import RuntimeApi  # noqa: PLC0415
        except ImportError as error:
            raise ProviderMissingError(
                "discovery_haproxy",
                "a HAProxy with a socket needs haproxyadmin: "
                f"{ProviderMissingError.reason('haproxyadmin', error)}",
                next_step="pip install 'tarn-orchestrator[haproxy]'",
            ) from error
        api = RuntimeApi(self._target.socket, _ANSWER_WITHIN_S, "haproxy")
        backends = HaproxyBackends(self._target, api)
        backends.check()
        version = ".".join(map(str, api.version()))
        room = backends.capacity()
        slots = "servers are added" if room is None else f"{room} placeholder servers"
        return CheckResult(
            f"HAProxy {version}, level admin, backend '{self._target.backend}', {slots}"
        )
