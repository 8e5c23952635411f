// Logs on the page: why a finding came about, log lines on the rows of their ranks, how the logs were read. In the page
// only where logs were given: it adds to what the other scripts draw.

const LINE_MARK = { root: "--bad", cascade: "--warn", warning: "--muted", error: "--muted" };

function lineLabel(line) {
  const who = line.rank === null ? "unknown rank" : `rank ${line.rank}`;
  return line.time === null ? who : `${who}, ${format.clock(line.time)}`;
}

// From a line to its place in the timeline.
function showLine(index) {
  const line = DATA.logs.lines[index];
  if (line.job < 0 || line.time === null) return;
  selectJob(line.job, false);
  const times = DATA.jobs[line.job].times;
  const around = times ? 2 * times.median : 1000;
  openJob.view.showRange(line.time - around, line.time + around, [line.address]);
  openJob.view.status.textContent = `${lineLabel(line)}: ${line.text}`;
}

// From a line to the finding that quotes it.
function findingOf(index) {
  return DATA.findings.findIndex((finding) => finding.why && finding.why.lines.includes(index));
}

function showFindingOf(index) {
  const number = findingOf(index);
  if (number < 0) return false;
  const card = byId(`finding-${number}`);
  if (!card) return false;
  card.scrollIntoView({ block: "center", behavior: "instant" });
  const entry = card.querySelector(`[data-line="${index}"]`);
  if (entry) entry.focus();
  return true;
}

function lineItem(index) {
  const line = DATA.logs.lines[index];
  const shown = line.job >= 0 && line.time !== null;
  const open = { type: "button", class: "log-line", "data-line": index, disabled: !shown, on: { click: () => showLine(index) } };
  return el(
    "li",
    {},
    el(
      "button",
      open,
      el("i", { class: "dot", vars: { "--color": `var(${LINE_MARK[line.role] || "--muted"})` } }),
      el("span", { class: "log-who" }, lineLabel(line)),
      el("code", {}, line.text),
      el("small", { class: "muted" }, line.count > 1 ? `${line.place}, ${format.count(line.count)} times` : line.place),
    ),
  );
}

function suspectRow([address, rank, name, score, why]) {
  const label = rank === null ? name : `rank ${rank}, ${name}`;
  return el("tr", {}, el("th", { scope: "row" }, label), el("td", { class: "number" }, format.significant(score, 2)), el("td", {}, why));
}

function whyBlock(finding) {
  const why = finding.why;
  const sources = { flows: "the flows", logs: "the logs", both: "flows and logs" };
  return el(
    "div",
    { class: "why" },
    el("p", {}, el("strong", {}, "Cause: "), why.class, why.cause && `: ${why.cause}`, el("span", { class: "muted" }, ` (by ${sources[why.source]}, ${format.percent(why.sure)} sure)`)),
    why.advice && el("p", {}, el("strong", {}, "What to do: "), why.advice),
    el(
      "dl",
      { class: "facts" },
      fact("Whose", why.owner),
      why.rank !== null && fact("Rank", why.node ? `${why.rank} on ${why.node}` : String(why.rank)),
      why.iteration !== null && fact("Iteration", format.count(why.iteration)),
    ),
    why.differ.map(([about, flows, logs, believed, reason]) =>
      el("p", { class: "note" }, el("strong", {}, `Flows and logs differ (${about}). `), `Flows: ${flows}. Logs: ${logs}. Believed: ${sources[believed]}, ${reason}.`),
    ),
    why.suspects.length > 1 &&
      el("table", { class: "evidence" }, el("caption", {}, "Suspects, by both"), el("tbody", {}, why.suspects.map(suspectRow))),
    why.lines.length > 0 && [el("h4", {}, "In the logs"), el("ul", { class: "log-lines" }, why.lines.map(lineItem))],
  );
}

const cardWithoutLogs = findingCard;
findingCard = (finding, number) => {
  const card = cardWithoutLogs(finding, number);
  card.id = `finding-${number - 1}`;
  if (finding.why) card.querySelector(".checks").before(whyBlock(finding));
  return card;
};

// Lines of one job by row of its timeline, in order of time.
function linesByRow(jobIndex, rows) {
  const found = rows.map(() => []);
  DATA.logs.lines.forEach((line, index) => {
    const row = line.job === jobIndex && line.time !== null ? rows.indexOf(line.address) : -1;
    if (row >= 0) found[row].push(index);
  });
  for (const list of found) list.sort((a, b) => DATA.logs.lines[a].time - DATA.logs.lines[b].time);
  return found;
}

Object.assign(TimelineView.prototype, {
  logLines(row) {
    if (!this.linesOfRows) this.linesOfRows = linesByRow(DATA.jobs.indexOf(this.timeline.job), this.timeline.rows);
    return this.linesOfRows[row] || [];
  },
  // The line whose mark is at a point, the most telling one first.
  lineAt(row, x) {
    const near = this.logLines(row).filter((index) => Math.abs(this.x(DATA.logs.lines[index].time) - x) <= 6);
    const order = ["root", "cascade", "warning", "error"];
    near.sort((a, b) => order.indexOf(DATA.logs.lines[a].role) - order.indexOf(DATA.logs.lines[b].role));
    return near.length ? near[0] : -1;
  },
});

