// Elements and nothing else, for the report and the live page alike: text enters the page through text nodes only, never as markup.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    } else if (name === "vars") {
      for (const [variable, setting] of Object.entries(value)) node.style.setProperty(variable, setting);
    } else {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  for (const child of children.flat(2)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

export function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG_NAMESPACE, tag), attributes, children);
}

export function byId(id) {
  return document.getElementById(id);
}

// Colours: the reader's choice, or what the system prefers, always as one of the two that the style sheet knows.
const THEMES = ["auto", "light", "dark"];
const PREFERS_DARK = matchMedia("(prefers-color-scheme: dark)");

export function applyTheme(choice) {
  const root = document.documentElement;
  root.dataset.choice = choice;
  root.dataset.theme = choice === "auto" ? (PREFERS_DARK.matches ? "dark" : "light") : choice;
  byId("theme").textContent = `Theme: ${choice}`;
}

export function nextTheme() {
  const now = document.documentElement.dataset.choice;
  return THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
}

export function onPreference(redraw) {
  PREFERS_DARK.addEventListener("change", () => {
    applyTheme(document.documentElement.dataset.choice);
    redraw();
  });
}

// Where in a canvas a pointer is.
export function pointIn(canvas, event) {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}
