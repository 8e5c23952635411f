// One tooltip for the whole page; it follows the pointer or the focused element and stays inside the window.

const tooltip = {
  show(x, y, title, rows) {
    const box = byId("tooltip");
    box.replaceChildren(
      el("strong", {}, title),
      el("dl", {}, rows.filter(Boolean).map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]).flat()),
    );
    box.hidden = false;
    const place = box.getBoundingClientRect();
    const left = x + 14 + place.width > innerWidth ? x - place.width - 10 : x + 14;
    const top = y + 14 + place.height > innerHeight ? y - place.height - 10 : y + 14;
    box.style.left = `${Math.max(4, left)}px`;
    box.style.top = `${Math.max(4, top)}px`;
  },
  hide() {
    byId("tooltip").hidden = true;
  },
  // `describe` returns [title, rows] when the element is pointed at or focused.
  attach(node, describe) {
    node.addEventListener("pointermove", (event) => tooltip.show(event.clientX, event.clientY, ...describe()));
    node.addEventListener("pointerleave", tooltip.hide);
    node.addEventListener("focus", () => {
      if (!node.matches(":focus-visible")) return;
      const box = node.getBoundingClientRect();
      tooltip.show(box.right - 8, box.bottom - 8, ...describe());
    });
    node.addEventListener("blur", tooltip.hide);
  },
};
addEventListener("keydown", (event) => {
  if (event.key === "Escape") tooltip.hide();
});
