// The first page: verdict, findings, cluster map by job and health, step times of every job.

import { el, jobColor, seatOf, section, tooltip } from "./dom.js";
import { format } from "./format.js";
import { sparkline } from "./charts.js";

export function lostText(finding) {
  return finding.lost_gpu_seconds > 0 ? `${format.gpuTime(finding.lost_gpu_seconds)} lost` : "cost not known";
}

export function findingCard(finding, now, servers) {
  const seat = seatOf(finding.where.id, servers);
  const level = finding.severity >= 0.5 ? "high" : finding.severity >= 0.15 ? "middle" : "low";
  const open = finding.phase === "open";
  return el("article", { class: `finding ${open ? level : "closed"}` },
    el("header", {},
      el("h3", {}, el("span", { class: "badge" }, finding.title), " ", el("a", { class: "item", href: `#/findings/${finding.id}` }, format.place(finding.where)), seat && el("span", { class: "seat" }, ` ${seat}`)),
      el("span", { class: "muted" }, open ? `since ${format.clock(finding.start_ns)} (${format.ago(finding.start_ns, now)})` : `${format.moment(finding.start_ns)} for ${format.duration(finding.end_ns - finding.start_ns)}`)),
    el("p", { class: "summary" }, finding.summary),
    el("p", { class: "muted" }, lostText(finding), finding.job && [" · job ", el("a", { href: `#/jobs/${finding.job}` }, finding.job)], ` · confidence ${format.percent(finding.confidence)}`));
}

function verdict(data) {
  const open = data.findings.length;
  const gpus = data.jobs.reduce((sum, job) => sum + job.gpus, 0);
  const slow = data.jobs.filter((job) => ["slowed", "stalled"].includes(job.state)).length;
  const stale = data.window && data.now_ns - data.window.end_ns > 45e9;
  const broken = data.troubles.length > 0;
  const mood = open ? "bad" : data.jobs.length && !slow && !stale && !broken ? "good" : "warn";
  const calm = broken ? "No fault found, but this service has troubles of its own" : slow ? `No fault found, but ${format.plural(slow, "job")} slower than usual` : stale ? `Nothing was wrong ${format.ago(data.window.end_ns, data.now_ns)}` : "Nothing wrong";
  const text = open ? `${format.plural(open, "problem")} open` : data.jobs.length ? calm : "No training job seen yet";
  const losing = data.jobs.reduce((sum, job) => sum + lostRate(job), 0);
  const tiles = [
    [format.count(data.jobs.filter((job) => job.state !== "crashed").length), "jobs"],
    [format.count(gpus), "GPUs at work"],
    [losing > 0.05 ? format.significant(losing) : "0", "GPUs' worth of time being lost now", losing > 0.5],
    [data.window ? format.count(data.window.records) : "0", `records in the last ${data.window ? format.duration(data.window.end_ns - data.window.start_ns) : "window"}`],
  ];
  return el("section", { class: `verdict ${mood}` },
    el("div", { class: "verdict-mark", "aria-hidden": "true" }, open ? "!" : mood === "good" ? "✓" : "…"),
    el("div", {}, el("h1", {}, text), el("p", { class: "muted" }, data.window ? `as of ${format.moment(data.window.end_ns)}` : "waiting for flow records")),
    el("div", { class: "tiles" }, tiles.map(([value, label, bad]) => el("div", { class: bad ? "tile bad" : "tile" }, el("span", { class: "tile-value" }, value), el("span", { class: "tile-label" }, label)))));
}

// GPUs' worth of time that a job loses now: all of it while it stands still, the slow part while it is slow.
export function lostRate(job) {
  if (["hung", "crashed"].includes(job.state)) return job.gpus;
  if (job.state !== "slowed" || !job.baseline_ns) return 0;
  return job.gpus * (1 - job.baseline_ns / job.recent_ns);
}

function clusterMap(data) {
  const servers = data.picture.servers || [];
  if (!servers.length) return null;
  const total = servers.reduce((sum, server) => sum + server.gpus.length, 0);
  const sick = new Set(data.findings.flatMap((finding) => (typeof finding.where.id === "string" ? [finding.where.id] : finding.where.id)));
  const stateOf = new Map(data.jobs.map((job) => [job.id, job.state]));
  const grid = el("div", { class: total > 600 ? "servers compact panel" : "servers panel" });
  for (const server of servers) {
    const cells = server.gpus.map(([address, gpu, job]) => {
      const bad = sick.has(address);
      const cell = el(job ? "a" : "span", { class: `gpu ${job ? "" : "unused"} ${bad ? "sick" : ""} ${stateOf.get(job) || ""}`, href: job && `#/jobs/${job}`, vars: { "--color": jobColor(job) }, tabindex: job ? -1 : null }, bad ? "!" : gpu === null ? "" : String(gpu));
      return tooltip.attach(cell, () => [address, [["server", server.name], gpu !== null && ["GPU", String(gpu)], ["job", job || "none"], job && stateOf.has(job) && ["state", stateOf.get(job)], bad && ["finding", "named in an open finding"]]]);
    });
    grid.append(el("div", { class: server.gpus.some(([address]) => sick.has(address)) ? "server has-sick" : "server" }, el("span", { class: "server-name", title: server.name }, server.name), el("div", { class: "gpus" }, cells)));
  }
  const legend = el("ul", { class: "legend" }, data.jobs.map((job) => el("li", {}, el("span", { class: "dot", vars: { "--color": jobColor(job.id) } }), el("a", { href: `#/jobs/${job.id}` }, job.id))));
  return section("Cluster", `${format.plural(servers.length, "server")}, ${format.plural(total, "GPU")}`, grid, legend);
}

