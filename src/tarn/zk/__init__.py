"""ZooKeeper: a session, and the format of TARN's nodes."""
