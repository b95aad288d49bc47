"""TLS of masters and their clients: certificates, contexts, and the connections of a port."""
