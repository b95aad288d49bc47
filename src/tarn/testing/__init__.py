"""For plugin authors and for our own tests: fakes, and one contract suite for each Protocol."""
