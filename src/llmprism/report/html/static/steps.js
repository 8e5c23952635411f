// Step times of a job: one bar per step (the slowest of a stretch where there are too many), findings as red bands,
// the set-up step in a panel of its own because it is many times longer than the others.

const CHART = { height: 210, left: 64, right: 12, top: 26, bottom: 30, setup: 70, widest: 56 };

function niceStep(span, count) {
  const rough = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
}

function ticks(low, high, count) {
  if (!(high > low)) return [low];
  const step = niceStep(high - low, count);
  const out = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) out.push(value);
  return out;
}

// From the end of the step before to its own end, as in the terminal report.
function stepTime(job, index) {
  const { start, end } = job.steps;
  return end[index] - (index > 0 ? end[index - 1] : start[index]);
}

// Training steps put together so that no more bars are drawn than there is room for.
function stepBars(job, room) {
  const { start, end, setup } = job.steps;
  const indices = start.map((_, index) => index).filter((index) => !setup[index]);
  const stride = Math.max(1, Math.ceil(indices.length / room));
  const bars = [];
  for (let at = 0; at < indices.length; at += stride) {
    const part = indices.slice(at, at + stride);
    const slowest = part.reduce((best, index) => (stepTime(job, index) > stepTime(job, best) ? index : best), part[0]);
    const last = part[part.length - 1];
    bars.push({ index: slowest, first: part[0], last, ms: stepTime(job, slowest), start: start[part[0]], end: end[last] });
  }
  return bars;
}

function stepChart(job, jobIndex) {
  const times = job.times;
  if (!times || !times.count) {
    const text = times ? `Only the set-up step was seen: ${format.duration(times.median)}.` : "No step was seen in this window.";
    return el("p", { class: "muted" }, text);
  }
  const status = el("p", { class: "hint", "aria-live": "polite" }, "One bar per step, from the end of the step before to its own; the dashed line is the median. Arrow keys move between steps; Enter shows one in the timeline.");
  const frame = el("div", { class: "chart-frame" });
  let drawn = 0;
  new ResizeObserver(() => {
    const width = Math.floor(frame.clientWidth);
    if (width && width !== drawn) {
      drawn = width;
      frame.replaceChildren(drawSteps(job, jobIndex, width, status));
    }
  }).observe(frame);
  return el("div", {}, frame, status);
}

function drawSteps(job, jobIndex, width, status) {
  const times = job.times;
  const left = CHART.left + (times.setup === null ? 0 : CHART.setup);
  const right = width - CHART.right;
  const bars = stepBars(job, Math.max(20, Math.floor((right - left) / 3)));
  const findings = DATA.findings.filter((item) => item.job === jobIndex);
  const top = Math.max(...bars.map((bar) => bar.ms)) * 1.08;
  const floor = CHART.height - CHART.bottom;
  const slot = Math.min(CHART.widest, (right - left) / bars.length);
  const plot = { left, right, floor, slot, top, x: (position) => left + position * slot, y: (ms) => floor - (ms / top) * (floor - CHART.top) };
  const picture = svg("svg", { width, height: CHART.height, class: "chart", role: "img", tabindex: "0", "aria-label": `Step times of job ${job.id}: median ${format.duration(times.median)}` });
  drawAxes(picture, plot, bars);
  drawFindingBands(picture, plot, bars, findings);
  if (times.setup !== null) drawSetup(picture, plot, times.setup);
  const gap = Math.min(3, slot * 0.2);
  const shapes = bars.map((bar, position) => {
    const marked = findings.some((finding) => touches(bar, finding));
    return svg("rect", { class: marked ? "step-bar slow" : "step-bar", x: plot.x(position) + gap / 2, y: plot.y(bar.ms), width: Math.max(0.5, slot - gap), height: Math.max(0.5, floor - plot.y(bar.ms)) });
  });
  picture.append(...shapes, svg("line", { class: "median-line", x1: left, x2: right, y1: plot.y(times.median), y2: plot.y(times.median) }));
  attachStepCursor(picture, bars, shapes, status, (px) => Math.floor((px - left) / slot));
  return picture;
}

function touches(bar, finding) {
  return bar.end > finding.start && (finding.end === null || bar.start < finding.end);
}

