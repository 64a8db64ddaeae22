// What the server does now, and did in the last hour.

import type { Overview } from "./api";
import { timeChart } from "./charts";
import { bar, card, command, empty, h, replace } from "./dom";
import { bytes, count, duration, percent, rate, some } from "./format";
import { serverCommand } from "./commands";
import type { MakeView } from "./view";

const SHARES: Record<string, string> = {
  pending: "graphs that wait",
  unsent: "answers to be sent",
  working: "plans, epochs, requests",
};
const STORES: Record<string, string> = {
  datasets: "data sets",
  delivery: "epochs and progress",
  source_graphs: "source graphs",
};

function figure(name: string, value: string, unit: string, note: string): HTMLElement {
  return h("div", { class: "figure" },
    h("dt", {}, name),
    h("dd", {}, h("span", { class: "value" }, value), ` ${unit}`, h("span", { class: "note" }, note)));
}

// A bound is near from here on.
const NEAR = 0.9;

function nearness(share: number): string {
  return share >= NEAR ? "near" : "";
}

function waits(overview: Overview): HTMLElement {
  if (overview.waiting.length === 0) return empty("No stream is open: nobody waits.");
  return h("ul", { class: "plain" }, ...overview.waiting.map((each) => {
    const isEpochs = each.what === "Load";
    // Most of them, if there are any.
    const who = each.starved > 0 && 2 * each.starved >= each.open ? "clients" : 2 * each.awaited >= each.open ? "server" : "nobody";
    const all = some(each.open, isEpochs ? "worker" : "stream");
    const said = who === "clients" ? "Workers wait for the server." : who === "server" ? "The server waits for its clients." : "Nobody waits for long.";
    const why = isEpochs
      ? `Of ${all}, ${count(each.awaited)} have batches to work on, and ${count(each.starved)} wait for one.`
      : `Of ${all}, ${count(each.awaited)} ${each.awaited === 1 ? "has" : "have"} answers ready that the client has not taken.`;
    return h("li", { class: `wait ${who}` }, h("strong", {}, `${isEpochs ? "Epochs" : each.what}: ${said}`), ` ${why}`);
  }));
}

// Through what the batches of streams go.
function transport(lanes: Overview["lanes"]): string {
  if (lanes === null) return "All batches go over gRPC: the server was started without --lane.";
  const of = lanes.offered === 0
    ? "No stream was offered shared memory."
    : `Of ${some(lanes.offered, "stream")} that ${lanes.offered === 1 ? "was" : "were"} offered shared memory, ${count(lanes.open)} ${lanes.open === 1 ? "uses" : "use"} it.`;
  return `${of} ${some(lanes.batches, "batch", "batches")} went that way since the start.`;
}

