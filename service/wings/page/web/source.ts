// The choice of whose sizes are shown.

import type { Asker, Sources } from "./api";
import { h, replace } from "./dom";
import { some } from "./format";

export interface SourceChoice {
  element: HTMLElement;
  // The source of the address or else the first; empty if there is none.
  load: (asker: Asker) => Promise<string>;
  // Nothing to choose from.
  isEmpty: () => boolean;
}

export function sourceChoice(values: URLSearchParams, onChoose: (source: string) => void): SourceChoice {
  const choice = h("select", { id: "source" });
  choice.addEventListener("change", () => onChoose(choice.value));
  let options = 0;
  const load = async (asker: Asker): Promise<string> => {
    const sources = await asker.ask<Sources>("api/sources");
    if (sources === null) return values.get("source") ?? "";
    const group = (label: string, all: { value: string; text: string }[]): HTMLElement | null =>
      all.length === 0 ? null : h("optgroup", { label }, ...all.map((each) => h("option", { value: each.value }, each.text)));
    replace(choice,
      group("Data sets", sources.datasets.map((each) => ({ value: `dataset/${each.name}`, text: `${each.name} (${some(each.graphs, "graph")})` }))),
      group("Named histograms", sources.histograms.map((each) => ({ value: `histogram/${each.name}`, text: each.name }))),
      group("Open streams", sources.streams.map((each) => ({ value: `stream/${each.number}`, text: `stream ${each.number} of ${each.client}${each.name === "" ? "" : `, ${each.name}`} (${some(each.graphs, "graph")})` }))));
    options = sources.datasets.length + sources.histograms.length + sources.streams.length;
    const wanted = values.get("source") ?? "";
    if (wanted !== "" && ![...choice.options].some((option) => option.value === wanted)) {
      choice.prepend(h("option", { value: wanted }, wanted));
      ++options;
    }
    if (wanted !== "") choice.value = wanted;
    return choice.value;
  };
  return {
    element: h("label", { class: "field grow" }, "Sizes of", choice),
    load,
    isEmpty: () => options === 0,
  };
}
