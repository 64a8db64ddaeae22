// Data sets, source graphs and measured models, and what namespaces may have.

import type { Column, Data, Dataset, MeasuredModel, SourceGraph, SourceSet } from "./api";
import { serverCommand } from "./commands";
import { bar, card, command, empty, h, replace, table } from "./dom";
import { bytes, count, percent, rate, shortTime, some } from "./format";
import { formatRoute } from "./route";
import type { MakeView } from "./view";

const QUOTAS: Record<string, string> = {
  disk_bytes: "on the disk",
  datasets: "data sets",
  source_graphs: "source graphs",
  pending_bytes: "graphs that wait",
  planning: "threads that plan",
};

function typeOf(column: Column): string {
  const shape = column.row_shape.length === 0 ? "" : ` [${column.row_shape.join(", ")}]`;
  return `${column.dtype}${shape}${column.ragged === true ? ", ragged" : ""}`;
}

function drift(data: Dataset): HTMLElement | null {
  if (data.drift === undefined) return null;
  const { first_graph, found_graph, changes, components } = data.drift;
  return h("div", {},
    h("p", {}, `The sizes changed at about graph ${count(first_graph)}, found at ${count(found_graph)}. ${some(changes, "change")} so far. Limits that were chosen before may not be the best now.`),
    table(`Mean sizes of ${data.name}`, ["Component", "Rows of a graph before", "Rows of a graph after"],
      components.map(({ component, before, after }) => [component, rate(before), rate(after)])));
}

function dataset(data: Dataset, server: string): HTMLElement {
  const sizes = formatRoute("sizes", new URLSearchParams({ source: `dataset/${data.name}` }));
  return h("details", { class: "card wide", id: `dataset-${data.name}` },
    h("summary", {}, h("span", { class: "name" }, data.name), h("span", { class: "badge" }, data.state),
      data.drift === undefined ? null : h("span", { class: "badge" }, "sizes changed"),
      h("span", { class: "note" }, `${some(data.graphs, "graph")}, ${bytes(data.bytes)}${data.max_bytes === null ? "" : ` of ${bytes(data.max_bytes)}`}${data.grouped ? ", grouped" : ""}`)),
    data.max_bytes === null ? null : bar("on the disk", data.bytes / data.max_bytes, `${bytes(data.bytes)} of ${bytes(data.max_bytes)}`),
    drift(data),
    table(`Tensors of ${data.name}`, ["Tensor", "Type", "Rows of", "Points into"],
      data.tensors.map((tensor) => [tensor.name, typeOf(tensor), tensor.component ?? "", tensor.index_into ?? ""])),
    h("p", {}, h("a", { href: sizes }, "Sizes and limits")),
    command(serverCommand(server, "datasets", "show", data.name), "this data set"));
}

function set(each: SourceSet): (string | Node)[] {
  const ends = each.source === undefined ? `ids: ${each.ids ?? ""}`
    : `${each.source} → ${each.target ?? ""}${each.reverse_of ? `, reverse of ${each.reverse_of}` : ""}`;
  return [each.name, count(each.rows), ends, each.columns.map((column) => `${column.name}: ${typeOf(column)}`).join("; ") || "none"];
}

function sourceGraph(graph: SourceGraph, server: string): HTMLElement {
  const sum = (sets: SourceSet[]): number => sets.reduce((total, each) => total + each.rows, 0);
  return h("details", { class: "card wide", id: `graph-${graph.name}` },
    h("summary", {}, h("span", { class: "name" }, graph.name), h("span", { class: "badge" }, graph.state),
      h("span", { class: "note" }, `${some(sum(graph.node_sets), "node")}, ${some(sum(graph.edge_sets), "edge")}, ${bytes(graph.bytes)}${graph.max_bytes === null ? "" : ` of ${bytes(graph.max_bytes)}`}`)),
    table(`Node sets of ${graph.name}`, ["Node set", "Nodes", "Ids", "Columns"], graph.node_sets.map(set)),
    table(`Edge sets of ${graph.name}`, ["Edge set", "Edges", "Ends", "Columns"], graph.edge_sets.map(set)),
    command(serverCommand(server, "graph", "show", graph.name), "this source graph"));
}

