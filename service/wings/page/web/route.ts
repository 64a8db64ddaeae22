// The address of what is shown: "#/sizes?source=dataset/molhiv&limit=nodes:222".

export interface Route {
  view: string;
  values: URLSearchParams;
}

export function parseRoute(hash: string): Route {
  const text = hash.replace(/^#\/?/, "");
  const mark = text.indexOf("?");
  return {
    view: (mark < 0 ? text : text.slice(0, mark)) || "overview",
    values: new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1)),
  };
}

export function formatRoute(view: string, values: URLSearchParams): string {
  // Slashes, colons and commas may stand in a fragment, and are easier to read.
  const text = values.toString().replace(/%2F/g, "/").replace(/%3A/g, ":").replace(/%2C/g, ",");
  return text === "" ? `#/${view}` : `#/${view}?${text}`;
}

// The values of a key that are NAME:NUMBER with a number of at least 1. Others are passed over.
export function namedNumbers(values: URLSearchParams, key: string): Map<string, number> {
  const named = new Map<string, number>();
  for (const text of values.getAll(key)) {
    const colon = text.lastIndexOf(":");
    const number = Number(text.slice(colon + 1));
    if (colon > 0 && Number.isSafeInteger(number) && number > 0) named.set(text.slice(0, colon), number);
  }
  return named;
}

export function setNamedNumbers(values: URLSearchParams, key: string, named: Map<string, number>): void {
  values.delete(key);
  for (const [name, number] of named) values.append(key, `${name}:${number}`);
}
