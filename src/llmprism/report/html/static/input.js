// What went in, what was left out and why, and what could not be decided.

function renderInput() {
  const section = byId("input");
  heading(section, "Input and notes");
  const { records, used, dropped } = DATA.input;
  const rows = [["records read", records], ["used", used], ...dropped.map(([reason, number]) => [`dropped: ${reason.replaceAll("_", " ")}`, number])];
  section.append(
    el(
      "div",
      { class: "panel" },
      el("table", { class: "counts" }, el("tbody", {}, rows.map(([name, number]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "number" }, format.count(number)))))),
      DATA.notes.map((note) => el("p", { class: "note" }, note)),
      !DATA.notes.length && el("p", { class: "hint" }, "Nothing else to note."),
    ),
  );
}
