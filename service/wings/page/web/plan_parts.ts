// Parts of a plan that two views show.

import { Refused, type Plan, type Summary } from "./api";
import { bar, h } from "./dom";
import { count, milliseconds, percent, rate } from "./format";
import { setNamedNumbers } from "./route";

export function planQuestion(source: string, limits: Map<string, number>): URLSearchParams {
  const values = new URLSearchParams({ source });
  setNamedNumbers(values, "limit", limits);
  return values;
}

// "proved optimal: no plan has fewer".
export function proof(best: Summary): HTMLElement {
  if (best.optimal) return h("span", { class: "badge good" }, "proved optimal");
  const above = best.packs - best.lower_bound;
  return h("span", { class: "badge" }, `at most ${count(above)} above the best (${percent(best.gap, 2)})`);
}

export function planFigures(plan: Plan, memory: string): HTMLElement {
  const best = plan.best;
  return h("div", {},
    h("p", { class: "packs" }, h("strong", { id: "packs" }, count(best.packs)), " packs ", proof(best)),
    ...best.components.filter((each) => each.capacity !== null).map((each) =>
      bar(each.component, each.efficiency, `${percent(each.efficiency, 2)} full`)),
    h("dl", { class: "facts" },
      h("div", {}, h("dt", {}, "Lower bound"), h("dd", { id: "bound" }, `${count(best.lower_bound)}, by ${best.lower_bound_name}`)),
      h("div", {}, h("dt", {}, "Memory of a batch"), h("dd", { id: "memory" }, memory)),
      h("div", {}, h("dt", {}, "Found by"), h("dd", {}, `${best.winner}, ${rate(best.steps)} steps, ${milliseconds(best.milliseconds)}`)),
      h("div", { class: "full" }, h("dt", {}, "Receipt"), h("dd", { class: "receipt", id: "receipt" }, best.receipt))));
}

// Why there is no plan.
export function refusal(refused: Refused): HTMLElement {
  return h("div", { class: "refusal", role: "status" },
    h("strong", {}, refused.code === "OUT_OF_RANGE" ? "Some graphs exceed these limits alone." : "There is no plan."),
    h("p", {}, refused.message));
}

// The best of each way, against the plan that is shown.
export function comparison(plan: Plan): { name: string; packs: number; note: string; kind: string }[] {
  const rows = [{ name: "packhouse", packs: plan.best.packs, note: "the plan above", kind: "ours" }];
  const done = (plan.others ?? []).filter((each) => each.unfinished !== true && each.keeps_limits);
  const bestOf = (name: string, kind: string, is: (each: Summary) => boolean): void => {
    const fitting = done.filter(is);
    if (fitting.length === 0) return;
    const best = fitting.reduce((a, b) => b.packs < a.packs ? b : a);
    rows.push({ name, packs: best.packs, note: fitting.length > 1 ? `${best.name}, the best of ${fitting.length}` : best.name, kind });
  };
  bestOf("first-fit decreasing", "", (each) => each.name === "first-fit decreasing");
  bestOf("filling tuple packing", "", (each) => each.name.startsWith("filling "));
  bestOf("the paper's packing", "", (each) => /^(best|first)-fit (?!decreasing)/.test(each.name));
  if (plan.next_fit !== undefined) {
    rows.push({
      name: "next-fit", packs: plan.next_fit.packs,
      note: plan.next_fit.is_exact ? "in random order, as PyG and jraph do" : "in random order, scaled up from a sample", kind: "",
    });
  }
  bestOf("no packing", "none", (each) => each.name === "no packing");
  return rows;
}
