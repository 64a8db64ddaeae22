// Elements, made and replaced. No markup is ever parsed: names come from strangers.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | undefined | ((event: Event) => void)>;

const SVG = "http://www.w3.org/2000/svg";

function fill(element: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") {
      element.addEventListener(name, value);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

// An HTML element. Attributes that are functions are listeners of the event of that name.
export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag, attributes: Attributes = {}, ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

// The same of SVG.
export function s<Tag extends keyof SVGElementTagNameMap>(
  tag: Tag, attributes: Attributes = {}, ...children: Child[]
): SVGElementTagNameMap[Tag] {
  const element = document.createElementNS(SVG, tag) as SVGElementTagNameMap[Tag];
  fill(element, attributes, children);
  return element;
}

// Puts new children in place of the old ones. What had the focus keeps it, if an element of the same
// id is there again.
export function replace(parent: Element, ...children: Child[]): void {
  const focused = document.activeElement;
  const id = focused !== null && parent.contains(focused) ? focused.id : "";
  parent.replaceChildren();
  fill(parent, {}, children);
  if (id !== "") document.getElementById(id)?.focus();
}

// A table with a caption for those who do not see what is around it. Cells that are numbers are
// set to the right.
export function table(caption: string, heads: string[], rows: (string | Node)[][]): HTMLElement {
  const body = rows.map((row) => h("tr", {}, ...row.map((cell, i) => {
    const numeric = typeof cell === "string" && /^[\d\s.,%–+<>=-]+( ?[A-Za-z%/µ]{1,6})?$/.test(cell);
    return i === 0 ? h("th", { scope: "row" }, cell) : h("td", { class: numeric ? "number" : "" }, cell);
  })));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {},
      h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, ...body)));
}

// A part of a view under a heading.
export function card(heading: string, ...children: Child[]): HTMLElement {
  return h("section", { class: "card", "aria-label": heading }, h("h2", {}, heading), ...children);
}

// A bar from 0 to 1 with its label before and its value behind it.
export function bar(label: string, share: number | null, value: string, kind = ""): HTMLElement {
  const width = Math.max(0, Math.min(1, share ?? 0));
  return h("div", { class: `bar ${kind}` },
    h("span", { class: "bar-label" }, label),
    s("svg", { class: "bar-line", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
      s("rect", { class: "bar-back", width: 100, height: 8 }),
      s("rect", { class: "bar-front", width: (100 * width).toFixed(2), height: 8 })),
    h("span", { class: "bar-value" }, value));
}

// A command that gives the same, to be copied.
export function command(text: string, what: string): HTMLElement {
  const button = h("button", { type: "button", class: "copy", "aria-label": `Copy the command: ${what}` }, "Copy");
  button.addEventListener("click", () => {
    void navigator.clipboard.writeText(text).then(() => {
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    }, () => { button.textContent = "Select it"; });
  });
  return h("div", { class: "command" },
    h("code", {}, text), button);
}

// What stands where there is nothing yet.
export function empty(text: string, ...children: Child[]): HTMLElement {
  return h("div", { class: "empty" }, h("p", {}, text), ...children);
}
