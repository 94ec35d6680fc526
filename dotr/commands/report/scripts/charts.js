// The two charts, drawn by uPlot: totals over the whole stream, and the timeline with a row for each input, query and rule.

// At most one point for each column of pixels, so that the work of a frame does not grow with the number of events.
function thinned(lane) {
    return (u) => {
        const { min, max } = u.scales.x,
            scale = u.bbox.width / (max - min),
            chosen = [];
        let column = -1;
        for (let k = lowerBound(lane.at, min, (position) => xs[position]); k < lane.at.length && xs[lane.at[k]] <= max; k += 1) {
            const here = Math.floor((xs[lane.at[k]] - min) * scale);
            if (here !== column) {
                chosen.push(lane.at[k]);
                column = here;
            }
        }
        state.drawn += chosen.length;
        return chosen;
    };
}

function drawTimeline(labels) {
    const rows = shown(),
        place = find("timeline-chart");
    state.timeline?.destroy();
    const series = rows.map((lane, row) => {
        const values = new Array(xs.length).fill(null);
        for (const position of lane.at) values[position] = row;
        return values;
    });
    const selected = new Array(xs.length).fill(null);
    const options = {
        width: place.clientWidth,
        height: rows.length * ROW_HEIGHT + AXIS + 8,
        tzDate: zone,
        padding: [8, RIGHT, 0, 0],
        scales: {
            x: { time: data.clock.dated, range: () => [view.min, view.max] },
            y: { range: () => [-0.5, rows.length - 0.5], dir: -1 },
        },
        legend: { show: false },
        cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
        axes: [
            xAxis(),
            axes({
                size: labels.width,
                splits: () => rows.map((_, row) => row),
                values: () => rows.map((lane) => labels.fit(lane.title)),
                ticks: { show: false },
                gap: 8,
            }),
        ],
        series: [
            {},
            ...rows.map((lane) => {
                const fill = colour(COLOUR[lane.kind]);
                return {
                    label: lane.title,
                    stroke: fill,
                    paths: () => null,
                    points: { show: true, size: 7, width: 0, fill, stroke: fill, filter: thinned(lane) },
                };
            }),
            {
                label: "selected",
                stroke: colour("--text"),
                paths: () => null,
                points: { show: true, size: 14, width: 2, fill: "transparent", stroke: colour("--text") },
            },
        ],
        hooks: {
            drawClear: [
                () => {
                    state.drawn = 0;
                    state.draws += 1;
                },
            ],
            draw: [
                () => {
                    state.milliseconds = performance.now() - state.begun;
                },
            ],
            setSelect: [
                (u) => {
                    if (u.select.width > 3) {
                        const left = u.posToVal(u.select.left, "x");
                        show(left, u.posToVal(u.select.left + u.select.width, "x"));
                        u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
                    }
                },
            ],
            setCursor: [hover],
        },
    };
    state.series = [xs, ...series, selected];
    state.timeline = new uPlot(options, state.series, place);
    state.timeline.over.addEventListener("click", (event) => {
        const hit = nearest(state.timeline, event.offsetX, event.offsetY);
        if (hit) open(hit.lane, hit.position);
    });
    state.timeline.over.addEventListener("dblclick", () => show(whole.min, whole.max));
    state.timeline.over.addEventListener("mouseleave", () => find("tip").classList.add("hidden"));
    state.timeline.over.addEventListener(
        "wheel",
        (event) => {
            const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
            if (!event.ctrlKey && !event.metaKey && !sideways) return; // the page scrolls
            event.preventDefault();
            if (sideways) pan(Math.sign(event.deltaX || event.deltaY) * 0.1);
            else zoom(event.deltaY < 0 ? 0.8 : 1.25, state.timeline.posToVal(event.offsetX, "x"));
        },
        { passive: false },
    );
    mark();
}

// Width of the columns of the overview on the horizontal axis, and its text: a round one, so that regular inputs have regular columns.
function columnWidth() {
    const second = data.clock.dated ? 1 : 1e6 / data.clock.unit; // on the horizontal axis
    const wanted = Math.max((whole.max - whole.min) / COLUMNS, 1 / perX) / second;
    const parts = [-6, -5, -4, -3, -2, -1].flatMap((power) => [1, 2, 5].map((digit) => Number(`${digit}e${power}`)));
    const seconds = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200];
    const days = Array.from({ length: 9 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power * 86400)).flat();
    const width = [...parts, ...seconds, ...days].find((each) => each >= wanted * (1 - 1e-9)) ?? wanted;
    const units = { d: 86400, h: 3600, min: 60, s: 1, ms: 1e-3, µs: 1e-6 };
    const [name, length] = Object.entries(units).find(([, each]) => width >= each * (1 - 1e-9)) ?? ["µs", 1e-6];
    return [width * second, `${+(width / length).toPrecision(6)} ${name}`];
}

