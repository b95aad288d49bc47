"""One contract suite for each Protocol, and one for the checks of `tarn doctor`.

Inherit it in a test module of your own.

::

    from tarn.testing.contracts import ScalingPolicyContract

    class TestMine(ScalingPolicyContract):
        factory = my_plugin.FACTORY
        settings = {"target": 3}

pytest then runs every promise of the Protocol against your provider. This package, and nothing
else in `tarn`, imports pytest.
"""

import pytest

# Before the suites are imported, so that a broken promise shows the values that broke it.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{suite}"
        for suite in (
            "authorizer",
            "ceiling_source",
            "clock",
            "deployer",
            "discovery",
            "doctor",
            "runtime",
            "runtime_session",
            "scaling_policy",
            "secret_store",
            "signal",
            "state_store",
            "storage",
            "uploader",
            "user_directory",
        )
    )
)

from tarn.testing.contracts.authorizer import AuthorizerContract  # noqa: E402
from tarn.testing.contracts.ceiling_source import CeilingSourceContract  # noqa: E402
from tarn.testing.contracts.clock import ClockContract  # noqa: E402
from tarn.testing.contracts.deployer import DeployerContract  # noqa: E402
from tarn.testing.contracts.discovery import DiscoveryContract  # noqa: E402
from tarn.testing.contracts.doctor import DoctorContract  # noqa: E402
from tarn.testing.contracts.runtime import RuntimeContract  # noqa: E402
from tarn.testing.contracts.scaling_policy import ScalingPolicyContract  # noqa: E402
from tarn.testing.contracts.secret_store import SecretStoreContract  # noqa: E402
from tarn.testing.contracts.signal import SignalContract  # noqa: E402
from tarn.testing.contracts.state_store import StateStoreContract  # noqa: E402
from tarn.testing.contracts.storage import StorageContract  # noqa: E402
from tarn.testing.contracts.uploader import UploaderContract  # noqa: E402
from tarn.testing.contracts.user_directory import UserDirectoryContract  # noqa: E402

__all__ = [
    "AuthorizerContract",
    "CeilingSourceContract",
    "ClockContract",
    "DeployerContract",
    "DiscoveryContract",
    "DoctorContract",
    "RuntimeContract",
    "ScalingPolicyContract",
    "SecretStoreContract",
    "SignalContract",
    "StateStoreContract",
    "StorageContract",
    "UploaderContract",
    "UserDirectoryContract",
]
