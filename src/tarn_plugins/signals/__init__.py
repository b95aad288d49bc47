"""Signals: numbers for the fleet besides those that are always there."""
