"""The master's HTTP API: `create_app(Sources(...))` served by a `HttpServer`."""
