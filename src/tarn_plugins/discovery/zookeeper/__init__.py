"""ZooKeeper: an ephemeral node for each instance, and one that says which master speaks."""