function drawOverview(labels) {
    const place = find("overview-chart"),
        [width, per] = columnWidth();
    const from = Math.floor(whole.min / width),
        number = Math.ceil(whole.max / width) - from;
    const columns = Array.from({ length: number + 1 }, (_, k) => (from + k) * width);
    const total = (kind) => {
        const counts = new Array(number + 1).fill(0);
        for (const lane of lanes) {
            if (lane.kind !== kind) continue;
            lane.at.forEach((position, k) => {
                const at = Math.floor(xs[position] / width) - from;
                if (at >= 0 && at < number) counts[at] += lane.count[k];
            });
        }
        return counts;
    };
    state.overview?.destroy();
    const top = (u, low, high) => [0, Math.max(1, high * 1.1)];
    const stepped = (kind, label, scale, fill) => ({
        label,
        scale,
        stroke: colour(COLOUR[kind]),
        width: 1.5,
        fill,
        paths: uPlot.paths.stepped({ align: 1 }),
        points: { show: false },
    });
    const count = (u, splits) => splits.map((split) => (Number.isInteger(split) ? compact.format(split) : ""));
    const options = {
        width: place.clientWidth,
        height: 170,
        tzDate: zone,
        padding: [10, 0, 0, 0],
        scales: { x: { time: data.clock.dated, range: () => [whole.min, whole.max] }, y: { range: top }, events: { range: top } },
        legend: { show: false },
        cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
        axes: [
            axes({ size: data.clock.dated ? 44 : 30, space: tickSpace(), values: xTicks }),
            axes({ label: `count per ${per}`, labelSize: 18, size: labels.width - 18, values: count, space: 24 }),
            axes({
                side: 1,
                scale: "events",
                label: `events per ${per}`,
                labelSize: 18,
                size: 44,
                values: count,
                space: 24,
                grid: { show: false },
            }),
        ],
        series: [
            {},
            stepped("input", "elements", "y", colour("--faint")),
            stepped("fact", "facts", "y"),
            stepped("rule", "events", "events"),
        ],
        hooks: {
            setSelect: [
                (u) => {
                    if (!state.silent && u.select.width > 3)
                        show(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
                },
            ],
        },
    };
    state.overview = new uPlot(options, [columns, total("input"), total("fact"), total("rule")], place);
    state.overview.over.addEventListener("dblclick", () => show(whole.min, whole.max));
}

function selectInOverview() {
    const u = state.overview,
        left = u.valToPos(view.min, "x"),
        right = u.valToPos(view.max, "x");
    const everything = view.min <= whole.min && view.max >= whole.max;
    u.setSelect(
        everything
            ? { left: 0, width: 0, top: 0, height: 0 }
            : { left, width: Math.max(2, right - left), top: 0, height: u.over.clientHeight },
        false,
    );
}

let frame = 0;
function show(min, max) {
    if (max - min < least) {
        const middle = (min + max) / 2;
        min = middle - least / 2;
        max = middle + least / 2;
    }
    Object.assign(view, { min, max });
    if (frame) return;
    frame = requestAnimationFrame(() => {
        frame = 0;
        state.begun = performance.now();
        state.timeline.setScale("x", { min: view.min, max: view.max });
        selectInOverview();
        state.list = 0;
        listEvents();
    });
}
function pan(part) {
    const width = (view.max - view.min) * part;
    show(view.min + width, view.max + width);
}
function zoom(factor, centre = (view.min + view.max) / 2) {
    show(centre - (centre - view.min) * factor, centre + (view.max - centre) * factor);
}

// The point below the pointer: of the row, the nearest one.
function nearest(u, left, top) {
    const row = Math.round(u.posToVal(top, "y")),
        lane = shown()[row];
    if (!lane) return null;
    const x = u.posToVal(left, "x"),
        k = lowerBound(lane.at, x, (position) => xs[position]);
    const near = [k - 1, k]
        .filter((each) => each >= 0 && each < lane.at.length)
        .map((each) => ({ lane, position: each, distance: Math.abs(u.valToPos(xs[lane.at[each]], "x") - left) }));
    near.sort((one, other) => one.distance - other.distance);
    return near.length && near[0].distance <= NEAR ? near[0] : null;
}

function hover(u) {
    const tip = find("tip"),
        { left, top } = u.cursor,
        hit = left >= 0 ? nearest(u, left, top) : null;
    u.over.classList.toggle("on", Boolean(hit));
    tip.classList.toggle("hidden", !hit);
    if (!hit) return;
    tip.textContent = `${span(hit.lane.at[hit.position])}   ${hit.lane.title}: ${counted(hit.lane.count[hit.position], NOUN[hit.lane.kind])}`;
    const box = u.over.getBoundingClientRect(),
        outer = find("timeline-chart").getBoundingClientRect();
    const at = box.left - outer.left + left;
    tip.style.left = `${Math.max(0, Math.min(at + 12, outer.width - tip.offsetWidth))}px`;
    tip.style.top = `${box.top - outer.top + top + 14}px`;
}

// A bin as text: its time, or from when on and how long.
function span(position) {
    const start = timeText(Math.max(starts[position], data.width > 1 ? data.first : starts[position]));
    return data.width > 1 ? `${start} and ${((data.width * data.grain) / 1e6).toLocaleString("en")} s on` : start;
}
