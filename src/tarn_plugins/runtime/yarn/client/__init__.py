"""The client's side: a child process with a JVM, and the deployer that asks it."""
