"""The answers of a cluster, and their display: tables, cards, drawings, logs, events."""
