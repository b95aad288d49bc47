"""The master's HTTP API."""
