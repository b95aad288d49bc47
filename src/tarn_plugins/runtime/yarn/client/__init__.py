"""The client's side: the deployer, its child with the JVM, and what that child reads."""
