// One job: what it does, its layout, its step times, the timeline of its GPUs, what its faults cost.

import { el, facts, jobColor, section } from "./dom.js";
import { format } from "./format.js";
import { stepChart } from "./charts.js";
import { LoggedTimelineView, logsSection } from "./logs.js";
import { decode } from "./timeline.js";
import { findingCard, lostRate } from "./overview.js";

function layoutPicture(job, sick) {
  const cell = (address) => el("span", { class: `member ${sick.has(address) ? "sick" : ""}`, title: address }, address);
  const most = 64;
  if (job.pipelines && job.pipelines.length) {
    const rows = job.pipelines.slice(0, most);
    const stages = Math.max(...rows.map((row) => row.length));
    return el("div", { class: "scroll", vars: { "--color": jobColor(job.id) } },
      el("table", { class: "layout pipes" },
        el("thead", {}, el("tr", {}, el("th", {}), Array.from({ length: stages }, (_, stage) => el("th", { scope: "col" }, `stage ${stage}`)))),
        el("tbody", {}, rows.map((row, index) => el("tr", {}, el("th", { scope: "row" }, `pipeline ${index}`), row.map((address) => el("td", {}, cell(address))))))),
      job.pipelines.length > most && el("p", { class: "hint" }, `${job.pipelines.length - most} more pipelines`));
  }
  const groups = (job.groups || []).slice(0, most);
  if (!groups.length) return el("p", { class: "muted" }, "No layout could be determined from the traffic yet.");
  return el("div", { class: "scroll", vars: { "--color": jobColor(job.id) } },
    el("table", { class: "layout" }, el("tbody", {}, groups.map((group, index) => el("tr", {}, el("th", { scope: "row" }, `${group.kind} group ${index}`), group.members.slice(0, most).map((address) => el("td", {}, cell(address))))))));
}

function costs(job) {
  const rate = lostRate(job);
  const lost = job.findings.reduce((sum, finding) => sum + finding.lost_gpu_seconds, 0);
  if (!lost && !rate) return el("p", { class: "muted" }, "Nothing lost so far.");
  const faster = job.baseline_ns && job.recent_ns > job.baseline_ns ? job.recent_ns / job.baseline_ns : null;
  return el("div", {}, facts([
    ["lost so far", format.gpuTime(lost)],
    rate > 0 && ["lost per hour if nothing is done", `${format.significant(rate)} GPU-hours`],
    faster && rate > 0 && ["faster once repaired", `${format.significant(faster)} times`],
    rate > 0 && ["lost in a day", `${format.significant(24 * rate)} GPU-hours`],
  ]), el("p", { class: "hint" }, "What if it were repaired: the step time goes back to the usual one, and the rest is won back."));
}

const RANGES = [["10 s", 10e9], ["30 s", 30e9], ["2 min", 120e9], ["10 min", 600e9]];

class TimelinePanel {
  constructor(job, ask, state, save) {
    this.job = job;
    this.ask = ask;
    this.save = save;
    this.length = Number(state.span) || 30e9;
    this.until = Number(state.until) || 0;
    this.zoom = (state.view || "").split(":").map(Number);
    this.lines = [];
    this.chosen = state.line || null;
    this.body = el("div", { class: "timeline-body" }, el("p", { class: "muted" }, "reading the raw flows …"));
    this.live = el("button", { type: "button", class: "ghost", "aria-pressed": this.until ? "false" : "true", on: { click: () => this.go(this.length, 0) } }, "live");
    const buttons = RANGES.map(([name, length]) => el("button", { type: "button", class: "ghost range", on: { click: () => this.go(length, this.until) } }, name));
    const back = el("button", { type: "button", class: "ghost", "aria-label": "earlier", on: { click: () => this.go(this.length, this.end() - this.length) } }, "← earlier");
    const on = el("button", { type: "button", class: "ghost", "aria-label": "later", on: { click: () => this.go(this.length, Math.min(this.end() + this.length, this.job.seen_ns)) } }, "later →");
    this.node = el("div", { class: "panel" }, el("div", { class: "toolbar" }, el("div", { class: "buttons" }, this.live, buttons), el("div", { class: "buttons" }, back, on)), this.body);
  }

  end() {
    return this.until || Math.min(this.job.seen_ns, this.job.silent_since_ns + 5e8);
  }

  go(length, until) {
    this.length = length;
    this.until = until;
    this.live.setAttribute("aria-pressed", until ? "false" : "true");
    this.chosen = null;
    this.save({ span: length, until: until || null, view: null, line: null });
    this.load();
  }

  async load() {
    const end = this.end();
    this.shown = end;
    const mine = (this.turn = (this.turn || 0) + 1);
    const query = `from_ns=${Math.round(end - this.length)}&to_ns=${Math.round(end)}`;
    try {
      const buffer = await this.ask(`/api/v1/jobs/${this.job.id}/timeline?${query}`, "binary");
      if (mine !== this.turn) return;
      const sick = new Set(this.job.findings.filter((finding) => finding.phase === "open").flatMap((finding) => [finding.where.id].flat()));
      if (this.view) this.view.observer.disconnect();
      this.view = new LoggedTimelineView(decode(buffer), { sick, findings: this.job.findings, lines: this.lines, chosen: this.chosen, onRange: (from, to) => this.keep(from, to) });
      this.restore();
      const note = this.view.data.cut && el("p", { class: "note" }, "Too many events for one picture: only the latest part is shown. Choose a shorter range.");
      this.body.replaceChildren(...[note, this.view.node].filter(Boolean));
      this.body.dataset.events = String(this.view.count);
    } catch (error) {
      this.body.replaceChildren(el("p", { class: "note" }, `The timeline cannot be shown: ${error.message}`));
    }
  }

