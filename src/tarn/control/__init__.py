"""The control thread and its neighbours: fold facts, decide, post wishes, publish a snapshot."""
