// What all views have in common.

import type { Asker } from "./api";

export interface Context {
  asker: Asker;
  values: URLSearchParams;
  // The address of the server's own port, for commands.
  server: () => string;
  // Keeps the address of what is shown up to date, without another entry of the history.
  keep: (values: URLSearchParams) => void;
}

export interface View {
  title: string;
  element: HTMLElement;
  // Reads anew what changes by itself. Throws what Asker.ask() throws.
  refresh: () => Promise<void>;
  // Milliseconds from one refresh to the next; 0: none.
  interval: number;
}

export type MakeView = (context: Context) => View;
