// The panel beside the timeline, and the list of the events in view.

function mark() {
    const values = state.series[state.series.length - 1],
        { selected } = state;
    values.fill(null);
    if (selected) {
        const row = shown().indexOf(selected.lane);
        if (row >= 0) values[selected.lane.at[selected.position]] = row;
    }
    state.timeline.setData(state.series, false);
    state.timeline.redraw();
}

function command(words) {
    const button = make("button", "Copy", { type: "button" });
    const shownCommand = make("pre", words);
    button.addEventListener("click", async () => {
        try {
            await navigator.clipboard.writeText(words);
        } catch {
            const range = document.createRange();
            range.selectNodeContents(shownCommand);
            getSelection().removeAllRanges();
            getSelection().addRange(range);
            document.execCommand("copy");
        }
        button.textContent = "Copied";
        setTimeout(() => {
            button.textContent = "Copy";
        }, 1500);
    });
    return make("div", [shownCommand, button], { class: "command" });
}

const commandText = (name, words) => `dotr ${name} ${data.config} ${words} ${data.changes}`.trim();

function whyCommand(event) {
    const name = text(event.name);
    return commandText("why", name || `--rule ${data.rules[event.rule]} --at ${timeText(event.time)}`);
}

// Events of a rule in a bin.
function eventsOf(lane, position) {
    const from = starts[lane.at[position]],
        rule = data.rules.indexOf(lane.name),
        found = [];
    for (let k = lowerBound(events, from, (event) => event.time); k < events.length && events[k].time < from + data.width; k += 1)
        if (events[k].rule === rule) found.push(events[k]);
    return found;
}

function open(lane, position) {
    state.selected = { lane, position };
    mark();
    const at = lane.at[position],
        count = lane.count[position],
        parts = [make("h3", `${lane.title}: ${counted(count, NOUN[lane.kind])}`), make("p", span(at), { class: "quiet" })];
    if (lane.kind === "rule") {
        const found = eventsOf(lane, position);
        if (count === 1 && found.length === 1) {
            openEvent(found[0], false);
            return;
        }
        parts.push(
            make(
                "ol",
                found.slice(0, LISTED).map((event) => make("li", [eventButton(event)])),
            ),
        );
        if (found.length > LISTED) parts.push(make("p", `The first ${LISTED} of ${found.length}; the list below the timeline has all.`));
        if (found.length < count)
            parts.push(
                make(
                    "p",
                    `${counted(count - found.length, "event")} of these ${count - found.length === 1 ? "is" : "are"} not in this page. To ask for one:`,
                ),
                command(commandText("why", `--rule ${lane.name} --at ${timeText(starts[at])}`)),
            );
    } else if (lane.kind === "dead letter") {
        parts.push(make("p", [make("a", "Dead letters by reason", { href: "#dead-letters" })]));
    } else {
        parts.push(make("h4", "All that holds at this instant"), command(commandText("facts", `--at ${timeText(starts[at])}`)));
    }
    reveal(parts);
}

// Show content in the panel, from its beginning.
function reveal(parts) {
    find("detail").replaceChildren(...parts);
    find("detail").scrollTop = 0;
    find("detail").scrollIntoView({ block: "nearest" });
}

const attributesText = (event) => {
    const words = [];
    for (let k = 0; k < event.attributes.length; k += 2) words.push(`${text(event.attributes[k])} ${text(event.attributes[k + 1])}`);
    return words.join(", ");
};

