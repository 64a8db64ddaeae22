// What is in the packs of a plan.

import { Refused, type Plan, type Sizes } from "./api";
import { fillChart } from "./charts";
import { hasCommand, planCommand } from "./commands";
import { bar, card, command, empty, h, replace, s } from "./dom";
import { bytes, count, percent, some } from "./format";
import { formatRoute } from "./route";
import { batchBytes, limitsOf } from "./limits";
import { planFigures, planQuestion, refusal } from "./plan_parts";
import { sourceChoice } from "./source";
import type { MakeView } from "./view";

const FEW = 12;
const MANY = 200;

export const planView: MakeView = ({ asker, values, server, keep }) => {
  const choice = sourceChoice(values, (source) => {
    for (const key of [...values.keys()]) values.delete(key);
    values.set("source", source);
    keep(values);
    void load();
  });
  const body = h("div", { class: "grid" });
  const element = h("div", {}, h("div", { class: "row" }, choice.element), body);
  let shown = FEW;

  const show = (plan: Plan, sizes: Sizes, limits: Map<string, number>, source: string): void => {
    const packs = plan.plan;
    if (packs === undefined) return;
    const names = plan.best.components.map((each) => each.component);
    const perRow = new Map(Object.entries(sizes.bytes_per_row ?? {}));
    const memory = batchBytes(limits, perRow, new Map(plan.best.components.map((each) => [each.component, each.fullest_pack])));
    const binds = Object.entries(packs.binds);
    const list = h("ol", { class: "patterns" }, ...packs.patterns.slice(0, shown).map((pattern) => {
      const limited = names.map((name, k) => ({ name, fill: pattern.fill[k] ?? null, rows: pattern.rows[k] ?? 0 }))
        .filter((each) => each.fill !== null);
      return h("li", { class: "pattern" },
        h("div", { class: "repeats" }, h("strong", {}, count(pattern.repeats)), ` ${pattern.repeats === 1 ? "pack" : "packs"}`),
        h("div", { class: "fills" }, ...limited.map((each) =>
          bar(each.name, each.fill, `${count(each.rows)}, ${percent(each.fill)}`, each.name === pattern.binds ? "binds" : ""))),
        h("div", { class: "graphs" }, ...pattern.graphs.flatMap((graph) => [
          h("span", { class: "graph" }, `${graph.copies > 1 ? `${graph.copies} × ` : ""}(${graph.size.map(count).join(", ")})`), " "]),
        pattern.num_sizes > pattern.graphs.length ? `and ${some(pattern.num_sizes - pattern.graphs.length, "size")} more` : null));
    }));
    const more = shown < packs.patterns.length
      ? h("button", { type: "button", id: "more", click: () => { shown = MANY; show(plan, sizes, limits, source); } }, "Show more patterns")
      : null;
    replace(body,
      card("The plan", planFigures(plan, memory === 0 ? "not known" : bytes(memory)),
        h("p", {}, h("a", { href: formatRoute("sizes", values) }, "Change the limits"))),
      card("What binds", h("p", { class: "note" }, "The component that is fullest in a pack: nothing more of it fits."),
        ...binds.map(([name, number]) => bar(name, number / Math.max(1, plan.best.packs), `${some(number, "pack")}, ${percent(number / Math.max(1, plan.best.packs))}`))),
      h("section", { class: "card wide", "aria-label": "How full the packs are" }, h("h2", {}, "How full the packs are"),
        h("div", { class: "charts three" }, ...Object.entries(packs.fill).map(([name, bins], i) => {
          const full = bins[bins.length - 1] ?? 0;
          return h("figure", {}, h("figcaption", {}, `${name}: ${count(full)} exactly full`),
            fillChart(`${name}: ${count(full)} of ${count(plan.best.packs)} packs are exactly full`, bins, i));
        }))),
      h("section", { class: "card wide", "aria-label": "Patterns" },
        h("h2", {}, `Patterns: ${count(packs.num_patterns)}`),
        h("p", { class: "note" }, `Sizes that share a pack, as (${sizes.components.join(", ")}); those of the most packs first.`),
        list, more,
        hasCommand(source) ? command(planCommand(server(), source, limits, shown), "these patterns") : null));
  };

  const load = async (): Promise<void> => {
    const source = await choice.load(asker);
    if (source === "" && choice.isEmpty()) {
      replace(body, h("div", { class: "wide" }, empty("There is nothing to plan for: no data set, no named histogram, and no open stream.")));
      return;
    }
    if (body.childElementCount === 0) {
      replace(body, h("div", { class: "wide" }, h("p", { class: "note", role: "status" }, "Planning …"), s("svg", { class: "waiting", "aria-hidden": "true" })));
    }
    try {
      const sizes = await asker.ask<Sizes>("api/sizes", new URLSearchParams({ source, bins: "1" }));
      if (sizes === null) return;
      if (sizes.num_graphs === 0) {
        replace(body, h("div", { class: "wide" }, empty("There is no graph in it yet.")));
        return;
      }
      const limits = limitsOf(values, sizes);
      const question = planQuestion(source, limits);
      question.set("patterns", String(MANY));
      const plan = await asker.ask<Plan>("api/plan", question);
      if (plan !== null) show(plan, sizes, limits, source);
    } catch (error) {
      if (!(error instanceof Refused) || error.status === 0) throw error;
      replace(body, h("div", { class: "wide" }, refusal(error),
        h("p", {}, h("a", { href: formatRoute("sizes", values) }, "Change the limits"))));
    }
  };

  return { title: "A plan", element, interval: 0, refresh: load };
};
