"""The doors to Hadoop: the only modules of this runtime that hold Java objects for the master."""