function model(measured: MeasuredModel, server: string): HTMLElement {
  const name = `${measured.model}/${measured.device}`;
  const bounds = [
    measured.least_seconds > 0 ? `At least ${shortTime(measured.least_seconds)} a batch.` : "",
    measured.most_bytes === null ? "" : `No more than ${bytes(measured.most_bytes)}: larger batches did not fit.`,
    `Half of the shapes differ by ${percent(measured.spread)} or less.`,
  ];
  return h("details", { class: "card wide", id: `model-${name}` },
    h("summary", {}, h("span", { class: "name" }, name),
      h("span", { class: "note" }, `${some(measured.reports, "report")}, ${some(measured.out_of_memory, "batch", "batches")} out of memory`)),
    table(`Costs of ${name}`, ["Of", "Time", "Memory"], [
      ["each batch", shortTime(measured.fixed_seconds), bytes(measured.fixed_bytes)],
      ...measured.components.map(({ component, seconds, bytes: memory }) => [`each row of ${component}`, shortTime(seconds), bytes(memory)]),
    ]),
    h("p", {}, bounds.filter((each) => each !== "").join(" ")),
    command(serverCommand(server, "feedback", "show", name), "this model, with the shapes that were measured"));
}

export const dataView: MakeView = ({ asker, server }) => {
  const element = h("div", { class: "grid" });
  let last = "";
  const show = (data: Data): void => {
    const text = JSON.stringify(data);
    if (text === last) return;
    last = text;
    const open = new Set([...element.querySelectorAll("details[open]")].map((each) => each.id));
    const wide = (...children: (Node | string | null)[]): HTMLElement => h("div", { class: "wide" }, ...children);
    replace(element,
      !data.has_data && data.source_graphs.length === 0
        ? wide(empty("The server keeps nothing: it was started without --data-dir."))
        : null,
      data.quotas.length === 0 ? null : h("div", { class: "wide" }, card("Quotas", ...data.quotas.flatMap((each) => [
        h("h3", {}, each.namespace),
        ...each.quotas.map(({ quota, used, most }) => {
          const text = quota.endsWith("bytes") ? bytes : quota === "planning" ? percent : count;
          return bar(QUOTAS[quota] ?? quota, used / Math.max(most, Number.MIN_VALUE), `${text(used)} of ${text(most)}`, used >= 0.9 * most ? "near" : "");
        }),
      ]))),
      wide(h("h2", {}, `Data sets: ${count(data.datasets.length)}`)),
      ...(data.datasets.length === 0
        ? [wide(empty("There is no data set.", command(serverCommand(server() || "HOST:PORT", "ingest", "graphs.npz", "--dataset", "molecules"), "how to store graphs")))]
        : data.datasets.map((each) => dataset(each, server()))),
      wide(h("h2", {}, `Source graphs: ${count(data.source_graphs.length)}`)),
      ...(data.source_graphs.length === 0 ? [wide(empty("There is no source graph."))] : data.source_graphs.map((each) => sourceGraph(each, server()))),
      wide(h("h2", {}, `Measured models: ${count(data.models.length)}`)),
      ...(data.models.length === 0
        ? [wide(empty("No trainer has told what its batches cost."))]
        : data.models.map((each) => model(each, server()))),
      data.more ? wide(h("p", { class: "note" }, "There are more than are shown here.")) : null,
      wide(command(serverCommand(server(), "datasets", "list"), "all data sets"),
        command(serverCommand(server(), "graph", "list"), "all source graphs"),
        command(serverCommand(server(), "feedback", "list"), "all measured models")));
    for (const id of open) {
      const details = document.getElementById(id);
      if (details instanceof HTMLDetailsElement) details.open = true;
    }
  };
  return {
    title: "Data",
    element,
    interval: 10000,
    refresh: async () => {
      const data = await asker.ask<Data>("api/data");
      if (data !== null) show(data);
    },
  };
};
