"""The clients of Hadoop: the only modules of this runtime that hold Java objects for the master."""
