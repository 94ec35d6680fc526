"""Metrics of a run for Prometheus: a collector of the latest figures, and the endpoint that serves
them.

Counters are those of the run: each start begins at zero, which Prometheus treats as a reset.
Unknown gauges are omitted. Times are seconds since 1970 for any unit of the inputs, so that `time()
- dotr_closed_timestamp_seconds` is a delay. prometheus_client writes the text formats; the server
is the standard library's, on loopback unless configured otherwise.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Final, TypeAlias
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dotr.errors.diagnostics import refuse
from dotr.model.places import Span
from dotr.model.stream import Reason
from dotr.model.time import LAST_MICRO, Micros
from dotr.runtimes.monitoring.progress import Figures
from dotr.temporal.matching.rule_counts import RuleCounts

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

LOOPBACK: Final = "127.0.0.1"
_NAME: Final = "dotr"

Samples: TypeAlias = dict[tuple[str, ...], float | None]
"""Values of a metric by the values of its labels (without pipeline and engine); None: unknown."""


class RunCollector(Collector):
    """Collector that turns the latest figures of a run into metric families at each scrape.

    `read` returns the figures of one moment; the endpoint calls it from its own threads.
    """

    def __init__(self, read: Callable[[], Figures]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        figures = self._read()
        totals, progress, batch = figures.totals, figures.progress, figures.progress.batch

        def family(name: str, text: str, value: float | Samples | None, *labels: str) -> Metric:
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            metric = kind(name, text, labels=("pipeline", "engine", *labels))
            for values, sample in (value if isinstance(value, dict) else {(): value}).items():
                if sample is not None:
                    metric.add_metric((figures.pipeline, figures.engine, *values), sample)
            return metric

        rejected: Samples = {(reason.value,): totals.dead_letters.get(reason, 0) for reason in Reason}
        watermarks: Samples = {(each.name,): _seconds(each.watermark) for each in progress.inputs}
        lags: Samples = {(each.name,): _seconds(progress.lag(each)) for each in progress.inputs}
        ended: Samples = {(each.name,): int(each.ended) for each in progress.inputs}
        connected: Samples = {(each.name,): None if each.connected is None else int(each.connected) for each in progress.inputs}
        stored: Samples = {(str(each.layer), each.label): each.events for each in progress.stored}
        rules = {name: totals.rules.get(name, RuleCounts()) for name in figures.rules}
        anchors: Samples = {(name,): counts.anchors for name, counts in rules.items()}
        events: Samples = {(name,): counts.events for name, counts in rules.items()}
        errors: Samples = {(name, figures.step(name, place)): n for name, counts in rules.items() for place, n in counts.errors.items()}
        for name, counts in rules.items():
            if counts.delay_errors:
                errors[name, "delayed by"] = counts.delay_errors
        held: Samples = {(name,): counts.held_back for name, counts in rules.items()}
        left_out: Samples = {(name, column): number for (name, column), number in totals.left_out.items()}
        clients: Samples = {(each.stream, kind): n for each in progress.served for kind, n in each.clients.copy().items()}
        published: Samples = {(each.stream,): each.elements for each in progress.served}
        pushed: Samples = {(each.stream, kind): n for each in progress.served for kind, n in each.bytes.copy().items()}
        slow: Samples = {(each.stream, kind): n for each in progress.served for kind, n in each.slow.copy().items()}
        refusals: Samples = {(each.stream, str(status)): n for each in progress.served for status, n in each.refusals.copy().items()}
        contradictions, fallbacks = totals.inconsistent, totals.fallbacks
        families = [
            family("dotr_run_seconds", "Seconds since the run started.", round(figures.seconds, 3)),
            family("dotr_elements_total", "Elements read and not rejected.", totals.elements),
            family("dotr_instants_total", "Instants closed and processed.", totals.instants),
            family("dotr_facts_total", "Facts of interest found.", totals.facts),
            family("dotr_events_total", "Events written.", totals.events),
            family("dotr_rule_anchors_total", "Events that satisfy the constraints of a rule's anchor.", anchors, "rule"),
            family("dotr_rule_events_total", "Events that a rule has written.", events, "rule"),
            family("dotr_rule_errors_total", "Bindings of a rule that end at an error of a condition.", errors, "rule", "clause"),
            family("dotr_rule_held_back_total", "Firings that `once` of a rule has held back.", held, "rule"),
            family("dotr_dead_letters_total", "Dead letters by reason.", rejected, "reason"),
            family("dotr_cells_left_out_total", "Texts of optional cells that are of another type.", left_out, "input", "column"),
            family("dotr_dropped_triples_total", "Output triples that could not be written.", totals.dropped),
            family("dotr_inconsistent_instants_total", "Instants that contradict themselves or the background.", contradictions),
            family("dotr_fallbacks_total", "Faults of dotr's own that a slower evaluation answered.", fallbacks),
            family("dotr_closed_timestamp_seconds", "Event time up to which instants are closed.", _seconds(progress.closed)),
            family("dotr_heartbeat_timestamp_seconds", "Event time of the clock's last heartbeat.", _seconds(progress.heartbeat)),
            family("dotr_input_watermark_timestamp_seconds", "Event time that an input has passed.", watermarks, "input"),
            family("dotr_input_lag_seconds", "Distance of an input's watermark from the furthest one.", lags, "input"),
            family("dotr_input_ended", "1 where all of an input is read.", ended, "input"),
            family("dotr_input_connected", "1 while the broker of an input answers, or its own server listens.", connected, "input"),
            family("dotr_serve_clients", "Readers that elements are pushed to, by resource.", clients, "stream", "kind"),
            family("dotr_serve_elements_total", "Elements published.", published, "stream"),
            family("dotr_serve_pushed_bytes_total", "Bytes pushed to readers, by resource.", pushed, "stream", "kind"),
            family("dotr_serve_slow_clients_total", "Readers closed since they did not keep up, by resource.", slow, "stream", "kind"),
            family("dotr_serve_refusals_total", "Requests that were refused, by status.", refusals, "stream", "status"),
            family("dotr_state_events", "Events stored, by layer of rules and label.", stored, "layer", "label"),
            family("dotr_state_bytes", "Bytes of the state as written (Spark).", progress.state_bytes),
        ]
        if batch is not None:
            families += [
                family("dotr_batch_number", "Number of the last batch (Spark).", batch.number),
                family("dotr_batch_seconds", "Duration of the last batch (Spark).", batch.milliseconds / 1000),
                family("dotr_state_store_rows", "Rows in Spark's state stores.", batch.state_rows),
                family("dotr_state_store_memory_bytes", "Memory of Spark's state stores.", batch.state_memory),
            ]
        return (each for each in families if each.samples)


def exposition(figures: Figures) -> str:
    """Metrics page of figures, in Prometheus' text format 0.0.4.

    >>> from dotr.runtimes.monitoring.totals import Totals
    >>> page = exposition(Figures("fire", "local", 2.5, Totals(elements=3, dead_letters={Reason.LATE: 1})))
    >>> [line for line in page.splitlines() if "late" in line or "elements" in line][2:]
    ['dotr_elements_total{engine="local",pipeline="fire"} 3.0', 'dotr_dead_letters_total{engine="local",pipeline="fire",reason="late"} 1.0']
    """
    return generate_latest(_registry(lambda: figures)).decode()


def address_of(text: str | int) -> tuple[str, int]:
    """Host and port of an address `HOST:PORT`, or of a port alone, whose host is loopback. Raises
    ValueError for any other text.

    >>> address_of(9464), address_of("0.0.0.0:9464"), address_of("[::1]:9464")
    (('127.0.0.1', 9464), ('0.0.0.0', 9464), ('::1', 9464))
    """
    host, _, port = str(text).rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 1 << 16):
        raise ValueError(f"{text} is no address")
    return host.strip("[]") or LOOPBACK, int(port)


@contextmanager
def serve_metrics(text: str | int, read: Callable[[], Figures], span: Span | None = None) -> Iterator[int]:
    """Context in which an endpoint at address `text` serves `/metrics`. Yields its port (a free one
    where `text` has port 0).

    `read` returns the latest figures, and is called in other threads. Raises `Refused` (C215, at
    `span`) where the address cannot be bound.
    """
    host, port = address_of(text)
    try:
        server = _Server((host, port), read)
    except OSError as error:
        hint = "Is another run there already? Choose another metrics.prometheus."
        raise refuse("C215", f"metrics cannot be served at {text}: {(error.strerror or str(error)).lower()}", span, hint) from None
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True, name="dotr metrics")
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingMixIn, WSGIServer):
    """Server of the metrics page at `/metrics`; any other path is not found."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], read: Callable[[], Figures]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _QuietHandler)
        page = make_wsgi_app(_registry(read))

        def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            def start(status: str, headers: list[tuple[str, str]]) -> object:
                return start_response(status, [*headers, ("Server", _NAME)])

            if environ["PATH_INFO"] == "/metrics":
                response: Iterable[bytes] = page(environ, start)
                return response
            start("404 Not Found", [("Content-Type", "text/plain")])
            return [b"The metrics are at /metrics.\n"]

        self.set_app(application)

    def server_bind(self) -> None:
        """Bind without the name look-up of HTTPServer.server_bind, which may block on the name
        service."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect."""


class _QuietHandler(WSGIRequestHandler):
    """Handler without a log of requests, whose answers do not tell the versions of libraries."""

    timeout = 10

    def version_string(self) -> str:
        """The header Server of answers to invalid requests."""
        return _NAME

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def _registry(read: Callable[[], Figures]) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(RunCollector(read))
    return registry


def _seconds(micros: Micros | None) -> float | None:
    """A time or duration (µs) in seconds; None where it is unknown or infinite.

    >>> _seconds(12_000_000), _seconds(1_500_000), _seconds(LAST_MICRO)
    (12.0, 1.5, None)
    """
    return None if micros is None or abs(micros) >= LAST_MICRO else micros / 1_000_000
