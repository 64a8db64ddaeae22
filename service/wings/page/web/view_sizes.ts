// Sizes, limits and what they lead to.

import { Refused, type Plan, type Shape, type Sizes, type Tuned } from "./api";
import { frontierChart, heatMap, type HeatMap } from "./charts";
import { hasCommand, planCommand, tuneCommand } from "./commands";
import { bar, card, command, empty, h, replace, table } from "./dom";
import { bytes, count, percent } from "./format";
import { batchBytes, GRAPHS, limitsOf, searchSpace, tooSmall } from "./limits";
import { comparison, planFigures, planQuestion, refusal } from "./plan_parts";
import { namedNumbers, setNamedNumbers } from "./route";
import { sourceChoice } from "./source";
import type { MakeView } from "./view";

// While a limit moves, plans are quick ones; then comes the one that `packhouse plan` makes.
const QUICK_STEPS = 4_000_000;
const SEARCH_STEPS = 400_000_000;

export const sizesView: MakeView = ({ asker, values, server, keep }) => {
  const choice = sourceChoice(values, (source) => {
    const next = new URLSearchParams({ source });
    for (const key of [...values.keys()]) values.delete(key);
    next.forEach((value, key) => values.append(key, value));
    keep(values);
    void load();
  });
  const chart = h("div", { class: "chart-place" });
  const summary = h("p", { class: "note" });
  const fields = h("div", { class: "fields" });
  const axes = h("div", { class: "row" });
  const figures = h("div", { "aria-live": "polite", "aria-atomic": "true" });
  const others = h("div");
  const frontier = h("div");
  const commands = h("div");
  const body = h("div", { class: "grid" });
  const element = h("div", {}, h("div", { class: "row" }, choice.element, axes), body);

  let source = "";
  let sizes: Sizes | null = null;
  let limits = new Map<string, number>();
  let perRow = new Map<string, number>();
  let map: HeatMap | null = null;
  let isLog = values.get("scale") !== "linear";
  let settle = 0;
  let tuned: Tuned | null = null;

  const memory = (answer: Plan): string => {
    const fullest = new Map(answer.best.components.map((each) => [each.component, each.fullest_pack]));
    const sum = batchBytes(limits, perRow, fullest);
    return sum === 0 ? "set “Bytes a row”" : bytes(sum);
  };

  const store = (): void => {
    setNamedNumbers(values, "limit", limits);
    if (source !== "") values.set("source", source);
    keep(values);
  };

  const showCommands = (): void => {
    if (sizes === null) return;
    replace(commands, hasCommand(source) ? command(planCommand(server(), source, limits), "this plan") : null);
  };

  // Plans for the limits: quickly while they move, then as thoroughly as the command line does.
  const plan = async (done: boolean): Promise<void> => {
    clearTimeout(settle);
    const question = planQuestion(source, limits);
    if (!done) question.set("steps", String(QUICK_STEPS));
    try {
      const answer = await asker.ask<Plan>("api/plan", question);
      if (answer === null) return;
      replace(figures, planFigures(answer, memory(answer)));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      replace(figures, refusal(error));
      if (done) replace(others, empty("No way to pack keeps these limits."));
      return;
    }
    if (done) void compare();
  };
  const compare = async (): Promise<void> => {
    const question = planQuestion(source, limits);
    question.set("compare", "1");
    let answer: Plan | null;
    try {
      answer = await asker.ask<Plan>("api/plan", question, "compare");
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      replace(others, refusal(error));
      return;
    }
    if (answer === null) return;
    const rows = comparison(answer);
    const least = Math.max(1, answer.best.packs);
    const packers = rows.filter((row) => row.kind !== "none");
    const most = Math.max(...packers.map((row) => row.packs - least), 1);
    const none = rows.find((row) => row.kind === "none");
    replace(others,
      h("p", { class: "note" }, "Packs beyond those of the plan, for the same limits."),
      ...packers.map((row) => bar(row.name, (row.packs - least) / most,
        `${count(row.packs)} packs${row.kind === "ours" ? "" : `, ${percent(row.packs / least - 1, 2)} more`}`, row.kind)),
      none === undefined ? null : h("p", { class: "note nothing" }, `Without packing there are ${count(none.packs)} batches, ${(none.packs / least).toFixed(1)} times as many.`),
      h("details", {}, h("summary", {}, "All ways that were tried"),
        table("All ways to pack that were tried", ["Way", "Packs", "Full"],
          (answer.others ?? []).filter((each) => each.unfinished !== true).map((each) => [
            each.keeps_limits ? each.name : `${each.name} (ignores limits)`, count(each.packs),
            each.components.filter((component) => component.capacity !== null)
              .map((component) => `${component.component} ${percent(component.efficiency)}`).join(", "),
          ]))));
  };

  const changed = (done: boolean): void => {
    if (sizes === null) return;
    for (const name of [...sizes.components, GRAPHS]) {
      const field = document.getElementById(`rows-${name}`);
      if (field instanceof HTMLInputElement && document.activeElement !== field) {
        field.value = limits.has(name) ? String(limits.get(name)) : "";
      }
    }
    void plan(false);
    clearTimeout(settle);
    settle = window.setTimeout(() => {
      store();
      showCommands();
      drawFrontier();
      void plan(true);
    }, done ? 120 : 400);
  };

  const draw = (): void => {
    if (sizes === null) return;
    const shown = sizes;
    const of = (name: string | undefined): number | null => name === undefined ? null : limits.get(name) ?? null;
    map = heatMap(shown, isLog, { x: of(shown.x.component), y: of(shown.y?.component) }, (axis, rows, done) => {
      const name = axis === "x" ? shown.x.component : shown.y?.component ?? "";
      limits.set(name, rows);
      changed(done);
    });
    replace(chart, map.element);
  };

  const drawFrontier = (): void => {
    if (tuned === null || sizes === null) return;
    const found = tuned;
    const known = new Map([...limits].filter(([name]) => name in found.shape.capacities));
    const chosen = JSON.stringify(Object.fromEntries(Object.keys(found.shape.capacities).map((name) => [name, known.get(name) ?? 0])));
    const sizeOf = (shape: Shape): number =>
      Object.entries(shape.capacities).reduce((sum, [name, rows]) => sum + (name === GRAPHS ? 0 : rows), 0);
    const { most, multiple } = searchSpace(new Map(), sizes);
    replace(frontier,
      frontierChart(found.frontier, found.least_cost, chosen, sizeOf, "rows of a batch, all components", (shape) => {
        const graphs = limits.get(GRAPHS);
        limits = new Map(Object.entries(shape.capacities).filter(([, rows]) => rows > 0));
        if (graphs !== undefined) limits.set(GRAPHS, graphs);
        draw();
        changed(true);
      }),
      h("p", { class: "note" }, `Limits up to four times the largest graph${[...multiple.values()].some((step) => step > 1) ? ", in steps of 8" : ""}; each point is fuller than all smaller ones. ${found.reasons[0] ?? ""}`.trim()),
      hasCommand(source) ? command(tuneCommand(server(), source, most, multiple, perRow, SEARCH_STEPS), "this search") : null);
  };

  const search = async (): Promise<void> => {
    if (sizes === null) return;
    const { most, multiple } = searchSpace(new Map(), sizes);
    const question = new URLSearchParams({ source, steps: String(SEARCH_STEPS) });
    setNamedNumbers(question, "max", most);
    setNamedNumbers(question, "multiple", multiple);
    setNamedNumbers(question, "bytes", perRow);
    replace(frontier, h("p", { class: "note", role: "status" }, "Searching for limits …"));
    try {
      tuned = await asker.ask<Tuned>("api/tune", question);
      if (tuned === null) return;
      drawFrontier();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      replace(frontier, refusal(error));
    }
  };

  const number = (id: string, label: string, value: string, hint: string, onChange: (text: string) => void): HTMLElement => {
    const field = h("input", { id, type: "number", min: 0, step: 1, value, inputmode: "numeric", placeholder: hint });
    field.addEventListener("input", () => onChange(field.value));
    return h("label", { class: "field" }, label, field);
  };

  const showFields = (): void => {
    if (sizes === null) return;
    const shown = sizes;
    replace(fields, ...[...shown.components, GRAPHS].map((name) => h("fieldset", {},
      h("legend", {}, name),
      number(`rows-${name}`, "At most", limits.has(name) ? String(limits.get(name)) : "", "no limit", (text) => {
        const rows = Math.floor(Number(text));
        if (rows >= 1) limits.set(name, rows); else limits.delete(name);
        if (name === shown.x.component) map?.setLimit("x", limits.get(name) ?? null);
        if (name === shown.y?.component) map?.setLimit("y", limits.get(name) ?? null);
        if (limits.size > 0) changed(false);
      }),
      number(`bytes-${name}`, "Bytes a row", String(perRow.get(name) ?? 0), "0", (text) => {
        perRow.set(name, Math.max(0, Math.floor(Number(text)) || 0));
        setNamedNumbers(values, "bytes", perRow);
        changed(false);
      }))));
  };

  const select = (id: string, label: string, options: string[], value: string, onChange: (value: string) => void): HTMLElement => {
    const field = h("select", { id }, ...options.map((option) => h("option", { value: option }, option)));
    field.value = value;
    field.addEventListener("change", () => onChange(field.value));
    return h("label", { class: "field" }, label, field);
  };

  const load = async (): Promise<void> => {
    source = await choice.load(asker);
    if (source === "" && choice.isEmpty()) {
      replace(axes);
      replace(body, h("div", { class: "wide" }, empty("There are no sizes yet: no data set, no named histogram, and no open stream.",
        command(`packhouse histogram --sizes sizes.csv --server ${server() || "HOST:PORT"}`, "how to sum up sizes"))));
      return;
    }
    const question = new URLSearchParams({ source, scale: isLog ? "log" : "linear" });
    for (const key of ["x", "y"]) {
      const value = values.get(key);
      if (value !== null) question.set(key, value);
    }
    let answer: Sizes | null;
    try {
      answer = await asker.ask<Sizes>("api/sizes", question);
    } catch (error) {
      if (!(error instanceof Refused) || error.status === 0) throw error;
      replace(body, h("div", { class: "wide" }, empty(error.message)));
      return;
    }
    if (answer === null) return;
    sizes = answer;
    if (sizes.num_graphs === 0) {
      replace(body, h("div", { class: "wide" }, empty("There is no graph in it yet.")));
      return;
    }
    limits = limitsOf(values, sizes);
    perRow = new Map(Object.entries(sizes.bytes_per_row ?? {}));
    for (const name of sizes.components) if (!perRow.has(name)) perRow.set(name, 0);
    for (const [name, each] of namedNumbers(values, "bytes")) perRow.set(name, each);
    const whole = sizes.sample_of === undefined ? "" : `A sample of the ${count(sizes.sample_of)} graphs that have come: `;
    const again = source.startsWith("stream/")
      ? h("button", { type: "button", id: "again", click: () => void load() }, "Look again") : null;
    replace(summary, `${whole}${count(sizes.num_graphs)} graphs of ${count(sizes.num_sizes)} sizes; the largest has ${sizes.components.map((name, i) => `${count(sizes?.maxima[i] ?? 0)} ${name}`).join(", ")}. Drag the limits, or move them with the arrow keys. `, again);
    const go = (key: string, value: string): void => {
      values.set(key, value);
      isLog = values.get("scale") !== "linear";
      keep(values);
      void load();
    };
    const { components, x, y } = sizes;
    replace(axes,
      components.length > 2 ? select("axis-x", "Across", components, x.component, (value) => go("x", value)) : null,
      components.length > 2 && y !== null ? select("axis-y", "Up", components.filter((name) => name !== x.component), y.component, (value) => go("y", value)) : null,
      select("scale", "Scale", ["log", "linear"], isLog ? "log" : "linear", (value) => go("scale", value)));
    replace(body,
      h("div", { class: "stack" },
        h("section", { class: "card", "aria-label": "Sizes and limits" }, h("h2", {}, "Sizes and limits"), chart, summary),
        h("section", { class: "card last", "aria-label": "Better limits" }, h("h2", {}, "Better limits"), frontier)),
      h("div", { class: "stack" }, card("Limits of a batch", fields), card("The plan", figures, commands), card("Beside it", others)));
    draw();
    showFields();
    showCommands();
    if (tooSmall(limits, sizes).length === 0 || limits.size > 0) void plan(true);
    void search();
  };

  return { title: "Sizes", element, interval: 0, refresh: load };
};