const rowWithoutLogs = TimelineView.prototype.paintRow;
TimelineView.prototype.paintRow = function paintRow(context, row, y, colors, theme) {
  rowWithoutLogs.call(this, context, row, y, colors, theme);
  for (const index of this.logLines(row)) {
    const line = DATA.logs.lines[index];
    const x = this.x(line.time);
    if (x < this.gutter || x > this.width) continue;
    context.fillStyle = css(LINE_MARK[line.role] || "--muted");
    context.fill(new Path2D(`M${x - 4} ${y + 1}h8l-4 9z`));
  }
};

const hoverWithoutLogs = TimelineView.prototype.hover;
TimelineView.prototype.hover = function hover(event, x, y) {
  const row = this.rowAt(y);
  const index = row >= 0 && x >= this.gutter ? this.lineAt(row, x) : -1;
  if (index < 0) return hoverWithoutLogs.call(this, event, x, y);
  const line = DATA.logs.lines[index];
  return tooltip.show(event.clientX, event.clientY, lineLabel(line), [["log", line.text], ["file", line.place], line.count > 1 && ["lines", format.count(line.count)]]);
};

const chooseWithoutLogs = TimelineView.prototype.choose;
TimelineView.prototype.choose = function choose(row, x) {
  chooseWithoutLogs.call(this, row, x);
  const index = row >= 0 && x >= this.gutter ? this.lineAt(row, x) : -1;
  if (index < 0) return;
  this.status.textContent = `${lineLabel(DATA.logs.lines[index])}: ${DATA.logs.lines[index].text}`;
  showFindingOf(index);
};

function rankTable(job) {
  const rows = job.ranks.map(([rank, node, address, sure, why]) =>
    el("tr", {}, el("th", { scope: "row" }, rank === null ? node || "?" : `rank ${rank}`), el("td", {}, address < 0 ? "not matched" : addressLabel(address)), el("td", { class: "number" }, format.percent(sure)), el("td", { class: "muted" }, why)),
  );
  return el("details", {}, el("summary", {}, `Who is who: ${job.ranks.filter((rank) => rank[2] >= 0).length} of ${format.plural(job.ranks.length, "rank")} matched`), el("table", { class: "evidence" }, el("tbody", {}, rows)));
}

function clockTable(job) {
  if (!job.clocks.length) return null;
  const rows = job.clocks.map(([host, offset, error, steps]) =>
    el("tr", {}, el("th", { scope: "row" }, host), el("td", { class: "number" }, steps ? `${format.duration(Math.abs(offset))} ${offset < 0 ? "behind" : "ahead"}` : ""), el("td", { class: "number muted" }, steps ? `± ${format.duration(error)}, ${format.plural(steps, "line")}` : "not compared")),
  );
  return el("details", {}, el("summary", {}, "Clocks of the hosts against that of the flows"), el("table", { class: "evidence" }, el("tbody", {}, rows)));
}

function renderLogs() {
  const section = el("section", { id: "logs", "aria-labelledby": "logs-title" });
  byId("jobs").after(section);
  heading(section, "Logs", "What the jobs' own logs say, laid over flow time by the steps that both show.");
  for (const job of DATA.logs.jobs) {
    section.append(
      el(
        "div",
        { class: "panel" },
        el("h3", {}, job.name),
        el(
          "dl",
          { class: "facts" },
          fact("Job", job.job < 0 ? "none of the flows" : `${DATA.jobs[job.job].id}, ${format.percent(job.sure)} sure`),
          fact("Because of", job.why),
          fact("Read", `${format.plural(job.lines, "line")} in ${format.plural(job.files, "file")}`),
          fact("Alone they say", `${job.outcome}, ${job.symptom}, ${job.class}`),
        ),
        job.unmatched.length > 0 && el("p", { class: "note" }, `No rank for ${job.unmatched.join(", ")}.`),
        rankTable(job),
        clockTable(job),
        job.notes.map((note) => el("p", { class: "note" }, note)),
      ),
    );
  }
  if (DATA.logs.left_out) section.append(el("p", { class: "note" }, `${format.plural(DATA.logs.left_out, "line")} about trouble left out of this page.`));
}

const inputWithoutLogs = renderInput;
renderInput = () => {
  renderLogs();
  inputWithoutLogs();
};

const navigationWithoutLogs = navigation;
navigation = () => {
  navigationWithoutLogs();
  const jobs = byId("nav").querySelector('a[href="#jobs"]');
  const link = el("a", { href: "#logs" }, "Logs");
  if (jobs) jobs.after(link);
  else byId("nav").append(link);
};
