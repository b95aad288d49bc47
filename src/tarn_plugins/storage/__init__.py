"""Storages: how a model repository reaches the instances."""