export function jobCard(job) {
  return el("a", { class: "job-card panel item", href: `#/jobs/${job.id}`, vars: { "--color": jobColor(job.id) } },
    el("div", { class: "job-card-head" }, el("strong", {}, job.id), el("span", { class: `state ${job.state}` }, job.state)),
    sparkline(job.recent || [], job.baseline_ns, job.usual_high_ns),
    el("div", { class: "muted small" }, `${format.plural(job.gpus, "GPU")} · ${format.layout(job.layout)}`),
    el("div", { class: "small" }, job.recent_ns ? `step ${format.duration(job.recent_ns)}` : "no steps yet", job.baseline_ns ? `, usually ${format.duration(job.baseline_ns)}` : ""));
}

// How a source's clock stands to the others', and how old its records are when they come.
function clockText(clock) {
  if (!clock) return "–";
  const lag = `arrives ${format.duration(Math.max(0, Math.round(clock.lag_s * 1e9)))} after`;
  if (clock.state === "moved") return `${format.duration(Math.round(Math.abs(clock.offset_s) * 1e9))} ${clock.offset_s > 0 ? "ahead" : "behind"}, taken out; ${lag}`;
  return clock.state === "late" ? `late; ${lag}` : `agrees; ${lag}`;
}

function inputLine(data) {
  const logs = data.sources.filter((source) => source.name.startsWith("job_logs:"));
  const rows = data.sources.filter((source) => source.name !== "service" && !logs.includes(source));
  if (!rows.length && !logs.length) return null;
  const reasons = (source) => Object.entries(source.dropped || {}).map(([reason, count]) => `${reason} ${format.count(count)}`).join(", ") || "none";
  const table = el("table", { class: "plain" },
    el("thead", {}, el("tr", {}, ["source", "latest record", "per second", "received", "stored", "late", "never looked at", "clock", "dropped"].map((name, index) => el("th", { scope: "col", class: index > 1 && index < 7 ? "number" : null }, name)))),
    el("tbody", {}, rows.map((source) => el("tr", {}, el("th", { scope: "row" }, source.name), el("td", {}, source.latest_ns ? format.ago(source.latest_ns, data.now_ns) : "none"), el("td", { class: "number" }, source.clock ? format.count(Math.round(source.clock.records_per_s)) : "–"), ["received", "stored", "late", "unseen"].map((key) => el("td", { class: "number" }, format.count(source[key]))), el("td", {}, clockText(source.clock)), el("td", {}, reasons(source))))));
  const lines = logs.map((source) => el("p", { class: "hint" }, `Log lines by ${source.name.slice(9)}: ${format.count(source.received)} received, ${format.count(source.stored)} stored; dropped: ${reasons(source)}`));
  return section("Records", null, el("div", { class: "panel scroll" }, table, lines), (data.picture.notes || []).slice(0, 6).map((note) => el("p", { class: "note" }, note)));
}

function changes(data) {
  if (!data.transitions.length) return null;
  return section("What happened last", null, el("ol", { class: "log panel" }, data.transitions.slice(0, 12).map((one) => el("li", {}, el("time", {}, format.clock(one.at_ns)), el("a", { href: `#/jobs/${one.job}` }, one.job), el("span", { class: `state ${one.to}` }, one.to), el("span", { class: "muted" }, one.why)))));
}

export function overviewPage(data) {
  const jobs = [...data.jobs].sort((a, b) => lostRate(b) - lostRate(a) || b.gpus - a.gpus);
  return [
    verdict(data),
    data.findings.length ? section("Open findings", null, el("div", { class: "finding-list" }, data.findings.map((finding) => findingCard(finding, data.now_ns, data.picture.servers)))) : null,
    clusterMap(data),
    jobs.length ? section("Jobs", "step times of the last five minutes; the dashed line is usual", el("div", { class: "job-cards" }, jobs.map(jobCard))) : null,
    changes(data),
    data.closed.length ? section("Closed findings", null, el("div", { class: "finding-list" }, data.closed.slice(0, 5).map((finding) => findingCard(finding, data.now_ns, data.picture.servers)))) : null,
    inputLine(data),
  ];
}
