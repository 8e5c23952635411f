// Logs of jobs on the page: why a finding came about, log lines as marks on the rows of their ranks, and as a list.
//
// A line leads to its moment in the job's timeline, a mark in the timeline to the finding that quotes its line.

import { el, section, tooltip } from "./dom.js";
import { format } from "./format.js";
import { GUTTER, ROW, RULER, TimelineView } from "./timeline.js";

const MARKS = { root: "--bad", cascade: "--warn" };
const ORDER = ["root", "cascade", "warning", "error"];
const NEAR = 6;
const SHOWN = 12;
const MANY = 200;

const mark = (line) => `var(${MARKS[line.role] || "--muted"})`;
const keyOf = (line) => `${line.time_ns}|${line.rank}|${line.text}`;

export function lineLabel(line) {
  const who = line.rank === null ? line.address || "unknown rank" : `rank ${line.rank}`;
  return line.time_ns === null ? who : `${who}, ${format.clock(line.time_ns)}`;
}

// The address of a job's page with its timeline around a line.
export function lineAddress(job, line) {
  const span = 10e9;
  return `#/jobs/${job}?span=${span}&until=${Math.round(line.time_ns + span / 2)}&line=${line.time_ns}`;
}

// The finding that quotes a line; undefined where none does.
export function findingOf(line, findings) {
  const key = keyOf(line);
  return findings.find((finding) => finding.why && finding.why.lines.some((one) => keyOf(one) === key));
}

function lineItem(line, job, finding) {
  const inside = [
    el("i", { class: "dot", vars: { "--color": mark(line) } }),
    el("span", { class: "log-who" }, lineLabel(line)),
    el("code", {}, line.text),
    el("small", { class: "muted" }, line.count > 1 ? `${line.file}, ${format.count(line.count)} times` : line.file),
  ];
  const shown = line.time_ns !== null && job ? el("a", { class: "log-line", href: lineAddress(job, line) }, inside) : el("div", { class: "log-line" }, inside);
  return el("li", {}, shown, finding && el("a", { class: "log-finding", href: `#/findings/${finding.id}` }, `${finding.title} (finding)`));
}

const SOURCES = { flows: "the flows", logs: "the logs", both: "flows and logs" };

// What the logs say of a finding: cause, whose it is, where flows and logs differ, suspects, lines.
export function whySection(finding) {
  const { why } = finding;
  if (!why) return [];
  const suspects = why.suspects.map((one) => el("tr", {}, el("th", { scope: "row" }, one.rank === null ? one.address || one.node || "?" : `rank ${one.rank}, ${one.address || one.node || "place not known"}`), el("td", { class: "number" }, format.significant(one.score, 2)), el("td", {}, one.why)));
  const cause = why.cause;
  return [section("Why", `by ${SOURCES[why.source]}`, el("div", { class: "panel why" },
    el("p", {}, el("strong", {}, "Cause: "), cause.class, cause.summary && `: ${cause.summary}`, el("span", { class: "muted" }, ` (${format.percent(cause.confidence)} sure)`)),
    cause.advice && el("p", {}, el("strong", {}, "What to do: "), cause.advice),
    el("p", {}, el("strong", {}, "Whose: "), why.owner, why.rank !== null && `; rank ${why.rank}${why.node ? ` on ${why.node}` : ""}`, why.iteration !== null && `; iteration ${format.count(why.iteration)}`),
    why.contradictions.map((one) => el("p", { class: "note" }, el("strong", {}, `Flows and logs differ (${one.about}). `), `Flows: ${one.flows}. Logs: ${one.logs}. Believed: ${SOURCES[one.believed]}, ${one.why}.`)),
    why.suspects.length > 1 && el("table", { class: "evidence" }, el("caption", {}, "Suspects, by both"), el("tbody", {}, suspects)),
    why.lines.length > 0 && [el("h3", {}, "In the logs"), el("ul", { class: "log-lines" }, why.lines.map((line) => lineItem(line, finding.job, null)))],
  ))];
}

function lineList(pairs, job) {
  return el("ul", { class: "log-lines" }, pairs.map(([line, finding]) => lineItem(line, job.id, finding)));
}

