// Step times: a small line for the overview, bars with findings behind them for the job page.

import { el, svg, tooltip } from "./dom.js";
import { format } from "./format.js";

// A step stands out when it is longer than usual ones ever are: healthy jobs may alternate between two lengths.
function slowFrom(usual, high) {
  return Math.max(1.3 * usual, 1.1 * (high || 0));
}

export function sparkline(steps, baseline, high, width = 240, height = 44) {
  const values = steps.map(([start, end]) => (end - start) / 1e6).filter((value) => value > 0);
  const picture = svg("svg", { class: "spark", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `last ${values.length} step times` });
  if (values.length < 2) return picture;
  const sorted = [...values].sort((a, b) => a - b);
  const usual = baseline ? baseline / 1e6 : sorted[Math.floor(sorted.length / 2)];
  const top = Math.max(usual * 1.6, Math.min(sorted[sorted.length - 1], usual * 6));
  const x = (index) => 2 + (index / (values.length - 1)) * (width - 4);
  const y = (value) => height - 3 - (Math.min(value, top) / top) * (height - 8);
  picture.append(svg("line", { class: "median-line", x1: 0, x2: width, y1: y(usual), y2: y(usual) }));
  picture.append(svg("polyline", { class: "spark-line", points: values.map((value, index) => `${x(index).toFixed(1)},${y(value).toFixed(1)}`).join(" ") }));
  values.forEach((value, index) => {
    if (value > slowFrom(usual, (high || 0) / 1e6)) picture.append(svg("circle", { class: "spark-slow", cx: x(index), cy: y(value), r: 2 }));
  });
  return picture;
}

// Bars over real time, at most one per two pixels: the longest step of those that share a pixel is shown.
export function stepChart(steps, baseline, high, findings, onPick) {
  const width = 1120;
  const height = 190;
  const left = 58;
  const bottom = 24;
  const picture = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": `${steps.length} step times` });
  const shown = steps.filter((step) => !step[3]);
  if (!shown.length) return el("p", { class: "muted" }, "No steps are known in this range.");
  const from = shown[0][1];
  const to = shown[shown.length - 1][2];
  const times = shown.map((step) => step[2] - step[1]).sort((a, b) => a - b);
  const usual = baseline || times[Math.floor(times.length / 2)];
  const top = Math.max(1.5 * usual, Math.min(times[times.length - 1], 8 * usual)) * 1.05;
  const x = (time) => left + ((time - from) / Math.max(1, to - from)) * (width - left - 8);
  const y = (time) => height - bottom - (Math.min(time, top) / top) * (height - bottom - 22);
  for (const finding of findings) {
    const start = Math.max(from, finding.start_ns);
    const end = Math.min(to, finding.end_ns || to);
    if (end <= start) continue;
    picture.append(svg("rect", { class: "finding-band", x: x(start), width: Math.max(2, x(end) - x(start)), y: 2, height: height - bottom - 2 }));
    picture.append(svg("text", { class: "finding-label", x: x(start) + 4, y: 13 }, finding.title));
  }
  for (const share of [0, 0.5, 1]) {
    picture.append(svg("line", { class: "grid-line", x1: left, x2: width - 8, y1: y(top * share), y2: y(top * share) }));
    picture.append(svg("text", { class: "axis", x: left - 6, y: y(top * share) + 4, "text-anchor": "end" }, format.duration(top * share)));
  }
  let last = -Infinity;
  let best = null;
  const flush = () => best && picture.append(best.bar);
  for (const [number, start, end] of shown) {
    const at = x(start);
    const bar = svg("rect", { class: end - start > slowFrom(usual, high) ? "step-bar slow" : "step-bar", x: at, width: Math.max(1.2, x(end) - at - 0.8), y: y(end - start), height: Math.max(1, height - bottom - y(end - start)), on: { click: () => onPick && onPick(start, end) } });
    tooltip.attach(bar, () => [`Step ${number}`, [["took", format.duration(end - start)], ["usual", format.duration(usual)], ["ended", format.moment(end)]]]);
    if (at - last < 2 && best) {
      if (end - start > best.length) best = { bar, length: end - start };
    } else {
      flush();
      best = { bar, length: end - start };
      last = at;
    }
  }
  flush();
  picture.append(svg("line", { class: "median-line", x1: left, x2: width - 8, y1: y(usual), y2: y(usual) }));
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    picture.append(svg("text", { class: "axis", x: left + share * (width - left - 8), y: height - 7, "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle" }, format.clock(from + share * (to - from))));
  }
  return picture;
}