export const overviewView: MakeView = ({ asker, server }) => {
  const figures = h("dl", { class: "figures" });
  const efficiency = h("div");
  const throughput = h("div");
  const charts = h("div", { class: "charts" });
  const memory = h("div");
  const disks = h("div");
  const waiting = h("div");
  const about = h("p", { class: "note" });
  const commands = h("div");
  const element = h("div", { class: "grid" },
    h("section", { class: "wide", "aria-label": "Rates" }, figures),
    card("How full the batches are", efficiency),
    card("Who waits for whom", waiting),
    h("section", { class: "card wide", "aria-label": "The last hour" }, h("h2", {}, "The last hour"), charts, throughput),
    card("Memory", memory),
    card("Disk", disks),
    h("section", { class: "wide", "aria-label": "About" }, about, commands));

  const show = (overview: Overview): void => {
    const { history, totals, delivery } = overview;
    replace(figures,
      figure("Batches", rate(history.rates.batches), "/s", `${count(totals.batches)} since the start`),
      figure("Graphs", rate(history.rates.graphs), "/s", `${count(totals.graphs)} since the start`),
      figure("Bytes", bytes(history.rates.bytes), "/s", `${bytes(totals.bytes)} since the start`),
      figure("Workers of epochs", count(delivery.sessions), "",
        `${some(delivery.in_flight, "batch", "batches")} in flight, ${count(delivery.redelivered)} sent again`));
    if (history.components.length === 0) {
      replace(efficiency, empty("No batch was handed out yet."));
    } else {
      replace(efficiency, ...history.components.flatMap((each) => [
        bar(each.component, each.efficiency_now ?? each.efficiency_hour,
          `${percent(each.efficiency_now)} (${percent(each.efficiency_hour)} before)`),
      ]), h("p", { class: "note" }, `Now, and in brackets in the last ${duration(Math.min(3600, history.span_seconds))}: real rows over all rows of the batches. The rest is padding, or room that the client pads.`));
    }
    replace(waiting, waits(overview), h("p", { class: "note" }, transport(overview.lanes)));

    const { series } = history;
    if (series.seconds.length === 0) {
      replace(charts, empty("The first samples come in a few seconds."));
    } else {
      const named = Object.entries(series.efficiency);
      const known = named.some(([, values]) => values.some((value) => value !== null));
      const least = Math.min(1, ...named.flatMap(([, values]) => values.filter((value): value is number => value !== null)));
      replace(charts,
        h("figure", {}, h("figcaption", {}, "Graphs a second"),
          timeChart(`Graphs a second: ${rate(history.rates.graphs)} now`, series.seconds,
            [{ name: "graphs", colour: 0, values: series.graphs }], rate)),
        h("figure", {}, h("figcaption", {}, "Efficiency",
          ...named.map(([name], i) => h("span", { class: `key c${i % 8}` }, name))),
          known
            ? timeChart(`Efficiency: ${history.components.map((each) => `${each.component} ${percent(each.efficiency_now)}`).join(", ")} now`,
              series.seconds, named.map(([name, values], i) => ({ name, colour: i, values })),
              (value) => percent(value, least > 0.95 ? 1 : 0), Math.max(0, Math.floor(least * 10 - 0.5) / 10))
            : empty("No batch in this time.")));
    }
    replace(memory, ...overview.memory.map((share) => bar(SHARES[share.name] ?? share.name, share.held / Math.max(1, share.most),
      `${bytes(share.held)} of ${bytes(share.most)}`, nearness(share.held / Math.max(1, share.most)))),
      bar("connections", overview.connections.open / Math.max(1, overview.connections.most),
        `${count(overview.connections.open)} of ${count(overview.connections.most)}`),
      h("p", { class: "note" }, `${some(overview.pending_graphs, "graph")} ${overview.pending_graphs === 1 ? "waits" : "wait"} to be packed.`));
    if (overview.disks.length === 0) {
      replace(disks, empty("The server keeps nothing: it was started without --data-dir."));
    } else {
      const free = overview.disks.find((disk) => disk.free !== null)?.free ?? null;
      replace(disks, ...overview.disks.map((disk) => bar(STORES[disk.name] ?? disk.name, disk.bytes / Math.max(1, disk.most),
        `${bytes(disk.bytes)} of ${bytes(disk.most)}`, nearness(disk.bytes / Math.max(1, disk.most)))),
        free === null ? null : h("p", { class: "note" }, `${bytes(free)} are free on the disk.`));
    }
    about.textContent = `packhoused ${overview.state.version}${overview.state.draining ? ", which is draining: it ends soon" : ""}.`;
    if (commands.childElementCount === 0 && server() !== "") {
      replace(commands, command(`curl -s ${location.origin}/metrics`, "all metrics"),
        command(serverCommand(server(), "jobs", "list"), "all jobs"));
    }
  };

  return {
    title: "Overview",
    element,
    interval: 2000,
    refresh: async () => {
      const overview = await asker.ask<Overview>("api/overview");
      if (overview !== null) show(overview);
    },
  };
};
