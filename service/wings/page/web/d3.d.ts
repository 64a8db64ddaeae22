// The little of D3 that the page uses; Debian's packages have no types.
interface Scale {
  (value: number): number;
  domain(): number[];
  domain(domain: readonly number[]): this;
  range(): number[];
  range(range: readonly number[]): this;
  invert(position: number): number;
  ticks(count?: number): number[];
  nice(): this;
}

declare module "d3-scale" {
  export function scaleLinear(): Scale;
  export function scaleSymlog(): Scale;
}

declare module "d3-shape" {
  interface Line<Datum> {
    (data: readonly Datum[]): string | null;
    x(at: (datum: Datum) => number): this;
    y(at: (datum: Datum) => number): this;
    defined(is: (datum: Datum) => boolean): this;
  }
  export function line<Datum>(): Line<Datum>;
  interface Area<Datum> {
    (data: readonly Datum[]): string | null;
    x(at: (datum: Datum) => number): this;
    y0(at: number): this;
    y1(at: (datum: Datum) => number): this;
    defined(is: (datum: Datum) => boolean): this;
  }
  export function area<Datum>(): Area<Datum>;
}

declare module "d3-selection" {
  interface Selection {
    call(draw: (selection: Selection) => void): this;
  }
  export function select(element: Element): Selection;
}

declare module "d3-axis" {
  import type { Selection } from "d3-selection";
  interface Axis {
    (selection: Selection): void;
    ticks(count: number): this;
    tickValues(values: readonly number[]): this;
    tickFormat(format: (value: number) => string): this;
    tickSizeOuter(size: number): this;
    tickSizeInner(size: number): this;
    tickPadding(size: number): this;
  }
  export function axisBottom(scale: Scale): Axis;
  export function axisLeft(scale: Scale): Axis;
}
