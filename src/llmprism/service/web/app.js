// The page's frame: routes in the address, live updates, keys, theme, and the one way to ask the service.

import { byId, el, tooltip } from "./dom.js";
import { applyTheme, nextTheme, onPreference } from "./elements.js";
import { format } from "./format.js";
import { overviewPage } from "./overview.js";
import { jobPage } from "./job.js";
import { findingPage } from "./finding.js";
import { switchesPage } from "./switches.js";
import { historyPage } from "./history.js";

const PAGES = [["", "Overview"], ["switches", "Switches"], ["history", "History"]];
let token = sessionStorage.getItem("llmprism-token") || "";
let current = null;
let turn = 0;

async function ask(path, kind = "json") {
  const response = await fetch(path, { headers: token ? { authorization: `Bearer ${token}` } : {} });
  if (response.status === 401) {
    askForToken();
    throw new Error("a token is needed");
  }
  if (!response.ok) {
    const answer = await response.json().catch(() => null);
    throw new Error(answer && answer.error ? answer.error.message : `the service answered ${response.status}`);
  }
  return kind === "binary" ? response.arrayBuffer() : response.json();
}

function askForToken() {
  if (byId("token")) return;
  const field = el("input", { id: "token", type: "password", autocomplete: "off", "aria-label": "Token" });
  const form = el("form", { class: "note token", on: { submit: (event) => {
    event.preventDefault();
    token = field.value.trim();
    sessionStorage.setItem("llmprism-token", token);
    byId("banner").replaceChildren();
    route();
    listen();
  } } }, "This service needs a token: ", field, el("button", { class: "ghost" }, "use it"));
  byId("banner").replaceChildren(form);
  field.focus();
}

function parse() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").map(decodeURIComponent);
  return { page: parts[0] || "", id: parts[1] || "", state: Object.fromEntries(new URLSearchParams(query || "")) };
}

// The address keeps the state of a page without adding to the browser's history.
function save(changes) {
  const { page, id, state } = parse();
  const next = { ...state, ...changes };
  for (const key of Object.keys(next)) if (next[key] === null || next[key] === undefined) delete next[key];
  const query = new URLSearchParams(next).toString();
  history.replaceState(null, "", `#/${[page, id].filter(Boolean).join("/")}${query ? `?${query}` : ""}`);
}

async function overview() {
  const draw = (data) => {
    banner(data);
    return overviewPage(data).filter(Boolean);
  };
  const body = el("div", { class: "overview" }, draw(await ask("/api/v1/overview")));
  return { nodes: [body], refresh: async () => body.replaceChildren(...draw(await ask("/api/v1/overview"))) };
}

function banner(data) {
  byId("about").textContent = `LLMPrism ${data.version}`;
  if (byId("token")) return;
  const lines = data.troubles.map((text) => el("p", { class: "note bad" }, text));
  for (const text of data.clocks || []) lines.push(el("p", { class: "note" }, text));
  if (data.shedding) lines.push(el("p", { class: "note bad" }, "Overloaded: some pushed records are being turned away. They are counted under dropped, overload."));
  const age = (then) => format.duration(Math.round((data.now_ns - then) / 1e9) * 1e9);
  if (data.window && data.latest_ns - data.window.end_ns > 30e9) lines.push(el("p", { class: "note" }, `The picture is ${format.duration(Math.round((data.latest_ns - data.window.end_ns) / 1e9) * 1e9)} behind the records: this machine is too busy for them.`));
  else if (data.window && data.now_ns - data.latest_ns > 30e9) lines.push(el("p", { class: "note" }, `No records have come for ${age(data.latest_ns)}: what you see is the state of then. Look at the collector.`));
  byId("banner").replaceChildren(...lines);
}

async function route() {
  const mine = (turn += 1);
  const { page, id, state } = parse();
  const tools = { ask, save };
  const pages = { "": overview, jobs: () => jobPage(id, state, tools), findings: () => findingPage(id, state, tools), switches: () => switchesPage(state, tools), history: () => historyPage(state, tools) };
  byId("nav").replaceChildren(...PAGES.map(([name, title]) => el("a", { href: `#/${name}`, "aria-current": name === page ? "page" : null }, title)));
  tooltip.hide();
  try {
    const made = await (pages[page] || overview)();
    if (mine !== turn) return;
    current = made;
    byId("main").replaceChildren(...made.nodes);
  } catch (error) {
    if (mine !== turn) return;
    current = null;
    byId("main").replaceChildren(el("p", { class: "panel" }, `This cannot be shown: ${error.message}`));
  }
  document.title = page ? `${id || page} · LLMPrism` : "LLMPrism";
  document.documentElement.dataset.ready = "true";
}

function pulse(text, good) {
  byId("pulse").textContent = text;
  byId("pulse").className = good ? "pulse good" : "pulse";
}

let refreshing = false;
async function refresh() {
  if (!current || refreshing || document.hidden) return;
  refreshing = true;
  try {
    await current.refresh();
    alive();
  } catch (error) {
    silent();
  }
  refreshing = false;
}

// An old picture must look old: when the service does not answer, the whole page turns grey and says since when.
let heard = Date.now();
function alive() {
  heard = Date.now();
  document.documentElement.classList.remove("out-of-date");
  if (byId("out-of-date")) byId("out-of-date").remove();
  pulse("live", true);
}

function silent() {
  pulse("not answering", false);
  if (Date.now() - heard < 5000) return;
  document.documentElement.classList.add("out-of-date");
  const text = `The service has not answered since ${format.clock(heard * 1e6)}. What you see is the state of then; nothing is watched now.`;
  if (byId("out-of-date")) byId("out-of-date").textContent = text;
  else byId("banner").prepend(el("p", { class: "note bad", id: "out-of-date" }, text));
}

let listening = 0;
// Server-sent events over fetch, so that the token travels in a header.
async function listen() {
  const mine = (listening += 1);
  while (mine === listening) {
    try {
      const response = await fetch("/api/v1/events", { headers: token ? { authorization: `Bearer ${token}` } : {} });
      if (response.status === 401) return;
      if (!response.ok) throw new Error(String(response.status));
      alive();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done || mine !== listening) break;
        rest += value;
        const parts = rest.split("\n\n");
        rest = parts.pop();
        alive();
        if (parts.some((part) => part.startsWith("event: revision"))) refresh();
      }
    } catch (error) {
      silent();
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

function theme(name) {
  applyTheme(name);
  localStorage.setItem("llmprism-theme", name);
  redraw();
}

function redraw() {
  if (current && current.nodes) window.dispatchEvent(new Event("resize"));
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|CANVAS)$/.test(document.activeElement.tagName)) return;
  const items = [...byId("main").querySelectorAll(".item")];
  const at = items.indexOf(document.activeElement);
  const acts = {
    g: () => { location.hash = "#/"; },
    s: () => { location.hash = "#/switches"; },
    h: () => { location.hash = "#/history"; },
    t: () => theme(nextTheme()),
    j: () => items[Math.min(items.length - 1, at + 1)]?.focus(),
    k: () => items[Math.max(0, at - 1)]?.focus(),
  };
  if (!(event.key in acts)) return;
  event.preventDefault();
  acts[event.key]();
}

theme(localStorage.getItem("llmprism-theme") || "auto");
byId("theme").addEventListener("click", () => theme(nextTheme()));
onPreference(redraw);
document.addEventListener("keydown", keys);
document.addEventListener("visibilitychange", () => refresh());
window.addEventListener("hashchange", route);
route();
listen();
