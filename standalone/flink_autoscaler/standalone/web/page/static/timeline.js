"use strict";
// The timeline of a job: charts over one axis of time, with everything that happened as marks. Figures are those of the API.
(() => {
  const root = document.getElementById("timeline");
  const job = root.dataset.job;
  const box = root.querySelector(".charts");
  const output = root.querySelector("output");
  const HOUR = 3600;
  const GAP = 64;
  const MOST_CURVES = 6;
  const SHORTEST = 60;
  const LONGEST = 30 * 24 * HOUR;
  const pointed = root.querySelector(".chosen");
  let hours = 2;
  let zoom = null;  // seconds [from, to] that somebody chose; null follows the present
  let chosen = null;  // the instant that somebody chose
  let vertex = "";
  let shown = [];
  let found = null;
  let asked = 0;
  let asking = null;

  function ticks(_, splits) {
    return splits.map((each) => { const at = new Date(1000 * each); return at.getHours() + at.getMinutes() === 0 ? format.day(at).slice(5) : format.clock(at); });
  }

  // What is shown is what the address says: the range, a part of time (none follows the present), an instant, a vertex.
  function read() {
    const given = new URL(location.href).searchParams;
    const seconds = (name) => (given.get(name) ? Number(given.get(name)) / 1000 : null);
    const links = [...root.querySelectorAll("a[data-hours]")];
    const link = links.find((each) => new URL(each.href).searchParams.get("range") === (given.get("range") || "hours")) || links[0];
    for (const each of links) { if (each === link) { each.setAttribute("aria-current", "page"); } else { each.removeAttribute("aria-current"); } }
    const [from, to] = [seconds("from_ms"), seconds("to_ms")];
    hours = Number(link.dataset.hours);
    zoom = from !== null && to !== null && to > from ? [from, to] : null;
    chosen = seconds("at_ms");
    vertex = given.get("vertex") || "";
    for (const button of root.querySelectorAll("[data-zoom]")) { button.hidden = zoom === null; }
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
    const now = format.now() / 1000;
    // The last two hours are in memory, which is what is told unless a time is given.
    const times = zoom ? { from_ms: Math.round(1000 * zoom[0]), to_ms: Math.round(1000 * zoom[1]) } : hours === 2 ? {} : { from_ms: Math.round(1000 * (now - hours * HOUR)) };
    const further = zoom && zoom[1] < now - 60 ? 0 : Math.min(24, hours / 2);
    try {
      const [series, events, passes] = await Promise.all([
        get("/api/v1/series", { job, points: 400, ahead: further, vertex: vertex || undefined, ...times }),
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
    const until = expected.length > 0 ? expected[expected.length - 1].at_ms / 1000 : Math.max(series.until_ms, format.now()) / 1000;
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
      ["Load and capacity", "records/s", format.number, 170, [...instants, ...expected.map((each) => each.at_ms / 1000)], [
        { label: "input rate", data: whole("load"), color: "load", fill: "accent-soft" },
        { label: "max input rate", data: whole("capacity"), color: "capacity" },
        ...(expected.length > 0 ? [{ label: words, data: later("median"), color: "forecast", dash: [5, 4] }, { label: "at most, as expected", data: later("upper"), color: "forecast", dash: [2, 3] }] : []),
      ]],
      ["Lag", "seconds", format.lasting, 110, instants, [
        { label: "lag", data: column(given, "lag_seconds"), color: "lag", fill: "bad-soft" },
        ...(limit > 0 ? [{ label: "allowed", data: instants.map(() => limit), color: "dim", dash: [5, 4] }] : []),
      ]],
      ["Slots and parallelism", "slots, subtasks", format.number, 120, instants, [
        { label: "slots", data: column(given, "slots"), color: "slots", paths: stepped },
        ...sizes.slice(0, MOST_CURVES).map((each, number) => ({ label: each.name.slice(0, 40), data: steps(given, each.sizes), color: `c${number + 1}`, paths: stepped })),
      ]],
    ];
    if (vertex) { charts.push(spent(series, given, instants)); }
    const rows = marks(range);
    box.replaceChildren(rows.strip);
    for (const chart of charts) { one(chart, range, rows.marks); }
    setTimeout(place, 0, rows);
    setTimeout(point, 0);  // a chart knows its scales a moment later
  }

  // How the subtasks of the chosen vertex spent their time; the history knows how busy they were, and no more.
  function spent(series, given, instants) {
    const known = new Map(series.shares.map((each) => [each.at_ms, each]));
    const named = series.vertices.find((each) => each.vertex_id === vertex);
    const share = (name) => given.map((each) => { const found = known.get(each.at_ms); return found ? found[name] : null; });
    return [`Time of ${named ? named.name.slice(0, 80) : vertex}`, "share", format.percent, 110, instants, [
      { label: "busy", data: share("busy"), color: "load", fill: "accent-soft" },
      { label: "backpressured", data: share("backpressured"), color: "bad", dash: [5, 4] },
      { label: "idle", data: share("idle"), color: "idle", dash: [2, 3] },
    ], [0, 1]];
  }

  // What a chart says, for who does not see it.
  function described(title, unit, words, curves) {
    const parts = curves.map((each) => {
      const values = each.data.filter((value) => value !== null);
      return values.length === 0 ? `${each.label} not known` : `${each.label} ${words(values[values.length - 1])}, at most ${words(Math.max(...values))}`;
    });
    return `${title}, ${unit}: ${parts.join("; ")}`;
  }

  function one([title, unit, words, height, instants, curves, bounds], range, marked) {
    const figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    caption.textContent = `${title}, ${unit}`;
    figure.append(caption);
    box.append(figure);
    const line = { stroke: colour("line"), width: 1 };
    const axis = { stroke: colour("dim"), grid: line, ticks: line, font: "11px system-ui, sans-serif" };
    const mark = colour("mark");
    const bad = colour("bad");
    const picked = colour("accent");
    const options = {
      width: Math.max(200, box.clientWidth), height,
      cursor: { sync: { key: "timeline" }, drag: { x: true, y: false, setScale: false }, focus: { prox: 16 } },
      legend: { live: true },
      scales: { x: { time: true, range }, y: { range: (_, low, high) => bounds || [Math.min(0, low ?? 0), (high ?? 0) > 0 ? 1.08 * high : 1] } },
      axes: [{ ...axis, values: ticks, space: 70, size: 28 }, { ...axis, size: GAP, space: 28, values: (_, splits) => splits.map(words) }],
      series: [{ label: "time", value: (_, at) => (at === null || at === undefined ? "–" : format.instant(new Date(1000 * at))) }, ...curves.map((each) => ({
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
          const x = chosen === null ? -1 : Math.round(plot.valToPos(chosen, "x", true));
          if (x >= bbox.left && x <= bbox.left + bbox.width) {
            ctx.strokeStyle = picked;
            ctx.setLineDash([]);
            ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
          }
          ctx.restore();
        }],
        setSelect: [(plot) => {
          if (plot.select.width < 4) { return; }
          const [from, to] = [plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x")];
          if (to - from >= SHORTEST) { zoomed([from, to]); }
        }],
      },
    };
    const plot = new uPlot(options, [instants, ...curves.map((each) => each.data)], figure);
    plot.ctx.canvas.setAttribute("role", "img");
    plot.ctx.canvas.setAttribute("aria-label", described(title, unit, words, curves));
    shown.push(plot);
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
      link.title = `${format.instant(new Date(1000 * each.at))} ${each.text}`.slice(0, 400);
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

  // The instant that is chosen: its values in every chart, and the pass that was made then.
  function point() {
    pointed.hidden = chosen === null;
    if (chosen === null) { return; }
    const link = document.createElement("a");
    link.href = url("/pass", { job, at_ms: Math.round(1000 * chosen) });
    link.textContent = `the pass of ${format.instant(new Date(1000 * chosen))}`;
    pointed.replaceChildren(link);
    for (const plot of shown) { plot.setCursor({ left: plot.valToPos(chosen, "x"), top: 1 }); }
  }

  function choose(seconds, isStep) { show({ at_ms: Math.round(1000 * seconds) }, isStep); }

  function step(by) {
    const instants = points(found.series).filter((each) => each.slots !== undefined).map((each) => each.at_ms / 1000);
    const at = chosen === null ? instants.length : instants.findIndex((each) => each >= chosen - 0.001);
    const next = instants[Math.min(instants.length - 1, Math.max(0, (at < 0 ? instants.length : at) + by))];
    if (next !== undefined) { choose(next, false); }
  }

  // Whoever goes as far as the present follows it again.
  function zoomed(part) {
    const now = format.now() / 1000;
    if (part === null || (part[1] >= now && part[1] - part[0] >= hours * HOUR)) { show({ from_ms: null, to_ms: null }); return; }
    const length = Math.min(LONGEST, Math.max(SHORTEST, part[1] - part[0]));
    const to = Math.min(part[1], now);
    show({ from_ms: Math.round(1000 * (to - length)), to_ms: Math.round(1000 * to) });
  }

  function part() { const now = format.now() / 1000; return zoom || [now - hours * HOUR, now]; }
  function pan(share) { const [from, to] = part(); zoomed([from + share * (to - from), to + share * (to - from)]); }
  function scale(by) { const [from, to] = part(); const half = by * (to - from) / 2; zoomed([(from + to) / 2 - half, (from + to) / 2 + half]); }

  root.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-hours]");
    const button = event.target.closest("button[data-zoom]");
    const over = event.target.closest(".u-over");
    if (link && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      show({ range: new URL(link.href).searchParams.get("range"), from_ms: null, to_ms: null, at_ms: null });
    } else if (button) {
      if (button.dataset.zoom === "back") { zoomed(null); } else { pan(button.dataset.zoom === "earlier" ? -0.5 : 0.5); }
    } else if (over) {
      const plot = shown.find((each) => each.over === over);
      if (plot) { choose(plot.posToVal(event.clientX - over.getBoundingClientRect().left, "x"), true); }
    }
  });

  const moves = {
    ArrowLeft: () => pan(-0.25), ArrowRight: () => pan(0.25), "+": () => scale(0.5), "=": () => scale(0.5), "-": () => scale(2),
    Home: () => show({ from_ms: null, to_ms: null, at_ms: null }),
  };
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || !found) { return; }
    const isArrow = event.key === "ArrowLeft" || event.key === "ArrowRight";
    const move = event.shiftKey && isArrow ? () => step(event.key === "ArrowLeft" ? -1 : 1) : moves[event.key];
    if (move) { event.preventDefault(); move(); }
  });

  document.addEventListener("address", () => {
    const before = JSON.stringify([hours, zoom, vertex]);
    read();
    if (JSON.stringify([hours, zoom, vertex]) !== before) { load(); } else if (found) { for (const plot of shown) { plot.redraw(false); } point(); }
  });

  // A point stands for a minute at least, so that nothing is gained by asking for more at every pass.
  document.addEventListener("refreshed", () => { if (zoom === null && Date.now() - asked > (hours > 2 ? 60000 : 15000)) { load(); } });
  document.addEventListener("theme", () => { if (found) { draw(); } });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (found) { draw(); } });
  let resizing = null;
  addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(() => { if (found && box.clientWidth > 0) { draw(); } }, 150); });
  root.querySelector(".zone").textContent = `drag to zoom, click to choose an instant, ? for keys · ${format.zone}`;
  read();
  load();
})();
