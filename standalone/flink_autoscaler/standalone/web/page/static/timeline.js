"use strict";
// The timeline of a job: charts over one axis of time, with everything that happened as marks. Figures are those of the API.
(() => {
  const root = document.getElementById("timeline");
  const job = root.dataset.job;
  const box = root.querySelector(".charts");
  const output = root.querySelector("output");
  const ahead = Date.now() - Number(document.body.dataset.now);
  const HOUR = 3600;
  const GAP = 64;
  const MOST_CURVES = 6;
  const two = (number) => String(number).padStart(2, "0");
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  let hours = Number(root.querySelector("[aria-current]").dataset.hours);
  let zoom = null;  // seconds [from, to] that somebody chose; null follows the present
  let shown = [];
  let found = null;
  let asked = 0;
  let asking = null;

  function day(at) { return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`; }
  function clock(at) { return `${two(at.getHours())}:${two(at.getMinutes())}`; }
  function iso(seconds) { const at = new Date(1000 * seconds); return `${day(at)} ${clock(at)}:${two(at.getSeconds())}`; }
  function ticks(_, splits) {
    return splits.map((each) => { const at = new Date(1000 * each); return at.getHours() + at.getMinutes() === 0 ? day(at).slice(5) : clock(at); });
  }

  function brief(value) {
    if (value === null || value === undefined) { return "–"; }
    const size = Math.abs(value);
    const [by, unit] = size >= 1e9 ? [1e9, "G"] : size >= 1e6 ? [1e6, "M"] : size >= 1e3 ? [1e3, "k"] : [1, ""];
    return `${Number((value / by).toPrecision(3))}${unit ? ` ${unit}` : ""}`;
  }

  function lasting(value) {
    if (value === null || value === undefined) { return "–"; }
    for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60]]) { if (value >= 2 * length) { return `${Number((value / length).toPrecision(3))} ${unit}`; } }
    return `${Number(value.toPrecision(3))} s`;
  }

  // Colours of the style sheet, as a canvas understands them.
  function colour(name) {
    const probe = document.createElement("i");
    probe.style.color = `var(--${name})`;
    root.append(probe);
    const value = getComputedStyle(probe).color;
    probe.remove();
    return value;
  }

  function url(path, parameters) { return `${path}?${new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== undefined))}`; }

  async function get(path, parameters) {
    const answer = await fetch(url(path, parameters));
    const value = await answer.json();
    if (!answer.ok) { throw new Error(value.error); }
    return value;
  }

  async function load() {
    asked = Date.now();
    const turn = asking = {};
    output.textContent = box.childElementCount > 0 ? "" : "…";
    const now = (Date.now() - ahead) / 1000;
    // The last two hours are in memory, which is what is told unless a time is given.
    const times = zoom ? { from_ms: Math.round(1000 * zoom[0]), to_ms: Math.round(1000 * zoom[1]) } : hours === 2 ? {} : { from_ms: Math.round(1000 * (now - hours * HOUR)) };
    const further = zoom && zoom[1] < now - 60 ? 0 : Math.min(24, hours / 2);
    try {
      const [series, events, passes] = await Promise.all([
        get("/api/v1/series", { job, points: 400, ahead: further, ...times }),
        get("/api/v1/events", { job: job.replace(/[*?[]/g, "[$&]"), limit: 200, since_ms: times.from_ms }).catch(() => ({ events: [] })),
        get("/api/v1/rescales", { job }).catch(() => ({ rescales: [] })),
      ]);
      if (turn !== asking) { return; }
      found = { series, events: events.events, why: new Map(passes.rescales.map((each) => [each.decided_ms, each])) };
      output.textContent = series.damaged.length > 0 ? `Files of the history could not be read: ${series.damaged[0]}` : "";
      draw();
    } catch (error) {
      if (turn !== asking) { return; }
      clear();
      box.replaceChildren();
      output.textContent = `Nothing of that time can be shown: ${error.message}`;
    }
  }

  function clear() { for (const each of shown) { each.destroy(); } shown = []; }

  // What is not known interrupts a curve.
  function points(series) {
    const given = [];
    for (const point of series.points) {
      const last = given[given.length - 1];
      if (last && point.at_ms - last.at_ms > 2.5 * series.step_ms) { given.push({ at_ms: last.at_ms + series.step_ms }); }
      given.push(point);
    }
    return given;
  }

  function column(given, name) { return given.map((each) => each[name] ?? null); }

  function steps(given, sizes) {
    let next = 0;
    return given.map((each) => {
      while (next < sizes.length && sizes[next].at_ms <= each.at_ms) { next += 1; }
      return next === 0 || each.slots === undefined ? null : sizes[next - 1].parallelism;
    });
  }

  function draw() {
    clear();
    const { series } = found;
    const given = points(series);
    if (given.length === 0) { box.replaceChildren(); output.textContent = output.textContent || "Nothing of that time is known."; return; }
    const instants = given.map((each) => each.at_ms / 1000);
    const expected = series.forecast ? series.forecast.points.filter((each) => each.at_ms > series.until_ms) : [];
    // Up to the present: what was ordered since the last pass is seen at once.
    const until = expected.length > 0 ? expected[expected.length - 1].at_ms / 1000 : Math.max(series.until_ms, Date.now() - ahead) / 1000;
    const range = [zoom ? zoom[0] : Math.min(instants[0], series.since_ms / 1000), zoom ? zoom[1] : until];
    const none = (rows) => rows.map(() => null);
    const later = (name) => [...none(given), ...expected.map((each) => each[name])];
    const whole = (name) => [...column(given, name), ...none(expected)];
    const words = series.forecast && !series.forecast.is_trusted ? "expected (not trusted now)" : "expected";
    const limit = Number(root.dataset.limit);
    const sizes = series.vertices.filter((each) => each.sizes.length > 0);
    const widest = (each) => Math.max(...each.sizes.map((size) => size.parallelism));
    sizes.sort((a, b) => widest(b) - widest(a));
    const stepped = uPlot.paths.stepped({ align: 1 });
    const charts = [
      ["Load and capacity", "records/s", brief, 170, [...instants, ...expected.map((each) => each.at_ms / 1000)], [
        { label: "input rate", data: whole("load"), color: "load", fill: "accent-soft" },
        { label: "max input rate", data: whole("capacity"), color: "capacity" },
        ...(expected.length > 0 ? [{ label: words, data: later("median"), color: "forecast", dash: [5, 4] }, { label: "at most, as expected", data: later("upper"), color: "forecast", dash: [2, 3] }] : []),
      ]],
      ["Lag", "seconds", lasting, 110, instants, [
        { label: "lag", data: column(given, "lag_seconds"), color: "lag", fill: "bad-soft" },
        ...(limit > 0 ? [{ label: "allowed", data: instants.map(() => limit), color: "dim", dash: [5, 4] }] : []),
      ]],
      ["Slots and parallelism", "slots, subtasks", brief, 120, instants, [
        { label: "slots", data: column(given, "slots"), color: "slots", paths: stepped },
        ...sizes.slice(0, MOST_CURVES).map((each, number) => ({ label: each.name.slice(0, 40), data: steps(given, each.sizes), color: `c${number + 1}`, paths: stepped })),
      ]],
    ];
    const rows = marks(range);
    box.replaceChildren(rows.strip);
    for (const chart of charts) { one(chart, range, rows.marks); }
    setTimeout(place, 0, rows);  // a chart knows its scales a moment later
  }

  function one([title, unit, words, height, instants, curves], range, marked) {
    const figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    caption.textContent = `${title}, ${unit}`;
    figure.append(caption);
    box.append(figure);
    const line = { stroke: colour("line"), width: 1 };
    const axis = { stroke: colour("dim"), grid: line, ticks: line, font: "11px system-ui, sans-serif" };
    const mark = colour("mark");
    const bad = colour("bad");
    const options = {
      width: Math.max(200, box.clientWidth), height,
      cursor: { sync: { key: "timeline" }, drag: { x: true, y: false, setScale: false }, focus: { prox: 16 } },
      legend: { live: true },
      scales: { x: { time: true, range }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high ?? 0) > 0 ? 1.08 * high : 1] } },
      axes: [{ ...axis, values: ticks, space: 70, size: 28 }, { ...axis, size: GAP, space: 28, values: (_, splits) => splits.map(words) }],
      series: [{ label: "time", value: (_, at) => (at === null || at === undefined ? "–" : iso(at)) }, ...curves.map((each) => ({
        label: each.label, stroke: colour(each.color), fill: each.fill && colour(each.fill), width: 1.75, dash: each.dash, paths: each.paths,
        points: { show: curves[0].data.length < 3 }, value: (_, value) => words(value),
      }))],
      hooks: {
        draw: [(plot) => {
          const { ctx, bbox } = plot;
          ctx.save();
          for (const each of marked) {
            const x = Math.round(plot.valToPos(each.at, "x", true));
            if (x < bbox.left || x > bbox.left + bbox.width) { continue; }
            ctx.strokeStyle = each.kind === "bad" ? bad : mark;
            ctx.setLineDash([4, 3]);
            ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
          }
          ctx.restore();
        }],
        setSelect: [(plot) => {
          if (plot.select.width < 4) { return; }
          const [from, to] = [plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x")];
          if (to - from >= 60) { zoomed([from, to]); }
        }],
      },
    };
    shown.push(new uPlot(options, [instants, ...curves.map((each) => each.data)], figure));
  }

  // What happened: each leads to its explanation.
  function marks([from, to]) {
    const all = [];
    for (const each of found.series.rescales) {
      const known = found.why.get(each.decided_ms);
      const sizes = Object.entries(each.target);
      const up = sizes.some(([vertex, size]) => size > (each.before[vertex] ?? size));
      const what = known ? `${known.changes}: ${known.reason}` : `rescale (${each.origin})`;
      all.push({ at: each.decided_ms / 1000, symbol: each.is_reverted ? "↶" : up ? "▲" : "▼", kind: each.is_reverted ? "bad" : "", text: `${what}, ${each.stage}`, href: url("/pass", { job, at_ms: each.decided_ms }) });
    }
    for (const each of found.events) {
      const isBad = each.type === "Warning";
      if (isBad || each.is_command) {
        all.push({ at: each.at_ms / 1000, symbol: isBad ? "!" : "⚑", kind: isBad ? "bad" : "info", text: `${each.reason}: ${each.message}`, href: url("/pass", { job, at_ms: each.at_ms }) });
      }
    }
    const within = all.filter((each) => each.at >= from && each.at <= to).slice(-120);
    const strip = document.createElement("div");
    strip.className = "marks";
    for (const each of within) {
      const link = document.createElement("a");
      link.href = each.href;
      link.className = each.kind;
      link.textContent = each.symbol;
      link.title = `${iso(each.at)} ${each.text}`.slice(0, 400);
      link.setAttribute("aria-label", link.title);
      strip.append(link);
    }
    return { strip, marks: within };
  }

  function place({ strip, marks: within }) {
    const plot = shown[0];
    if (!plot || !strip.isConnected) { return; }
    [...strip.children].forEach((link, number) => { link.style.left = `${Math.round(plot.valToPos(within[number].at, "x") + plot.bbox.left / devicePixelRatio)}px`; });
  }

  const back = root.querySelector("[data-zoom=back]");
  function zoomed(chosen) {
    zoom = chosen;
    for (const button of root.querySelectorAll("[data-zoom]")) { button.hidden = zoom === null; }
    load();
  }

  root.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-hours]");
    const button = event.target.closest("button[data-zoom]");
    if (link && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      for (const each of root.querySelectorAll("a[data-hours]")) { each.removeAttribute("aria-current"); }
      link.setAttribute("aria-current", "page");
      hours = Number(link.dataset.hours);
      history.replaceState(null, "", link.href);
      zoomed(null);
    } else if (button === back) {
      zoomed(null);
    } else if (button) {
      const by = (zoom[1] - zoom[0]) / 2 * (button.dataset.zoom === "earlier" ? -1 : 1);
      zoomed([zoom[0] + by, zoom[1] + by]);
    }
  });

  // A point stands for a minute at least, so that nothing is gained by asking for more at every pass.
  document.addEventListener("refreshed", () => { if (zoom === null && Date.now() - asked > (hours > 2 ? 60000 : 15000)) { load(); } });
  document.addEventListener("theme", () => { if (found) { draw(); } });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (found) { draw(); } });
  let resizing = null;
  addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(() => { if (found && box.clientWidth > 0) { draw(); } }, 150); });
  root.querySelector(".zone").textContent = `drag to zoom · ${zone}`;
  load();
})();
