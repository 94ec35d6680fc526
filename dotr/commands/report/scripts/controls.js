// Buttons, keys, and sorting of tables.

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

if (xs.length) {
    // otherwise the page has no timeline
    const click = (id, action) => find(id).addEventListener("click", action);
    const turn = (distance) => {
        state.page = Math.max(0, Math.min(pages - 1, state.page + distance));
        draw();
    };
    click("zoom-in", () => zoom(0.5));
    click("zoom-out", () => zoom(2));
    click("pan-left", () => pan(-0.25));
    click("pan-right", () => pan(0.25));
    click("whole", () => show(whole.min, whole.max));
    click("rows-up", () => turn(-1));
    click("rows-down", () => turn(1));
    click("earlier", () => {
        state.list = Math.max(0, state.list - LISTED);
        listEvents();
    });
    click("later", () => {
        state.list += LISTED;
        listEvents();
    });
    for (const id of ["rule-filter", "text-filter"])
        find(id).addEventListener("input", () => {
            state.list = 0;
            listEvents();
        });
    const keys = {
        ArrowLeft: () => pan(-0.2),
        ArrowRight: () => pan(0.2),
        "+": () => zoom(0.5),
        "=": () => zoom(0.5),
        "-": () => zoom(2),
        0: () => show(whole.min, whole.max),
        PageUp: () => turn(-1),
        PageDown: () => turn(1),
    };
    find("timeline-chart").addEventListener("keydown", (event) => {
        if (keys[event.key] && !event.ctrlKey && !event.metaKey) {
            event.preventDefault();
            keys[event.key]();
        }
    });

    for (const name of data.rules) find("rule-filter").append(make("option", name, { value: name }));
    for (const button of document.querySelectorAll("[data-rule]")) {
        button.addEventListener("click", () => {
            find("rule-filter").value = button.dataset.rule;
            const lane = lanes.findIndex((each) => each.kind === "rule" && each.name === button.dataset.rule);
            if (lane >= 0 && Math.floor(lane / ROWS) !== state.page) {
                state.page = Math.floor(lane / ROWS);
                draw();
            }
            show(whole.min, whole.max);
            find("timeline").scrollIntoView();
            find("timeline-chart").focus({ preventScroll: true });
        });
    }
}

for (const button of document.querySelectorAll("button.sort")) {
    button.addEventListener("click", () => {
        const head = button.closest("th"),
            column = head.cellIndex,
            body = head.closest("table").tBodies[0];
        const ascending =
            head.getAttribute("aria-sort") === "descending" ||
            (head.getAttribute("aria-sort") === null && !head.classList.contains("number"));
        for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
        const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
        const order = new Intl.Collator("en", { numeric: true }).compare;
        const numbers = [...body.rows].every((row) => Number.isFinite(Number(key(row))));
        const rows = [...body.rows].sort((one, other) => (numbers ? key(one) - key(other) : order(key(one), key(other))));
        body.append(...(ascending ? rows : rows.reverse()));
    });
}

if (xs.length) {
    draw();
    listEvents();
    let width = find("charts").clientWidth;
    new ResizeObserver(() => {
        if (find("charts").clientWidth !== width) {
            width = find("charts").clientWidth;
            draw();
        }
    }).observe(find("charts"));
}
document.documentElement.dataset.ready = "yes";
