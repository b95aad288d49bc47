"""One contract suite for each Protocol, and one for the checks of `tarn doctor`.

Inherit a suite in a test module of your own.

::

    from tarn.testing.contracts import ScalingPolicyContract

    class TestMine(ScalingPolicyContract):
        factory = my_plugin.FACTORY
        settings = {"target": 3}

pytest then checks every promise of the Protocol against your provider. Only this package of `tarn`
imports pytest.
"""

import pytest

# Must precede the imports of the suites, so that a failed assertion shows its values.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{suite}"
        for suite in (
            "affinity",
            "authorizer",
            "deployer",
            "discovery",
            "doctor",
            "runtime",
            "scaling_policy",
            "state_store",
            "storage",
        )
    )
)

from tarn.testing.contracts.affinity import AffinityContract  # noqa: E402
from tarn.testing.contracts.authorizer import AuthorizerContract, UserDirectoryContract  # noqa: E402
from tarn.testing.contracts.deployer import DeployerContract, UploaderContract  # noqa: E402
from tarn.testing.contracts.discovery import DiscoveryContract  # noqa: E402
from tarn.testing.contracts.doctor import DoctorContract  # noqa: E402
from tarn.testing.contracts.runtime import RuntimeContract  # noqa: E402
from tarn.testing.contracts.scaling_policy import ScalingPolicyContract, SignalContract  # noqa: E402
from tarn.testing.contracts.state_store import ClockContract, StateStoreContract  # noqa: E402
from tarn.testing.contracts.storage import SecretStoreContract, StorageContract  # noqa: E402

__all__ = [
    "AffinityContract",
    "AuthorizerContract",
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
