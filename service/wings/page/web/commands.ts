// What is shown, as commands that give the same.

const PLAIN = /^[A-Za-z0-9_@%+=:,./-]+$/;

// A word of a POSIX shell.
export function quote(word: string): string {
  return PLAIN.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`;
}

function line(...words: string[]): string {
  return words.map(quote).join(" ");
}

// Only the server knows the sizes of a stream that names no histogram.
export function hasCommand(source: string): boolean {
  return !source.startsWith("stream/");
}

// The file that the sizes of "dataset/NAME" go to.
function fileOf(source: string): string {
  const name = source.slice(source.indexOf("/") + 1).replace(/[^A-Za-z0-9_.-]/g, "_");
  return `${name}.csv`;
}

export function sizesCommand(server: string, source: string): string {
  const slash = source.indexOf("/");
  const kind = source.slice(0, slash) === "dataset" ? "--dataset" : "--name";
  return line("packhouse", "histogram", "--server", server, kind, source.slice(slash + 1),
    "--csv", fileOf(source));
}

function named(option: string, values: Map<string, number>): string[] {
  return [...values].flatMap(([name, value]) => [option, `${name}=${value}`]);
}

export function planCommand(server: string, source: string, limits: Map<string, number>, patterns = 0): string {
  const words = ["packhouse", "plan", "--server", server, "--sizes", fileOf(source), ...named("--limit", limits)];
  if (patterns > 0) words.push("--patterns", String(patterns));
  return `${sizesCommand(server, source)} &&\n${line(...words)}`;
}

export function tuneCommand(
  server: string, source: string, most: Map<string, number>, multiple: Map<string, number>,
  bytesPer: Map<string, number>, steps: number,
): string {
  return `${sizesCommand(server, source)} &&\n${line("packhouse", "tune", "--server", server, "--sizes",
    fileOf(source), ...named("--max", most), ...named("--multiple-of", multiple),
    ...named("--bytes-per", new Map([...bytesPer].filter(([, bytes]) => bytes > 0))),
    "--budget-steps", String(steps))}`;
}

export function serverCommand(server: string, ...words: string[]): string {
  return line("packhouse", ...words, "--server", server);
}
