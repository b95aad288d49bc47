"""The real servers that tests start, one module for each.

They have one shape. ``start`` returns once the server answers, ``stop`` ends it, and both may
follow one another; it is a context that does both. Its addresses are attributes, all on loopback
and on free ports; its files and its log (``log``, ``said()``) lie in the directory that it is
given. What is dear to start is started once for a session, by a fixture next to its class, which a
folder's ``conftest.py`` imports; what a test may break is that test's own.
"""
