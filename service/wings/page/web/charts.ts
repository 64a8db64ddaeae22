// Charts as SVG, by D3's scales, axes and shapes. Colours are classes of page.css.

import { axisBottom, axisLeft } from "d3-axis";
import { scaleLinear, scaleSymlog } from "d3-scale";
import { select } from "d3-selection";
import { line } from "d3-shape";
import type { Shape, Sizes } from "./api";
import { s } from "./dom";
import { count } from "./format";

export interface Series {
  name: string;
  colour: number;
  values: (number | null)[];
}

// Lines over time. `seconds` are before now, and at most 0. `label` says in words what is seen.
export function timeChart(
  label: string, seconds: number[], series: Series[], format: (value: number) => string, from?: number,
): SVGSVGElement {
  const [width, height, left, bottom, top, right] = [560, 190, 58, 26, 8, 12];
  const known = series.flatMap((each) => each.values.filter((value): value is number => value !== null));
  const least = from ?? 0;
  const most = from === undefined ? Math.max(...known, 1) * 1.08 : 1;
  const x = scaleLinear().domain([Math.min(...seconds, -60), 0]).range([left, width - right]);
  const y = scaleLinear().domain([least, most]).range([height - bottom, top]);
  const chart = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": label });
  const span = -Math.min(...seconds, -60);
  const ago = (value: number): string =>
    value === 0 ? "now" : span < 300 ? `−${count(-value)} s` : `−${count(-value / 60)} min`;
  const xAxis = s("g", { class: "axis", transform: `translate(0,${height - bottom})` });
  const yAxis = s("g", { class: "axis grid", transform: `translate(${left},0)` });
  select(xAxis).call(axisBottom(x).ticks(5).tickFormat(ago).tickSizeOuter(0));
  select(yAxis).call(axisLeft(y).ticks(4).tickFormat(format).tickSizeOuter(0).tickSizeInner(-(width - left - right)));
  chart.append(xAxis, yAxis);
  for (const each of series) {
    const points = each.values.map((value, i) => ({ at: seconds[i] ?? 0, value }));
    const path = line<{ at: number; value: number | null }>()
      .x((point) => x(point.at)).y((point) => y(Math.max(least, point.value ?? 0)))
      .defined((point) => point.value !== null);
    chart.append(s("path", { class: `line c${each.colour % 8}`, d: path(points) ?? "" }));
    const last = points[points.length - 1];
    if (last !== undefined && last.value !== null) {
      chart.append(s("circle", { class: `dot c${each.colour % 8}`, cx: x(last.at), cy: y(Math.max(least, last.value)), r: 3 }));
    }
  }
  return chart;
}

// Columns of equal width, the last of which is what is exactly full.
export function fillChart(label: string, bins: number[], colour: number): SVGSVGElement {
  const [width, height, left, bottom, top] = [280, 120, 8, 22, 6];
  const most = Math.max(...bins, 1);
  const step = (width - 2 * left) / bins.length;
  const chart = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart small", role: "img", "aria-label": label });
  bins.forEach((packs, i) => {
    if (packs === 0) return;
    const tall = Math.max(1.5, (height - bottom - top) * packs / most);
    chart.append(s("rect", {
      class: `column c${colour % 8}${i === bins.length - 1 ? " full" : ""}`,
      x: left + i * step + 0.5, width: step - 1, y: height - bottom - tall, height: tall,
    }, s("title", {}, `${count(packs)} packs ${i === bins.length - 1 ? "exactly full" : `from ${5 * i} to ${5 * (i + 1)} % full`}`)));
  });
  chart.append(
    s("line", { class: "rule", x1: left, x2: width - left, y1: height - bottom, y2: height - bottom }),
    s("text", { class: "tick", x: left, y: height - 6 }, "0 %"),
    s("text", { class: "tick middle", x: width / 2, y: height - 6 }, "50 %"),
    s("text", { class: "tick end", x: width - left, y: height - 6 }, "full"));
  return chart;
}

export interface HeatMap {
  element: SVGSVGElement;
  // Draws a limit of one of the two components; null: none.
  setLimit: (axis: "x" | "y", rows: number | null) => void;
}

const SHADES = 7;

