"""What is counted and measured, for Prometheus: requests and their times, and where each deployment stands."""

import logging
from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from surefooted.live.store import StoreFault
from surefooted.service.context import KEPT, Context

log = logging.getLogger("surefooted.service")
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
ACCOUNTS = 1_000  # of one deployment that are listed


class Metrics:
    """Counters of one process; `text` is what /metrics answers."""

    def __init__(self, held: Context) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self.seconds = Histogram("surefooted_request_seconds", "Time of requests", labels, buckets=BUCKETS,
                                 registry=self.registry)  # fmt: skip
        self.hooks = Counter("surefooted_webhooks_total", "Messages to webhooks", ("result",), registry=self.registry)
        streams = Gauge("surefooted_streams", "Open streams of events", registry=self.registry)
        streams.set_function(lambda: held.hub.streams)
        self.registry.register(_Deployments(held))

    def text(self) -> bytes:
        """In Prometheus's format."""
        return generate_latest(self.registry)


class _Deployments(Collector):
    """Where each deployment stands when it is asked."""

    def __init__(self, held: Context) -> None:
        self.held = held

    def describe(self) -> Iterable[Any]:
        """Nothing: what there is depends on the store."""
        return ()

    def collect(self) -> Iterable[Any]:
        """One gauge for each number of a status."""
        names = ("decisions", "open", "waiting", "alarm", "paused", "contradictions", "outside_guarantee", "sites")
        words = {
            "decisions": "Decisions made", "open": "Decisions whose outcome is not complete",
            "waiting": "Decisions that wait for a person", "alarm": "1 after an alarm, until somebody trusts again",
            "paused": "1 if all sites are paused", "contradictions": "Contradictions of what was declared",
            "outside_guarantee": "Events that are outside the guarantee", "sites": "Sites",
        }  # fmt: skip
        gauges = {name: GaugeMetricFamily(f"surefooted_{name}", words[name], labels=["deployment"]) for name in names}
        balance = GaugeMetricFamily("surefooted_balance", "What is in an account", labels=["deployment", "account"])
        readable = GaugeMetricFamily("surefooted_deployment_up", "1 if it can be read", labels=["deployment"])
        last = GaugeMetricFamily("surefooted_last_event", "The number of the last event of the journal")
        up = GaugeMetricFamily("surefooted_store_up", "1 if the store can be read")
        try:
            last.add_metric([], self.held.store.last)
            for deployment in self.held.store.deployments()[-KEPT:]:
                status = self._status(deployment)
                readable.add_metric([deployment], float(status is not None))
                if status is None:
                    continue
                for name in names:
                    value = status[name]
                    number = value if isinstance(value, int) else (value is not None) if _is_flag(name) else len(value)
                    gauges[name].add_metric([deployment], float(number))
                for account in status["accounts"][:ACCOUNTS]:
                    balance.add_metric([deployment, account["name"]], account["balance"])
            up.add_metric([], 1.0)
        except StoreFault:
            up.add_metric([], 0.0)
        return [*gauges.values(), balance, readable, last, up]

    def _status(self, deployment: str) -> dict[str, Any] | None:
        """Where a deployment stands; None if it cannot be read, which must not hide the others."""
        try:
            advisor = self.held.readable(deployment)
            return None if advisor is None else advisor.status()
        except StoreFault:
            raise
        except Exception as error:  # such as what nobody expects
            log.warning("a deployment cannot be read", extra={"told": {"deployment": deployment, "error": repr(error)}})
            return None


def _is_flag(name: str) -> bool:
    return name in ("alarm", "paused")
