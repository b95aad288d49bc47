"""Numbers with what they count, as people read them."""

__all__ = ["callers_wait", "replicas", "requests_refused", "requests_wait"]


def replicas(count: int) -> str:
    """Return ``1 replica`` or ``3 replicas``."""
    return "1 replica" if count == 1 else f"{count} replicas"


def requests_wait(count: int) -> str:
    """Return ``1 request waits`` or ``3 requests wait``."""
    return "1 request waits" if count == 1 else f"{count} requests wait"


def requests_refused(count: int) -> str:
    """Return ``1 request was refused`` or ``3 requests were refused``."""
    return "1 request was refused" if count == 1 else f"{count} requests were refused"


def callers_wait(requests: float) -> str:
    """Return ``12 requests are in flight, of callers that wait for their answers``."""
    verb = "request is" if requests == 1 else "requests are"
    return f"{requests:.3g} {verb} in flight, of callers that wait for their answers"
