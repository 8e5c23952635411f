// Draws a timeline on a canvas and moves it: drag or arrow keys pan, Ctrl+wheel, + and - zoom, 0 shows all.

const VIEW = { row: 20, ruler: 44, inset: 3, least: 0.6, steps: 6 };

class TimelineView {
  constructor(job, jobIndex) {
    this.findings = DATA.findings.filter((finding) => finding.job === jobIndex);
    this.timeline = new Timeline(job, this.findings);
    this.selected = { row: 0, event: -1 };
    this.canvas = el("canvas", { tabindex: "0", role: "application", "aria-label": "Timeline of every GPU. Arrow keys pan and choose a row, plus and minus zoom, N and P go through the events of the row, 0 shows all." });
    this.spacer = el("div", { class: "timeline-spacer" });
    this.frame = el("div", { class: "timeline-frame" }, this.canvas, this.spacer);
    this.status = el("p", { class: "hint", "aria-live": "polite" }, "Drag to pan, Ctrl and wheel to zoom, double-click to zoom in. Keys: arrows, + and -, N and P for the next and previous event, 0 for all.");
    this.node = el("div", { class: "timeline" }, this.toolbar(), this.frame, this.status);
    this.start();
    this.listen();
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.frame);
  }

  // At first a handful of steps, around the first finding where there is one: the whole run is only noise.
  start() {
    const { start, end, setup } = this.timeline.job.steps;
    const finding = this.findings[0];
    const training = start.map((_, index) => index).filter((index) => !setup[index]);
    if (training.length <= VIEW.steps) return;
    const before = finding ? training.filter((index) => end[index] <= finding.start).length : training.length >> 1;
    const from = Math.max(0, Math.min(training.length - VIEW.steps, before - 2));
    const until = end[training[from + VIEW.steps - 1]];
    const after = finding && before === training.length ? finding.start + (until - start[training[from]]) * 0.1 : until;
    this.timeline.view(start[training[from]], Math.max(until, after));
    const row = finding ? this.timeline.rows.findIndex((address) => finding.addresses.includes(address)) : -1;
    if (row >= 0) this.selected.row = row;
  }

  toolbar() {
    const button = (text, label, act) => el("button", { type: "button", class: "ghost", "aria-label": label, on: { click: () => { act(); this.draw(); } } }, text);
    const middle = () => (this.timeline.from + this.timeline.to) / 2;
    const present = new Set(this.timeline.columns.kind);
    return el(
      "div",
      { class: "toolbar" },
      el("ul", { class: "legend" }, DATA.kinds.filter((_, kind) => present.has(kind)).map((kind) => el("li", {}, el("i", { class: "dot", vars: { "--color": `var(--event-${kind})` } }), EVENT_LABELS[kind] || kind))),
      el(
        "div",
        { class: "buttons" },
        button("−", "Zoom out", () => this.timeline.zoom(2, middle())),
        button("+", "Zoom in", () => this.timeline.zoom(0.5, middle())),
        button("Show all", "Show the whole timeline", () => this.timeline.reset()),
      ),
    );
  }

  resize() {
    const ratio = devicePixelRatio || 1;
    const width = this.frame.clientWidth;
    const total = VIEW.ruler + this.timeline.rows.length * VIEW.row + 2;
    const height = Math.min(total, Math.max(160, Math.round(innerHeight * 0.62)));
    if (!width) return;
    this.width = width;
    this.height = height;
    this.gutter = width < 560 ? 84 : 212;
    this.frame.style.height = `${height}px`;
    this.spacer.style.height = `${total - height}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.draw();
  }

  x(ms) {
    return this.gutter + ((ms - this.timeline.from) / this.timeline.span) * (this.width - this.gutter);
  }

  time(x) {
    return this.timeline.from + ((x - this.gutter) / (this.width - this.gutter)) * this.timeline.span;
  }

  rowAt(y) {
    const row = Math.floor((y - VIEW.ruler + this.frame.scrollTop) / VIEW.row);
    return y >= VIEW.ruler && row < this.timeline.rows.length ? row : -1;
  }

  draw() {
    if (!this.width) return;
    cancelAnimationFrame(this.pending);
    this.pending = requestAnimationFrame(() => this.paint());
  }

  paint() {
    const context = this.canvas.getContext("2d");
    const ratio = devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    const colors = DATA.kinds.map((kind) => css(`--event-${kind}`));
    const theme = { ink: css("--ink"), muted: css("--muted"), line: css("--line"), panel: css("--panel"), bad: css("--bad"), band: css("--band"), zebra: css("--zebra"), accent: css("--accent") };
    context.font = "12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";
    context.textBaseline = "middle";
    const top = this.frame.scrollTop;
    const firstRow = Math.floor(top / VIEW.row);
    const lastRow = Math.min(this.timeline.rows.length, Math.ceil((top + this.height - VIEW.ruler) / VIEW.row));
    for (let row = firstRow; row < lastRow; row += 1) this.paintRow(context, row, VIEW.ruler + row * VIEW.row - top, colors, theme);
    this.paintFindings(context, theme);
    this.paintGutter(context, firstRow, lastRow, top, theme);
    this.paintRuler(context, theme);
  }

  paintRow(context, row, y, colors, theme) {
    if (row % 2) {
      context.fillStyle = theme.zebra;
      context.fillRect(this.gutter, y, this.width - this.gutter, VIEW.row);
    }
    const { kind, start, length } = this.timeline.columns;
    const tick = this.timeline.tick;
    const [low, high] = this.timeline.visible(row);
    const scale = (this.width - this.gutter) / this.timeline.span;
    for (let layer = 0; layer < 3; layer += 1) {
      const inset = layer === 2 ? VIEW.inset : 1;
      const drawnTo = new Float64Array(colors.length).fill(-1);
      for (let event = low; event < high; event += 1) {
        if (this.timeline.layer(event) !== layer) continue;
        const left = Math.max(this.gutter, this.gutter + (start[event] * tick - this.timeline.from) * scale);
        const right = this.gutter + ((start[event] + length[event]) * tick - this.timeline.from) * scale;
        const width = Math.max(VIEW.least, right - left - (right - left > 4 ? 1 : 0));
        if (right < this.gutter || left + width <= drawnTo[kind[event]]) continue;
        drawnTo[kind[event]] = left + width;
        context.fillStyle = colors[kind[event]];
        context.fillRect(left, y + inset, width, VIEW.row - 2 * inset);
      }
    }
    if (this.selected.event >= 0 && this.selected.row === row) {
      const event = this.selected.event;
      const left = this.x(start[event] * tick);
      context.strokeStyle = theme.ink;
      context.lineWidth = 2;
      context.strokeRect(left, y + 1, Math.max(3, this.x((start[event] + length[event]) * tick) - left), VIEW.row - 2);
    }
  }

  paintFindings(context, theme) {
    for (const finding of this.findings) {
      const left = Math.max(this.gutter, this.x(finding.start));
      const right = Math.min(this.width, finding.end === null ? this.width : this.x(finding.end));
      if (right <= left) continue;
      context.fillStyle = theme.band;
      context.fillRect(left, VIEW.ruler - 8, right - left, this.height);
      context.fillStyle = theme.bad;
      for (const edge of [this.x(finding.start), finding.end === null ? -1 : this.x(finding.end)]) {
        if (edge >= this.gutter && edge <= this.width) context.fillRect(edge, VIEW.ruler - 8, 1.5, this.height);
      }
    }
  }

  paintGutter(context, firstRow, lastRow, top, theme) {
    context.fillStyle = theme.panel;
    context.fillRect(0, 0, this.gutter, this.height);
    for (let row = firstRow; row < lastRow; row += 1) {
      const y = VIEW.ruler + row * VIEW.row - top;
      const address = this.timeline.rows[row];
      const sick = SICK.has(address);
      if (row === this.selected.row && document.activeElement === this.canvas) {
        context.fillStyle = theme.accent;
        context.fillRect(0, y + 2, 3, VIEW.row - 4);
      }
      context.fillStyle = sick ? theme.bad : theme.ink;
      const name = this.fit(context, (sick ? "! " : "") + DATA.addresses[address], this.gutter - 16);
      context.fillText(name, 8, y + VIEW.row / 2);
      const room = this.gutter - 28 - context.measureText(name).width;
      const spot = DATA.spots[address];
      if (spot && room > 40 && !name.endsWith("…")) {
        context.fillStyle = theme.muted;
        context.fillText(this.fit(context, spot, room), 20 + context.measureText(name).width, y + VIEW.row / 2);
      }
    }
    context.fillStyle = theme.line;
    context.fillRect(this.gutter - 1, 0, 1, this.height);
  }

  fit(context, text, width) {
    if (context.measureText(text).width <= width) return text;
    let length = Math.max(1, Math.floor((text.length * width) / context.measureText(text).width) - 1);
    while (length > 1 && context.measureText(`${text.slice(0, length)}…`).width > width) length -= 1;
    return `${text.slice(0, length)}…`;
  }

  paintRuler(context, theme) {
    context.fillStyle = theme.panel;
    context.fillRect(this.gutter, 0, this.width - this.gutter, VIEW.ruler - 8);
    context.fillStyle = theme.muted;
    context.fillText("time", 8, 11);
    context.fillText("step", 8, 28);
    const origin = this.timeline.first;
    const size = niceStep(this.timeline.span, (this.width - this.gutter) / 110);
    for (let value = Math.ceil((this.timeline.from - origin) / size) * size; value < this.timeline.to - origin; value += size) {
      const x = this.x(value + origin);
      context.fillStyle = theme.line;
      context.fillRect(x, 4, 1, 14);
      context.fillStyle = theme.muted;
      context.fillText(value === 0 ? "0" : `+${format.significant(value < 1000 && size < 1000 ? value : value / 1000, 6)} ${size < 1000 && value < 1000 ? "ms" : "s"}`, x + 4, 11);
    }
    const { start, end, setup } = this.timeline.job.steps;
    const seen = start.map((_, index) => index).filter((index) => end[index] >= this.timeline.from && start[index] <= this.timeline.to);
    const bounds = (index) => [Math.max(this.gutter, this.x(start[index])), Math.min(this.width, this.x(end[index]))];
    for (const index of seen) {
      const [left, right] = bounds(index);
      context.fillStyle = index % 2 ? theme.zebra : theme.line;
      context.fillRect(left, 21, Math.max(0.5, right - left - 1), 14);
    }
    let lastText = -Infinity;
    seen.forEach((index) => {
      const [left, right] = bounds(index);
      const text = setup[index] ? "set-up" : String(index);
      const width = context.measureText(text).width;
      if (right - left < width + 6 || left < lastText) return;
      context.fillStyle = theme.ink;
      context.fillText(text, left + 3, 28.5);
      lastText = left + width + 6;
    });
    context.fillStyle = theme.line;
    context.fillRect(0, VIEW.ruler - 1, this.width, 1);
  }

  listen() {
    const canvas = this.canvas;
    let grip = null;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      grip = { x: event.clientX, from: this.timeline.from, to: this.timeline.to };
      const [x, y] = pointIn(canvas, event);
      this.choose(this.rowAt(y), x);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (grip) {
        const ms = ((event.clientX - grip.x) / (this.width - this.gutter)) * (grip.to - grip.from);
        this.timeline.view(grip.from - ms, grip.to - ms);
        tooltip.hide();
        this.draw();
      } else this.hover(event, ...pointIn(canvas, event));
    });
    const release = () => { grip = null; };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", tooltip.hide);
    canvas.addEventListener("dblclick", (event) => this.move(() => this.timeline.zoom(0.4, this.time(pointIn(canvas, event)[0]))));
    canvas.addEventListener("wheel", (event) => {
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : event.shiftKey ? event.deltaY : 0;
      if (event.ctrlKey || event.metaKey) this.move(() => this.timeline.zoom(1.0015 ** event.deltaY, this.time(pointIn(canvas, event)[0])));
      else if (sideways) this.move(() => this.timeline.pan((sideways / this.width) * this.timeline.span));
      else return;
      event.preventDefault();
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("focus", () => this.draw());
    canvas.addEventListener("blur", () => this.draw());
    this.frame.addEventListener("scroll", () => this.draw());
  }

  move(act) {
    act();
    this.draw();
  }

  key(event) {
    const middle = (this.timeline.from + this.timeline.to) / 2;
    const acts = {
      ArrowLeft: () => this.timeline.pan(-0.15 * this.timeline.span),
      ArrowRight: () => this.timeline.pan(0.15 * this.timeline.span),
      ArrowUp: () => this.select(this.selected.row - 1, -1),
      ArrowDown: () => this.select(this.selected.row + 1, -1),
      "+": () => this.timeline.zoom(0.6, middle),
      "=": () => this.timeline.zoom(0.6, middle),
      "-": () => this.timeline.zoom(1 / 0.6, middle),
      0: () => this.timeline.reset(),
      Home: () => this.timeline.reset(),
      n: () => this.next(1),
      p: () => this.next(-1),
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in acts)) return;
    event.preventDefault();
    this.move(acts[event.key]);
  }

  select(row, event) {
    if (!this.timeline.rows.length) return;
    this.selected = { row: Math.max(0, Math.min(this.timeline.rows.length - 1, row)), event };
    const y = this.selected.row * VIEW.row;
    const room = this.height - VIEW.ruler - VIEW.row;
    if (y < this.frame.scrollTop) this.frame.scrollTop = y;
    else if (y > this.frame.scrollTop + room) this.frame.scrollTop = y - room;
    this.status.textContent = event < 0 ? addressLabel(this.timeline.rows[this.selected.row]) : this.sentence();
  }

  sentence() {
    const [title, rows] = this.timeline.describe(this.selected.row, this.selected.event);
    return `${title}: ${rows.filter(Boolean).map(([name, value]) => `${name} ${value}`).join(", ")}`;
  }

  next(direction) {
    const { offsets, start, length } = this.timeline.columns;
    const row = this.selected.row;
    if (offsets[row] === offsets[row + 1]) return;
    let event = this.selected.event < 0 ? this.timeline.search(row, this.timeline.from) : this.selected.event + direction;
    event = Math.max(offsets[row], Math.min(offsets[row + 1] - 1, event));
    this.select(row, event);
    const from = start[event] * this.timeline.tick;
    const to = from + length[event] * this.timeline.tick;
    if (from < this.timeline.from || to > this.timeline.to) this.timeline.pan((from + to) / 2 - (this.timeline.from + this.timeline.to) / 2);
  }

  choose(row, x) {
    if (row < 0) return;
    this.select(row, this.timeline.at(row, this.time(x), (2 * this.timeline.span) / this.width));
    this.draw();
  }

  hover(event, x, y) {
    const row = this.rowAt(y);
    if (row < 0) return tooltip.hide();
    if (x < this.gutter) return tooltip.show(event.clientX, event.clientY, addressLabel(this.timeline.rows[row]), []);
    const found = this.timeline.at(row, this.time(x), this.timeline.span / this.width);
    if (found < 0) return tooltip.hide();
    return tooltip.show(event.clientX, event.clientY, ...this.timeline.describe(row, found));
  }

  showRange(from, to, addresses = []) {
    const margin = Math.max((to - from) * 0.15, this.timeline.tick * 20);
    this.timeline.view(from - margin, to + margin);
    const row = this.timeline.rows.findIndex((address) => addresses.includes(address));
    if (row >= 0) this.select(row, -1);
    this.draw();
    this.node.scrollIntoView({ block: "center", behavior: "instant" });
    this.canvas.focus({ preventScroll: true });
  }
}
