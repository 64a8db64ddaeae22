// What the server tells (service/wings/page/page_api.h), and how it is asked.

export interface Component {
  component: string;
  capacity: number | null;
  efficiency: number;
  fullest_pack: number;
}

export interface Summary {
  name: string;
  unfinished?: boolean;
  packs: number;
  lower_bound: number;
  lower_bound_name: string;
  gap: number;
  optimal: boolean;
  keeps_limits: boolean;
  num_patterns: number;
  winner: string;
  steps: number;
  receipt: string;
  milliseconds: number;
  components: Component[];
}

export interface Pattern {
  repeats: number;
  rows: number[];
  fill: (number | null)[];
  binds: string;
  num_sizes: number;
  graphs: { size: number[]; copies: number }[];
}

export interface Plan {
  best: Summary;
  others?: Summary[];
  next_fit?: { packs: number; is_exact: boolean };
  plan?: {
    num_patterns: number;
    patterns: Pattern[];
    binds: Record<string, number>;
    fill: Record<string, number[]>;
  };
}

export interface Shape {
  capacities: Record<string, number>;
  packs: number;
  lower_bound: number;
  epoch_cost: number;
  harmonic_mean: number;
  batch_bytes: number;
  components: Component[];
}

export interface Tuned {
  shape: Shape;
  frontier: Shape[];
  exact: boolean;
  least_cost: number;
  oversize: number;
  reasons: string[];
}

export interface Axis {
  component: string;
  edges: number[];
  counts: number[];
}

export interface Sizes {
  components: string[];
  num_graphs: number;
  num_sizes: number;
  totals: number[];
  maxima: number[];
  x: Axis;
  y: Axis | null;
  cells: [number, number, number][];
  bytes_per_row?: Record<string, number>;
  // Of a stream that has had more graphs than are kept of it.
  sample_of?: number;
}

export interface Sources {
  datasets: { name: string; graphs: number; components: string[] }[];
  histograms: { name: string }[];
  streams: { number: string; client: string; name: string; graphs: number }[];
}

// What the frame shows beside every view.
export interface State {
  version: string;
  // Of the page's files.
  page: string;
  grpc: string;
  draining: boolean;
  not_ready: { reason: string; why: string }[];
}

export interface Overview {
  state: State;
  time: number;
  totals: { batches: number; graphs: number; bytes: number };
  history: {
    rates: { batches: number; graphs: number; bytes: number };
    components: { component: string; efficiency_now: number | null; efficiency_hour: number | null }[];
    span_seconds: number;
    series: {
      seconds: number[];
      batches: number[];
      graphs: number[];
      bytes: number[];
      efficiency: Record<string, (number | null)[]>;
    };
  };
  memory: { name: string; held: number; most: number }[];
  disks: { name: string; bytes: number; most: number; free: number | null }[];
  waiting: { what: string; open: number; awaited: number; starved: number }[];
  pending_graphs: number;
  connections: { open: number; most: number };
  // Of streams that were offered shared memory; null: the server offers none.
  lanes: { open: number; offered: number; batches: number; slots: number } | null;
  delivery: {
    epochs: number;
    sessions: number;
    in_flight: number;
    leased: number;
    redelivered: number;
    acknowledged: number;
    expired: number;
  };
}

export interface Worker {
  queue: number;
  reader: number;
  readers: number;
  worker: string;
  steps: number;
  done: number;
  acknowledged: number;
  in_flight: number;
  silent_seconds: number | null;
  ended: boolean;
  waits: "server" | "worker" | "nobody";
  transport: "lane" | "grpc";
  straggles: boolean;
}

export interface LoadedEpoch {
  epoch: number;
  generation: number;
  done: number;
  batches: number;
  ranked: boolean;
  in_flight: number;
  num_sessions: number;
  step_efficiency: number | null;
  company: number | null;
  leased: number;
  redelivered: number;
  expired: number;
  given_back: number;
  batches_per_second: number | null;
  seconds_left: number | null;
  queues: { batches: number; done: number; given_back: number }[];
  workers: Worker[];
}

export interface Job {
  job: string;
  num_epochs: number;
  num_sessions: number;
  owner: string;
  last_used: number | null;
  epochs: { epoch: number; generation: number; done: number; batches: number; dataset: string; sessions: number }[];
  loading?: LoadedEpoch[];
}

export interface Jobs {
  jobs: Job[];
  next: string;
}

export interface Column {
  name: string;
  dtype: string;
  row_shape: number[];
  ragged?: boolean;
  component?: string;
  index_into?: string;
}