  // The address keeps what is looked at: a link sent to a colleague shows the same part of the same range.
  keep(from, to) {
    clearTimeout(this.saving);
    const whole = this.view.from <= 0 && this.view.to >= this.view.end;
    this.saving = setTimeout(() => this.save(whole ? { view: null, until: this.until || null } : { view: `${Math.round(from)}:${Math.round(to)}`, span: this.length, until: Math.round(this.shown) }), 200);
  }

  restore() {
    const [from, to] = this.zoom;
    this.zoom = [];
    const { origin_ns: origin, tick_ns: tick } = this.view.data;
    if (to > from && from >= origin - 1e6) this.view.view((from - origin) / tick, (to - origin) / tick);
  }

  // A new window came: follow it while live and nobody is looking closely.
  follow(job) {
    this.job = job;
    const busy = this.view && (this.view.from > 0 || this.view.to < this.view.end || document.activeElement === this.view.canvas);
    if (!this.until && !busy) this.load();
  }
}

export async function jobPage(id, state, { ask, save }) {
  let job = await ask(`/api/v1/jobs/${id}`);
  const steps = await ask(`/api/v1/jobs/${id}/steps`);
  const { servers } = await ask("/api/v1/topology");
  let { logs } = await ask(`/api/v1/jobs/${id}/logs`);
  const panel = new TimelinePanel(job, ask, state, save);
  panel.lines = logs ? logs.lines : [];
  const head = el("div", {});
  const lower = el("div", {});
  const draw = (items) => {
    const sick = new Set(job.findings.filter((finding) => finding.phase === "open").flatMap((finding) => [finding.where.id].flat()));
    const open = job.findings.filter((finding) => finding.phase === "open");
    head.replaceChildren(
      el("p", { class: "crumbs" }, el("a", { href: "#/" }, "Overview"), " / job"),
      el("h1", { class: "job-title" }, el("span", { class: "dot big", vars: { "--color": jobColor(job.id) } }), job.id, " ", el("span", { class: `state ${job.state}` }, job.state)),
      facts([
        ["since", format.moment(job.since_ns)],
        ["GPUs", format.count(job.gpus)],
        ["servers", job.servers.length ? `${job.servers.slice(0, 4).join(", ")}${job.servers.length > 4 ? ` and ${job.servers.length - 4} more` : ""}` : "not known"],
        ["layout", format.layout(job.layout)],
        job.layout && job.layout.micro_batches && ["micro-batches", String(job.layout.micro_batches)],
        job.layout && job.layout.schedule !== "unknown" && ["schedule", job.layout.schedule],
        ["step", job.recent_ns ? format.duration(job.recent_ns) : "none seen"],
        job.baseline_ns && ["usually", format.duration(job.baseline_ns)],
        ["steps seen", format.count(job.steps)],
        job.restart_of && ["restart of", el("a", { href: `#/jobs/${job.restart_of}` }, job.restart_of)],
      ]),
      ...(open.length ? [section("Open findings", null, el("div", { class: "finding-list" }, open.map((finding) => findingCard(finding, Date.now() * 1e6, servers))))] : []),
      section("Step times", "a click shows that step in the timeline", el("div", { class: "panel" }, stepChart(items, job.baseline_ns, job.usual_high_ns, job.findings, (start, end) => panel.go(Math.max(1e9, 2 * (end - start)), Math.round(end + (end - start) / 2))))),
    );
    const closed = job.findings.filter((finding) => finding.phase === "closed");
    lower.replaceChildren(
      ...logsSection(logs, job),
      section("Cost", null, el("div", { class: "panel" }, costs(job))),
      section("Layout", format.layout(job.layout), el("div", { class: "panel" }, layoutPicture(job, sick), (job.notes || []).map((note) => el("p", { class: "hint" }, note)))),
      ...(closed.length ? [section("Closed findings", null, el("div", { class: "finding-list" }, closed.map((finding) => findingCard(finding, Date.now() * 1e6, servers))))] : []),
      section("Changes", null, el("ol", { class: "log panel" }, job.transitions.map((one) => el("li", {}, el("time", {}, format.moment(one.at_ns)), el("span", { class: `state ${one.to}` }, one.to), el("span", { class: "muted" }, one.why))))),
    );
  };
  draw(steps.items);
  panel.load();
  return {
    nodes: [head, section("Timeline", "what every GPU did, from the raw flows", panel.node), lower],
    async refresh() {
      job = await ask(`/api/v1/jobs/${id}`);
      ({ logs } = await ask(`/api/v1/jobs/${id}/logs`));
      panel.lines = logs ? logs.lines : [];
      draw((await ask(`/api/v1/jobs/${id}/steps`)).items);
      panel.follow(job);
    },
  };
}
