"""The master's HTTP API: `Application(Sources(...))` served by a `HttpServer`."""
