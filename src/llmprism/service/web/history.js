// Any range of the past: findings, changes of state, and how many records the windows held.

import { el, section, svg, tooltip } from "./dom.js";
import { format } from "./format.js";
import { findingCard } from "./overview.js";

const RANGES = [["15 min", 900e9], ["1 h", 3600e9], ["6 h", 6 * 3600e9], ["24 h", 86400e9], ["7 d", 7 * 86400e9]];

function bands(windows, findings, from, to) {
  const width = 1120;
  const height = 120;
  const x = (time) => ((Math.min(Math.max(time, from), to) - from) / (to - from)) * width;
  const most = Math.max(1, ...windows.map((window) => window.records));
  const picture = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": `${windows.length} windows, ${findings.length} findings` });
  for (const window of windows) {
    const tall = (window.records / most) * 60;
    picture.append(svg("rect", { class: "step-bar", x: x(window.end_ns) - 2, width: Math.max(1.5, (width * 4e9) / (to - from)), y: 80 - tall, height: Math.max(1, tall) }));
  }
  findings.forEach((finding, index) => {
    const bar = svg("rect", { class: "finding-bar", x: x(finding.start_ns), width: Math.max(3, x(finding.end_ns || to) - x(finding.start_ns)), y: 84 + (index % 3) * 7, height: 5 });
    picture.append(tooltip.attach(bar, () => [`${finding.title} ${format.place(finding.where)}`, [["since", format.moment(finding.start_ns)], ["until", finding.end_ns ? format.moment(finding.end_ns) : "now"]]]));
  });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) picture.append(svg("text", { class: "axis", x: share * width, y: height - 3, "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle" }, format.moment(from + share * (to - from))));
  return picture;
}

export async function historyPage(state, { ask, save }) {
  const body = el("div", {});
  let length = Number(state.span) || 900e9;
  let until = Number(state.until) || 0;
  const draw = async () => {
    const overview = await ask("/api/v1/overview");
    const to = until || (overview.window ? overview.window.end_ns : Date.now() * 1e6);
    const from = to - length;
    const range = `from_ns=${Math.max(0, Math.round(from))}&to_ns=${Math.round(to)}`;
    const [windows, findings, changes, jobs] = await Promise.all([
      ask(`/api/v1/windows?${range}&limit=1000`), ask(`/api/v1/findings?${range}&limit=500`), ask(`/api/v1/transitions?${range}&limit=500`), ask(`/api/v1/jobs?since_ns=${Math.max(0, Math.round(from))}&limit=500`),
    ]);
    const go = (span, end) => {
      length = span;
      until = end;
      save({ span, until: end || null });
      draw();
    };
    body.replaceChildren(
      el("h1", {}, "History"),
      el("div", { class: "toolbar" },
        el("div", { class: "buttons" }, RANGES.map(([name, span]) => el("button", { type: "button", class: "ghost", "aria-pressed": span === length ? "true" : "false", on: { click: () => go(span, until) } }, name))),
        el("div", { class: "buttons" }, el("button", { type: "button", class: "ghost", on: { click: () => go(length, Math.round(to - length)) } }, "← earlier"), el("button", { type: "button", class: "ghost", on: { click: () => go(length, Math.round(to + length)) } }, "later →"), el("button", { type: "button", class: "ghost", on: { click: () => go(length, 0) } }, "now"))),
      el("div", { class: "panel" }, bands(windows.items, findings.items, from, to)),
      section("Findings", format.plural(findings.items.length, "finding"), findings.items.length ? el("div", { class: "finding-list" }, findings.items.map((finding) => findingCard(finding, overview.now_ns, overview.picture.servers))) : el("p", { class: "panel muted" }, "None in this range.")),
      section("Jobs", null, el("div", { class: "panel scroll" }, el("table", { class: "plain" }, el("thead", {}, el("tr", {}, ["job", "state", "GPUs", "layout", "first seen", "last seen", "steps", "step"].map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, jobs.items.map((job) => el("tr", {}, el("th", { scope: "row" }, el("a", { class: "item", href: `#/jobs/${job.id}` }, job.id)), el("td", {}, el("span", { class: `state ${job.state}` }, job.state)), el("td", { class: "number" }, format.count(job.gpus)), el("td", {}, format.layout(job.layout)), el("td", {}, format.moment(job.first_ns)), el("td", {}, format.moment(job.silent_since_ns)), el("td", { class: "number" }, format.count(job.steps)), el("td", { class: "number" }, job.recent_ns ? format.duration(job.recent_ns) : ""))))))),
      section("Changes", null, el("ol", { class: "log panel" }, changes.items.map((one) => el("li", {}, el("time", {}, format.moment(one.at_ns)), el("a", { href: `#/jobs/${one.job}` }, one.job), el("span", { class: `state ${one.to}` }, one.to), el("span", { class: "muted" }, one.why))))),
    );
  };
  await draw();
  return { nodes: [body], refresh: () => (until ? null : draw()) };
}
