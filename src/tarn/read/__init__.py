"""What readers get: snapshots, alerts, metrics, history. Pure."""
