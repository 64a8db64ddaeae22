// The limits that are shown in an address, and what follows from them.

import type { Sizes } from "./api";
import { namedNumbers } from "./route";

export const GRAPHS = "graphs";

// Those of the address; without any, twice the largest graph in every component.
export function limitsOf(values: URLSearchParams, sizes: Pick<Sizes, "components" | "maxima">): Map<string, number> {
  const given = namedNumbers(values, "limit");
  const limits = new Map<string, number>();
  for (const name of [...sizes.components, GRAPHS]) {
    const rows = given.get(name);
    if (rows !== undefined) limits.set(name, rows);
  }
  if (limits.size > 0) return limits;
  sizes.components.forEach((name, i) => limits.set(name, Math.max(1, 2 * (sizes.maxima[i] ?? 1))));
  return limits;
}

// The components whose largest graph exceeds its limit.
export function tooSmall(limits: Map<string, number>, sizes: Pick<Sizes, "components" | "maxima">): string[] {
  return sizes.components.filter((name, i) => (limits.get(name) ?? Infinity) < (sizes.maxima[i] ?? 0));
}

// Bytes of the tensors of a batch that is padded to its limits; of a component without a limit, as
// many rows as the fullest batch has. 0: no row takes any.
export function batchBytes(
  limits: Map<string, number>, perRow: Map<string, number>, fullest: Map<string, number>,
): number {
  let sum = 0;
  for (const [name, each] of perRow) sum += each * (limits.get(name) ?? fullest.get(name) ?? 0);
  return sum;
}

// What a search for limits may choose from: up to four times the largest graph, or to what is asked
// for now if that is more, in steps that hardware likes.
export function searchSpace(limits: Map<string, number>, sizes: Pick<Sizes, "components" | "maxima">): {
  most: Map<string, number>; multiple: Map<string, number>;
} {
  const most = new Map<string, number>();
  const multiple = new Map<string, number>();
  sizes.components.forEach((name, i) => {
    const maximum = Math.max(1, sizes.maxima[i] ?? 1);
    const step = maximum >= 64 ? 8 : 1;
    const rows = Math.max(4 * maximum, limits.get(name) ?? 0);
    most.set(name, Math.ceil(rows / step) * step);
    multiple.set(name, step);
  });
  return { most, multiple };
}
