// The data of the page, times as text, and small functions. All content of streams reaches the page as textContent.

const data = JSON.parse(document.getElementById("data").textContent);
const find = (id) => document.getElementById(id);
const ROWS = 24,
    ROW_HEIGHT = 26,
    AXIS = 62,
    COLUMNS = 160,
    RIGHT = 62,
    LISTED = 20,
    NEAR = 9;
const base = BigInt(data.base),
    unit = BigInt(data.clock.unit);
// Distances in time are in grains of the data; the horizontal axis has seconds for date-times, else the unit of the clock.
const perX = (data.clock.dated ? 1e6 : data.clock.unit) / data.grain;
const x0 = Number(base) / (perX * data.grain);
const toX = (distance) => x0 + distance / perX;
const text = (number) => data.texts[number];

const sums = (steps) => {
    let sum = 0;
    return steps.map((step) => (sum += step));
};
const starts = sums(data.starts);
const xs = starts.map((start) => toX(start < data.first && start + data.width > data.first ? data.first : start));
const lanes = data.lanes.map((lane) => ({
    ...lane,
    at: sums(lane.at),
    title: lane.kind === "dead letter" ? "dead letters" : lane.name,
}));
const events = data.events.map(([time, rule, type, name, proof, attributes, graph], number) => ({
    number,
    time,
    rule,
    type,
    name,
    proof,
    attributes,
    graph,
}));
const NOUN = { input: "element", fact: "fact", rule: "event", "dead letter": "dead letter" };
const COLOUR = { input: "--input", fact: "--fact", rule: "--rule", "dead letter": "--rejected" };
const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

// A distance from the first time, as the pipeline writes that time.
function timeText(distance) {
    return microsText(base + BigInt(Math.round(distance)) * BigInt(data.grain));
}

function microsText(micros) {
    if (!data.clock.dated && micros % unit === 0n) return String(micros / unit);
    let millis = micros / 1000n,
        rest = micros % 1000n;
    if (rest < 0n) {
        millis -= 1n;
        rest += 1000n;
    }
    const minutes = offsetAt(Number(micros));
    const date = new Date(Number(millis) + minutes * 6e4);
    if (Number.isNaN(date.getTime())) return `${micros} µs`;
    const iso = date.toISOString();
    const fraction = (iso.slice(-4, -1) + String(rest).padStart(3, "0")).replace(/0+$/, "");
    const part = (number) => String(number).padStart(2, "0");
    const size = Math.abs(minutes);
    const offset = data.clock.zone ? `${minutes < 0 ? "-" : "+"}${part(Math.floor(size / 60))}:${part(size % 60)}` : "Z";
    return iso.slice(0, -5) + (fraction ? `.${fraction}` : "") + offset;
}

// Minutes by which the clock of the zone in which times are shown is ahead of UTC at a time in µs.
function offsetAt(micros) {
    const found = data.clock.zone ? data.clock.offsets.filter(([begin]) => begin <= micros).pop() : null;
    return found ? found[1] : 0;
}

// First position in sorted numbers whose number is not below a value.
function lowerBound(numbers, value, key = (number) => number) {
    let low = 0,
        high = numbers.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (key(numbers[middle]) < value) low = middle + 1;
        else high = middle;
    }
    return low;
}

function make(name, content, attributes = {}) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (Array.isArray(content)) made.append(...content);
    else if (content !== undefined) made.textContent = content;
    return made;
}
