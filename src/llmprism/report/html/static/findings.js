// Findings: what, where, since when, at what cost, what to do, and the evidence for it.

const FINDINGS_AT_ONCE = 20;

function evidenceTable(finding) {
  if (!finding.evidence.length) return null;
  const rows = finding.evidence.map(([what, value, expected]) => {
    const compared = expected !== null && value !== null && Math.max(Math.abs(value), Math.abs(expected)) > 0;
    const largest = compared ? Math.max(Math.abs(value), Math.abs(expected)) : 1;
    const bar = (amount, style) =>
      el("span", { class: `bar ${style}`, vars: { "--share": `${(100 * Math.abs(amount)) / largest}%` } });
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, what),
      el("td", { class: "number" }, format.significant(value)),
      el("td", { class: "number muted" }, expected === null ? "" : format.significant(expected)),
      el("td", { class: "bars", "aria-hidden": "true" }, compared && [bar(value, "measured"), bar(expected, "expected")]),
    );
  });
  return el(
    "table",
    { class: "evidence" },
    el("caption", {}, "Evidence"),
    el("thead", {}, el("tr", {}, ["", "measured", "expected", ""].map((name) => el("th", { scope: "col", class: name && "number" }, name)))),
    el("tbody", {}, rows),
  );
}

function fact(name, value) {
  return el("div", {}, el("dt", {}, name), el("dd", {}, value));
}

function findingCard(finding, number) {
  const length = finding.end === null ? "still going on" : `for ${format.duration(finding.end - finding.start)}`;
  const level = finding.severity >= 0.5 ? "high" : finding.severity >= 0.15 ? "middle" : "low";
  const card = el(
    "article",
    { class: `finding ${level}` },
    el(
      "header",
      {},
      el("span", { class: "finding-number", "aria-hidden": "true" }, String(number)),
      el("h3", {}, el("span", { class: "badge" }, finding.title), " ", finding.where),
      finding.job >= 0 &&
        el("button", { type: "button", class: "ghost", on: { click: () => showFinding(finding) } }, "Show in timeline"),
    ),
    el("p", { class: "summary" }, finding.summary),
    el("p", { class: "checks" }, el("strong", {}, "How to make sure: "), finding.checks),
    el(
      "dl",
      { class: "facts" },
      fact("Since", `${finding.since}, ${length}`),
      fact("Speed lost", format.percent(finding.severity)),
      fact("Cost", format.gpuTime(finding.lost)),
      fact("Confidence", format.percent(finding.confidence)),
      finding.job >= 0 && fact("Job", el("span", { class: "job-name" }, el("i", { class: "dot", vars: { "--color": jobColor(finding.job) } }), DATA.jobs[finding.job].id)),
    ),
    evidenceTable(finding),
  );
  return card;
}

function renderFindings() {
  const section = byId("findings");
  heading(section, "Findings", DATA.findings.length ? "Worst first; one cause is one finding." : "");
  if (!DATA.findings.length) {
    const text = DATA.jobs.length
      ? "No GPU, NIC, link, switch or stage stands out, and nothing was found that slows or stops a job in this window."
      : "The records show no training job. The notes at the end of this page say why, as far as the records show it.";
    section.append(el("p", { class: "panel calm" }, text));
    return;
  }
  const list = el("div", { class: "finding-list" });
  section.append(list);
  DATA.findings.slice(0, FINDINGS_AT_ONCE).forEach((finding, index) => list.append(findingCard(finding, index + 1)));
  const rest = DATA.findings.slice(FINDINGS_AT_ONCE);
  if (!rest.length) return;
  const more = el("button", { type: "button" }, `Show ${rest.length} more`);
  more.addEventListener("click", () => {
    rest.forEach((finding, index) => list.append(findingCard(finding, FINDINGS_AT_ONCE + index + 1)));
    more.remove();
  });
  section.append(more);
}
