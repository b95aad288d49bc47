"""What happens before a master is at work: looks, gathers, stages, submits."""
