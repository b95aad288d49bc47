"""The files that a client brings to a master, by the names that they have there.

Each has mode 0600, and on YARN travels in the credentials of the submission.
"""

__all__ = [
    "API_TOKEN",
    "CLIENT_CA",
    "LAST_PORT",
    "MASTER_FILES",
    "PROXY_TOKENS",
    "SCRAPE_TOKEN",
    "SECRETS",
    "SPEC",
    "SPNEGO_KEYTAB",
    "STAGED",
    "TEST_REQUESTS",
    "TLS",
    "TLS_CA",
    "TRITON_SECRET",
]

SPEC = "spec.yaml"
"""What the user wants: the whole of ``tarn.yaml`` as values."""
STAGED = "staged.json"
TEST_REQUESTS = "test_requests.json"
"""The file that ``instance.test_request`` names."""
API_TOKEN = "api_token"  # noqa: S105 (a name)
SECRETS = "secrets.json"
"""Environment variable to value: what instances get from the spec's ``secrets``."""
TLS = "tls.pem"
"""The master's private key, then its certificate and the chain."""
TLS_CA = "tls_ca.pem"
"""By what clients know the master; no secret, and kept with the cluster's ``ref.json``."""
CLIENT_CA = "client_ca.pem"
"""Who signs certificates of clients."""
SPNEGO_KEYTAB = "spnego.keytab"
PROXY_TOKENS = "proxy_tokens.json"
"""Name of a trusted proxy to its token."""
SCRAPE_TOKEN = "scrape_token"  # noqa: S105 (a name)
"""Nobody brings it: what a Prometheus shows, derived from the api token."""
LAST_PORT = "last_port"
"""Nobody brings it: where the last master of this directory listened."""
TRITON_SECRET = "triton.secret"  # noqa: S105 (a name)
"""From which each instance's key for the restricted parts of Triton's API is derived."""
MASTER_FILES = (
    SPEC,
    STAGED,
    TEST_REQUESTS,
    API_TOKEN,
    SECRETS,
    TLS,
    TLS_CA,
    CLIENT_CA,
    SPNEGO_KEYTAB,
    PROXY_TOKENS,
    TRITON_SECRET,
)
"""All of them: a cluster that ends leaves none, and a start keeps none of an earlier one."""
