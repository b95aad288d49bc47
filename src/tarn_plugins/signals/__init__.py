"""Signals in addition to the built-in ones."""
