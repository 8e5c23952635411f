// The picture of a job's layout: stages across, replicas down, tensor-parallel peers together.

function groupsOf(job) {
  const of = new Map();
  job.groups.forEach((group, index) => {
    for (const member of group.members) of.set(member, [...(of.get(member) || []), index]);
  });
  return of;
}

function layoutCell(job, address, groups, table) {
  const cell = el(
    "button",
    { type: "button", class: `member ${SICK.has(address) ? "sick" : ""}`, "data-groups": (groups.get(address) || []).join(" "), on: { click: () => showRow(address) } },
    el("span", {}, DATA.addresses[address]),
  );
  const light = (on) => {
    const mine = new Set(groups.get(address) || []);
    for (const other of table.querySelectorAll("button.member")) {
      const shared = other.dataset.groups.split(" ").some((group) => group !== "" && mine.has(Number(group)));
      other.classList.toggle("peer", on && shared);
    }
  };
  cell.addEventListener("pointerenter", () => light(true));
  cell.addEventListener("pointerleave", () => light(false));
  cell.addEventListener("focus", () => light(true));
  cell.addEventListener("blur", () => light(false));
  tooltip.attach(cell, () => [
    DATA.addresses[address],
    [
      DATA.seats[address] && ["seat", DATA.seats[address]],
      ...(groups.get(address) || []).map((index) => [`${job.groups[index].kind} group ${index}`, format.plural(job.groups[index].members.length, "member") + (job.groups[index].ring ? ", ring" : "")]),
      SICK.has(address) && ["finding", "named in a finding"],
    ],
  ]);
  return cell;
}

function layoutPicture(job) {
  const grid = job.grid;
  if (!grid.rows.length) return el("p", { class: "muted" }, "The traffic does not show a layout.");
  const groups = groupsOf(job);
  const table = el("table", { class: job.pipelines ? "layout pipes" : "layout" });
  const width = Math.max(grid.columns.length, ...grid.rows.map((row) => row.length));
  if (grid.columns.length && job.pipelines) {
    table.append(el("thead", {}, el("tr", {}, el("td", {}), grid.columns.map((name) => el("th", { scope: "col" }, name)))));
  }
  const body = el("tbody", {});
  grid.rows.forEach((row, index) => {
    const first = index === 0 || grid.replicas[index] !== grid.replicas[index - 1];
    const peers = grid.replicas.filter((replica) => replica === grid.replicas[index]).length;
    const line = el("tr", { class: first ? "first" : "" });
    if (first) line.append(el("th", { scope: "rowgroup", rowspan: peers }, grid.labels[index], peers > 1 && el("small", {}, `${peers} tensor-parallel peers`)));
    for (let column = 0; column < width; column += 1) {
      line.append(el("td", {}, column < row.length && layoutCell(job, row[column], groups, table)));
    }
    body.append(line);
  });
  table.append(body);
  roving(table, "button.member");
  const note = job.pipelines
    ? "Pipelines run left to right; point at a GPU to light up the group that it synchronises gradients with."
    : "One row per group, in ring order where there is one.";
  return el("div", {}, el("div", { class: "scroll", vars: { "--color": jobColor(DATA.jobs.indexOf(job)) } }, table), el("p", { class: "hint" }, note));
}
