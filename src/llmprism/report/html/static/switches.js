// Training traffic per switch, tier by tier.

function switchRow(load, most, fastest) {
  const bar = (share, text) => el("td", {}, el("span", { class: "meter", vars: { "--share": `${100 * share}%` } }, el("span", {}, text)));
  return el(
    "tr",
    { class: load.sick ? "sick" : "" },
    el("th", { scope: "row", title: load.name }, load.name, load.sick ? el("span", { class: "count" }, "finding") : null),
    el("td", {}, load.tier || "unknown"),
    bar(most ? load.bytes / most : 0, format.size(load.bytes)),
    el("td", { class: "number" }, format.count(load.pairs)),
    bar(fastest ? (load.rate || 0) / fastest : 0, format.rate(load.rate)),
    el("td", { class: "dots" }, load.jobs.map((job) => el("i", { class: "dot", title: DATA.jobs[job].id, vars: { "--color": jobColor(job) } })), ` ${load.jobs.length}`),
  );
}

function renderSwitches() {
  const section = byId("switches");
  heading(section, "Switches");
  if (!DATA.switches.length) {
    section.append(el("p", { class: "panel muted" }, "The records name no switches, so none can be compared."));
    return;
  }
  const most = Math.max(...DATA.switches.map((load) => load.bytes));
  const fastest = Math.max(...DATA.switches.map((load) => load.rate || 0));
  const loads = [...DATA.switches].sort((a, b) => b.sick - a.sick || (a.tier || "~").localeCompare(b.tier || "~") || a.name.localeCompare(b.name));
  section.append(
    el(
      "div",
      { class: "panel scroll" },
      el(
        "table",
        { class: "switch-table" },
        el("thead", {}, el("tr", {}, ["switch", "tier", "bytes", "pairs", "median rate", "jobs"].map((name) => el("th", { scope: "col", class: name === "pairs" && "number" }, name)))),
        el("tbody", {}, loads.map((load) => switchRow(load, most, fastest))),
      ),
    ),
  );
}
