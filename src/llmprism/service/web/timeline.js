// The per-GPU timeline: binary columns from the service, drawn on a canvas.
//
// Drawing costs the same however many events there are: only the rows in sight are drawn; along a row the search jumps
// from pixel to pixel, and where several events share one a few of them decide its colour. A row is one line of colours
// that is copied into a picture, not thousands of rectangles. So zoom and pan follow the hand over a million events.

import { el, tooltip } from "./dom.js";
import { pointIn } from "./elements.js";
import { format } from "./format.js";

const LABELS = { compute: "Compute", pp_send: "Pipeline send", pp_recv: "Pipeline receive", dp: "Gradients", ep: "Experts", cp: "Context", idle: "Idle" };
const COLUMNS = { "<u4": Uint32Array, "<i4": Int32Array, "<f4": Float32Array, "|u1": Uint8Array };
export const RULER = 40;
export const ROW = 22;
export const GUTTER = 118;
const TALLEST = 560;
const VOTES = 6;

export function decode(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const data = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let at = 4 + length;
  for (const [name, type, size] of data.columns) {
    const Column = COLUMNS[type];
    data[name] = new Column(buffer, at, size);
    at += size * Column.BYTES_PER_ELEMENT;
  }
  return data;
}

export class TimelineView {
  constructor(data, { sick = new Set(), findings = [], onRange } = {}) {
    this.data = data;
    this.sick = sick;
    this.findings = findings;
    this.onRange = onRange;
    this.rows = data.rows || [];
    this.count = data.start ? data.start.length : 0;
    this.end = (data.end_ns - data.origin_ns) / data.tick_ns;
    this.from = 0;
    this.to = this.end;
    this.selected = { row: 0, event: -1 };
    this.longest = this.rows.map((_, row) => this.longestOf(row));
    this.canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": "Timeline of all GPUs. Arrow keys move, plus and minus zoom, n and p step through events, 0 shows all." });
    this.sheet = el("div", { class: "timeline-sheet" }, this.canvas);
    this.frame = el("div", { class: "timeline-frame" }, this.sheet);
    this.status = el("p", { class: "hint", role: "status" }, this.count ? "Wheel with Ctrl zooms, drag pans; the keys are arrows, + − 0, n and p." : "No events are known in this range.");
    this.legend = el("ul", { class: "legend" }, Object.entries(LABELS).map(([kind, label]) => el("li", {}, el("span", { class: "dot", vars: { "--color": `var(--event-${kind})` } }), label)));
    this.node = el("div", { class: "timeline" }, this.legend, this.frame, this.status);
    this.listen();
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.frame);
  }

  longestOf(row) {
    let longest = 0;
    for (let event = this.data.offsets[row]; event < this.data.offsets[row + 1]; event += 1) longest = Math.max(longest, this.data.length[event]);
    return longest;
  }

  resize() {
    const ratio = devicePixelRatio || 1;
    this.width = Math.max(320, this.frame.clientWidth);
    const total = RULER + this.rows.length * ROW + 4;
    this.height = Math.min(total, TALLEST);
    this.ratio = ratio;
    this.sheet.style.setProperty("height", `${total}px`);
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.setProperty("width", `${this.width}px`);
    this.canvas.style.setProperty("height", `${this.height}px`);
    this.context = this.canvas.getContext("2d");
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.draw();
  }

  view(from, to) {
    const span = Math.min(this.end, Math.max(20, to - from));
    this.from = Math.min(Math.max(0, from), this.end - span);
    this.to = this.from + span;
    this.schedule();
  }

  schedule() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.draw();
      if (this.onRange) this.onRange(this.data.origin_ns + this.from * this.data.tick_ns, this.data.origin_ns + this.to * this.data.tick_ns);
    });
  }

  x(tick) {
    return GUTTER + ((tick - this.from) / (this.to - this.from)) * (this.width - GUTTER);
  }

  tickAt(x) {
    return this.from + ((x - GUTTER) / (this.width - GUTTER)) * (this.to - this.from);
  }

  search(row, tick) {
    let low = this.data.offsets[row];
    let high = this.data.offsets[row + 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.data.start[middle] < tick) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The same, from an event known to start earlier: strides double until they reach too far.
  searchFrom(event, stop, tick) {
    let low = event;
    let stride = 1;
    while (low + stride < stop && this.data.start[low + stride] < tick) {
      low += stride;
      stride *= 2;
    }
    let high = Math.min(stop, low + stride);
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.data.start[middle] < tick) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  theme() {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(name).trim();
    return { ink: get("--ink"), muted: get("--muted"), line: get("--line"), zebra: get("--zebra"), bad: get("--bad"), accent: get("--accent"), band: get("--band"), panel: get("--panel"), kinds: this.data.kinds.map((kind) => get(`--event-${kind}`)) };
  }

  // A colour as the four bytes of a pixel.
  packed(color) {
    this.context.fillStyle = color;
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(this.context.fillStyle.slice(at, at + 2), 16));
    return (255 << 24) | (blue << 16) | (green << 8) | red;
  }

  draw() {
    if (!this.context || !this.width) return;
    const begun = performance.now();
    const { context } = this;
    const theme = this.theme();
    context.fillStyle = theme.panel;
    context.fillRect(0, 0, this.width, this.height);
    context.font = "12px ui-monospace, Menlo, Consolas, monospace";
    context.textBaseline = "middle";
    const scroll = this.frame.scrollTop;
    const first = Math.max(0, Math.floor(scroll / ROW));
    const last = Math.min(this.rows.length, Math.ceil((scroll + this.height - RULER) / ROW));
    this.lastMarks = 0;
    this.drawEvents(first, last, scroll, theme);
    for (let row = first; row < last; row += 1) this.drawName(row, RULER + row * ROW - scroll, theme);
    this.drawFindings(theme);
    context.fillStyle = theme.panel;
    context.fillRect(0, 0, this.width, RULER);
    this.drawRuler(theme);
    this.lastDrawMs = performance.now() - begun;
  }

  drawEvents(first, last, scroll, theme) {
    const width = Math.floor((this.width - GUTTER) * this.ratio);
    const height = Math.floor((this.height - RULER) * this.ratio);
    if (width < 1 || height < 1) return;
    if (!this.image || this.image.width !== width || this.image.height !== height) {
      this.image = this.context.createImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
      this.line = new Uint8Array(width);
      this.loud = new Uint32Array(width);
      this.all = new Uint32Array(width);
    }
    const colors = theme.kinds.map((color) => this.packed(color));
    const grounds = [this.packed(theme.panel), this.packed(theme.zebra)];
    const quiet = this.data.kinds.map((kind) => kind === "idle" || kind === "compute");
    this.pixels.fill(grounds[0]);
    for (let row = first; row < last; row += 1) {
      const ground = grounds[row % 2];
      this.markRow(row, width);
      for (let x = 0; x < width; x += 1) {
        const kind = this.line[x] - 1;
        this.all[x] = kind < 0 ? ground : colors[kind];
        this.loud[x] = kind < 0 || quiet[kind] ? ground : colors[kind];
      }
      const top = Math.round((row * ROW - scroll) * this.ratio);
      for (let y = Math.max(0, top); y < Math.min(height, top + Math.round(ROW * this.ratio)); y += 1) {
        const inside = (y - top) / this.ratio;
        if (inside >= 7 && inside < ROW - 7) this.pixels.set(this.all, y * width);
        else if (inside >= 4 && inside < ROW - 4) this.pixels.set(this.loud, y * width);
        else this.pixels.fill(ground, y * width, (y + 1) * width);
      }
    }
    this.context.putImageData(this.image, Math.round(GUTTER * this.ratio), Math.round(RULER * this.ratio));
  }

  // The kind of event (plus one) in every pixel of a row's line.
  markRow(row, width) {
    const { line } = this;
    const { start, length, kind } = this.data;
    line.fill(0);
    const scale = width / (this.to - this.from);
    const stop = this.search(row, this.to);
    let event = this.search(row, this.from - this.longest[row]);
    while (event < stop) {
      this.lastMarks += 1;
      const left = Math.max(0, Math.floor((start[event] - this.from) * scale));
      const right = (start[event] + length[event] - this.from) * scale;
      if (right - left >= 1) line.fill(kind[event] + 1, left, Math.min(width, Math.max(left + 1, Math.round(right))));
      if (right < 0 || right - left >= 1) {
        event += 1;
        continue;
      }
      // Others may share this pixel: jump to the next one and let a few of them vote.
      const next = this.searchFrom(event + 1, stop, this.from + (left + 1) / scale);
      line[left] = kind[this.loudest(event, next)] + 1;
      event = next;
    }
  }

  loudest(first, last) {
    let best = first;
    const stride = Math.max(1, Math.floor((last - first) / VOTES));
    for (let event = first; event < last; event += stride) if (this.data.length[event] > this.data.length[best]) best = event;
    return best;
  }

  drawName(row, y, theme) {
    const { context } = this;
    const chosen = row === this.selected.row && document.activeElement === this.canvas;
    if (row % 2) {
      context.fillStyle = theme.zebra;
      context.fillRect(0, y, GUTTER, ROW);
    }
    const name = this.data.names[this.rows[row]];
    context.fillStyle = this.sick.has(name) ? theme.bad : chosen ? theme.accent : theme.muted;
    context.fillText(name.length > 15 ? `${name.slice(0, 14)}…` : name, 6, y + ROW / 2);
    if (chosen && this.selected.event >= 0) {
      const start = this.x(this.data.start[this.selected.event]);
      context.strokeStyle = theme.ink;
      context.strokeRect(start - 1, y + 2, Math.max(3, this.x(this.data.start[this.selected.event] + this.data.length[this.selected.event]) - start + 2), ROW - 4);
    }
  }

  drawFindings(theme) {
    for (const finding of this.findings) {
      const from = this.x((finding.start_ns - this.data.origin_ns) / this.data.tick_ns);
      const to = finding.end_ns ? this.x((finding.end_ns - this.data.origin_ns) / this.data.tick_ns) : this.width;
      if (to < GUTTER || from > this.width) continue;
      this.context.fillStyle = theme.band;
      this.context.fillRect(Math.max(GUTTER, from), RULER, Math.min(this.width, to) - Math.max(GUTTER, from), this.height - RULER);
    }
  }

  drawRuler(theme) {
    const { context } = this;
    const span = ((this.to - this.from) * this.data.tick_ns) / 8;
    const size = 10 ** Math.floor(Math.log10(span));
    const step = [1, 2, 5, 10].map((factor) => factor * size).find((value) => value >= span) || 10 * size;
    const origin = this.from * this.data.tick_ns;
    context.fillStyle = theme.muted;
    for (let at = Math.ceil(origin / step) * step; at <= this.to * this.data.tick_ns; at += step) {
      const x = this.x(at / this.data.tick_ns);
      context.fillStyle = theme.line;
      context.fillRect(x, 2, 1, 16);
      context.fillStyle = theme.muted;
      context.fillText(step >= 1e9 ? format.clock(this.data.origin_ns + at) : `+${format.significant(at / 1e6, 6)} ms`, x + 4, 10);
    }
    for (const [index, start, end] of this.data.steps) {
      const left = Math.max(GUTTER, this.x(start / this.data.tick_ns));
      const right = Math.min(this.width, this.x(end / this.data.tick_ns));
      if (right <= GUTTER || left >= this.width) continue;
      context.fillStyle = index % 2 ? theme.line : theme.zebra;
      context.fillRect(left, 21, Math.max(0.5, right - left - 1), 14);
      if (right - left > 42) {
        context.fillStyle = theme.ink;
        context.fillText(`${format.duration(end - start)}`, left + 3, 28.5);
      }
    }
    context.fillStyle = theme.line;
    context.fillRect(0, RULER - 1, this.width, 1);
  }

  rowAt(y) {
    return y < RULER ? -1 : Math.floor((y - RULER + this.frame.scrollTop) / ROW);
  }

  zoom(factor, around) {
    const share = (around - this.from) / (this.to - this.from);
    const span = (this.to - this.from) * factor;
    this.view(around - share * span, around + (1 - share) * span);
  }

  pan(share) {
    const span = this.to - this.from;
    this.view(this.from + share * span, this.to + share * span);
  }

  listen() {
    const { canvas } = this;
    let grip = null;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      grip = { x: event.clientX, from: this.from, to: this.to };
      const [x, y] = pointIn(canvas, event);
      this.choose(this.rowAt(y), x);
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = pointIn(canvas, event);
      if (!grip) return this.hover(event, x, y);
      const moved = ((event.clientX - grip.x) / (this.width - GUTTER)) * (grip.to - grip.from);
      this.view(grip.from - moved, grip.to - moved);
      return tooltip.hide();
    });
    const release = () => { grip = null; };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", tooltip.hide);
    canvas.addEventListener("dblclick", (event) => this.zoom(0.4, this.tickAt(pointIn(canvas, event)[0])));
    canvas.addEventListener("wheel", (event) => {
      if (event.ctrlKey || event.metaKey) this.zoom(1.0015 ** event.deltaY, this.tickAt(pointIn(canvas, event)[0]));
      else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan((event.deltaX || event.deltaY) / this.width);
      else return;
      event.preventDefault();
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    this.frame.addEventListener("scroll", () => this.draw());
    canvas.addEventListener("focus", () => this.schedule());
    canvas.addEventListener("blur", () => this.schedule());
  }

  key(event) {
    const middle = (this.from + this.to) / 2;
    const acts = {
      ArrowLeft: () => this.pan(-0.15),
      ArrowRight: () => this.pan(0.15),
      ArrowUp: () => this.select(this.selected.row - 1, -1),
      ArrowDown: () => this.select(this.selected.row + 1, -1),
      "+": () => this.zoom(0.6, middle),
      "=": () => this.zoom(0.6, middle),
      "-": () => this.zoom(1 / 0.6, middle),
      0: () => this.view(0, this.end),
      n: () => this.next(1),
      p: () => this.next(-1),
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in acts)) return;
    event.preventDefault();
    event.stopPropagation();
    acts[event.key]();
  }

  select(row, event) {
    if (!this.rows.length) return;
    this.selected = { row: Math.max(0, Math.min(this.rows.length - 1, row)), event };
    const top = this.selected.row * ROW;
    if (top < this.frame.scrollTop) this.frame.scrollTop = top;
    if (top + ROW + RULER > this.frame.scrollTop + this.height) this.frame.scrollTop = top + ROW + RULER - this.height;
    this.status.textContent = event < 0 ? this.data.names[this.rows[this.selected.row]] : this.sentence();
    this.schedule();
  }

  next(direction) {
    const { row } = this.selected;
    const [first, last] = [this.data.offsets[row], this.data.offsets[row + 1]];
    if (first === last) return;
    const event = this.selected.event < 0 ? this.search(row, this.from) : this.selected.event + direction;
    const chosen = Math.max(first, Math.min(last - 1, event));
    const at = this.data.start[chosen];
    if (at < this.from || at > this.to) this.view(at - (this.to - this.from) / 2, at + (this.to - this.from) / 2);
    this.select(row, chosen);
  }

  describe(event) {
    const { start, length, peer, bytes, kind, tick_ns: tick, names, kinds } = this.data;
    const ns = length[event] * tick;
    return [LABELS[kinds[kind[event]]] || kinds[kind[event]], [
      peer[event] >= 0 && ["peer", names[peer[event]]],
      ["from", `${format.clock(this.data.origin_ns + start[event] * tick)} +${format.significant((start[event] * tick) / 1e6, 7)} ms`],
      ["lasts", format.duration(ns)],
      bytes[event] > 0 && ["bytes", format.size(bytes[event])],
      bytes[event] > 0 && ns > 0 && ["rate", format.rate((bytes[event] * 8) / ns)],
    ]];
  }

  sentence() {
    const [title, rows] = this.describe(this.selected.event);
    return `${this.data.names[this.rows[this.selected.row]]}, ${title}: ${rows.filter(Boolean).map(([name, value]) => `${name} ${value}`).join(", ")}`;
  }

  at(row, x) {
    const tick = this.tickAt(x);
    const reach = (this.to - this.from) / this.width;
    let best = -1;
    const stop = this.search(row, tick + reach);
    for (let event = this.search(row, tick - this.longest[row] - reach); event < stop; event += 1) {
      if (this.data.start[event] + this.data.length[event] + reach < tick) continue;
      if (best < 0 || this.data.length[event] <= this.data.length[best]) best = event;
    }
    return best;
  }

  choose(row, x) {
    if (row < 0 || row >= this.rows.length) return;
    this.select(row, this.at(row, x));
  }

  hover(event, x, y) {
    const row = this.rowAt(y);
    if (row < 0 || row >= this.rows.length) return tooltip.hide();
    const found = x < GUTTER ? -1 : this.at(row, x);
    if (found < 0) return tooltip.hide();
    return tooltip.show(event.clientX, event.clientY, ...this.describe(found));
  }
}
