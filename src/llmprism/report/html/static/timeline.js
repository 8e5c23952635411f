// What the timeline knows, without any drawing: rows, the visible range, which events lie in it, what is under a point.

class Timeline {
  constructor(job, findings) {
    this.job = job;
    this.findings = findings;
    this.columns = eventsOf(job);
    this.rows = this.columns.rows;
    this.tick = DATA.tick_ms;
    this.longest = this.rows.map((_, row) => this.longestOf(row));
    [this.first, this.last] = this.bounds();
    this.reset();
  }

  // Where there is something to see: the steps, events and findings of the job, not the whole window.
  bounds() {
    const { start, end } = this.job.steps;
    let low = start.length ? start[0] : Infinity;
    let high = end.length ? end[end.length - 1] : -Infinity;
    const { offsets } = this.columns;
    for (let row = 0; row < this.rows.length; row += 1) {
      if (offsets[row] === offsets[row + 1]) continue;
      low = Math.min(low, this.columns.start[offsets[row]] * this.tick);
      const end = offsets[row + 1] - 1;
      high = Math.max(high, (this.columns.start[end] + this.columns.length[end]) * this.tick);
    }
    for (const finding of this.findings) {
      low = Math.min(low, finding.start);
      high = Math.max(high, finding.start, finding.end === null ? finding.start : finding.end);
    }
    if (!(high > low)) return [0, Math.max(1, DATA.window.length_ms)];
    const margin = (high - low) * 0.01;
    return [low - margin, high + margin];
  }

  longestOf(row) {
    let longest = 0;
    for (let event = this.columns.offsets[row]; event < this.columns.offsets[row + 1]; event += 1) {
      longest = Math.max(longest, this.columns.length[event]);
    }
    return longest;
  }

  reset() {
    this.from = this.first;
    this.to = this.last;
  }

  get span() {
    return this.to - this.from;
  }

  // Never wider than the data, never narrower than a few ticks, never outside.
  view(from, to) {
    const span = Math.min(this.last - this.first, Math.max(this.tick * 20, to - from));
    const start = Math.min(Math.max(this.first, from), this.last - span);
    this.from = start;
    this.to = start + span;
  }

  zoom(factor, around) {
    const span = this.span * factor;
    const share = (around - this.from) / this.span;
    this.view(around - share * span, around + (1 - share) * span);
  }

  pan(ms) {
    this.view(this.from + ms, this.to + ms);
  }

  // First event of the row that starts at this time or later.
  search(row, ms) {
    let low = this.columns.offsets[row];
    let high = this.columns.offsets[row + 1];
    const wanted = ms / this.tick;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.columns.start[middle] < wanted) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  visible(row) {
    return [this.search(row, this.from - this.longest[row] * this.tick), this.search(row, this.to)];
  }

  // The event under a point: the one drawn last, that is a transfer before the computation behind it.
  at(row, ms, tolerance) {
    const [low, high] = [this.search(row, ms - this.longest[row] * this.tick - tolerance), this.search(row, ms + tolerance)];
    let best = -1;
    for (let event = low; event < high; event += 1) {
      const end = (this.columns.start[event] + this.columns.length[event]) * this.tick;
      if (end + tolerance < ms) continue;
      if (best < 0 || this.layer(event) >= this.layer(best)) best = event;
    }
    return best;
  }

  layer(event) {
    const kind = DATA.kinds[this.columns.kind[event]];
    return kind === "idle" ? 0 : kind === "compute" ? 1 : 2;
  }

  describe(row, event) {
    const { kind, start, length, step, peer, bytes } = this.columns;
    const ms = length[event] * this.tick;
    const size = bytes[event];
    return [
      EVENT_LABELS[DATA.kinds[kind[event]]] || DATA.kinds[kind[event]],
      [
        ["GPU", addressLabel(this.rows[row])],
        peer[event] >= 0 && ["peer", addressLabel(peer[event])],
        step[event] >= 0 && ["step", String(step[event])],
        ["from", format.clock(start[event] * this.tick)],
        ["lasts", format.duration(ms)],
        size > 0 && ["bytes", format.size(size)],
        size > 0 && ms > 0 && ["rate", format.rate((size * 8) / (ms * 1e6))],
      ],
    ];
  }
}
