"use strict";
// Keeps the page up to date, sends orders, asks what-ifs. Texts are set as text, never as markup of their own.
(() => {
  const state = document.getElementById("state");
  const role = state.textContent;
  let version = document.body.dataset.version;
  let busy = false;
  let again = false;
  let missed = false;

  const clockTime = { hour: "2-digit", minute: "2-digit" };
  const shorter = { clock: clockTime, day: { day: "numeric", month: "short", ...clockTime } };

  function local(root) {
    for (const time of root.querySelectorAll("time")) {
      const at = new Date(time.dateTime);
      if (!isNaN(at)) { time.title = time.dateTime; time.textContent = at.toLocaleString([], shorter[time.className] || {}); }
    }
  }

  // What does not fit scrolls, and has to be reached by keyboard then.
  function reachable(root) {
    for (const box of root.querySelectorAll(".scroll")) {
      if (box.scrollWidth > box.clientWidth) {
        box.tabIndex = 0;
        box.setAttribute("role", "group");
        box.setAttribute("aria-label", "scrolls sideways");
      } else { for (const name of ["tabindex", "role", "aria-label"]) { box.removeAttribute(name); } }
    }
  }

  // Instants are those of the daemon: whoever compares them with another clock has to know that it differs.
  function clock() {
    const ahead = Math.round((Date.now() - Number(document.body.dataset.now)) / 1000);
    if (Math.abs(ahead) < 60) { return; }
    const told = document.getElementById("clock");
    told.textContent = `The clock of this browser is ${Math.abs(ahead)} s ${ahead > 0 ? "ahead of" : "behind"} that of the daemon; instants are the daemon's.`;
    told.hidden = false;
  }

  function isInUse() {
    const active = document.activeElement;
    return active !== null && active.closest("#main form") !== null;
  }

  async function refresh() {
    if (document.hidden) { missed = true; return; }
    if (isInUse()) { return; }
    if (busy) { again = true; return; }
    busy = true;
    try {
      const answer = await fetch(location.href);
      if (answer.status === 200) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.getElementById("main");
        const main = document.getElementById("main");
        if (fresh !== null && !isInUse()) {
          const focused = document.activeElement instanceof HTMLAnchorElement ? document.activeElement.getAttribute("href") : null;
          const boxes = [...main.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
          const told = new Map([...main.querySelectorAll(".order")].map((form) => [form.dataset.order, form.querySelector("output").textContent]));
          main.replaceChildren(...fresh.childNodes);
          for (const form of main.querySelectorAll(".order")) { form.querySelector("output").textContent = told.get(form.dataset.order) || ""; }
          [...main.querySelectorAll(".scroll")].forEach((box, number) => { box.scrollLeft = boxes[number] || 0; });
          if (focused !== null) { const link = [...main.querySelectorAll("a")].find((each) => each.getAttribute("href") === focused); if (link) { link.focus({ preventScroll: true }); } }
          version = page.body.dataset.version;
          local(main);
          reachable(main);
        }
      }
    } catch { state.textContent = `${role}, not connected`; } finally {
      busy = false;
      if (again) { again = false; refresh(); }
    }
  }

  function follow() {
    const stream = new EventSource(`/api/v1/news?since=${encodeURIComponent(version)}`);
    stream.addEventListener("open", () => { state.textContent = `${role}, live`; });
    stream.addEventListener("fleet", refresh);
    stream.addEventListener("error", () => { if (stream.readyState === EventSource.CLOSED) { state.textContent = `${role}, not connected`; setTimeout(follow, 5000); } });
  }

  async function send(path, body, method = "POST") {
    const answer = await fetch(path, {
      method, body: body === undefined ? undefined : JSON.stringify(body),
      headers: { "Content-Type": "application/json", "X-Form-Token": document.body.dataset.formToken },
    });
    const document_ = await answer.json();
    if (!answer.ok) { throw new Error(document_.error); }
    return document_;
  }

  function ordered(form) {
    const given = new FormData(form);
    const order = { job_key: form.dataset.job, order: form.dataset.order, reason: given.get("reason") || "" };
    if (given.get("minutes")) { order.seconds = 60 * Number(given.get("minutes")); }
    if (given.get("direction")) { order.direction = given.get("direction"); }
    if (given.get("vertex")) { order.vertices = { [given.get("vertex")]: Number(given.get("parallelism")) }; }
    return order;
  }

  function options(text) {
    const found = {};
    for (const line of text.split("\n")) {
      const at = line.indexOf(":");
      if (at > 0 && !line.trimStart().startsWith("#")) { found[line.slice(0, at).trim()] = line.slice(at + 1).trim(); }
    }
    return found;
  }

  function element(name, text) { const made = document.createElement(name); made.textContent = text; return made; }

  function tabled(titles, rows) {
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    for (const title of titles) { const cell = element("th", title); cell.scope = "col"; head.append(cell); }
    const body = table.createTBody();
    for (const texts of rows) {
      const row = body.insertRow();
      for (const text of texts) { row.append(element("td", String(text))); }
    }
    return table;
  }

  function answered(found) {
    const table = tabled(["Vertex", "Now", "Decided", "Would be"], found.vertices.map((each) => [each.name, each.parallelism, each.decided, each.would_be]));
    found.vertices.forEach((vertex, number) => { if (vertex.decided !== vertex.would_be) { table.tBodies[0].rows[number].className = "bottleneck"; } });
    const why = document.createElement("ul");
    for (const reason of found.reasons) { why.append(element("li", `${reason.vertex ? `${reason.vertex}: ` : ""}${reason.text} (${reason.code})`)); }
    const lines = element("pre", found.changes.join("\n") || "# the same configuration");
    document.getElementById("answer").replaceChildren(
      element("p", `Decided: ${found.decided}`), element("p", `Would be: ${found.would_be}`), table,
      element("h2", "Because"), why, element("h2", "The lines that differ, to copy"), lines);
  }

  // The command line simulates; a word in quotes is one word of the shell, whatever is in it.
  function backtest(form) {
    const quoted = (word) => `'${word.replaceAll("'", "'\\''")}'`;
    const changed = Object.entries(options(document.querySelector("#what-if textarea").value));
    const full = (key) => (key.startsWith("job.autoscaler.") ? key : `job.autoscaler.${key}`);
    const asked = `flink-autoscaler backtest --config autoscaler.yaml --since ${quoted(`${new FormData(form).get("days")} d`)} --jobs ${quoted(form.dataset.job)}`;
    const lines = changed.map(([key, value]) => `    --set ${quoted(`${full(key)}=${value}`)}`);
    document.getElementById("commands").textContent = `${asked}\n${[asked, ...lines].join(" \\\n")}`;
  }

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.matches(".order, #what-if, #backtest")) { return; }
    event.preventDefault();
    const output = form.querySelector("output");
    output.textContent = "…";
    try {
      if (form.matches(".order")) {
        output.textContent = (await send("/api/v1/commands", ordered(form))).text;
        // What was ordered is shown at once, also above the form, which is not in use any more.
        if (form.contains(document.activeElement)) { document.activeElement.blur(); }
        await refresh();
      } else if (form.matches("#backtest")) {
        backtest(form);
        output.textContent = "";
      } else {
        const asked = { job_key: form.dataset.job, options: options(new FormData(form).get("options")) };
        if (form.dataset.at) { asked.at_ms = Number(form.dataset.at); }
        answered(await send("/api/v1/what-if", asked));
        output.textContent = "";
      }
    } catch (error) {
      output.textContent = error.message;
    }
  });

  local(document);
  reachable(document);
  clock();
  addEventListener("resize", () => reachable(document));
  document.addEventListener("visibilitychange", () => { if (!document.hidden && missed) { missed = false; refresh(); } });
  if (document.body.dataset.live === "yes") { follow(); }
})();
