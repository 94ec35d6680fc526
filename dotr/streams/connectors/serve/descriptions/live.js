"use strict";
// New elements as they come, the newest first. All that comes from the stream is set as text.
(() => {
    const most = 10;
    const [list, status, pause, form] = ["elements", "status", "pause", "token"].map((id) => document.getElementById(id));
    const waiting = [];
    let [missed, last, token] = [0, list.dataset.last, ""];

    const say = (text) => (status.textContent = text);
    const paused = () => pause.getAttribute("aria-pressed") === "true";
    const made = (name, ...children) => {
        const element = document.createElement(name);
        element.append(...children);
        return element;
    };

    // A TriG text is prefixes, statements about the graph, `<ID> {`, its indented lines, `}`.
    const item = (id, text) => {
        const time = /generatedAtTime>? "([^"]*)"/.exec(text);
        const link = made("a", id);
        link.href = list.dataset.base + id;
        const graph = text.slice(text.indexOf("{\n") + 2, text.lastIndexOf("}")).replace(/^ {2}/gm, "");
        return made("li", made("p", made("strong", time ? time[1] : ""), link), made("pre", graph.trimEnd()));
    };

    const show = (items) => {
        document.getElementById("none")?.remove();
        items.forEach((each) => list.prepend(each));
        while (list.children.length > most) list.lastElementChild.remove();
    };

    const open = () => {
        const query = new URLSearchParams({ format: "trig", [last ? "after" : "last"]: last || most });
        if (token) query.set("authorization", token);
        const source = new EventSource(`${list.dataset.base}events?${query}`);
        source.onopen = () => say(paused() ? "Paused" : "Live");
        source.onmessage = (event) => {
            last = event.lastEventId;
            const element = item(last, event.data);
            if (!paused()) return show([element]);
            waiting.push(element);
            if (waiting.length > most) waiting.shift();
            say(`Paused: ${++missed} new`);
        };
        source.addEventListener("gap", () => say("Some elements are no longer kept"));
        source.addEventListener("slow", () => say("Reconnecting: this page was too slow"));
        source.addEventListener("end", () => {
            source.close();
            pause.hidden = true;
            show(waiting.splice(0));
            say("The stream has ended");
        });
        source.onerror = () => {
            if (source.readyState !== EventSource.CLOSED) return say("Reconnecting");
            if (token) form.hidden = false;
            if (token) return say("Not connected: is the token right?");
            if (!last) return say("Not connected: reload the page to try again");
            last = ""; // what this page was made with has left in the meantime
            list.replaceChildren();
            open();
        };
    };

    pause.addEventListener("click", () => {
        pause.setAttribute("aria-pressed", String(!paused()));
        pause.textContent = paused() ? "Resume" : "Pause";
        show(paused() ? [] : waiting.splice(0));
        missed = 0;
        say(paused() ? "Paused" : "Live");
    });
    form?.addEventListener("submit", (event) => {
        event.preventDefault();
        token = form.querySelector("input").value.trim();
        form.hidden = true;
        pause.hidden = false;
        open();
    });
    if (list.dataset.state !== "open") return say("The stream has ended");
    (form ?? pause).hidden = false;
    if (form) return say("Not connected: it needs a token");
    say("Connecting");
    open();
})();
