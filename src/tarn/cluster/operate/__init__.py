"""What is done with a running cluster: wait, watch, verify, look whether it is reached, end."""