export interface Dataset {
  name: string;
  state: string;
  graphs: number;
  bytes: number;
  max_bytes: number | null;
  grouped: boolean;
  components: string[];
  tensors: Column[];
  drift?: {
    first_graph: number;
    found_graph: number;
    changes: number;
    components: { component: string; before: number; after: number }[];
  };
}

export interface MeasuredModel {
  model: string;
  device: string;
  reports: number;
  out_of_memory: number;
  fixed_seconds: number;
  least_seconds: number;
  spread: number;
  fixed_bytes: number;
  most_bytes: number | null;
  components: { component: string; seconds: number; bytes: number }[];
}

export interface SourceSet {
  name: string;
  rows: number;
  columns: Column[];
  ids?: string;
  source?: string;
  target?: string;
  reverse_of?: string;
}

export interface SourceGraph {
  name: string;
  state: string;
  bytes: number;
  max_bytes: number | null;
  node_sets: SourceSet[];
  edge_sets: SourceSet[];
}

export interface Data {
  has_data: boolean;
  datasets: Dataset[];
  source_graphs: SourceGraph[];
  models: MeasuredModel[];
  more: boolean;
  quotas: { namespace: string; quotas: { quota: string; used: number; most: number }[] }[];
}

// What the server says instead of an answer.
export class Refused extends Error {
  constructor(readonly status: number, readonly code: string, message: string) {
    super(message);
  }
}

const TOKEN = "packhouse-token";

export function token(): string {
  return sessionStorage.getItem(TOKEN) ?? "";
}

export function setToken(value: string): void {
  if (value === "") {
    sessionStorage.removeItem(TOKEN);
  } else {
    sessionStorage.setItem(TOKEN, value);
  }
}

// Told of each answer: the time at which the server was last heard, or why it was not.
type Listener = (refused: Refused | null) => void;
let listener: Listener = () => undefined;

export function onAnswer(told: Listener): void {
  listener = told;
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    }, { once: true });
  });
}

// Asks until the answer is there. A server that has too much to do, or that does not answer, is a
// Refused with status 503 or 0.
async function askOnce<Answer>(path: string, signal: AbortSignal): Promise<Answer> {
  for (let wait = 3; ; wait = Math.min(200, wait * 1.6)) {
    const headers: Record<string, string> = {};
    if (token() !== "") headers["Authorization"] = `Bearer ${token()}`;
    let response: Response;
    try {
      response = await fetch(path, { signal, headers, cache: "no-store", credentials: "same-origin" });
    } catch (error) {
      if (signal.aborted) throw error;
      throw new Refused(0, "UNAVAILABLE", "the server does not answer");
    }
    const text = await response.text();
    if (response.status === 202) {
      await pause(wait, signal);
      continue;
    }
    let body: { code?: string; error?: string };
    try {
      body = JSON.parse(text) as { code?: string; error?: string };
    } catch {
      throw new Refused(response.status, "UNKNOWN", text.trim() || `HTTP status ${response.status}`);
    }
    if (body.error !== undefined) throw new Refused(response.status, body.code ?? "", body.error);
    if (!response.ok) throw new Refused(response.status, "UNKNOWN", `HTTP status ${response.status}`);
    return body as Answer;
  }
}

const tab = Math.random().toString(36).slice(2, 12);

// One view's questions: a new one of the same kind ends the last one, here and at the server.
export class Asker {
  private readonly running = new Map<string, AbortController>();

  constructor(private readonly view: string) {}

  // Gives null if it was superseded, or if the view was left. `kind` tells apart questions to the
  // same path that do not supersede each other.
  async ask<Answer>(
    path: string, values: URLSearchParams = new URLSearchParams(), kind = path,
  ): Promise<Answer | null> {
    const controller = new AbortController();
    this.running.get(kind)?.abort();
    this.running.set(kind, controller);
    const asked = new URLSearchParams(values);
    asked.set("view", `${tab}-${this.view}-${kind.replace(/\W/g, "")}`);
    try {
      const answer = await askOnce<Answer>(`${path}?${asked.toString()}`, controller.signal);
      if (controller.signal.aborted) return null;
      listener(null);
      return answer;
    } catch (error) {
      if (controller.signal.aborted) return null;
      if (error instanceof Refused) listener(error);
      throw error;
    } finally {
      if (this.running.get(kind) === controller) this.running.delete(kind);
    }
  }

  stop(): void {
    for (const controller of this.running.values()) controller.abort();
  }
}