// Counts by two components, with the counts by each of them above and to the right; limits can be
// dragged, and moved by the keyboard. `onLimit` is told of each change, and at its end with `done`.
export function heatMap(
  sizes: Sizes, isLog: boolean, limits: { x: number | null; y: number | null },
  onLimit: (axis: "x" | "y", rows: number, done: boolean) => void,
): HeatMap {
  const [width, left, bottom, top, right] = [640, 62, 46, 76, 84];
  const height = sizes.y === null ? 260 : 520;
  const plotTop = sizes.y === null ? 20 : top;
  const edge = (edges: number[], limit: number | null): number =>
    Math.max(edges[edges.length - 1] ?? 1, limit === null ? 0 : limit * 1.12);
  const scale = isLog ? scaleSymlog : scaleLinear;
  const x = scale().domain([0, edge(sizes.x.edges, limits.x)]).range([left, width - right]);
  const y = scale().domain([0, sizes.y === null ? Math.max(...sizes.x.counts, 1) : edge(sizes.y.edges, limits.y)])
    .range([height - bottom, plotTop]);
  const shown = sizes.y === null ? sizes.x.component : `${sizes.x.component} and ${sizes.y.component}`;
  const chart = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart heat", role: "group", "aria-label": `Sizes by ${shown}, with limits` });

  const counts = sizes.cells.map((cell) => cell[2]);
  const most = Math.log1p(Math.max(...counts, 1));
  const paths = Array.from({ length: SHADES }, () => "");
  if (sizes.y !== null) {
    for (const [i, j, graphs] of sizes.cells) {
      const shade = Math.min(SHADES - 1, Math.floor(SHADES * Math.log1p(graphs) / most));
      const [x0, x1] = [x(sizes.x.edges[i] ?? 0), x(sizes.x.edges[i + 1] ?? 0)];
      const [y0, y1] = [y(sizes.y.edges[j] ?? 0), y(sizes.y.edges[j + 1] ?? 0)];
      paths[shade] += `M${x0.toFixed(1)} ${y1.toFixed(1)}H${x1.toFixed(1)}V${y0.toFixed(1)}H${x0.toFixed(1)}Z`;
    }
  }
  const cells = s("g", { role: "img", "aria-label": `${count(sizes.num_graphs)} graphs of ${count(sizes.num_sizes)} sizes` });
  paths.forEach((d, shade) => { if (d !== "") cells.append(s("path", { class: `shade${shade}`, d })); });
  chart.append(cells);

  const ofX = Math.max(...sizes.x.counts, 1);
  const xTop = sizes.y === null ? plotTop : 8;
  const xFloor = sizes.y === null ? height - bottom : top - 8;
  let d = "";
  sizes.x.counts.forEach((graphs, i) => {
    if (graphs === 0) return;
    const tall = Math.max(1, (xFloor - xTop) * graphs / ofX);
    d += `M${x(sizes.x.edges[i] ?? 0).toFixed(1)} ${xFloor}V${(xFloor - tall).toFixed(1)}H${x(sizes.x.edges[i + 1] ?? 0).toFixed(1)}V${xFloor}Z`;
  });
  chart.append(s("path", { class: "marginal", d }));
  if (sizes.y !== null) {
    const ofY = Math.max(...sizes.y.counts, 1);
    const floor = width - right + 8;
    d = "";
    for (let j = 0; j < sizes.y.counts.length; ++j) {
      const graphs = sizes.y.counts[j] ?? 0;
      if (graphs === 0) continue;
      const long = Math.max(1, (right - 16) * graphs / ofY);
      d += `M${floor} ${y(sizes.y.edges[j] ?? 0).toFixed(1)}H${(floor + long).toFixed(1)}V${y(sizes.y.edges[j + 1] ?? 0).toFixed(1)}H${floor}Z`;
    }
    chart.append(s("path", { class: "marginal", d }));
  }

  const xAxis = s("g", { class: "axis", transform: `translate(0,${height - bottom})` });
  const yAxis = s("g", { class: "axis", transform: `translate(${left},0)` });
  const logTicks = (limit: number): number[] => {
    const ticks = [0];
    for (let power = 1; power <= limit; power *= 10) {
      ticks.push(power);
      if (limit < 5e3 && 3 * power <= limit) ticks.push(3 * power);
    }
    return ticks;
  };
  const bottomAxis = axisBottom(x).tickFormat(count).tickSizeOuter(0);
  const leftAxis = axisLeft(y).tickFormat(count).tickSizeOuter(0);
  select(xAxis).call(isLog ? bottomAxis.tickValues(logTicks(x.domain()[1] ?? 1)) : bottomAxis.ticks(7));
  select(yAxis).call(isLog ? leftAxis.tickValues(logTicks(y.domain()[1] ?? 1)) : leftAxis.ticks(6));
  chart.append(xAxis, yAxis,
    s("text", { class: "axis-name middle", x: (left + width - right) / 2, y: height - 8 }, sizes.x.component),
    s("text", { class: "axis-name middle", transform: `translate(14,${(height - bottom + plotTop) / 2}) rotate(-90)` },
      sizes.y === null ? "graphs" : sizes.y.component));

  const setters: Partial<Record<"x" | "y", (rows: number | null) => void>> = {};
  const add = (axis: "x" | "y", component: string, maximum: number): void => {
    const along = axis === "x" ? x : y;
    const [begin, end] = along.range() as [number, number];
    const rule = s("line", { class: "limit-line" });
    const over = s("rect", { class: "beyond" });
    const grip = s("rect", { class: "grip", width: axis === "x" ? 16 : 24, height: axis === "x" ? 24 : 16, rx: 5 });
    const text = s("text", { class: "limit-text" });
    // Wide enough for a finger.
    const area = s("line", { class: "grip-area" });
    const handle = s("g", {
      class: `limit ${axis}`, role: "slider", tabindex: 0, id: `limit-${axis}`, "aria-label": `Limit of ${component}`,
      "aria-orientation": axis === "x" ? "horizontal" : "vertical", "aria-valuemin": 1,
    }, rule, area, grip, text);
    let rows = 0;
    const place = (value: number | null): void => {
      handle.classList.toggle("unset", value === null);
      rows = value ?? maximum;
      const at = Math.max(Math.min(begin, end), Math.min(Math.max(begin, end), along(rows)));
      handle.setAttribute("aria-valuenow", String(rows));
      handle.setAttribute("aria-valuemax", String(Math.max(rows, Math.round(along.domain()[1] ?? rows))));
      handle.setAttribute("aria-valuetext", value === null ? "no limit" : `${count(rows)} ${component}`);
      text.textContent = value === null ? "no limit" : count(rows);
      if (axis === "x") {
        for (const each of [rule, area]) {
          each.setAttribute("x1", String(at));
          each.setAttribute("x2", String(at));
          each.setAttribute("y1", String(plotTop - 6));
          each.setAttribute("y2", String(height - bottom));
        }
        grip.setAttribute("x", String(at - 8));
        grip.setAttribute("y", String(height - bottom - 30));
        text.setAttribute("x", String(at > width - right - 60 ? at - 6 : at + 6));
        text.setAttribute("class", at > width - right - 60 ? "limit-text end" : "limit-text");
        text.setAttribute("y", String(height - bottom - 36));
        over.setAttribute("x", String(at));
        over.setAttribute("y", String(plotTop));
        over.setAttribute("width", String(Math.max(0, end - at)));
        over.setAttribute("height", String(begin === end ? 0 : height - bottom - plotTop));
      } else {
        for (const each of [rule, area]) {
          each.setAttribute("y1", String(at));
          each.setAttribute("y2", String(at));
          each.setAttribute("x1", String(left));
          each.setAttribute("x2", String(width - right + 6));
        }
        grip.setAttribute("x", String(left + 10));
        grip.setAttribute("y", String(at - 8));
        text.setAttribute("x", String(left + 42));
        text.setAttribute("y", String(at < plotTop + 20 ? at + 16 : at - 6));
        over.setAttribute("x", String(left));
        over.setAttribute("y", String(plotTop));
        over.setAttribute("width", String(width - right - left));
        over.setAttribute("height", String(Math.max(0, at - plotTop)));
      }
      over.classList.toggle("unset", value === null);
    };
    const move = (value: number, done: boolean): void => {
      const whole = Math.max(1, Math.round(value));
      place(whole);
      onLimit(axis, whole, done);
    };
    handle.addEventListener("keydown", (event) => {
      const large = Math.max(1, Math.round(rows / 10));
      const steps: Record<string, number> = {
        ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: large, PageDown: -large,
      };
      const step = steps[event.key];
      const value = event.key === "Home" ? maximum
        : event.key === "End" ? Math.round(along.domain()[1] ?? rows)
        : step === undefined ? null : rows + (event.shiftKey ? 8 : 1) * step;
      if (value === null) return;
      event.preventDefault();
      move(value, true);
    });
    handle.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      handle.focus();
      handle.setPointerCapture(event.pointerId);
      handle.classList.add("dragged");
    });
    const rowsAt = (event: PointerEvent): number => {
      const box = chart.getBoundingClientRect();
      const position = axis === "x"
        ? (event.clientX - box.left) * width / box.width
        : (event.clientY - box.top) * height / box.height;
      return along.invert(Math.max(Math.min(begin, end), Math.min(Math.max(begin, end), position)));
    };
    handle.addEventListener("pointermove", (event) => {
      if (handle.hasPointerCapture(event.pointerId)) move(rowsAt(event), false);
    });
    handle.addEventListener("pointerup", (event) => {
      handle.classList.remove("dragged");
      move(rowsAt(event), true);
    });
    chart.append(over, handle);
    setters[axis] = place;
    place(limits[axis]);
  };
  const maximumOf = (component: string): number => sizes.maxima[sizes.components.indexOf(component)] ?? 1;
  add("x", sizes.x.component, maximumOf(sizes.x.component));
  if (sizes.y !== null) add("y", sizes.y.component, maximumOf(sizes.y.component));
  return { element: chart, setLimit: (axis, rows) => setters[axis]?.(rows) };
}

