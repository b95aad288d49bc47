"""ZooKeeper: one session, and the format of the nodes that TARN keeps there."""
