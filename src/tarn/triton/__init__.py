"""What Triton is, for any runtime."""
