"use strict";
// The timeline of the report, drawn by uPlot. Invariant: what comes from the data reaches the page as textContent alone.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const find = (id) => document.getElementById(id);
  const ROWS = 24, ROW_HEIGHT = 26, AXIS = 48, COLUMNS = 180, LISTED = 20, NEAR = 9;
  const base = BigInt(data.base), unit = BigInt(data.clock.unit);
  const perX = data.clock.dated ? 1e6 : data.clock.unit; // µs in a unit of the horizontal axis: seconds for date-times
  const x0 = Number(base) / perX;
  const toX = (distance) => x0 + distance / perX;
  const text = (number) => data.texts[number];

  const sums = (steps) => { let sum = 0; return steps.map((step) => (sum += step)); };
  const starts = sums(data.starts), xs = starts.map(toX);
  const lanes = data.lanes.map((lane) => ({ ...lane, at: sums(lane.at), title: lane.kind === "dead letter" ? "dead letters" : lane.name }));
  const events = data.events.map(([time, rule, type, name, proof, attributes, graph], number) => ({ number, time, rule, type, name, proof, attributes, graph }));
  const NOUN = { input: "element", fact: "fact", rule: "event", "dead letter": "dead letter" };
  const COLOUR = { input: "--input", fact: "--fact", rule: "--rule", "dead letter": "--rejected" };
  const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

  // Time (µs after the first one) as the pipeline writes it.
  function timeText(distance) {
    const micros = base + BigInt(Math.round(distance));
    if (!data.clock.dated && micros % unit === 0n) return String(micros / unit);
    let millis = micros / 1000n, rest = micros % 1000n;
    if (rest < 0n) { millis -= 1n; rest += 1000n; }
    const date = new Date(Number(millis));
    if (Number.isNaN(date.getTime())) return `${micros} µs`;
    const iso = date.toISOString();
    const fraction = (iso.slice(-4, -1) + String(rest).padStart(3, "0")).replace(/0+$/, "");
    return iso.slice(0, -5) + (fraction ? `.${fraction}` : "") + "Z";
  }

  // First position in sorted numbers whose number is not below a value.
  function lowerBound(numbers, value, key = (number) => number) {
    let low = 0, high = numbers.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (key(numbers[middle]) < value) low = middle + 1; else high = middle;
    }
    return low;
  }

  function make(name, content, attributes = {}) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (Array.isArray(content)) made.append(...content); else if (content !== undefined) made.textContent = content;
    return made;
  }

  // ---- colours -------------------------------------------------------------------------------------------------
  const themes = ["system", "light", "dark"];
  let theme = "system";
  try { theme = localStorage.getItem("dotr-report-theme") || "system"; } catch { /* storage is off for local files */ }
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function applyTheme() {
    if (theme === "system") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = theme;
    find("theme").textContent = `Theme: ${theme}`;
  }

  find("theme").addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    try { localStorage.setItem("dotr-report-theme", theme); } catch { /* as above */ }
    applyTheme();
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());

  // ---- charts --------------------------------------------------------------------------------------------------
  const pad = (data.last - data.first) / perX * 0.01 || 1;
  const whole = { min: toX(data.first) - pad, max: toX(data.last) + pad };
  const view = { ...whole };
  const state = { page: 0, overview: null, timeline: null, drawn: 0, draws: 0, selected: null, list: 0 };
  window.dotrReport = { state, view, lanes, events, timeText }; // for tests, and for curious people
  const pages = Math.max(1, Math.ceil(lanes.length / ROWS));
  const shown = () => lanes.slice(state.page * ROWS, (state.page + 1) * ROWS);
  const zone = (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC");
  const least = data.clock.dated ? 1e-3 : 1e-6; // narrowest view

  function axes(side) {
    const stroke = colour("--muted"), grid = { stroke: colour("--faint"), width: 1 }, ticks = { stroke: colour("--line"), width: 1 };
    return { stroke, grid, ticks, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", ...side };
  }
  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  const xAxis = () => axes({ label: data.clock.dated ? "time (UTC)" : `time (${data.unit})`, labelSize: 20, size: 28,
    ...(data.clock.dated ? {} : { values: (u, splits) => splits.map((split) => String(+split.toFixed(6))) }) });

  function labelWidth() {
    const context = document.createElement("canvas").getContext("2d");
    context.font = "12px system-ui, sans-serif";
    const most = find("timeline-chart").clientWidth < 640 ? 110 : 230;
    const widest = Math.max(60, ...lanes.map((lane) => context.measureText(lane.title).width)) + 18;
    const width = Math.min(most, widest);
    const fit = (name) => {
      if (context.measureText(name).width <= width - 18) return name;
      let end = name.length;
      while (end > 1 && context.measureText(`${name.slice(0, end)}…`).width > width - 18) end -= 1;
      return `${name.slice(0, end)}…`;
    };
    return { width, fit };
  }

  // At most one point for each column of pixels, so that the work of a frame does not grow with the number of events.
  function thinned(lane) {
    return (u) => {
      const { min, max } = u.scales.x, scale = u.bbox.width / (max - min), chosen = [];
      let column = -1;
      for (let k = lowerBound(lane.at, min, (position) => xs[position]); k < lane.at.length && xs[lane.at[k]] <= max; k += 1) {
        const here = Math.floor((xs[lane.at[k]] - min) * scale);
        if (here !== column) { chosen.push(lane.at[k]); column = here; }
      }
      state.drawn += chosen.length;
      return chosen;
    };
  }

  function drawTimeline(labels) {
    const rows = shown(), place = find("timeline-chart");
    state.timeline?.destroy();
    const series = rows.map((lane, row) => {
      const values = new Array(xs.length).fill(null);
      for (const position of lane.at) values[position] = row;
      return values;
    });
    const selected = new Array(xs.length).fill(null);
    const options = {
      width: place.clientWidth, height: rows.length * ROW_HEIGHT + AXIS + 8, tzDate: zone, padding: [8, 12, 0, 0],
      scales: { x: { time: data.clock.dated, range: () => [view.min, view.max] }, y: { range: () => [-0.5, rows.length - 0.5], dir: -1 } },
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
      axes: [xAxis(), axes({ size: labels.width, splits: () => rows.map((_, row) => row), values: () => rows.map((lane) => labels.fit(lane.title)), ticks: { show: false }, gap: 8 })],
      series: [{}, ...rows.map((lane) => {
        const fill = colour(COLOUR[lane.kind]);
        return { label: lane.title, stroke: fill, paths: () => null, points: { show: true, size: 7, width: 0, fill, stroke: fill, filter: thinned(lane) } };
      }), { label: "selected", stroke: colour("--text"), paths: () => null, points: { show: true, size: 14, width: 2, fill: "transparent", stroke: colour("--text") } }],
      hooks: {
        drawClear: [() => { state.drawn = 0; state.draws += 1; }],
        setSelect: [(u) => { if (u.select.width > 3) { const left = u.posToVal(u.select.left, "x"); show(left, u.posToVal(u.select.left + u.select.width, "x")); u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false); } }],
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
    state.timeline.over.addEventListener("wheel", (event) => {
      const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (!event.ctrlKey && !event.metaKey && !sideways) return; // the page scrolls
      event.preventDefault();
      if (sideways) pan(Math.sign(event.deltaX || event.deltaY) * 0.1);
      else zoom(event.deltaY < 0 ? 0.8 : 1.25, state.timeline.posToVal(event.offsetX, "x"));
    }, { passive: false });
    mark();
  }

  function drawOverview(labels) {
    const place = find("overview-chart"), width = (whole.max - whole.min) / COLUMNS;
    const columns = Array.from({ length: COLUMNS }, (_, k) => whole.min + (k + 0.5) * width);
    const total = (kind) => {
      const counts = new Array(COLUMNS).fill(0);
      for (const lane of lanes) {
        if (lane.kind !== kind) continue;
        lane.at.forEach((position, k) => { const at = Math.floor((xs[position] - whole.min) / width); if (at >= 0 && at < COLUMNS) counts[at] += lane.count[k]; });
      }
      return counts;
    };
    state.overview?.destroy();
    const top = (u, low, high) => [0, Math.max(1, high * 1.1)];
    const stepped = (kind, label, scale, fill) => ({ label, scale, stroke: colour(COLOUR[kind]), width: 1.5, fill, paths: uPlot.paths.stepped({ align: 0 }), points: { show: false } });
    const count = (u, splits) => splits.map((split) => (Number.isInteger(split) ? compact.format(split) : ""));
    const options = {
      width: place.clientWidth, height: 150, tzDate: zone, padding: [10, 0, 0, 0],
      scales: { x: { time: data.clock.dated, range: () => [whole.min, whole.max] }, y: { range: top }, events: { range: top } },
      legend: { show: false }, cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
      axes: [axes({ size: 28, ...(data.clock.dated ? {} : { values: xAxis().values }) }),
        axes({ label: "elements, facts", labelSize: 18, size: labels.width - 18, values: count, space: 24 }),
        axes({ side: 1, scale: "events", label: "events", labelSize: 18, size: 44, values: count, space: 24, grid: { show: false } })],
      series: [{}, stepped("input", "elements", "y", colour("--faint")), stepped("fact", "facts", "y"), stepped("rule", "events", "events")],
      hooks: { setSelect: [(u) => { if (!state.silent && u.select.width > 3) show(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")); }] },
    };
    state.overview = new uPlot(options, [columns, total("input"), total("fact"), total("rule")], place);
    state.overview.over.addEventListener("dblclick", () => show(whole.min, whole.max));
  }

  function selectInOverview() {
    const u = state.overview, left = u.valToPos(view.min, "x"), right = u.valToPos(view.max, "x");
    const everything = view.min <= whole.min && view.max >= whole.max;
    u.setSelect(everything ? { left: 0, width: 0, top: 0, height: 0 } : { left, width: Math.max(2, right - left), top: 0, height: u.over.clientHeight }, false);
  }

  let frame = 0;
  function show(min, max) {
    if (max - min < least) { const middle = (min + max) / 2; min = middle - least / 2; max = middle + least / 2; }
    Object.assign(view, { min, max });
    if (frame) return;
    frame = requestAnimationFrame(() => {
      frame = 0;
      const begun = performance.now();
      state.timeline.setScale("x", { min: view.min, max: view.max });
      selectInOverview();
      state.list = 0;
      listEvents();
      state.milliseconds = performance.now() - begun;
    });
  }
  function pan(part) { const width = (view.max - view.min) * part; show(view.min + width, view.max + width); }
  function zoom(factor, centre = (view.min + view.max) / 2) { show(centre - (centre - view.min) * factor, centre + (view.max - centre) * factor); }

  // The point below the pointer: of the row, the nearest one.
  function nearest(u, left, top) {
    const row = Math.round(u.posToVal(top, "y")), lane = shown()[row];
    if (!lane) return null;
    const x = u.posToVal(left, "x"), k = lowerBound(lane.at, x, (position) => xs[position]);
    const near = [k - 1, k].filter((each) => each >= 0 && each < lane.at.length).map((each) => ({ lane, position: each, distance: Math.abs(u.valToPos(xs[lane.at[each]], "x") - left) }));
    near.sort((one, other) => one.distance - other.distance);
    return near.length && near[0].distance <= NEAR ? near[0] : null;
  }

  function hover(u) {
    const tip = find("tip"), { left, top } = u.cursor, hit = left >= 0 ? nearest(u, left, top) : null;
    u.over.classList.toggle("on", Boolean(hit));
    tip.classList.toggle("hidden", !hit);
    if (!hit) return;
    tip.textContent = `${span(hit.lane.at[hit.position])}   ${hit.lane.title}: ${counted(hit.lane.count[hit.position], NOUN[hit.lane.kind])}`;
    const box = u.over.getBoundingClientRect(), outer = find("timeline-chart").getBoundingClientRect();
    const at = box.left - outer.left + left;
    tip.style.left = `${Math.max(0, Math.min(at + 12, outer.width - tip.offsetWidth))}px`;
    tip.style.top = `${box.top - outer.top + top + 14}px`;
  }

  // A bin as text: its time, or from when on and how long.
  function span(position) {
    const start = timeText(Math.max(starts[position], data.width > 1 ? data.first : starts[position]));
    return data.width > 1 ? `${start} and ${(data.width / 1e6).toLocaleString("en")} s on` : start;
  }

  // ---- details -------------------------------------------------------------------------------------------------
  function mark() {
    const values = state.series[state.series.length - 1], { selected } = state;
    values.fill(null);
    if (selected) { const row = shown().indexOf(selected.lane); if (row >= 0) values[selected.lane.at[selected.position]] = row; }
    state.timeline.setData(state.series, false);
    state.timeline.redraw();
  }

  function command(words) {
    const button = make("button", "Copy", { type: "button" });
    const shownCommand = make("pre", words);
    button.addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(words); } catch {
        const range = document.createRange();
        range.selectNodeContents(shownCommand);
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        document.execCommand("copy");
      }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    return make("div", [shownCommand, button], { class: "command" });
  }

  function whyCommand(event) {
    const name = text(event.name);
    return name ? `${data.why} ${name}` : `${data.why} --rule ${data.rules[event.rule]} --at ${timeText(event.time)}`;
  }

  // Events of a rule in a bin.
  function eventsOf(lane, position) {
    const from = starts[lane.at[position]], rule = data.rules.indexOf(lane.name), found = [];
    for (let k = lowerBound(events, from, (event) => event.time); k < events.length && events[k].time < from + data.width; k += 1) if (events[k].rule === rule) found.push(events[k]);
    return found;
  }

  function open(lane, position) {
    state.selected = { lane, position };
    mark();
    const at = lane.at[position], count = lane.count[position], parts = [make("h3", `${lane.title}: ${counted(count, NOUN[lane.kind])}`), make("p", span(at), { class: "quiet" })];
    if (lane.kind === "rule") {
      const found = eventsOf(lane, position);
      if (count === 1 && found.length === 1) { openEvent(found[0], false); return; }
      parts.push(make("ol", found.slice(0, LISTED).map((event) => make("li", [eventButton(event)]))));
      if (found.length > LISTED) parts.push(make("p", `The first ${LISTED} of ${found.length}; the list below the timeline has all.`));
      if (found.length < count) parts.push(make("p", `${counted(count - found.length, "event")} of these ${count - found.length === 1 ? "is" : "are"} not in this page. To ask for one:`), command(`${data.why} --rule ${lane.name} --at ${timeText(starts[at])}`));
    } else if (lane.kind === "dead letter") {
      parts.push(make("p", [make("a", "Dead letters by reason", { href: "#dead-letters" })]));
    } else {
      parts.push(make("h4", "All that holds at this instant"), command(`${data.facts} --at ${timeText(starts[at])}`));
    }
    find("detail").replaceChildren(...parts);
  }

  const attributesText = (event) => {
    const words = [];
    for (let k = 0; k < event.attributes.length; k += 2) words.push(`${text(event.attributes[k])} ${text(event.attributes[k + 1])}`);
    return words.join(", ");
  };

  function eventButton(event) {
    const button = make("button", `${timeText(event.time)}  ${data.rules[event.rule]}${event.attributes.length ? `: ${attributesText(event)}` : ""}`, { type: "button", class: "link" });
    button.addEventListener("click", () => openEvent(event, true));
    return button;
  }

  function openEvent(event, select) {
    if (select) {
      const lane = lanes.find((each) => each.kind === "rule" && each.name === data.rules[event.rule]);
      const position = lane ? lowerBound(lane.at, event.time + 1, (each) => starts[each]) - 1 : -1;
      if (position >= 0) {
        state.selected = { lane, position };
        const page = Math.floor(lanes.indexOf(lane) / ROWS);
        if (page !== state.page) { state.page = page; draw(); } else mark();
        const x = xs[lane.at[position]];
        if (x < view.min || x > view.max) pan((x - (view.min + view.max) / 2) / (view.max - view.min));
      }
    }
    const attributes = make("dl", [], { class: "attributes" });
    for (let k = 0; k < event.attributes.length; k += 2) attributes.append(make("dt", text(event.attributes[k])), make("dd", text(event.attributes[k + 1])));
    const graph = [];
    for (let k = 0; k < event.graph.length; k += 3) graph.push(`${text(event.graph[k])} ${text(event.graph[k + 1])} ${text(event.graph[k + 2])} .`);
    const parts = [make("h3", `${text(event.type)} at ${timeText(event.time)}`), make("p", `by rule ${data.rules[event.rule]}`, { class: "quiet" })];
    if (event.attributes.length) parts.push(make("h4", "Attributes"), attributes);
    const proof = event.proof >= 0 ? find(`proof-${event.proof}`) : null;
    if (proof) parts.push(make("h4", "Proof"), proof.querySelector(".tree").cloneNode(true));
    if (graph.length) parts.push(make("h4", "Graph"), make("pre", graph.join("\n")));
    parts.push(make("h4", proof ? "The proof in full" : "This page has no proof of this event. To get it"), command(whyCommand(event)));
    const step = (distance, words) => {
      const button = make("button", words, { type: "button" });
      button.disabled = !events[event.number + distance];
      button.addEventListener("click", () => openEvent(events[event.number + distance], true));
      return button;
    };
    parts.push(make("p", [step(-1, "← Earlier event"), " ", step(1, "Later event →")]));
    find("detail").replaceChildren(...parts);
    find("detail").dataset.event = event.number;
    for (const row of document.querySelectorAll("#events tbody tr")) row.classList.toggle("current", row.dataset.event === String(event.number));
  }

  // ---- the list of events in view ------------------------------------------------------------------------------
  function listEvents() {
    const from = (view.min - x0) * perX, to = (view.max - x0) * perX;
    const rule = find("rule-filter").value, words = find("text-filter").value.trim().toLowerCase();
    const inView = [];
    let count = 0;
    for (let k = lowerBound(events, from, (event) => event.time); k < events.length && events[k].time <= to; k += 1) {
      const event = events[k];
      if (rule !== "" && data.rules[event.rule] !== rule) continue;
      if (words && !attributesText(event).toLowerCase().includes(words)) continue;
      if (count >= state.list && inView.length < LISTED) inView.push(event);
      count += 1;
    }
    find("events").querySelector("tbody").replaceChildren(...inView.map((event) => {
      const time = make("button", timeText(event.time), { type: "button", class: "link" });
      time.addEventListener("click", () => openEvent(event, true));
      return make("tr", [make("td", [time], { class: "time" }), make("td", data.rules[event.rule]), make("td", attributesText(event), { class: "mono" }), make("td", event.proof >= 0 ? "yes" : "")], { "data-event": event.number });
    }));
    find("events").classList.toggle("hidden", count === 0);
    find("no-events").classList.toggle("hidden", count > 0);
    find("list-range").textContent = count ? `${(state.list + 1).toLocaleString("en")} to ${(state.list + inView.length).toLocaleString("en")} of ${counted(count, "event")}` : "";
    find("earlier").disabled = state.list === 0;
    find("later").disabled = state.list + LISTED >= count;
    find("range").textContent = `${timeText(Math.max(from, data.first))} to ${timeText(Math.min(to, data.last))}`;
  }

  // ---- controls ------------------------------------------------------------------------------------------------
  function draw() {
    if (!lanes.some((lane) => lane.at.length)) return;
    const labels = labelWidth();
    drawOverview(labels);
    drawTimeline(labels);
    selectInOverview();
    find("rows").textContent = `Rows ${state.page * ROWS + 1} to ${Math.min(lanes.length, (state.page + 1) * ROWS)} of ${lanes.length}`;
    find("rows-up").disabled = state.page === 0;
    find("rows-down").disabled = state.page >= pages - 1;
    for (const id of ["rows", "rows-up", "rows-down"]) find(id).classList.toggle("hidden", pages === 1);
  }

  const click = (id, action) => find(id).addEventListener("click", action);
  const turn = (distance) => { state.page = Math.max(0, Math.min(pages - 1, state.page + distance)); draw(); };
  click("zoom-in", () => zoom(0.5));
  click("zoom-out", () => zoom(2));
  click("pan-left", () => pan(-0.25));
  click("pan-right", () => pan(0.25));
  click("whole", () => show(whole.min, whole.max));
  click("rows-up", () => turn(-1));
  click("rows-down", () => turn(1));
  click("earlier", () => { state.list = Math.max(0, state.list - LISTED); listEvents(); });
  click("later", () => { state.list += LISTED; listEvents(); });
  for (const id of ["rule-filter", "text-filter"]) find(id).addEventListener("input", () => { state.list = 0; listEvents(); });
  const keys = { ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => show(whole.min, whole.max), PageUp: () => turn(-1), PageDown: () => turn(1) };
  find("timeline-chart").addEventListener("keydown", (event) => {
    if (keys[event.key] && !event.ctrlKey && !event.metaKey) { event.preventDefault(); keys[event.key](); }
  });

  for (const name of data.rules) find("rule-filter").append(make("option", name, { value: name }));
  for (const button of document.querySelectorAll("[data-rule]")) {
    button.addEventListener("click", () => {
      find("rule-filter").value = button.dataset.rule;
      const lane = lanes.findIndex((each) => each.kind === "rule" && each.name === button.dataset.rule);
      if (lane >= 0 && Math.floor(lane / ROWS) !== state.page) { state.page = Math.floor(lane / ROWS); draw(); }
      show(whole.min, whole.max);
      find("timeline").scrollIntoView();
      find("timeline-chart").focus({ preventScroll: true });
    });
  }

  for (const button of document.querySelectorAll("button.sort")) {
    button.addEventListener("click", () => {
      const head = button.closest("th"), column = head.cellIndex, body = head.closest("table").tBodies[0];
      const ascending = head.getAttribute("aria-sort") === "descending" || (head.getAttribute("aria-sort") === null && !head.classList.contains("number"));
      for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const numeric = head.classList.contains("number");
      const rows = [...body.rows].sort((one, other) => (numeric ? Number(key(one)) - Number(key(other)) : key(one) < key(other) ? -1 : key(one) > key(other) ? 1 : 0));
      body.append(...(ascending ? rows : rows.reverse()));
    });
  }

  applyTheme();
  if (xs.length) {
    draw();
    listEvents();
    let width = find("charts").clientWidth;
    new ResizeObserver(() => { if (find("charts").clientWidth !== width) { width = find("charts").clientWidth; draw(); } }).observe(find("charts"));
  }
  document.documentElement.dataset.ready = "yes";
})();
