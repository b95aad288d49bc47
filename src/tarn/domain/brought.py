"""The files that a client brings to a master, by the names that they have there.

Each has mode 0600, and on YARN travels in the credentials of the submission.
"""

__all__ = [
    "API_TOKEN",
    "BROUGHT",
    "CLIENT_CA",
    "OWNERS",
    "PROXY_TOKENS",
    "SECRETS",
    "SPEC",
    "SPNEGO_KEYTAB",
    "STAGED",
    "TLS",
]

SPEC = "spec.yaml"
STAGED = "staged.json"
API_TOKEN = "api_token"  # noqa: S105 (a name)
SECRETS = "secrets.json"
"""Environment variable to value: what instances get from the spec's ``secrets``."""
TLS = "tls.pem"
"""The master's private key, then its certificate and the chain."""
CLIENT_CA = "client_ca.pem"
"""Who signs certificates of clients."""
SPNEGO_KEYTAB = "spnego.keytab"
PROXY_TOKENS = "proxy_tokens.json"
"""Name of a trusted proxy to its token."""

BROUGHT = (SPEC, STAGED, API_TOKEN, SECRETS, TLS, CLIENT_CA, SPNEGO_KEYTAB, PROXY_TOKENS)
"""All of them: what one start does not bring must not be left by an earlier one."""

OWNERS = (SPEC, STAGED, API_TOKEN)
"""Those that the owner's other machines may keep or fetch, too; every other one is for the master
alone."""
