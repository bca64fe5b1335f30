"use strict";
// The graph of a job, from left to right: how busy each vertex is, what it has and is to have; a vertex opens its sizing, term by term.
(() => {
  const root = document.getElementById("graph");
  const job = root.dataset.job;
  const box = root.querySelector(".drawing");
  const detail = root.querySelector(".detail");
  const [WIDTH, HEIGHT, INNER] = [190, 66, 170];
  const LONGEST = 26;
  let vertices = [];
  let layout = null;
  let form = "";
  let asked = 0;
  const address = (name) => new URL(location.href).searchParams.get(name);
  let chosen = null;

  function svg(name, attributes, parent, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) { made.setAttribute(key, value); }
    if (text !== undefined) { made.textContent = text; }
    if (parent) { parent.append(made); }
    return made;
  }

  function element(name, text, kind) { const made = document.createElement(name); made.textContent = text; if (kind) { made.className = kind; } return made; }

  const short = (name) => (name.length <= LONGEST ? name : `${name.slice(0, LONGEST - 1)}…`);

  function place() {
    const now = JSON.stringify(vertices.map((each) => [each.vertex_id, each.inputs]));
    if (now === form) { return; }
    form = now;
    const graph = new dagre.Graph();
    // The exact ranks of a large graph take seconds.
    graph.setGraph({ rankdir: "LR", ranksep: 76, nodesep: 22, marginx: 6, marginy: 6, ranker: vertices.length > 150 ? "longest-path" : "network-simplex" });
    graph.setDefaultEdgeLabel(() => ({}));
    const known = new Set(vertices.map((each) => each.vertex_id));
    for (const each of vertices) { graph.setNode(each.vertex_id, { width: WIDTH, height: HEIGHT }); }
    for (const each of vertices) { for (const input of each.inputs) { if (known.has(input)) { graph.setEdge(input, each.vertex_id); } } }
    dagre.layout(graph);
    layout = graph;
  }

  function draw() {
    if (vertices.length === 0) { box.replaceChildren(element("p", "Its graph is not known.", "dim")); return; }
    place();
    const focused = document.activeElement && document.activeElement.closest("#graph .vertex");
    const { width, height } = layout.graph();
    const drawing = svg("svg", { class: "graph", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `graph of ${vertices.length} vertices` });
    const byId = new Map(vertices.map((each) => [each.vertex_id, each]));
    for (const { v, w } of layout.edges()) {
      const points = layout.edge(v, w).points;
      const target = byId.get(w);
      svg("path", { class: "edge", d: `M${points.map((each) => `${Math.round(each.x)} ${Math.round(each.y)}`).join("L")}` }, drawing);
      if (target.inputs.length === 1 && target.needed_rate !== null) {
        const middle = points[Math.floor(points.length / 2)];
        svg("text", { class: "rate", x: middle.x, y: middle.y - 6, "text-anchor": "middle" }, drawing, `${format.number(target.needed_rate)}/s`);
      }
    }
    for (const each of vertices) { one(each, layout.node(each.vertex_id), drawing); }
    const old = box.firstElementChild;
    const [left, top] = [box.scrollLeft, box.scrollTop];
    if (old) { old.replaceWith(drawing); } else { box.append(drawing); }
    [box.scrollLeft, box.scrollTop] = [left, top];
    if (focused) { const again = drawing.querySelector(`[data-vertex="${CSS.escape(focused.dataset.vertex)}"]`); if (again) { again.focus({ preventScroll: true }); } }
  }

  function one(vertex, { x, y }, drawing) {
    const [left, top] = [x - WIDTH / 2, y - HEIGHT / 2];
    const busy = vertex.busy === null ? 0 : Math.min(1, Math.max(0, vertex.busy));
    const blocked = vertex.backpressured === null ? 0 : Math.min(1 - busy, Math.max(0, vertex.backpressured));
    const state = blocked > 0.5 ? " backpressured" : busy > 0.9 ? " hot" : "";
    const wanted = vertex.wanted === null ? "" : ` → ${vertex.wanted}`;
    const told = vertex.busy === null ? "" : ` · busy ${format.percent(vertex.busy)}${blocked > 0.005 ? `, backpressured ${format.percent(vertex.backpressured)}` : ""}`;
    const [first, second] = [`${vertex.is_bottleneck ? "▲ " : ""}${short(vertex.name)}`, `${vertex.parallelism}${wanted}${told}`];
    const group = svg("g", { class: `vertex${state}${vertex.is_bottleneck ? " bottleneck" : ""}`, "data-vertex": vertex.vertex_id, role: "button", tabindex: 0, "aria-pressed": chosen === vertex.vertex_id }, drawing);
    svg("rect", { class: "box", x: left, y: top, width: WIDTH, height: HEIGHT, rx: 8 }, group);
    svg("text", { x: left + 10, y: top + 20 }, group, first);
    svg("text", { class: "sub", x: left + 10, y: top + 38 }, group, second);
    svg("rect", { class: "idle", x: left + 10, y: top + 50, width: INNER, height: 6, rx: 3 }, group);
    svg("rect", { class: "busy", x: left + 10, y: top + 50, width: INNER * busy, height: 6 }, group);
    svg("rect", { class: "back", x: left + 10 + INNER * busy, y: top + 50, width: INNER * blocked, height: 6 }, group);
  }

  // The equation, and how large its terms are beside what the vertex can do.
  function equation(figures, story) {
    const terms = element("div", "", "eq");
    const term = (value, words, kind = "term") => { const made = element("div", "", kind); made.append(element("b", value), element("span", words)); terms.append(made); };
    const sign = (text) => terms.append(element("div", text, "op"));
    term(`${format.number(figures.target_rate)}/s`, "input rate"); sign("÷");
    term(format.percent(figures.utilization_target), "busy at most, as planned"); sign("+");
    term(`${format.number(figures.catch_up_rate)}/s`, "to catch up"); sign("+");
    term(`${format.number(figures.restart_rate)}/s`, "for a restart"); sign("=");
    term(`${format.number(figures.needed_rate)}/s`, "needed"); sign("÷");
    term(`${format.number(figures.processing_rate)}/s`, `what ${story.parallelism} can do`); sign("=");
    term(`× ${format.number(figures.factor)}`, `wanted ${format.number(figures.wanted)}, within limits ${format.number(figures.within_limits)}, aligned ${format.number(figures.aligned)}`); sign("→");
    term(String(story.final), "decided", "term result");
    return terms;
  }

  function bars(figures) {
    const planned = figures.target_rate / figures.utilization_target;
    const rows = [["input rate", figures.target_rate, "load"], ["spare for the planned utilization", planned - figures.target_rate, "more"], ["to catch up", figures.catch_up_rate, "warn"], ["for a restart", figures.restart_rate, "slots"], ["it can do", figures.processing_rate, "off"]];
    const most = Math.max(...rows.map((each) => each[1]).filter(Number.isFinite), 1e-9);
    const table = document.createElement("table");
    table.className = "termbars";
    for (const [words, value, kind] of rows) {
      const row = table.insertRow();
      const head = element("th", words);
      head.scope = "row";
      const cell = document.createElement("td");
      const bar = svg("svg", { class: "bar wide", "aria-hidden": "true" }, cell);
      svg("rect", { class: kind, width: `${Math.max(0, Math.min(100, 100 * value / most)) || 0}%`, height: "100%" }, bar);
      row.append(head, cell, element("td", `${format.number(value)}/s`, "number"));
    }
    return table;
  }

  async function open(id) {
    chosen = id;
    draw();
    if (id === null) { detail.replaceChildren(); return; }
    const vertex = vertices.find((each) => each.vertex_id === id);
    if (!vertex) { return; }
    const parts = [element("h2", vertex.name.slice(0, 300))];
    const facts = [["parallelism", `${vertex.parallelism}${vertex.wanted === null ? "" : ` → ${vertex.wanted}`} of ${vertex.max_parallelism} at most`], ["busy", format.percent(vertex.busy)], ["idle", format.percent(vertex.idle)], ["backpressured", format.percent(vertex.backpressured)], ["input rate", `${format.number(vertex.needed_rate)}/s`], ["can do", `${format.number(vertex.capacity)}/s`]];
    const list = element("dl", "", "row");
    for (const [name, value] of facts) { const each = document.createElement("div"); each.append(element("dt", name), element("dd", value)); list.append(each); }
    parts.push(list);
    try {
      const answer = await fetch(`/api/v1/pass?${new URLSearchParams({ job })}`);
      const found = answer.ok ? await answer.json() : null;
      const story = found && found.explanation.vertices.find((each) => each.vertex_id === id);
      if (story && story.figures && story.figures.needed_rate !== undefined) { parts.push(equation(story.figures, story), bars(story.figures)); } else { parts.push(element("p", "The last pass did not size it.", "dim")); }
      if (story) { for (const note of story.notes) { parts.push(element("p", `${note.text} (${note.code})`)); } }
    } catch { parts.push(element("p", "Its sizing cannot be read now.", "dim")); }
    if (root.dataset.flink) {
      const line = document.createElement("p");
      const link = element("a", "this vertex on Flink's own page");
      link.href = `${root.dataset.flink}/${encodeURIComponent(id)}`;
      link.rel = "noreferrer";
      line.append(link);
      parts.push(line);
    }
    if (chosen === id) { detail.replaceChildren(...parts); }
  }

  async function load() {
    asked = Date.now();
    try {
      const answer = await fetch(`/api/v1/job?${new URLSearchParams({ job })}`);
      if (answer.ok) { vertices = (await answer.json()).vertices; await follow(); draw(); }
    } catch { /* what is shown stays; the page says that it is stale */ }
  }

  // The address says which vertex is chosen; the timeline shows how it spent its time.
  async function follow() { if (address("vertex") !== chosen) { await open(address("vertex")); } }

  function next(step) {
    const ids = vertices.map((each) => each.vertex_id);
    const at = ids.indexOf(chosen);
    if (ids.length > 0) { show({ vertex: ids[at < 0 ? (step > 0 ? 0 : ids.length - 1) : (at + step + ids.length) % ids.length] }); }
  }

  box.addEventListener("click", (event) => { const group = event.target.closest(".vertex"); if (group) { show({ vertex: group.dataset.vertex }); } });
  document.addEventListener("address", follow);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]") || event.target.closest("input, select, textarea")) { return; }
    if (event.key === "v" || event.key === "V") { next(event.key === "v" ? 1 : -1); }
  });
  box.addEventListener("keydown", (event) => {
    const group = event.target.closest(".vertex");
    if (group && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); show({ vertex: group.dataset.vertex }); }
  });
  document.addEventListener("refreshed", () => { if (Date.now() - asked > 3000) { load(); } });
  load();
})();
