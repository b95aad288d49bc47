"""Apache Knox: what it needs to be configured with, and what is wrong in a topology."""
