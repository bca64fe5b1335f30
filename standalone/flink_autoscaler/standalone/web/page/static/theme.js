"use strict";
// Before anything is drawn: the colour scheme that somebody chose on this machine; the browser's own unless one did.
try { const chosen = localStorage.getItem("theme"); if (chosen) { document.documentElement.dataset.theme = chosen; } } catch { /* nothing is kept here */ }
