"""The control thread and its dependencies: fold facts, decide, post wishes, publish a snapshot."""
