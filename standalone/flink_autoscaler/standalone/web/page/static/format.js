"use strict";
// Numbers, durations and instants as people read them: every script of the page writes them by these alone.
const format = (() => {
  const isUnknown = (value) => value === null || value === undefined || !Number.isFinite(value);
  const digits = (value, count = 3) => Number(value.toPrecision(count));
  const two = (value) => String(value).padStart(2, "0");
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  // Instants are those of the daemon: what is said of them is reckoned by its clock.
  const ahead = Date.now() - Number(document.documentElement.dataset.now);

  function number(value) {
    if (isUnknown(value)) { return "–"; }
    const size = Math.abs(value);
    const [by, unit] = size >= 1e9 ? [1e9, " G"] : size >= 1e6 ? [1e6, " M"] : size >= 1e4 ? [1e3, " k"] : [1, ""];
    return `${digits(value / by)}${unit}`;
  }

  function percent(value) { return isUnknown(value) ? "–" : `${Math.round(100 * value)} %`; }

  function lasting(seconds, count = 3) {
    if (isUnknown(seconds)) { return "–"; }
    for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60]]) { if (seconds >= 2 * length) { return `${digits(seconds / length, count)} ${unit}`; } }
    return `${digits(seconds)} s`;
  }

  // In the zone of the browser, ISO.
  function day(at) { return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`; }
  function clock(at) { return `${two(at.getHours())}:${two(at.getMinutes())}`; }
  function instant(at) { return `${day(at)} ${clock(at)}:${two(at.getSeconds())}`; }
  function now() { return Date.now() - ahead; }

  // How long ago or how soon where that is near.
  function relative(at) {
    const seconds = Math.round((at - now()) / 1000);
    if (seconds > 0 && seconds < 172800) { return `in ${lasting(seconds, 2)}`; }
    return seconds <= 0 && seconds > -3600 ? `${lasting(-seconds, 2)} ago` : instant(at);
  }

  return { number, percent, lasting, day, clock, instant, relative, now, zone, ahead };
})();