// Limits by what a batch of them takes, and how full it is: the cost of the real rows over that of
// all. A click takes the limits of a point.
export function frontierChart(
  points: Shape[], leastCost: number, chosen: string, sizeOf: (shape: Shape) => number, sizeName: string,
  onChoose: (shape: Shape) => void,
): SVGSVGElement {
  const [width, height, left, bottom, top, right] = [560, 220, 66, 42, 12, 16];
  const fullness = (point: Shape): number => Math.min(1, leastCost / Math.max(point.epoch_cost, 1e-9));
  const values = points.map(fullness);
  const spread = Math.max(0.002, Math.max(...values) - Math.min(...values));
  const least = Math.max(0, Math.min(...values) - 0.25 * spread);
  const x = scaleLinear().domain([0, Math.max(...points.map(sizeOf), 1) * 1.04]).range([left, width - right]);
  const y = scaleLinear().domain([least, Math.min(1, Math.max(...values) + 0.15 * spread)]).range([height - bottom, top]);
  const chart = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "group", "aria-label": "Limits that are better than all smaller ones" });
  const xAxis = s("g", { class: "axis", transform: `translate(0,${height - bottom})` });
  const yAxis = s("g", { class: "axis grid", transform: `translate(${left},0)` });
  select(xAxis).call(axisBottom(x).ticks(6).tickFormat(count).tickSizeOuter(0));
  select(yAxis).call(axisLeft(y).ticks(4).tickFormat((value) => `${(100 * value).toFixed(spread < 0.01 ? 2 : 1)} %`)
    .tickSizeOuter(0).tickSizeInner(-(width - left - right)));
  const path = line<Shape>().x((point) => x(sizeOf(point))).y((point) => y(fullness(point)));
  chart.append(xAxis, yAxis, s("path", { class: "line c0", d: path(points) ?? "" }),
    s("text", { class: "axis-name middle", x: (left + width - right) / 2, y: height - 6 }, sizeName));
  points.forEach((point, i) => {
    const limits = Object.entries(point.capacities).filter(([, rows]) => rows > 0);
    const name = limits.map(([component, rows]) => `${component} ${count(rows)}`).join(", ");
    const isChosen = JSON.stringify(point.capacities) === chosen;
    const dot = s("g", {
      class: `point${isChosen ? " chosen" : ""}`, role: "button", tabindex: 0, id: `point-${i}`,
      "aria-pressed": isChosen ? "true" : "false",
      "aria-label": `Take the limits ${name}: ${count(point.packs)} packs, ${(100 * fullness(point)).toFixed(1)} % full`,
    }, s("circle", { class: "reach", cx: x(sizeOf(point)), cy: y(fullness(point)), r: 13 }),
    s("circle", { class: "dot c0", cx: x(sizeOf(point)), cy: y(fullness(point)), r: isChosen ? 7 : 5 }),
    s("title", {}, `${name}: ${count(point.packs)} packs`));
    dot.addEventListener("click", () => onChoose(point));
    dot.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      onChoose(point);
    });
    chart.append(dot);
  });
  return chart;
}
