"""What a container is started with."""
