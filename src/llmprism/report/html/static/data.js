// The report that this page carries, and its event columns decoded from base64.

const DATA = JSON.parse(byId("data").textContent);
const SICK = new Set(DATA.sick);

const EVENT_LABELS = {
  compute: "Compute",
  pp_send: "Pipeline send",
  pp_recv: "Pipeline receive",
  dp: "Gradients",
  ep: "Experts",
  cp: "Context",
  idle: "Idle",
};

function decode(text, Column) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index += 1) bytes[index] = binary.charCodeAt(index);
  return new Column(bytes.buffer);
}

// The columns are decoded when a job is first looked at.
function eventsOf(job) {
  if (!job.columns) {
    const packed = job.events;
    job.columns = {
      rows: packed.rows,
      offsets: packed.offsets,
      kind: decode(packed.kind, Uint8Array),
      start: decode(packed.start, Uint32Array),
      length: decode(packed.length, Uint32Array),
      step: decode(packed.step, Int32Array),
      peer: decode(packed.peer, Int32Array),
      bytes: decode(packed.bytes, Float32Array),
    };
  }
  return job.columns;
}

function jobColor(index) {
  return index < 0 ? "var(--unused)" : `var(--job-${index % 20})`;
}

function addressLabel(address) {
  const seat = DATA.seats[address];
  return seat ? `${DATA.addresses[address]} (${seat})` : DATA.addresses[address];
}

function css(variable) {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}
