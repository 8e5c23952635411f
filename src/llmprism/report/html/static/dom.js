// Pieces of the page that are made of elements.

function heading(section, title, note) {
  const head = el("div", { class: "section-head" }, el("h2", { id: `${section.id}-title` }, title));
  if (note) head.append(el("p", { class: "muted" }, note));
  section.append(head);
}

// One tab stop for many items: the arrow keys move between them.
function roving(container, selector, onMove) {
  const items = () => [...container.querySelectorAll(selector)];
  items().forEach((item, index) => item.setAttribute("tabindex", index === 0 ? "0" : "-1"));
  container.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    const all = items();
    const at = all.indexOf(document.activeElement);
    if (at < 0) return;
    let next = at;
    if (event.key in steps) next = (at + steps[event.key] + all.length) % all.length;
    else if (event.key === "Home") next = 0;
    else if (event.key === "End") next = all.length - 1;
    else return;
    event.preventDefault();
    all[at].setAttribute("tabindex", "-1");
    all[next].setAttribute("tabindex", "0");
    all[next].focus();
    if (onMove) onMove(all[next]);
  });
}
