// Switches: their share of the training traffic in the last window, the jobs through them, the sick ones first.

import { el, jobColor, section } from "./dom.js";
import { format } from "./format.js";

function table(switches, sick) {
  const most = Math.max(1, ...switches.map((item) => item.bytes));
  const fastest = Math.max(1e-9, ...switches.map((item) => item.median_rate_gbps || 0));
  const meter = (share, text) => el("span", { class: "meter", vars: { "--share": `${(100 * share).toFixed(1)}%` } }, el("span", {}, text));
  const rows = switches.map((item) => el("tr", { class: sick.has(item.switch) ? "sick" : "" },
    el("th", { scope: "row" }, sick.has(item.switch) ? "! " : "", item.switch),
    el("td", {}, item.tier || ""),
    el("td", {}, meter(item.bytes / most, format.size(item.bytes))),
    el("td", {}, meter((item.median_rate_gbps || 0) / fastest, format.rate(item.median_rate_gbps))),
    el("td", { class: "number" }, format.count(item.pairs)),
    el("td", {}, item.jobs.map((job) => el("a", { class: "chip", href: `#/jobs/${job}`, vars: { "--color": jobColor(job) } }, el("span", { class: "dot", vars: { "--color": jobColor(job) } }), job)))));
  return el("table", { class: "plain switch-table" }, el("thead", {}, el("tr", {}, ["switch", "tier", "training bytes", "median rate", "pairs", "jobs"].map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, rows));
}

export async function switchesPage(state, { ask }) {
  const body = el("div", {});
  const draw = async () => {
    const [topology, open] = await Promise.all([ask("/api/v1/topology"), ask("/api/v1/findings?phase=open&limit=1000")]);
    const sick = new Set(open.items.flatMap((finding) => [finding.where.id].flat()));
    const items = [...topology.switches].sort((a, b) => sick.has(b.switch) - sick.has(a.switch) || a.switch.localeCompare(b.switch));
    body.replaceChildren(section("Switches", "training traffic of the last window", items.length ? el("div", { class: "panel scroll" }, table(items, sick)) : el("p", { class: "panel muted" }, "The records name no switches on their paths.")));
  };
  await draw();
  return { nodes: [body], refresh: draw };
}