// All lines about trouble of a job, how its logs were read, who is who.
export function logsSection(logs, job) {
  if (!logs) return [];
  const matched = logs.ranks.filter((seat) => seat.address).length;
  const ranks = logs.ranks.map((seat) => el("tr", {}, el("th", { scope: "row" }, seat.rank === null ? seat.node || "?" : `rank ${seat.rank}`), el("td", {}, seat.address || "not matched"), el("td", { class: "number" }, format.percent(seat.confidence)), el("td", { class: "muted" }, seat.why)));
  const clocks = logs.clocks.map((one) => el("tr", {}, el("th", { scope: "row" }, one.host), el("td", { class: "number" }, one.steps ? `${format.duration(Math.abs(one.offset_ns))} ${one.offset_ns < 0 ? "behind" : "ahead"}` : ""), el("td", { class: "number muted" }, one.steps ? `± ${format.duration(one.error_ns)}` : "not compared")));
  const quoted = logs.lines.map((line) => [line, findingOf(line, job.findings)]);
  quoted.sort((one, other) => !one[1] - !other[1]);
  return [section("Logs", `${logs.name}: ${format.plural(logs.input.lines, "line")}, ${format.percent(logs.confidence)} sure that they are this job's (${logs.why})`, el("div", { class: "panel" },
    logs.lines.length ? lineList(quoted.slice(0, SHOWN), job) : el("p", { class: "muted" }, "No line speaks of trouble."),
    quoted.length > SHOWN && el("details", {}, el("summary", {}, `${format.plural(quoted.length - SHOWN + logs.left_out, "more line")} about trouble`), lineList(quoted.slice(SHOWN, MANY), job), quoted.length > MANY && el("p", { class: "hint" }, "The others are on the timeline only.")),
    el("details", {}, el("summary", {}, `Who is who: ${matched} of ${format.plural(logs.ranks.length, "rank")} matched`), el("table", { class: "evidence" }, el("tbody", {}, ranks))),
    clocks.length > 0 && el("details", {}, el("summary", {}, "Clocks of the hosts against that of the flows"), el("table", { class: "evidence" }, el("tbody", {}, clocks))),
    logs.notes.map((note) => el("p", { class: "hint" }, note)),
  ))];
}

// The timeline with marks where ranks wrote about trouble.
export class LoggedTimelineView extends TimelineView {
  constructor(data, { lines = [], chosen = null, ...rest } = {}) {
    super(data, rest);
    const rowOf = new Map(this.rows.map((row, index) => [data.names[row], index]));
    this.lines = this.rows.map(() => []);
    for (const line of lines) {
      const row = line.time_ns === null ? undefined : rowOf.get(line.address);
      if (row !== undefined && line.time_ns >= data.origin_ns && line.time_ns <= data.end_ns) this.lines[row].push(line);
    }
    this.canvas.dataset.marks = String(this.lines.reduce((sum, list) => sum + list.length, 0));
    const at = chosen === null ? -1 : this.lines.findIndex((list) => list.some((line) => String(line.time_ns) === chosen));
    if (at >= 0) {
      this.selected = { row: at, event: -1 };
      this.say(this.lines[at].find((line) => String(line.time_ns) === chosen));
    }
  }

  lineX(line) {
    return this.x((line.time_ns - this.data.origin_ns) / this.data.tick_ns);
  }

  drawFindings(theme) {
    super.drawFindings(theme);
    const style = getComputedStyle(document.documentElement);
    const scroll = this.frame.scrollTop;
    this.lines.forEach((list, row) => {
      const y = RULER + row * ROW - scroll;
      if (y < RULER - ROW || y > this.height) return;
      for (const line of list) this.drawMark(this.lineX(line), y, style.getPropertyValue(MARKS[line.role] || "--muted").trim());
    });
  }

  drawMark(x, y, color) {
    if (x < GUTTER || x > this.width) return;
    const { context } = this;
    context.fillStyle = color;
    context.beginPath();
    context.moveTo(x - 4, y + 1);
    context.lineTo(x + 4, y + 1);
    context.lineTo(x, y + 10);
    context.closePath();
    context.fill();
  }

  // The line whose mark is at a point, the most telling one first.
  lineAt(row, x) {
    const near = (this.lines[row] || []).filter((line) => Math.abs(this.lineX(line) - x) <= NEAR);
    return near.sort((one, other) => ORDER.indexOf(one.role) - ORDER.indexOf(other.role))[0];
  }

  hover(event, x, y) {
    const line = this.lineAt(this.rowAt(y), x);
    if (!line) return super.hover(event, x, y);
    return tooltip.show(event.clientX, event.clientY, lineLabel(line), [["log", line.text], ["file", line.file], line.count > 1 && ["lines", format.count(line.count)]]);
  }

  choose(row, x) {
    super.choose(row, x);
    const line = this.lineAt(row, x);
    if (line) this.say(line);
  }

  say(line) {
    const finding = findingOf(line, this.findings);
    this.status.replaceChildren(`${lineLabel(line)}: ${line.text} `, finding ? el("a", { href: `#/findings/${finding.id}` }, `${finding.title}: to the finding`) : "");
  }
}
