// What the frame says of the server and of this tab.

import type { State } from "./api";

// Beside the name of the page, when the server has answered. `stale`: why the tab should be loaded
// anew.
export function wordOf(state: State | null, stale: string): string {
  if (stale !== "") return "old";
  if (state === null) return "live";
  if (state.draining) return "draining";
  return state.not_ready.length > 0 ? "not ready" : "live";
}

// The red line over every view; empty if the server is ready.
export function bannerOf(state: State | null): string {
  if (state === null || state.not_ready.length === 0) return "";
  if (state.draining) return "The server is draining: it ends soon, and takes no new work.";
  return `The server is not ready. ${state.not_ready.map((each) => each.why).join("\n")}`;
}
