"""The client's side: the deployer, its door to the child with the JVM, what that child reads."""
