"""The process that holds the JVM for a client: what it is asked, and what it answers."""
