// The first thing on the page: is anything wrong, how bad, where to look.

function verdictText() {
  if (DATA.findings.length) {
    const jobs = new Set(DATA.findings.map((finding) => finding.job).filter((job) => job >= 0));
    const problems = format.plural(DATA.findings.length, "problem");
    if (!jobs.size || DATA.jobs.length === 1) return `${problems} found`;
    return `${problems} found in ${jobs.size} of ${format.plural(DATA.jobs.length, "job")}`;
  }
  return DATA.jobs.length ? "Nothing wrong found" : "No training job recognised";
}

function tile(value, label, tone) {
  return el("div", { class: `tile ${tone || ""}` }, el("span", { class: "tile-value" }, value), el("span", { class: "tile-label" }, label));
}

function renderVerdict() {
  const tone = DATA.findings.length ? "bad" : DATA.jobs.length ? "good" : "warn";
  const gpus = DATA.jobs.reduce((sum, job) => sum + job.members.length, 0);
  const servers = new Set(DATA.jobs.flatMap((job) => job.servers));
  const lost = DATA.findings.reduce((sum, finding) => sum + (finding.lost || 0), 0);
  document.title = `${verdictText()} · LLMPrism`;
  const worst = DATA.findings[0];
  byId("verdict").append(
    el(
      "div",
      { class: `verdict ${tone}` },
      el("span", { class: "verdict-mark", "aria-hidden": "true" }, tone === "good" ? "✓" : "!"),
      el("div", {}, el("h1", {}, verdictText()), worst && el("p", { class: "verdict-lead" }, `${worst.title}: ${worst.where}`)),
    ),
    el(
      "div",
      { class: "tiles" },
      tile(format.count(DATA.jobs.length), DATA.jobs.length === 1 ? "job" : "jobs"),
      tile(format.count(gpus), "GPUs in jobs"),
      servers.size > 0 && tile(format.count(servers.size), servers.size === 1 ? "server" : "servers"),
      tile(format.duration(DATA.window.length_ms), `from ${DATA.window.from}`),
      lost > 0 && tile(format.gpuTime(lost).split(" ")[0], `${format.gpuTime(lost).split(" ")[1]} lost`, "bad"),
    ),
  );
}
