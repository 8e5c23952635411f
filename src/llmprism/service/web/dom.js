// Pieces of the page that are made of elements.

import { byId, el, svg } from "./elements.js";

export { byId, el, svg };

export function section(title, note, ...children) {
  const head = el("div", { class: "section-head" }, el("h2", {}, title), note && el("p", { class: "muted" }, note));
  return el("section", {}, head, ...children);
}

export function facts(rows) {
  return el("dl", { class: "facts" }, rows.filter(Boolean).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

// The same colour for a job on every page of this session: the one its id asks for, or the next that no other has.
// The first ten are pure colours; the others are mixtures for clusters with more jobs than that.
const PURE = 10;
const COLORS = 20;
const colors = new Map(JSON.parse(sessionStorage.getItem("llmprism-colors") || "[]"));

export function jobColor(id) {
  if (!id) return "var(--unused)";
  if (!colors.has(id)) {
    let wanted = 0;
    for (const character of id) wanted = (wanted * 31 + character.codePointAt(0)) >>> 0;
    while (colors.size >= COLORS) colors.delete(colors.keys().next().value);
    const taken = new Set(colors.values());
    const order = Array.from({ length: COLORS }, (_, index) => (index < PURE ? (wanted + index) % PURE : index));
    colors.set(id, order.find((color) => !taken.has(color)));
    sessionStorage.setItem("llmprism-colors", JSON.stringify([...colors]));
  }
  return `var(--job-${colors.get(id)})`;
}

// Where an address sits, as whoever walks to the rack looks for it; empty where the topology does not know it.
export function seatOf(place, servers) {
  for (const server of servers || []) {
    for (const [address, gpu, , , port] of server.gpus) {
      if (address === place && gpu !== null) return `${server.name} GPU ${gpu}${port ? `, ${port}` : ""}`;
    }
  }
  return "";
}

export const tooltip = {
  show(x, y, title, rows) {
    const box = byId("tooltip");
    box.replaceChildren(el("strong", {}, title), el("dl", {}, rows.filter(Boolean).map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
    box.hidden = false;
    const width = box.offsetWidth;
    const height = box.offsetHeight;
    box.style.setProperty("left", `${Math.max(4, Math.min(x + 14, innerWidth - width - 8))}px`);
    box.style.setProperty("top", `${y + 18 + height > innerHeight ? Math.max(4, y - height - 10) : y + 18}px`);
  },
  hide() {
    byId("tooltip").hidden = true;
  },
  attach(node, describe) {
    node.addEventListener("pointermove", (event) => tooltip.show(event.clientX, event.clientY, ...describe()));
    node.addEventListener("pointerleave", tooltip.hide);
    return node;
  },
};