function drawAxes(picture, plot, bars) {
  for (const value of ticks(0, plot.top, 4)) {
    picture.append(
      svg("line", { class: "grid-line", x1: plot.left, x2: plot.right, y1: plot.y(value), y2: plot.y(value) }),
      svg("text", { class: "axis", x: CHART.left - 8, y: plot.y(value) + 4, "text-anchor": "end" }, format.duration(value)),
    );
  }
  const every = Math.max(1, Math.ceil(40 / plot.slot));
  bars.forEach((bar, position) => {
    if (position % every === 0) picture.append(svg("text", { class: "axis", x: plot.x(position + 0.5), y: plot.floor + 16, "text-anchor": "middle" }, String(bar.first)));
  });
}

function drawFindingBands(picture, plot, bars, findings) {
  let labelledTo = -Infinity;
  for (const finding of [...findings].sort((a, b) => a.start - b.start)) {
    const hit = bars.map((bar, position) => (touches(bar, finding) ? position : -1)).filter((position) => position >= 0);
    const between = bars.filter((bar) => bar.end <= finding.start).length;
    const from = hit.length ? plot.x(hit[0]) : plot.x(between);
    const to = hit.length ? plot.x(hit[hit.length - 1] + 1) : from + 3; // a crash comes after the last step
    picture.append(svg("rect", { class: hit.length ? "finding-band" : "finding-mark", x: from, y: CHART.top - 4, width: to - from, height: plot.floor - CHART.top + 4 }));
    const width = 8 * finding.title.length;
    const at = Math.min(from + 2, plot.right - width);
    if (at < labelledTo) continue;
    picture.append(svg("text", { class: "finding-label", x: at, y: CHART.top - 9 }, finding.title));
    labelledTo = at + width + 8;
  }
}

// To scale where it fits; else at full height with a cut through it.
function drawSetup(picture, plot, ms) {
  const tall = ms > plot.top;
  const middle = CHART.left + 27;
  const y = tall ? CHART.top + 14 : plot.y(ms);
  picture.append(
    svg("rect", { class: "setup-bar", x: middle - 13, y, width: 26, height: plot.floor - y }),
    tall ? svg("line", { class: "setup-cut", x1: middle - 18, x2: middle + 18, y1: y + 34, y2: y + 22 }) : "",
    svg("text", { class: "axis strong", x: middle, y: y - 6, "text-anchor": "middle" }, format.duration(ms)),
    svg("text", { class: "axis", x: middle, y: plot.floor + 16, "text-anchor": "middle" }, "set-up"),
    svg("line", { class: "break", x1: plot.left - 14, x2: plot.left - 14, y1: CHART.top, y2: plot.floor }),
  );
}

function attachStepCursor(picture, bars, shapes, status, positionAt) {
  let current = -1;
  const name = (bar) => (bar.first === bar.last ? `Step ${bar.index}` : `Slowest of steps ${bar.first} to ${bar.last}: step ${bar.index}`);
  const select = (position) => {
    if (current >= 0) shapes[current].classList.remove("current");
    current = Math.max(0, Math.min(bars.length - 1, position));
    shapes[current].classList.add("current");
    const bar = bars[current];
    status.textContent = `${name(bar)}: ${format.duration(bar.ms)}, ends ${format.clock(bar.end)}.`;
    return bar;
  };
  const locate = (event) => {
    const box = picture.getBoundingClientRect();
    return positionAt(event.clientX - box.left);
  };
  picture.addEventListener("pointermove", (event) => {
    const position = locate(event);
    if (position < 0 || position >= bars.length) return tooltip.hide();
    const bar = select(position);
    return tooltip.show(event.clientX, event.clientY, name(bar), [["time", format.duration(bar.ms)], ["ends", format.clock(bar.end)]]);
  });
  picture.addEventListener("pointerleave", tooltip.hide);
  picture.addEventListener("click", (event) => {
    const position = locate(event);
    if (position >= 0 && position < bars.length) showTime(bars[position].start, bars[position].end);
  });
  picture.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: current - 1, ArrowRight: current + 1, Home: 0, End: bars.length - 1 };
    if (event.key in moves) select(moves[event.key]);
    else if (event.key === "Enter" && current >= 0) showTime(bars[current].start, bars[current].end);
    else return;
    event.preventDefault();
  });
}
