"""The commands, environments and files of containers."""
