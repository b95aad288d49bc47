"""HAProxy: servers pushed through its Runtime API, by an agent beside it or by the master."""
