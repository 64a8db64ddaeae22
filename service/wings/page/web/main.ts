// The frame of the page: which view is shown, how fresh it is, and who looks.

import { Asker, onAnswer, Refused, setToken, token, type State } from "./api";
import { h, replace } from "./dom";
import { duration } from "./format";
import { formatRoute, parseRoute } from "./route";
import { bannerOf, wordOf } from "./state";
import type { MakeView, View } from "./view";
import { dataView } from "./view_data";
import { epochsView } from "./view_epochs";
import { overviewView } from "./view_overview";
import { planView } from "./view_plan";
import { sizesView } from "./view_sizes";

const VIEWS: Record<string, { name: string; make: MakeView }> = {
  overview: { name: "Overview", make: overviewView },
  sizes: { name: "Sizes", make: sizesView },
  plan: { name: "Plan", make: planView },
  epochs: { name: "Epochs", make: epochsView },
  data: { name: "Data", make: dataView },
};

function element<Kind extends HTMLElement>(id: string): Kind {
  return document.getElementById(id) as Kind;
}

const main = element("main");
const state = element("state");
const gone = element("gone");
const tokenForm = element<HTMLFormElement>("token-form");
const tokenField = element<HTMLInputElement>("token");

let current: { view: View; asker: Asker; name: string } | null = null;
let timer = 0;
let lastHeard = Date.now();
let server = "";
let refusal: Refused | null = null;
// What the server said of itself last; null before that.
let told: State | null = null;
// Of the files that this tab has.
let ownPage = "";
// Why the tab should be loaded anew; empty: it should not.
let stale = "";

// Milliseconds between two looks at the server's state, in every view.
const LOOK = 3000;

function setHidden(banner: HTMLElement, text: HTMLElement, words: string): void {
  banner.hidden = words === "";
  // An alert that says the same again is read again.
  if (text.textContent !== words) text.textContent = words;
}

// From now on nothing that is shown counts as live.
function showStale(why: string): void {
  if (stale === "") stale = why;
  showState(refusal);
}

function showState(refused: Refused | null): void {
  refusal = refused;
  if (refused === null) lastHeard = Date.now();
  const isGone = refused !== null && refused.status === 0;
  const isAsked = refused !== null && (refused.status === 401 || refused.status === 403);
  gone.hidden = !isGone;
  if (isGone) {
    const text = `The server does not answer. What is shown is ${duration((Date.now() - lastHeard) / 1000)} old; trying again.`;
    // An alert that says the same again is read again.
    if (gone.dataset["since"] !== String(lastHeard)) gone.textContent = text;
    gone.dataset["since"] = String(lastHeard);
  } else {
    delete gone.dataset["since"];
  }
  document.body.classList.toggle("is-gone", isGone);
  setHidden(element("not-ready"), element("not-ready"), isGone ? "" : bannerOf(told));
  setHidden(element("stale"), element("stale-why"), stale);
  const word = isGone ? "no answer" : isAsked ? "refused" : wordOf(told, stale);
  if (state.textContent !== word) state.textContent = word;
  state.className = `state is-${word.replace(" ", "-")}`;
  if (isAsked && tokenForm.hidden) {
    openToken(refused.message);
  }
}

function openToken(why: string): void {
  tokenForm.hidden = false;
  element("token-why").textContent = why === ""
    ? "It is kept until this tab is closed, and sent to this server alone."
    : `${why}. A token is kept until this tab is closed, and sent to this server alone.`;
  tokenField.focus();
}

const CANNOT_SHOW = "This page cannot show what the server says: it may be of another version.";

async function refresh(): Promise<void> {
  clearTimeout(timer);
  const shown = current;
  if (shown === null) return;
  let failed = false;
  try {
    await shown.view.refresh();
  } catch (error) {
    failed = true;
    if (!(error instanceof Refused)) {
      showStale(CANNOT_SHOW);
      throw error;
    }
  } finally {
    if (current === shown && (shown.view.interval > 0 || failed)) {
      timer = window.setTimeout(() => {
        if (document.hidden) {
          document.addEventListener("visibilitychange", () => void refresh(), { once: true });
        } else {
          void refresh();
        }
      }, failed ? 3000 : shown.view.interval);
    }
  }
}

function show(): void {
  const route = parseRoute(location.hash);
  const name = route.view in VIEWS ? route.view : "overview";
  const entry = VIEWS[name];
  if (entry === undefined) return;
  current?.asker.stop();
  const isOther = current !== null;
  const asker = new Asker(name);
  const view = entry.make({
    asker,
    values: route.values,
    server: () => server,
    keep: (values) => { history.replaceState(null, "", formatRoute(name, values)); showViews(name); },
  });
  current = { view, asker, name };
  document.title = `${view.title} – packhouse`;
  showViews(name);
  replace(main, h("h1", { tabindex: -1, id: "heading" }, view.title), view.element);
  // So that a screen reader tells what is shown now.
  if (isOther) element("heading").focus();
  void refresh();
}

// Views of sizes share what they show: the address of one leads to the same in the other.
function showViews(shown: string): void {
  const shared = shown === "sizes" || shown === "plan" ? parseRoute(location.hash).values : null;
  replace(element("views"), ...Object.entries(VIEWS).map(([name, { name: text }]) => {
    const values = shared !== null && (name === "sizes" || name === "plan") ? shared : new URLSearchParams();
    return h("li", {}, h("a", {
      id: `view-${name}`, href: formatRoute(name, values), "aria-current": name === shown ? "page" : undefined,
    }, text));
  }));
}

const looker = new Asker("state");
let nextLook = 0;

// Keeps an eye on the server, whichever view is shown.
async function look(): Promise<void> {
  clearTimeout(nextLook);
  try {
    const state = await looker.ask<State>("api/state");
    if (state !== null) hear(state);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
  } finally {
    lookLater();
  }
}

function lookLater(): void {
  clearTimeout(nextLook);
  nextLook = window.setTimeout(() => {
    if (document.hidden) {
      document.addEventListener("visibilitychange", () => void look(), { once: true });
    } else if (tokenForm.hidden) {
      void look();
    } else {
      // Who is asked for a token is not asked again.
      lookLater();
    }
  }, LOOK);
}

function hear(state: State): void {
  told = state;
  server = state.grpc.startsWith("unix:")
    ? state.grpc
    : `${location.hostname}:${state.grpc.slice(state.grpc.lastIndexOf(":") + 1)}`;
  if (ownPage === "") ownPage = state.page;
  if (state.page !== ownPage) {
    stale = `The server was updated to ${state.version}. This page is of the version before.`;
  }
  showState(refusal);
}

onAnswer(showState);
element("sign-in").addEventListener("click", () => {
  if (tokenForm.hidden) {
    openToken("");
  } else {
    tokenForm.hidden = true;
  }
});
tokenForm.addEventListener("submit", (event) => {
  event.preventDefault();
  setToken(tokenField.value.trim());
  tokenField.value = "";
  tokenForm.hidden = true;
  void look();
  show();
});
element("token-none").addEventListener("click", () => {
  setToken("");
  tokenForm.hidden = true;
  void look();
  show();
});
element("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", show);
element("sign-in").classList.toggle("has-token", token() !== "");
element("load-anew").addEventListener("click", () => location.reload());
// What is drawn after an error nobody caught may be half of it.
window.addEventListener("error", () => showStale(CANNOT_SHOW));
window.addEventListener("unhandledrejection", () => showStale(CANNOT_SHOW));
void look().then(show);
