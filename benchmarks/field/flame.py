"""A flame graph of the paper's default scenario in process, and the shares of its steps.

The samples are taken by ITIMER_PROF, so by the CPU of the process and not by the clock:
waiting is not included. Written to benchmarks/results/profile.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from benchmarks.field import machine
from benchmarks.field.peers import OUT, ROOT
from benchmarks.field.plots import COLOURS
from benchmarks.field.results import RESULTS, write_whole

Stack = tuple[str, ...]
Samples = Counter[Stack]
FOLDER: Final = RESULTS / "profile"
PACKAGES: Final = ("dotr",)
_EVERY: Final = 0.001
"""Seconds of CPU between two samples."""
_WIDTH, _HEIGHT, _LEAST = 1_000, 16, 0.003

STEPS: Final = (
    ("<dotr template", "output"),
    ("dotr/streams/formats/writing", "output"),
    ("dotr/streams/formats/writing", "output"),
    ("dotr/temporal/templates", "output"),
    ("dotr/temporal/templates", "output"),
    ("dotr/streams/sinks", "output"),
    ("dotr/temporal/stage_two:write_firings", "output"),
    ("dotr/temporal/stage_two:_write", "output"),
    ("dotr/runtimes/local/run:write_firings", "output"),
    ("dotr/instant/instants", "knowledge update"),
    ("dotr/streams", "input"),
    ("dotr/syntax", "input"),
    ("dotr/instant/datalog", "reasoning"),
    ("dotr/evaluation/triples", "reasoning"),
    ("<dotr join", "queries"),
    ("dotr/instant/queries", "queries"),
    ("dotr/instant/stage_one", "queries"),
    ("dotr/temporal/matching", "event processing"),
    ("dotr/temporal/stage_two", "event processing"),
    ("dotr/engine/router", "event processing"),
)
"""Steps of the paper's Table 1, by what a function's name begins with; that of the innermost function counts."""
PAPER_SHARES: Final = {
    "knowledge update": 1.65,
    "reasoning": 16.21,
    "queries": 62.53,
    "input": 1.57,
    "event processing": 16.63,
    "output": 1.41,
}
"""Per cent, from the paper's Table 1."""
BETWEEN: Final = "between the steps"


def sampled(run: Callable[[], object]) -> Samples:
    """The stacks of a call, outermost function first, with their number of samples."""
    samples: Samples = Counter()

    def take(number: int, frame: FrameType | None) -> None:
        stack = []
        while frame is not None:
            code = frame.f_code
            stack.append(f"{_place(code.co_filename)}:{code.co_name}")
            frame = frame.f_back
        samples[tuple(reversed(stack))] += 1

    before = signal.signal(signal.SIGPROF, take)
    signal.setitimer(signal.ITIMER_PROF, _EVERY, _EVERY)
    try:
        run()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return samples


def _place(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(ROOT).with_suffix("")) if path.is_relative_to(ROOT) else path.stem


def shares(samples: Samples) -> dict[str, float]:
    """The share of each step, in per cent.

    >>> shares(Counter({("dotr/engine/driver:step", "dotr/instant/datalog/closure/instant:close", "re:match"): 3, ("x:y",): 1}))
    {'reasoning': 75.0, 'between the steps': 25.0}
    """
    found: Counter[str] = Counter()
    for stack, count in samples.items():
        steps = (step for frame in reversed(stack) for begin, step in STEPS if frame.startswith(begin))
        found[next(steps, BETWEEN)] += count
    total = sum(found.values())
    return {step: round(100 * count / total, 1) for step, count in found.most_common()}


def drawn(samples: Samples, title: str) -> str:
    """The flame graph as SVG: a box a function, as wide as its samples, above its caller."""
    boxes = list(_boxes(samples))
    deepest = max((depth for depth, *_ in boxes), default=0)
    height = (deepest + 2) * _HEIGHT + 30
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="monospace" font-size="11">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/><text x="6" y="16" font-weight="bold">{escape(title)}</text>',
    ]
    for depth, start, width, name, share in boxes:
        x, y, wide = start * _WIDTH, height - (depth + 1) * _HEIGHT - 4, width * _WIDTH
        package = name.split("/")[1] if name.startswith("dotr/") else name.partition(":")[0]
        colour = COLOURS[sum(map(ord, package)) % len(COLOURS)]
        out.append(f'<g><title>{escape(name)} {share:.1f} %</title><rect x="{x:.1f}" y="{y}" width="{max(wide - 0.5, 0.5):.1f}"')
        out.append(f'height="{_HEIGHT - 1}" fill="{colour}" fill-opacity="0.75"/>')
        if (shown := int(wide / 6.8)) > 3:
            label = name.rpartition("/")[2]
            out.append(f'<text x="{x + 2:.1f}" y="{y + 11}">{escape(label[:shown])}</text>')
        out.append("</g>")
    return "\n".join([*out, "</svg>"]) + "\n"


def _boxes(samples: Samples) -> Iterator[tuple[int, float, float, str, float]]:
    """Depth, start and width (of 1), name and per cent of each function wide enough to see."""
    total = sum(samples.values()) or 1

    def below(group: Samples, depth: int, start: float) -> Iterator[tuple[int, float, float, str, float]]:
        children: dict[str, Samples] = {}
        for stack, count in group.items():
            if len(stack) > depth:
                children.setdefault(stack[depth], Counter())[stack] += count
        for name in sorted(children):
            width = sum(children[name].values()) / total
            if width >= _LEAST:
                yield depth, start, width, name, 100 * width
                yield from below(children[name], depth + 1, start)
            start += width

    yield from below(samples, 0, 0.0)


def without_head(samples: Samples, name: str) -> Samples:
    """The stacks from a function on, without its callers, which are the same in all."""
    found: Samples = Counter()
    for stack, count in samples.items():
        place = next((place for place, frame in enumerate(stack) if frame.endswith(":" + name)), None)
        if place is not None:
            found[stack[place:]] += count
    return found


class Profile(NamedTuple):
    """Shares of the steps in per cent, and the commit and time of the run."""

    commit: str
    date: str
    shares: dict[str, float]


def read_profile(path: Path = FOLDER / "shares.json") -> Profile | None:
    """The profile that was written last, None where there is none."""
    return Profile(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None


def profile(graphs: int = 100_000) -> dict[str, float]:
    """Takes the samples, writes the flame graph and the shares, and returns these."""
    from benchmarks.scenario import Size, write_scenario
    from dotr.runtimes.local.run import run_local
    from dotr.runtimes.pipeline.build import build
    from dotr.runtimes.pipeline.config import read_config

    folder = OUT / "input" / "flame"
    folder.mkdir(parents=True, exist_ok=True)
    pipeline = build(read_config(str(write_scenario(folder, Size(graphs)))), fresh=True, on_spark=False)
    samples = without_head(sampled(lambda: run_local(pipeline, lambda totals: None)), "run_local")
    found = shares(samples)
    title = f"The paper's default scenario in process, {graphs:,} graphs, {sum(samples.values()):,} samples of CPU"
    write_whole(FOLDER / "flame.svg", drawn(samples, title))
    made = Profile(machine.commit(), f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", found)
    write_whole(FOLDER / "shares.json", json.dumps(made._asdict(), indent=1) + "\n")
    return found
