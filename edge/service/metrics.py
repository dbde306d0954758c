"""What the service counts about itself, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest


class Metrics:
    """The counters of one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.requests = Counter(
            "stats_refresh_http_requests",
            "Answered requests.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self.seconds = Histogram(
            "stats_refresh_http_request_seconds",
            "From the head of a request to the end of its answer, waiting included.",
            ("route",),
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=self._registry,
        )
        self.running = Gauge(
            "stats_refresh_http_requests_running", "Requests in flight.", registry=self._registry
        )
        self._waiting = Gauge(
            "stats_refresh_http_waiting", "Requests that wait for a publication.", registry=self._registry
        )
        self._listening = Gauge(
            "stats_refresh_http_listener_proven",
            "1 while notifications of Postgres arrive.",
            registry=self._registry,
        )
        self._calls = Gauge(
            "stats_refresh_http_database_calls", "Calls that run or wait.", ("pool",), registry=self._registry
        )

    def text(self, *, waiting: int, is_listening: bool, apps: int, work: int) -> bytes:
        """Return all of it in Prometheus' text format."""
        self._waiting.set(waiting)
        self._listening.set(is_listening)
        self._calls.labels("apps").set(apps)
        self._calls.labels("work").set(work)
        return generate_latest(self._registry)
