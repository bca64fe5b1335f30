"use strict";
// Keeps the page up to date, filters as one types, sends orders, asks what-ifs. Texts are set as text, never as markup of their own.
(() => {
  const state = document.getElementById("state");
  const role = state.textContent;
  let version = document.body.dataset.version;
  let busy = false;
  let again = false;
  let missed = false;

  function element(name, text) { const made = document.createElement(name); made.textContent = text; return made; }

  function local(root) {
    for (const time of root.querySelectorAll("time")) {
      const at = new Date(time.dateTime);
      if (!isNaN(at)) { time.title = `${format.instant(at)} ${format.zone}`; time.textContent = format.relative(at); }
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

  // Whoever compares instants with another clock has to know that it differs.
  function compared() {
    const seconds = Math.round(format.ahead / 1000);
    if (Math.abs(seconds) < 60) { return; }
    const notice = document.getElementById("clock");
    notice.textContent = `The clock of this browser is ${Math.abs(seconds)} s ${seconds > 0 ? "ahead of" : "behind"} that of the daemon; instants are the daemon's.`;
    notice.hidden = false;
  }

  // Parts of the page are replaced by themselves; the one that somebody is using, and one that keeps itself, stay.
  function isInUse(part) {
    const active = document.activeElement;
    return part.querySelector("dialog[open]") !== null || (active !== null && part.contains(active) && active.closest("form") !== null);
  }

  function replace(fresh) {
    const main = document.getElementById("main");
    const focused = document.activeElement instanceof HTMLAnchorElement ? document.activeElement.getAttribute("href") : null;
    const boxes = [...main.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
    const open = [...main.querySelectorAll("details[id]")].map((each) => [each.id, each.open]);
    const outputs = [...main.querySelectorAll(".order")].map((form) => [form.dataset.order, form.dataset.label, form.querySelector("output").textContent]);
    const ids = (root) => [...root.children].map((each) => each.id || "?").join();
    if (ids(main) === ids(fresh) && !ids(main).includes("?")) {
      const parts = [...fresh.children];
      [...main.children].forEach((part, number) => { if (!("keep" in part.dataset) && part.id !== "clock" && !isInUse(part)) { part.replaceWith(parts[number]); } });
    } else if (!isInUse(main)) { main.replaceChildren(...fresh.childNodes); }
    for (const [id, isOpen] of open) { const found = document.getElementById(id); if (found) { found.open = isOpen; } }
    for (const [order, label, text] of outputs) { const form = main.querySelector(`.order[data-order="${order}"][data-label="${label}"]`); if (form) { form.querySelector("output").textContent = text; } }
    [...main.querySelectorAll(".scroll")].forEach((box, number) => { box.scrollLeft = boxes[number] || 0; });
    if (focused !== null) { const link = [...main.querySelectorAll("a")].find((each) => each.getAttribute("href") === focused); if (link) { link.focus({ preventScroll: true }); } }
    shown(main);
  }

  function shown(root) {
    local(root);
    reachable(root);
    for (const link of root.querySelectorAll("a.more")) { ends.observe(link); }
  }

  async function page(address) {
    const answer = await fetch(address);
    return answer.status === 200 ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
  }

  async function refresh() {
    if (document.hidden) { missed = true; return; }
    if (busy) { again = true; return; }
    busy = true;
    try {
      const address = new URL(location.href);
      const rows = document.querySelectorAll("[data-more] tbody tr").length;
      if (rows > 0) { address.searchParams.set("limit", Math.min(1000, Math.max(rows, 60))); }
      const found = await page(address);
      if (found !== null) {
        version = found.body.dataset.version;
        replace(found.getElementById("main"));
        document.dispatchEvent(new Event("refreshed"));
      }
    } catch { stale(); } finally {
      busy = false;
      if (again) { again = false; refresh(); }
    }
  }

  // Long lists: what comes next is fetched when their end is near.
  const ends = new IntersectionObserver(async (seen) => {
    for (const { target, isIntersecting } of seen) {
      if (!isIntersecting) { continue; }
      ends.unobserve(target);
      const found = await page(target.href).catch(() => null);
      const rows = found && found.querySelectorAll("[data-more] tbody tr");
      if (!rows || !target.isConnected) { continue; }
      local(found);
      document.querySelector("[data-more] tbody").append(...rows);
      const next = found.querySelector("a.more");
      if (next) { target.replaceWith(next); ends.observe(next); } else { target.remove(); }
    }
  }, { rootMargin: "800px" });

  let lost = null;  // when the daemon was last known to be there
  let waiting = null;
  function stale() {
    lost = lost || new Date();
    state.className = "stale";
    state.textContent = `${role}, not connected: stale since ${format.instant(lost).slice(11)}`;
  }

  function follow() {
    const stream = new EventSource(`/api/v1/news?since=${encodeURIComponent(version)}`);
    stream.addEventListener("open", () => { clearTimeout(waiting); waiting = lost = null; state.className = "live"; state.textContent = `${role}, live`; });
    stream.addEventListener("fleet", refresh);
    stream.addEventListener("error", () => {
      lost = lost || new Date();
      waiting = waiting || setTimeout(stale, 4000);  // a stream ends now and then, and begins anew at once
      if (stream.readyState === EventSource.CLOSED) { setTimeout(follow, 5000); }
    });
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

  // What an order will do is said in figures before it is given.
  function confirmed(label, seen) {
    const dialog = document.getElementById("confirm");
    const facts = [["Effect", seen.text], ["Slots", seen.slots_after === seen.slots ? `${format.number(seen.slots)}, as now` : `${format.number(seen.slots)} → ${format.number(seen.slots_after)}`]];
    facts.push(["Expected downtime", seen.downtime_seconds === null ? "none by this order" : format.lasting(seen.downtime_seconds)]);
    for (const each of seen.commands) { facts.push(["In force then", `${each.order}, by ${each.by}, until ${each.until}${each.reason ? ` (${each.reason})` : ""}`]); }
    if (seen.commands.length === 0) { facts.push(["In force then", "nothing"]); }
    dialog.querySelector("h2").textContent = label;
    dialog.querySelector("dl").replaceChildren(...facts.flatMap(([name, text]) => [element("dt", name), element("dd", text)]));
    dialog.querySelector("[value=yes]").hidden = seen.is_refused;
    dialog.returnValue = "";
    dialog.showModal();
    return new Promise((resolve) => { dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }); });
  }

  async function give(form) {
    const [order, label] = [ordered(form), form.dataset.label];
    const place = () => document.querySelector(`.order[data-order="${order.order}"][data-label="${label}"] output`);
    const isSure = await confirmed(label, await send("/api/v1/commands/preview", order));
    const text = isSure ? (await send("/api/v1/commands", order)).text : "";
    // The part with the form may be another one by now.
    const output = place();
    if (output) { output.textContent = text; }
    // What was ordered is shown at once, also above the form, which is not in use any more.
    if (document.activeElement && document.activeElement.closest(".order")) { document.activeElement.blur(); }
    if (isSure) { await refresh(); }
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
    if (!form.matches(".filter, .order, #what-if, #backtest")) { return; }
    event.preventDefault();
    if (form.matches(".filter")) { filtered(form); return; }
    const output = form.querySelector("output");
    output.textContent = "…";
    try {
      if (form.matches(".order")) {
        await give(form);
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

  // What is filtered by is part of the address, so that it can be sent to somebody.
  let typing = null;
  function filtered(form) {
    const given = new URLSearchParams([...new FormData(form)].filter(([name, text]) => text !== "" && text !== form.elements[name].dataset.usual));
    history.replaceState(null, "", location.pathname + (`${given}` !== "" ? `?${given}` : ""));
    refresh();
  }

  document.addEventListener("input", (event) => {
    const form = event.target.closest("form.filter");
    if (form === null) { return; }
    clearTimeout(typing);
    typing = setTimeout(filtered, 150, form);
  });

  // A what-if is asked as its sliders move: each is a line of its options, where it differs from what the job has.
  let moving = null;
  document.addEventListener("input", (event) => {
    const slider = event.target.closest("#what-if input[type=range]");
    if (slider === null) { return; }
    const { option, unit } = slider.dataset;
    const field = slider.form.elements.options;
    slider.nextElementSibling.textContent = slider.value + unit;
    const others = field.value.split("\n").filter((line) => line.trim() !== "" && line.slice(0, line.indexOf(":")).trim() !== option);
    field.value = [...others, `${option}: ${slider.value}${unit}`].join("\n");
    clearTimeout(moving);
    moving = setTimeout(() => slider.form.requestSubmit(), 200);
  });

  // The address says what is shown: it can be sent to somebody, and the back button leads back. None takes a part away.
  window.show = (changes, isStep = true) => {
    const address = new URL(location.href);
    for (const [name, value] of Object.entries(changes)) { if (value === null) { address.searchParams.delete(name); } else { address.searchParams.set(name, value); } }
    if (address.href === location.href) { return; }
    if (isStep) { history.pushState(null, "", address); } else { history.replaceState(null, "", address); }
    document.dispatchEvent(new Event("address"));
  };
  addEventListener("popstate", () => document.dispatchEvent(new Event("address")));

  // Keys: / to the filter, j and k along the rows, Esc back, g and a letter to a page, ? tells them all.
  const keys = document.getElementById("keys");
  document.getElementById("help").addEventListener("click", () => keys.showModal());
  const places = { f: "/", e: "/events", c: "/configuration", a: "/about" };
  let isGoing = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) { return; }
    const field = event.target.closest("input, select, textarea");
    const filter = document.querySelector("form.filter");
    if (event.key === "Escape") {
      if (field) {
        if (filter !== null && filter.contains(field) && field.value !== "") { field.value = ""; filtered(filter); }
        field.blur();
      } else if (["/job", "/pass", "/what-if", "/cluster"].includes(location.pathname)) { location.assign("/"); }
      return;
    }
    if (field) { return; }
    if (isGoing && places[event.key]) { location.assign(places[event.key]); }
    isGoing = event.key === "g";
    if (event.key === "?") { keys.showModal(); }
    if (event.key === "/" && filter !== null) { event.preventDefault(); filter.elements[0].focus(); filter.elements[0].select(); }
    if (event.key === "j" || event.key === "k") {
      const links = [...document.querySelectorAll("main tbody tr")].map((row) => row.querySelector("a")).filter(Boolean);
      const row = document.activeElement.closest("tr");
      const at = row === null ? -1 : links.findIndex((link) => row.contains(link));
      const next = links[event.key === "j" ? Math.min(at + 1, links.length - 1) : Math.max(at - 1, 0)];
      if (next) { next.focus(); }
    }
  });

  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = root.dataset.theme || (isDark ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    try {
      if ((root.dataset.theme === "dark") === isDark) { localStorage.removeItem("theme"); } else { localStorage.setItem("theme", root.dataset.theme); }
    } catch { /* nothing is kept here */ }
    document.dispatchEvent(new Event("theme"));
  });

  shown(document);
  compared();
  setInterval(() => { if (!document.hidden) { local(document); } }, 5000);
  addEventListener("resize", () => reachable(document));
  document.addEventListener("visibilitychange", () => { if (!document.hidden && missed) { missed = false; refresh(); } });
  if (document.body.dataset.live === "yes") { follow(); }
})();
