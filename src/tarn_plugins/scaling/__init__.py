"""Scaling policies."""
