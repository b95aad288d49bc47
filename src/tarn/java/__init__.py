"""The one JVM of a process: its jars, its start, and its errors in words.

Only `tarn.java.jvm` imports JPype. A process that holds a JVM never forks, and never enables
faulthandler: the JVM uses the same signals.
"""
