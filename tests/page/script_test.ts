// Laws of the page's script that need no browser; run by Node.
import assert from "node:assert/strict";
import test from "node:test";

import { hasCommand, planCommand, quote, sizesCommand, tuneCommand } from "../../service/wings/page/web/commands";
import { bytes, duration, percent, rate, shortTime, some } from "../../service/wings/page/web/format";
import { batchBytes, limitsOf, searchSpace, tooSmall } from "../../service/wings/page/web/limits";
import { bannerOf, wordOf } from "../../service/wings/page/web/state";
import { formatRoute, namedNumbers, parseRoute, setNamedNumbers } from "../../service/wings/page/web/route";

test("an address says what it was made of", () => {
  const values = new URLSearchParams({ source: "dataset/a b&c" });
  setNamedNumbers(values, "limit", new Map([["nodes", 222], ["x:y", 5]]));
  const route = parseRoute(formatRoute("sizes", values));
  assert.equal(route.view, "sizes");
  assert.equal(route.values.get("source"), "dataset/a b&c");
  assert.deepEqual([...namedNumbers(route.values, "limit")], [["nodes", 222], ["x:y", 5]]);
  assert.equal(parseRoute("").view, "overview");
  assert.equal(parseRoute("#/epochs").view, "epochs");
});

test("what is no limit is passed over", () => {
  const values = new URLSearchParams("limit=nodes:0&limit=edges:x&limit=:4&limit=1.5&limit=a:1e3&limit=b:-1");
  assert.deepEqual([...namedNumbers(values, "limit")], [["a", 1000]]);
});

test("words of a command reach the program as they are", () => {
  assert.equal(quote("nodes=222"), "nodes=222");
  assert.equal(quote("a b"), "'a b'");
  assert.equal(quote("it's; rm -rf *"), "'it'\\''s; rm -rf *'");
  assert.equal(quote(""), "''");
});

test("commands name the source and the limits", () => {
  assert.equal(sizesCommand("h:1", "dataset/team/mols"),
    "packhouse histogram --server h:1 --dataset team/mols --csv team_mols.csv");
  assert.equal(planCommand("h:1", "histogram/m", new Map([["nodes", 5]]), 12),
    "packhouse histogram --server h:1 --name m --csv m.csv &&\n" +
    "packhouse plan --server h:1 --sizes m.csv --limit nodes=5 --patterns 12");
  assert.ok(hasCommand("dataset/stream/1") && !hasCommand("stream/1"));
  // A row that takes nothing need not be said.
  assert.match(tuneCommand("h:1", "histogram/m", new Map([["n", 8]]), new Map([["n", 1]]),
    new Map([["n", 0], ["e", 4]]), 9), /--max n=8 --multiple-of n=1 --bytes-per e=4 --budget-steps 9$/);
});

const SIZES = { components: ["nodes", "edges"], maxima: [100, 7] };

test("limits are those of the address, else twice the largest graph", () => {
  assert.deepEqual([...limitsOf(new URLSearchParams(), SIZES)], [["nodes", 200], ["edges", 14]]);
  assert.deepEqual([...limitsOf(new URLSearchParams("limit=graphs:3&limit=other:9"), SIZES)], [["graphs", 3]]);
  assert.deepEqual(tooSmall(new Map([["nodes", 99], ["edges", 7]]), SIZES), ["nodes"]);
  assert.deepEqual(tooSmall(new Map([["graphs", 1]]), SIZES), []);
});

test("memory counts the limits, and the fullest batch where there is none", () => {
  const perRow = new Map([["nodes", 4], ["edges", 8], ["graphs", 1]]);
  assert.equal(batchBytes(new Map([["nodes", 10], ["edges", 2]]), perRow, new Map([["graphs", 6]])), 62);
  assert.equal(batchBytes(new Map(), new Map(), new Map()), 0);
});

test("a search goes up to four times the largest graph, in steps that hardware likes", () => {
  const { most, multiple } = searchSpace(new Map([["edges", 50]]), SIZES);
  assert.deepEqual([...most], [["nodes", 400], ["edges", 50]]);
  assert.deepEqual([...multiple], [["nodes", 8], ["edges", 1]]);
});

test("numbers are short, and never better than they are", () => {
  assert.equal(percent(0.99999), "99.9 %");
  assert.equal(percent(1), "100.0 %");
  assert.equal(percent(null), "–");
  assert.equal(bytes(1536), "1.50 KiB");
  assert.equal(bytes(999), "999 B");
  assert.equal(rate(0), "0");
  assert.equal(rate(1_234_567), "1.23 M");
  assert.equal(shortTime(0), "0 s");
  assert.equal(shortTime(12.345), "12.3 s");
  assert.equal(shortTime(0.0123), "12.3 ms");
  assert.equal(shortTime(1.5e-7), "150 ns");
  assert.equal(duration(3725), "1 h 2 min");
  assert.equal(duration(null), "not known yet");
  assert.equal(some(1, "batch", "batches"), "1 batch");
  assert.equal(some(2000, "graph"), "2,000 graphs");
});

test("a server is live only if it says that it is ready, and the tab is as new as it", () => {
  const ready = { version: "1", page: "p", grpc: "h:1", draining: false, not_ready: [] };
  assert.equal(wordOf(ready, ""), "live");
  assert.equal(bannerOf(ready), "");
  assert.equal(wordOf(ready, "updated"), "old");
  const full = { ...ready, not_ready: [{ reason: "datasets", why: "commits fail: no space" }] };
  assert.equal(wordOf(full, ""), "not ready");
  assert.match(bannerOf(full), /not ready.*commits fail: no space/);
  const draining = { ...ready, draining: true, not_ready: [{ reason: "draining", why: "draining" }] };
  assert.equal(wordOf(draining, ""), "draining");
  assert.match(bannerOf(draining), /ends soon/);
});
