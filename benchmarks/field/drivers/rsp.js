// rsp-js over reports of road sections; answers as serve.py does.
// Arguments: file of reports, file of static triples, the query's parts, and "as-is" or "ticks".
// rsp-js has windows [o, c) where ours are (o, c]: times are a second less. "ticks": an element that no pattern
// matches follows each closing, since a window is reported when a later element comes, one window an element; and
// the origin of the windows, which moves with each row, is held. It has no stop(): windows that are open at the end
// are reported by these elements or not at all.
"use strict";
const fs = require("fs");
const readline = require("readline");
const [reportsFile, staticFile, askedText, form] = process.argv.slice(2);
process.chdir(__dirname);
console.log = console.debug = console.info = console.error = () => {};
const { RSPEngine } = require("rsp-js");
const { DataFactory } = require("n3");
const { namedNode, literal, quad, defaultGraph } = DataFactory;

const NAMESPACE = "http://example.org/";
const asked = JSON.parse(askedText);
const integer = namedNode("http://www.w3.org/2001/XMLSchema#integer");
const reports = JSON.parse(fs.readFileSync(reportsFile, "utf8"));
const known = JSON.parse(fs.readFileSync(staticFile, "utf8"));
const origin = Math.floor(Math.min(...reports.map(([second]) => second)) / 3600) * 3600 - 3600;
/** Rows of the last run: closing time in seconds since 1970, group and value. */
let told = [];

async function run() {
  const engine = new RSPEngine(asked.text);
  if (form === "ticks") Object.defineProperty(engine.windows[0], "t0", { get: () => 0, set: () => {} });
  for (const [s, p, o] of known) engine.addStaticData(quad(namedNode(s.slice(1, -1)), namedNode(p.slice(1, -1)), namedNode(o.slice(1, -1)), defaultGraph()));
  let rows = 0;
  let open = 0;
  let close = 0;
  told = [];
  const execute = engine.r2r.execute.bind(engine.r2r);
  const ended = [];
  engine.r2r.execute = async (container) => {
    open++;
    // An emission does not tell its window: it is looked up by its content, and its end is in seconds since 1970.
    let end = NaN;
    engine.windows[0].active_windows.forEach((content, window) => { if (content === container) end = window.close + origin; });
    const stream = await execute(container);
    const on = stream.on.bind(stream);
    stream.on = (name, callback) => on(name, name !== "data" ? callback : (binding) => { close = end; callback(binding); });
    ended.push(new Promise((done) => stream.on("end", done)));
    return stream;
  };
  engine.register().on("RStream", ({ bindings }) => {
    rows++;
    told.push(`${close} ${bindings.get(asked.group).value.replace(/.*\//, "")} ${bindings.get("most").value}`);
  });
  const stream = engine.getStream(NAMESPACE + "traffic");
  const tick = (time) => stream.add(quad(namedNode(NAMESPACE + "clock"), namedNode(NAMESPACE + "tick"), literal(String(time)), defaultGraph()), time);
  let next = Math.ceil((reports[0][0] - origin) / asked.step) * asked.step;
  for (const [second, section, speed] of reports) {
    const time = second - origin - 1;
    if (form === "ticks") {
      for (; next <= time; next += asked.step) {
        tick(next + 0.5);
        await settle();
      }
    }
    stream.add(quad(namedNode(NAMESPACE + section), namedNode(NAMESPACE + "speed"), literal(String(speed), integer), defaultGraph()), time);
  }
  if (form === "ticks") {
    const last = Math.max(...reports.map(([second]) => second)) - origin - 1 + asked.width;
    for (; next <= last + asked.step; next += asked.step) {
      tick(next + 0.5);
      await settle();
    }
  }
  await settle();
  return rows;

  async function settle() {
    while (ended.length < open) await new Promise((done) => setImmediate(done));
    await Promise.all(ended);
    await new Promise((done) => setImmediate(done));
  }
}

function peak() {
  return Number(/VmHWM:\s+(\d+)/.exec(fs.readFileSync("/proc/self/status", "utf8"))[1]);
}

function cpu() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

async function main() {
  process.stdout.write(JSON.stringify({ ready: process.version }) + "\n");
  let isFirst = true;
  for await (const line of readline.createInterface({ input: process.stdin })) {
    if (line !== "run") break;
    const clock = process.hrtime.bigint(), before = cpu();
    const count = await run();
    const used = cpu();
    process.stdout.write(JSON.stringify({ count, thread: null, process: used - before, clock: Number(process.hrtime.bigint() - clock) / 1e9, total: used, peak: peak(), rows: isFirst ? told : null }) + "\n");
    isFirst = false;
  }
  process.exit(0);
}

main();
