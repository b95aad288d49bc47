"""The master's side: what should run, what does, and what to say to YARN about it."""
