"""A reading as text that Prometheus scrapes (text exposition format 0.0.4).

Counters are of this run: they begin at zero with every start, which Prometheus takes for a reset. Gauges that are not known are left out.
Times are seconds since 1970, whatever the unit of the inputs' stamps, so that `time() - dotr_closed_timestamp_seconds` is a delay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from dotr.model.stream import Reason
from dotr.model.time import LAST_MICRO, Micros
from dotr.monitoring.latest_figures import Figures

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Sample: TypeAlias = tuple[Mapping[str, str], float | None]

METRICS: Final[Mapping[str, tuple[str, str]]] = {
    "dotr_run_seconds": ("gauge", "Seconds since the run started."),
    "dotr_elements_total": ("counter", "Elements read and not rejected."),
    "dotr_instants_total": ("counter", "Instants closed and processed."),
    "dotr_facts_total": ("counter", "Facts of interest found."),
    "dotr_events_total": ("counter", "Events written."),
    "dotr_dead_letters_total": ("counter", "Dead letters by reason."),
    "dotr_dropped_triples_total": ("counter", "Output triples that could not be written."),
    "dotr_inconsistent_instants_total": ("counter", "Instants that contradict themselves or the background."),
    "dotr_fallbacks_total": ("counter", "Faults of dotr's own after which something else gave the answer, at a higher cost."),
    "dotr_closed_timestamp_seconds": ("gauge", "Event time up to which all instants are closed and processed."),
    "dotr_input_watermark_timestamp_seconds": ("gauge", "Event time that an input has passed."),
    "dotr_input_lag_seconds": ("gauge", "How far an input's watermark stands behind that of the input that is furthest."),
    "dotr_input_ended": ("gauge", "1 where all of an input is read."),
    "dotr_state_events": ("gauge", "Events remembered, by layer of rules and label."),
    "dotr_state_bytes": ("gauge", "Bytes of the state as written (Spark)."),
    "dotr_batch_number": ("gauge", "Number of the last batch (Spark)."),
    "dotr_batch_seconds": ("gauge", "How long the last batch took (Spark)."),
    "dotr_state_store_rows": ("gauge", "Rows in Spark's state stores."),
    "dotr_state_store_memory_bytes": ("gauge", "Memory of Spark's state stores."),
}
"""Every metric: its type and what it says."""


def exposition(reading: Figures) -> str:
    """The page that is scraped.

    >>> from dotr.monitoring.totals import Totals
    >>> page = exposition(Figures("fire", "local", 2.5, Totals(elements=3, dead={Reason.LATE: 1})))
    >>> [line for line in page.splitlines() if "late" in line or "elements" in line][2:]
    ['dotr_elements_total{pipeline="fire",engine="local"} 3', 'dotr_dead_letters_total{pipeline="fire",engine="local",reason="late"} 1']
    """
    common = {"pipeline": reading.pipeline, "engine": reading.engine}
    lines: list[str] = []
    found = _samples(reading)
    for name, (kind, said) in METRICS.items():
        samples = [_line(name, {**common, **labels}, value) for labels, value in found[name] if value is not None]
        if samples:
            lines += [f"# HELP {name} {said}", f"# TYPE {name} {kind}", *samples]
    return "\n".join(lines) + "\n"


def _samples(reading: Figures) -> Mapping[str, Sequence[Sample]]:
    totals, standing, batch = reading.totals, reading.standing, reading.standing.batch

    def one(value: float | None) -> Sequence[Sample]:
        return (({}, value),)

    return {
        "dotr_run_seconds": one(round(reading.seconds, 3)),
        "dotr_elements_total": one(totals.elements),
        "dotr_instants_total": one(totals.instants),
        "dotr_facts_total": one(totals.facts),
        "dotr_events_total": one(totals.events),
        "dotr_dead_letters_total": [({"reason": reason.value}, totals.dead.get(reason, 0)) for reason in Reason],
        "dotr_dropped_triples_total": one(totals.dropped),
        "dotr_inconsistent_instants_total": one(totals.inconsistent),
        "dotr_fallbacks_total": one(totals.fallbacks),
        "dotr_closed_timestamp_seconds": one(_seconds(standing.closed)),
        "dotr_input_watermark_timestamp_seconds": [({"input": each.name}, _seconds(each.watermark)) for each in standing.inputs],
        "dotr_input_lag_seconds": [({"input": each.name}, _seconds(standing.lag(each))) for each in standing.inputs],
        "dotr_input_ended": [({"input": each.name}, int(each.ended)) for each in standing.inputs],
        "dotr_state_events": [({"layer": str(each.layer), "label": each.label}, each.events) for each in standing.held],
        "dotr_state_bytes": one(standing.written),
        "dotr_batch_number": one(None if batch is None else batch.number),
        "dotr_batch_seconds": one(None if batch is None else batch.milliseconds / 1000),
        "dotr_state_store_rows": one(None if batch is None else batch.state_rows),
        "dotr_state_store_memory_bytes": one(None if batch is None else batch.state_memory),
    }


def _seconds(micros: Micros | None) -> float | None:
    """
    >>> _seconds(12_000_000), _seconds(1_500_000), _seconds(LAST_MICRO)
    (12, 1.5, None)
    """
    if micros is None or abs(micros) >= LAST_MICRO:
        return None
    return micros / 1_000_000 if micros % 1_000_000 else micros // 1_000_000


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    return f"{name}{{{','.join(_labels(labels.items()))}}} {value!r}"


def _labels(labels: Iterable[tuple[str, str]]) -> Iterable[str]:
    r"""
    >>> list(_labels([("input", 'a "b"\nc\\d')]))
    ['input="a \\"b\\"\\nc\\\\d"']
    """
    for name, value in labels:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        yield f'{name}="{escaped}"'
