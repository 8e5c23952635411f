// One finding: what, where, since when, what it costs, what to check, and the evidence behind it.

import { el, facts, seatOf, section } from "./dom.js";
import { format } from "./format.js";
import { whySection } from "./logs.js";
import { lostText } from "./overview.js";

function evidence(finding) {
  const rows = finding.evidence.map((item) => {
    const most = Math.max(Math.abs(item.value), Math.abs(item.expected || 0)) || 1;
    const bars = item.expected === null ? null : [el("span", { class: "bar", vars: { "--share": `${(100 * Math.abs(item.value)) / most}%` } }), el("span", { class: "bar expected", vars: { "--share": `${(100 * Math.abs(item.expected)) / most}%` } })];
    return el("tr", {}, el("th", { scope: "row" }, item.what), el("td", { class: "number" }, format.significant(item.value, 4)), el("td", { class: "number" }, item.expected === null ? "" : format.significant(item.expected, 4)), el("td", { class: "bars" }, bars));
  });
  return el("table", { class: "evidence" }, el("thead", {}, el("tr", {}, ["measured", "value", "expected", ""].map((name, index) => el("th", { scope: "col", class: index === 1 || index === 2 ? "number" : null }, name)))), el("tbody", {}, rows));
}

export async function findingPage(id, state, { ask }) {
  const body = el("div", {});
  const draw = (finding, servers) => {
    const seat = seatOf(finding.where.id, servers);
    const open = finding.phase === "open";
    const level = !open ? "closed" : finding.severity >= 0.5 ? "high" : finding.severity >= 0.15 ? "middle" : "low";
    const until = finding.end_ns || finding.updated_ns;
    const span = Math.min(600e9, Math.max(5e9, until - finding.start_ns) * 1.3);
    body.replaceChildren(
      el("p", { class: "crumbs" }, el("a", { href: "#/" }, "Overview"), " / finding"),
      el("article", { class: `finding ${level}` },
        el("header", {}, el("h1", {}, el("span", { class: "badge" }, finding.title), " ", format.place(finding.where)), el("span", { class: `state ${open ? "crashed" : "ended"}` }, open ? "open" : "closed")),
        el("p", { class: "summary" }, finding.summary),
        el("p", { class: "advice" }, el("strong", {}, "What to check: "), finding.advice),
        facts([
          seat && ["seat", seat],
          ["since", format.moment(finding.start_ns)],
          finding.end_ns && ["until", format.moment(finding.end_ns)],
          !open && finding.reason && ["closed because", finding.reason],
          ["reported", finding.opened_ns ? `${format.duration(Math.max(0, finding.opened_ns - finding.start_ns))} after its start` : "not yet"],
          ["cost", lostText(finding)],
          ["severity", `${format.percent(finding.severity)} of the job's speed`],
          ["confidence", format.percent(finding.confidence)],
          finding.job && ["job", el("a", { href: `#/jobs/${finding.job}` }, finding.job)],
        ]),
        finding.job && el("p", {}, el("a", { class: "button", href: `#/jobs/${finding.job}?span=${Math.round(span)}&until=${Math.round(finding.start_ns + span * 0.9)}` }, "Show it in the job's timeline"))),
      ...whySection(finding),
      section("Evidence", "the thin bar is what was expected", el("div", { class: "panel" }, evidence(finding))),
      ...(finding.where.id instanceof Array ? [section("Place", finding.where.type, el("p", { class: "panel" }, finding.where.id.join(", ")))] : []),
      ...(finding.messages.length ? [section("Messages", null, el("ul", { class: "log panel" }, finding.messages.map((one) => el("li", {}, el("span", {}, one.target), el("span", {}, one.event), el("span", { class: one.status === "dead" ? "state crashed" : "state" }, one.status), el("span", { class: "muted" }, one.error)))))] : []),
    );
  };
  const show = async () => {
    const [finding, topology] = await Promise.all([ask(`/api/v1/findings/${id}`), ask("/api/v1/topology")]);
    draw(finding, topology.servers);
  };
  await show();
  return { nodes: [body], refresh: show };
}