function eventButton(event) {
    const button = make(
        "button",
        `${timeText(event.time)}  ${data.rules[event.rule]}${event.attributes.length ? `: ${attributesText(event)}` : ""}`,
        { type: "button", class: "link" },
    );
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
            if (page !== state.page) {
                state.page = page;
                draw();
            } else mark();
            const x = xs[lane.at[position]];
            if (x < view.min || x > view.max) pan((x - (view.min + view.max) / 2) / (view.max - view.min));
        }
    }
    const attributes = make("dl", [], { class: "attributes" });
    for (let k = 0; k < event.attributes.length; k += 2)
        attributes.append(make("dt", text(event.attributes[k])), make("dd", text(event.attributes[k + 1])));
    const graph = [];
    for (let k = 0; k < event.graph.length; k += 3) {
        const again = k > 0 && event.graph[k] === event.graph[k - 3];
        if (graph.length) graph.push(again ? " ;\n    " : " .\n");
        graph.push(`${again ? "" : `${text(event.graph[k])} `}${text(event.graph[k + 1])} ${text(event.graph[k + 2])}`);
    }
    if (graph.length) graph.push(" .");
    const step = (distance, words) => {
        const button = make("button", words, { type: "button", "data-step": distance });
        button.disabled = !events[event.number + distance];
        button.addEventListener("click", () => {
            openEvent(events[event.number + distance], true);
            find("detail").querySelector(`[data-step="${distance}"]`).focus();
        });
        return button;
    };
    const parts = [
        make("p", [step(-1, "← Earlier event"), step(1, "Later event →")], { class: "steps" }),
        make("h3", `${text(event.type)} at ${timeText(event.time)}`),
        make("p", `by rule ${data.rules[event.rule]}`, { class: "quiet" }),
    ];
    if (event.attributes.length) parts.push(make("h4", "Attributes"), attributes);
    const proof = event.proof >= 0 ? find(`proof-${event.proof}`) : null;
    if (proof) parts.push(make("h4", "Proof"), proof.querySelector(".tree").cloneNode(true));
    if (graph.length) parts.push(make("h4", "Graph"), make("pre", graph.join("")));
    parts.push(make("h4", proof ? "The proof in full" : "This page has no proof of this event. To get it"), command(whyCommand(event)));
    reveal(parts);
    find("detail").dataset.event = event.number;
    for (const row of document.querySelectorAll("#events tbody tr"))
        row.classList.toggle("current", row.dataset.event === String(event.number));
}

function listEvents() {
    const from = (view.min - x0) * perX,
        to = (view.max - x0) * perX;
    const rule = find("rule-filter").value,
        words = find("text-filter").value.trim().toLowerCase();
    const inView = [];
    let count = 0;
    for (let k = lowerBound(events, from, (event) => event.time); k < events.length && events[k].time <= to; k += 1) {
        const event = events[k];
        if (rule !== "" && data.rules[event.rule] !== rule) continue;
        if (words && !attributesText(event).toLowerCase().includes(words)) continue;
        if (count >= state.list && inView.length < LISTED) inView.push(event);
        count += 1;
    }
    find("events")
        .querySelector("tbody")
        .replaceChildren(
            ...inView.map((event) => {
                const time = make("button", timeText(event.time), { type: "button", class: "link" });
                time.addEventListener("click", () => openEvent(event, true));
                return make(
                    "tr",
                    [
                        make("td", [time], { class: "time" }),
                        make("td", data.rules[event.rule]),
                        make("td", attributesText(event), { class: "mono" }),
                        make("td", event.proof >= 0 ? "yes" : ""),
                    ],
                    { "data-event": event.number },
                );
            }),
        );
    find("events").classList.toggle("hidden", count === 0);
    find("no-events").classList.toggle("hidden", count > 0);
    find("list-range").textContent = count
        ? `${(state.list + 1).toLocaleString("en")} to ${(state.list + inView.length).toLocaleString("en")} of ${counted(count, "event")}`
        : "";
    find("earlier").disabled = state.list === 0;
    find("later").disabled = state.list + LISTED >= count;
    const [low, high] = [Math.max(from, data.first), Math.min(to, data.last)];
    // Seconds suffice for a wide view.
    const rounded = (time) => {
        const micros = base + BigInt(Math.round(time)) * BigInt(data.grain);
        return microsText((to - from) * data.grain > 1e8 ? micros - (((micros % 1000000n) + 1000000n) % 1000000n) : micros);
    };
    find("range").textContent = low > high ? "outside the stream" : `${rounded(low)} to ${rounded(high)}`;
}
