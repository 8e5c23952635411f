// The jobs: one tab each; the open one shows its facts, its layout, its step times and its timeline.

const openJob = { index: -1, view: null };

function jobFacts(job) {
  const times = job.times;
  const unknown = "unknown";
  return el(
    "dl",
    { class: "facts" },
    fact("State", el("span", { class: `state ${job.state}` }, job.state)),
    fact("Layout", job.degrees),
    job.alternatives.length > 0 && fact("Or", job.alternatives.join("; ")),
    fact("Micro-batches", job.micro_batches === null ? unknown : String(job.micro_batches)),
    fact("Schedule", job.schedule),
    fact("Sharding", job.sharding),
    fact("Step time", times && times.count ? `${format.duration(times.median)} median` : unknown),
    times && times.count > 1 && fact("80 % of steps", `${format.duration(times.low)} to ${format.duration(times.high)}`),
    job.model !== unknown && fact("Model", job.model),
    job.network !== unknown && fact("Network", job.network),
    fact("Members", `${format.plural(job.members.length, "GPU")}${job.servers.length ? ` on ${format.plural(job.servers.length, "server")}` : ""}`),
    fact("Confidence", `job ${format.percent(job.confidence)}, layout ${format.percent(job.layout_confidence)}`),
  );
}

function leftOutNote(job) {
  const shown = job.events.offsets[job.events.offsets.length - 1];
  if (shown === job.event_count) return null;
  return el(
    "p",
    { class: "note" },
    `The timeline holds ${format.count(shown)} of ${format.count(job.event_count)} events: ${format.count(job.events.rows.length)} of ${format.plural(job.members.length, "GPU")}, those that findings name and their peers first. A page holds at most ${format.count(DATA.max_events)} events; --timeline and --trace write all of them.`,
  );
}

function jobPanel(index) {
  const job = DATA.jobs[index];
  const view = new TimelineView(job, index);
  openJob.view = view;
  return el(
    "div",
    { class: "panel", role: "tabpanel", id: "job-panel", "aria-label": `Job ${job.id}` },
    el("h3", { class: "job-title" }, el("i", { class: "dot", vars: { "--color": jobColor(index) } }), `Job ${job.id}`),
    jobFacts(job),
    job.notes.map((note) => el("p", { class: "note" }, note)),
    el("h4", {}, "Step times"),
    stepChart(job, index),
    el("h4", {}, "Layout"),
    layoutPicture(job),
    el("h4", {}, "Timeline"),
    job.events.rows.length ? [leftOutNote(job), view.node] : [leftOutNote(job), el("p", { class: "muted" }, "No events to show.")],
  );
}

function selectJob(index, scroll) {
  const section = byId("jobs");
  if (openJob.index !== index) {
    if (openJob.view) openJob.view.observer.disconnect();
    openJob.index = index;
    for (const tab of section.querySelectorAll("[role=tab]")) {
      const chosen = Number(tab.dataset.job) === index;
      tab.setAttribute("aria-selected", String(chosen));
      tab.setAttribute("tabindex", chosen ? "0" : "-1");
    }
    byId("job-place").replaceChildren(jobPanel(index));
  }
  if (scroll) section.scrollIntoView({ block: "start", behavior: "instant" });
}

function showFinding(finding) {
  selectJob(finding.job, false);
  const end = finding.end === null ? DATA.window.length_ms : finding.end;
  openJob.view.showRange(finding.start, end, finding.addresses);
}

function showTime(from, to) {
  openJob.view.showRange(from, to);
}

function showRow(address) {
  const timeline = openJob.view.timeline;
  openJob.view.showRange(timeline.from, timeline.to, [address]);
}

function renderJobs() {
  const section = byId("jobs");
  heading(section, "Jobs");
  if (!DATA.jobs.length) {
    section.append(el("p", { class: "panel muted" }, "No training job was recognised."));
    return;
  }
  if (DATA.jobs.length > 1) {
    const tabs = el(
      "div",
      { class: "tabs", role: "tablist", "aria-label": "Jobs" },
      DATA.jobs.map((job, index) => {
        const count = DATA.findings.filter((finding) => finding.job === index).length;
        return el(
          "button",
          { type: "button", role: "tab", "data-job": index, "aria-controls": "job-panel", on: { click: () => selectJob(index, false) } },
          el("i", { class: "dot", vars: { "--color": jobColor(index) } }),
          job.id,
          el("small", {}, format.plural(job.members.length, "GPU")),
          count > 0 && el("span", { class: "count" }, format.plural(count, "finding")),
        );
      }),
    );
    roving(tabs, "[role=tab]", (tab) => selectJob(Number(tab.dataset.job), false));
    section.append(tabs);
  }
  section.append(el("div", { id: "job-place" }));
  const worst = DATA.findings.find((finding) => finding.job >= 0);
  selectJob(worst ? worst.job : 0, false);
}
