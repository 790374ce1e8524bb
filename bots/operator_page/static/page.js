"use strict";
// On a phone the row of pages is wider than the screen.
document.querySelector(".top nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// The log as it is written. Everything is inserted as text: the lines hold what strangers wrote.
(() => {
  const list = document.getElementById("log");
  if (!list) return;
  const MAX_LINES = 500;
  const LEVELS = ["debug", "info", "warning", "error", "critical"];
  const state = document.getElementById("log-state");
  const pause = document.getElementById("log-pause");
  const filter = document.getElementById("log-filter");
  const held = [];
  let paused = false;

  const part = (tag, text, name) => {
    const element = document.createElement(tag);
    element.textContent = text;
    if (name) element.className = name;
    return element;
  };
  const matches = (item) => item.textContent.toLowerCase().includes(filter.value.trim().toLowerCase());
  const toItem = (entry) => {
    const item = part("li", "", LEVELS.includes(entry.level) ? entry.level : "");
    item.append(part("time", entry.timestamp.slice(11, 19)), " ", part("span", entry.level, "level"), " ");
    item.append(part("b", entry.event));
    for (const [name, value] of entry.details) {
      const key = part("span", "", "key");
      key.append(part("i", name), "=" + value);
      item.append(" ", key);
    }
    return item;
  };
  const add = (entry) => {
    const follows = list.scrollTop + list.clientHeight >= list.scrollHeight - 40;
    const item = toItem(entry);
    item.hidden = !matches(item);
    list.append(item);
    while (list.children.length > MAX_LINES) list.firstElementChild.remove();
    if (follows) list.scrollTop = list.scrollHeight;
  };

  document.getElementById("log-actions").hidden = false;
  list.scrollTop = list.scrollHeight;
  filter.addEventListener("input", () => {
    for (const item of list.children) item.hidden = !matches(item);
  });
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Go on" : "Pause";
    if (!paused) held.splice(0).forEach(add);
  });
  const source = new EventSource("/log/stream?after=" + encodeURIComponent(list.dataset.last));
  source.onopen = () => { state.textContent = "New lines appear as they are written."; };
  source.onerror = () => { state.textContent = "The connection is lost; it is tried again."; };
  source.onmessage = (event) => {
    const entry = JSON.parse(event.data);
    if (!paused) add(entry);
    else if (held.push(entry) > MAX_LINES) held.shift();
  };
})();

// Setting up: how far the sources are read, and when KIMAs is back after a restart.
(() => {
  const look = async (delay, use) => {
    await new Promise((done) => setTimeout(done, delay));
    try {
      const response = await fetch("/setup", { cache: "no-store" });
      if (response.ok && use(await response.text())) return;
    } catch { /* It is not back yet. */ }
    look(2000, use);
  };
  if (document.getElementById("restart")) {
    look(2000, () => { location.assign("/setup"); return true; });
  } else if (document.querySelector("#progress[data-reading]")) {
    look(1000, (text) => {
      const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("progress");
      if (!fresh) return true;
      document.getElementById("progress").replaceWith(fresh);
      return !("reading" in fresh.dataset);
    });
  }
})();
