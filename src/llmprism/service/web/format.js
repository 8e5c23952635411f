// Numbers, durations, sizes and times as people read them. Times come in nanoseconds since the Unix epoch.

function significant(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "?";
  if (value === 0) return "0";
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  return value.toLocaleString("en-US", { maximumFractionDigits: Math.max(0, Math.min(12, digits - 1 - magnitude)) });
}

function scaled(value, units, base) {
  for (const [size, unit] of units) if (Math.abs(value) >= size) return `${significant(value / size)} ${unit}`;
  return `${significant(value)} ${base}`;
}

const pad = (value) => String(value).padStart(2, "0");

export const format = {
  significant,
  count: (value) => Number(value || 0).toLocaleString("en-US"),
  plural: (value, noun, many) => `${format.count(value)} ${value === 1 ? noun : many || `${noun}s`}`,
  percent: (share) => (share === null ? "?" : `${significant(100 * share, 2)} %`),
  duration: (ns) => (ns ? scaled(ns, [[86400e9, "d"], [3600e9, "h"], [60e9, "min"], [1e9, "s"], [1e6, "ms"], [1e3, "µs"]], "ns") : "0"),
  size: (bytes) => scaled(bytes || 0, [[1e15, "PB"], [1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]], "B"),
  rate: (gbps) => (gbps > 0 && gbps < 1 ? `${significant(gbps * 1000)} Mb/s` : `${significant(gbps)} Gb/s`),
  gpuTime: (seconds) => (seconds >= 3600 ? `${significant(seconds / 3600)} GPU-hours` : `${significant(seconds)} GPU-seconds`),
  // In the reader's own time zone; the title of the element says UTC.
  clock(ns) {
    const date = new Date(ns / 1e6);
    return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
  },
  moment(ns) {
    const date = new Date(ns / 1e6);
    return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${format.clock(ns)}`;
  },
  ago(ns, now) {
    const seconds = Math.max(0, (now - ns) / 1e9);
    return seconds < 2 ? "just now" : `${format.duration(Math.round(seconds) * 1e9)} ago`;
  },
  place(where) {
    if (typeof where.id === "string") return where.id;
    if (where.type === "link") return where.id.join(" → ");
    return where.id.length > 4 ? `${where.id.slice(0, 4).join(", ")} and ${where.id.length - 4} more` : where.id.join(", ");
  },
  layout(layout) {
    if (!layout) return "";
    const names = { pp: "pipeline", dp: "data", tp: "tensor", ep: "expert", cp: "context" };
    const parts = Object.keys(names).filter((key) => (layout[key] || 1) > 1).map((key) => `${names[key]} ${layout[key]}`);
    return parts.join(" × ") || "not decided";
  },
};
