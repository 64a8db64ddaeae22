// Numbers, times and names as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function count(value: number): string {
  return whole.format(value);
}

// Three significant digits at least, with a unit above a million.
export function rate(value: number): string {
  if (value >= 1e9) return `${(value / 1e9).toFixed(2)} G`;
  if (value >= 1e6) return `${(value / 1e6).toFixed(2)} M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(1)} k`;
  if (value >= 100) return whole.format(value);
  return value === 0 ? "0" : value.toPrecision(3);
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    ++unit;
  }
  return `${unit === 0 ? whole.format(value) : value.toPrecision(value < 1000 ? 3 : 4)} ${units[unit]}`;
}

// Never rounded up to 100.
export function percent(share: number | null, digits = 1): string {
  if (share === null) return "–";
  const factor = 10 ** digits;
  const value = share >= 1 ? 100 * share : Math.floor(100 * share * factor) / factor;
  return `${value.toFixed(digits)} %`;
}

export function duration(seconds: number | null): string {
  if (seconds === null) return "not known yet";
  if (seconds < 1) return "less than a second";
  const total = Math.round(seconds);
  if (total < 60) return `${total} s`;
  if (total < 3600) return `${Math.floor(total / 60)} min ${total % 60} s`;
  if (total < 86400) return `${Math.floor(total / 3600)} h ${Math.floor((total % 3600) / 60)} min`;
  return `${Math.floor(total / 86400)} d ${Math.floor((total % 86400) / 3600)} h`;
}

// Of what may be a billionth of a second or minutes.
export function shortTime(seconds: number): string {
  if (seconds === 0) return "0 s";
  for (const [unit, of] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]] as const) {
    if (seconds >= of) return `${(seconds / of).toPrecision(3)} ${unit}`;
  }
  return `${(seconds / 1e-9).toPrecision(3)} ns`;
}

export function milliseconds(value: number): string {
  return value >= 1000 ? `${(value / 1000).toFixed(2)} s` : `${value.toPrecision(value < 1 ? 1 : 3)} ms`;
}

// "1 worker", "2 workers".
export function some(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}
