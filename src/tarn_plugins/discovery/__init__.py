"""Discoveries: how clients find the instances."""
