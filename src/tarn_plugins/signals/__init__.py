"""Signals: numbers for the fleet beside those that are always there."""
