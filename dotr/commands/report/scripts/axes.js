// Colours and axes of the charts.

const themes = ["system", "light", "dark"];
let theme = "system";
try {
    theme = localStorage.getItem("dotr-report-theme") || "system";
} catch {
    /* storage is off for local files */
}
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function applyTheme() {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    find("theme").textContent = `Theme: ${theme}`;
}

applyTheme();
find("theme").addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    try {
        localStorage.setItem("dotr-report-theme", theme);
    } catch {
        /* as above */
    }
    applyTheme();
    draw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());

const pad = ((data.last - data.first) / perX) * 0.01 || 1;
const whole = { min: toX(data.first) - pad, max: toX(data.last) + pad };
const view = { ...whole };
const state = { page: 0, overview: null, timeline: null, drawn: 0, draws: 0, selected: null, list: 0 };
window.dotrReport = { state, view, lanes, events, xs, timeText, microsText }; // for tests, and for curious people
const pages = Math.max(1, Math.ceil(lanes.length / ROWS));
const shown = () => lanes.slice(state.page * ROWS, (state.page + 1) * ROWS);
const zone = (seconds) => uPlot.tzDate(new Date(seconds * 1e3), data.clock.zone || "Etc/UTC");
const least = data.clock.dated ? 1e-3 : 1e-6; // narrowest view

function axes(side) {
    const stroke = colour("--muted"),
        grid = { stroke: colour("--faint"), width: 1 },
        ticks = { stroke: colour("--line"), width: 1 };
    return { stroke, grid, ticks, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", ...side };
}
const pad2 = (number) => String(number).padStart(2, "0");
const FORMS = [
    [86400 * 365, (d) => d.getFullYear()],
    [86400, (d) => `${d.getFullYear()}-${pad2(d.getMonth() + 1)}-${pad2(d.getDate())}`],
    [60, (d) => `${pad2(d.getHours())}:${pad2(d.getMinutes())}`],
    [1, (d) => `${pad2(d.getHours())}:${pad2(d.getMinutes())}:${pad2(d.getSeconds())}`],
    [0, (d) => `${pad2(d.getHours())}:${pad2(d.getMinutes())}:${pad2(d.getSeconds())}.${String(d.getMilliseconds()).padStart(3, "0")}`],
];
// Ticks as ISO 8601: the time of day, and below it the date where it changes.
function timeTicks(u, splits, axis, space, step) {
    const form = FORMS.find(([from]) => step >= from)[1];
    let day = "";
    return splits.map((split) => {
        const date = zone(split),
            own = FORMS[1][1](date),
            label = form(date);
        const below = step < 86400 && own !== day ? `\n${own}` : "";
        day = own;
        return `${label}${below}`;
    });
}
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
// Least distance of two ticks: an integer may have many digits.
function tickSpace() {
    const context = document.createElement("canvas").getContext("2d");
    context.font = "12px system-ui, sans-serif";
    return data.clock.dated ? 62 : Math.max(50, context.measureText(String(Math.round(toX(data.last)))).width + 24);
}
const xAxis = () =>
    axes({
        label: data.clock.dated ? `time (${data.clock.zone || "UTC"})` : `time (${data.unit})`,
        labelSize: 18,
        size: data.clock.dated ? 44 : 30,
        space: tickSpace(),
        values: xTicks,
    });
const xTicks = (u, splits, axis, space, step) =>
    data.clock.dated ? timeTicks(u, splits, axis, space, step) : splits.map((split) => String(+split.toFixed(6)));

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
