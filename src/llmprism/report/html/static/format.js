// Numbers, durations, sizes and times as people read them; the same units as the terminal report.

const format = {
  significant(value, digits = 3) {
    if (value === null || !Number.isFinite(value)) return "?";
    if (value === 0) return "0";
    const magnitude = Math.floor(Math.log10(Math.abs(value)));
    const decimals = Math.max(0, digits - 1 - magnitude);
    return value.toLocaleString("en-US", { maximumFractionDigits: Math.min(12, decimals) });
  },
  count(value) {
    return value.toLocaleString("en-US");
  },
  plural(value, noun, many) {
    return `${format.count(value)} ${value === 1 ? noun : many || `${noun}s`}`;
  },
  percent(share) {
    return share === null ? "?" : `${format.significant(100 * share, 2)} %`;
  },
  scaled(value, units, base) {
    for (const [size, unit] of units) {
      if (Math.abs(value) >= size) return `${format.significant(value / size)} ${unit}`;
    }
    return `${format.significant(value)} ${base}`;
  },
  duration(ms) {
    if (ms === 0) return "0";
    const units = [[86400e3, "d"], [3600e3, "h"], [60e3, "min"], [1e3, "s"], [1, "ms"]];
    if (Math.abs(ms) >= 1) return format.scaled(ms, units, "ms");
    return format.scaled(ms * 1e3, [[1, "µs"]], "µs");
  },
  size(bytes) {
    return format.scaled(bytes, [[1e18, "EB"], [1e15, "PB"], [1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]], "B");
  },
  rate(gbps) {
    if (gbps === null) return "?";
    return gbps > 0 && gbps < 1 ? `${format.significant(gbps * 1000)} Mb/s` : `${format.significant(gbps)} Gb/s`;
  },
  gpuTime(seconds) {
    if (seconds === null) return "?";
    if (seconds >= 3600) return `${format.significant(seconds / 3600)} GPU-hours`;
    return `${format.significant(seconds)} GPU-seconds`;
  },
  // A time of day where the stamps are calendar time, else the offset from the start of the window.
  clock(ms) {
    if (!DATA.window.calendar) return `+${format.duration(ms)}`;
    const date = new Date(DATA.window.epoch_ms + ms);
    return `${date.toISOString().slice(11, 23)} UTC`;
  },
};
