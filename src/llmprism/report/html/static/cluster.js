// The cluster map: servers and their GPUs, coloured by job, sick ones marked.

const ROOMY_SERVERS = 48; // more than this are drawn small, so that a thousand GPUs are seen at once

function clusterCell(server, [address, gpu, job, sick]) {
  const cell = el(
    "button",
    {
      type: "button",
      class: `gpu ${sick ? "sick" : ""} ${job < 0 ? "unused" : ""}`,
      vars: { "--color": jobColor(job) },
      "aria-label": `${address}${sick ? ", named in a finding" : ""}`,
      on: { click: () => job >= 0 && selectJob(job, true) },
    },
    sick ? "!" : gpu === null ? "" : String(gpu),
  );
  tooltip.attach(cell, () => [
    address,
    [
      ["server", server.name],
      gpu !== null && ["GPU", String(gpu)],
      ["job", job < 0 ? "none seen" : DATA.jobs[job].id],
      sick && ["finding", "named in a finding"],
    ],
  ]);
  return cell;
}

function renderCluster() {
  const section = byId("cluster");
  if (!DATA.servers.length) return;
  heading(section, "Cluster map", "One square per GPU, coloured by job. A red ring marks what findings name. Choose a square to open its job.");
  const compact = DATA.servers.length > ROOMY_SERVERS ? "compact" : "";
  const map = el("div", { class: `panel servers ${compact}`, role: "group", "aria-label": "Servers and their GPUs" });
  for (const server of DATA.servers) {
    map.append(
      el(
        "div",
        { class: `server ${server.nics.some((nic) => nic[3]) ? "has-sick" : ""}` },
        el("span", { class: "server-name", title: server.name }, server.name),
        el("span", { class: "gpus" }, server.nics.map((nic) => clusterCell(server, nic))),
      ),
    );
  }
  roving(map, "button.gpu");
  const unused = DATA.servers.some((server) => server.nics.some((nic) => nic[2] < 0));
  const legend = el(
    "ul",
    { class: "legend" },
    DATA.jobs.map((job, index) => el("li", {}, el("i", { class: "dot", vars: { "--color": jobColor(index) } }), `${job.id}, ${format.plural(job.members.length, "GPU")}`)),
    unused && el("li", {}, el("i", { class: "dot", vars: { "--color": "var(--unused)" } }), "no job seen"),
  );
  section.append(map, legend);
}
