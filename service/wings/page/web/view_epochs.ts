// Jobs and their epochs: who works on them, how far they are, when they end.

import { Refused, type Job, type Jobs, type LoadedEpoch, type Worker } from "./api";
import { serverCommand } from "./commands";
import { bar, command, empty, h, replace, table } from "./dom";
import { count, duration, percent, some } from "./format";
import { formatRoute } from "./route";
import type { MakeView } from "./view";

function nameOf(worker: Worker, epoch: LoadedEpoch): string {
  if (!epoch.ranked) return worker.worker || "worker";
  return `rank ${worker.queue}${worker.readers > 1 ? `, reader ${worker.reader} of ${worker.readers}` : ""}`;
}

function stateOf(worker: Worker): string {
  if (worker.ended) return "has ended";
  if (worker.straggles) return "behind the others";
  return worker.waits === "worker" ? "waits for the server" : worker.waits === "server" ? "works on batches" : "takes batches";
}

function end(epoch: LoadedEpoch): string {
  if (epoch.done >= epoch.batches) return "done";
  if (epoch.seconds_left === null) return epoch.batches_per_second === 0 ? "not at this pace" : "not known yet";
  const at = new Date(Date.now() + 1000 * epoch.seconds_left);
  return `in ${duration(epoch.seconds_left)}, at ${at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}`;
}

function loaded(epoch: LoadedEpoch): HTMLElement {
  const stragglers = epoch.workers.filter((worker) => worker.straggles);
  const share = epoch.batches === 0 ? 1 : epoch.done / epoch.batches;
  return h("section", { class: "card wide", "aria-label": `Epoch ${epoch.epoch}` },
    h("h2", {}, `Epoch ${epoch.epoch}`),
    bar("done", share, `${count(epoch.done)} of ${count(epoch.batches)} batches, ${percent(share)}`, "large"),
    h("dl", { class: "facts" },
      h("div", {}, h("dt", {}, "Ends"), h("dd", {}, end(epoch))),
      h("div", {}, h("dt", {}, "Pace"), h("dd", {}, epoch.batches_per_second === null ? "not known yet" : epoch.batches_per_second === 0 ? "stands still" : `${epoch.batches_per_second.toPrecision(3)} batches/s`)),
      h("div", {}, h("dt", {}, "In flight"), h("dd", {}, some(epoch.in_flight, "batch", "batches"))),
      h("div", {}, h("dt", {}, "Sent again"), h("dd", {}, `${count(epoch.redelivered)} of ${count(epoch.leased)}`)),
      h("div", {}, h("dt", {}, "Leases expired"), h("dd", {}, count(epoch.expired))),
      epoch.step_efficiency === null ? null : h("div", {}, h("dt", {}, "Ranks compute"), h("dd", {}, `${percent(epoch.step_efficiency)} of a step`)),
      epoch.company === null ? null : h("div", {}, h("dt", {}, "Company"), h("dd", {}, `${epoch.company.toPrecision(3)} times a shuffle's`)),
      h("div", {}, h("dt", {}, "Stragglers"), h("dd", {}, stragglers.length === 0 ? "none" : stragglers.map((worker) => nameOf(worker, epoch)).join(", ")))),
    epoch.ranked
      ? h("div", { class: "queues" }, h("h3", {}, "By rank"), ...epoch.queues.map((queue, rank) => bar(
        `rank ${rank}`, queue.batches === 0 ? 1 : queue.done / queue.batches,
        `${count(queue.done)} of ${count(queue.batches)}${queue.given_back > 0 ? `, ${count(queue.given_back)} to be sent again` : ""}`,
        stragglers.some((worker) => worker.queue === rank) ? "near" : "")))
      : h("div", { class: "queues" }, h("h3", {}, "By worker"), ...epoch.workers.map((worker) => bar(
        nameOf(worker, epoch), worker.acknowledged / Math.max(1, ...epoch.workers.map((each) => each.acknowledged)),
        `${count(worker.acknowledged)} done`, worker.straggles ? "near" : ""))),
    table("Workers that load this epoch", ["Worker", "Done", "In flight", "Last heard", "Batches go by", "State"],
      epoch.workers.map((worker) => [
        nameOf(worker, epoch),
        epoch.ranked ? `${count(worker.done)} of ${count(worker.steps)}` : count(worker.acknowledged),
        count(worker.in_flight),
        worker.silent_seconds === null ? "not yet" : `${duration(worker.silent_seconds)} ago`,
        worker.transport === "lane" ? "shared memory" : "gRPC",
        h("span", { class: worker.straggles ? "badge bad" : "badge" }, stateOf(worker)),
      ])));
}

export const epochsView: MakeView = ({ asker, values, server }) => {
  const list = h("div");
  const detail = h("div", { class: "grid" });
  const name = values.get("job") ?? "";
  const element = h("div", {}, name === "" ? list : detail);
  let last = "";

  const link = (job: Job): HTMLElement =>
    h("a", { id: `job-${job.job}`, href: formatRoute("epochs", new URLSearchParams({ job: job.job })) }, job.job);

  const showJobs = (answer: Jobs): void => {
    // What is the same stays, with the focus and what a screen reader has read.
    const text = JSON.stringify(answer);
    if (text === last) return;
    last = text;
    if (answer.jobs.length === 0) {
      replace(list, empty("No job has loaded an epoch yet. A trainer begins one with Load: see Loader in the Python client."));
      return;
    }
    // Where several servers share the jobs, each says what is in its own; the list says whose they are.
    const shared = answer.jobs.some((job) => job.owner !== "" || job.epochs.length < Math.min(1, job.num_epochs));
    const parts: (HTMLElement | null)[] = [
      shared ? table("Jobs", ["Job", "Server", "Epochs"], answer.jobs.map((job) => [
        link(job), job.owner === "" ? "none now" : job.owner, count(job.num_epochs),
      ])) : table("Jobs", ["Job", "Latest epoch", "Done", "Workers now", "Data"], answer.jobs.map((job) => {
        const latest = job.epochs[0];
        const share = latest === undefined ? 0 : latest.batches === 0 ? 1 : latest.done / latest.batches;
        return [
          link(job),
          latest === undefined ? "" : String(latest.epoch), percent(share), count(job.num_sessions), latest?.dataset ?? "",
        ];
      })),
      command(serverCommand(server(), "jobs", "list"), "this list"),
      answer.next === "" ? null : h("p", {}, h("a", {
        href: formatRoute("epochs", new URLSearchParams({ page: answer.next })) }, "More jobs")),
    ];
    replace(list, ...parts);
  };

  const showJob = (job: Job): void => {
    const loading = job.loading ?? [];
    replace(detail,
      h("p", { class: "wide" }, h("a", { id: "all-jobs", href: "#/epochs" }, "All jobs"),
        ` · ${job.job} · ${some(job.num_epochs, "epoch")} · ${some(job.num_sessions, "worker")} now${job.owner === "" ? "" : ` · with the server at ${job.owner}`}`),
      ...(loading.length === 0 ? [h("div", { class: "wide" }, empty("Nobody loads an epoch of this job now."))] : loading.map(loaded)),
      h("section", { class: "card wide", "aria-label": "All epochs" }, h("h2", {}, "All epochs"),
        table("Epochs of the job", ["Epoch", "Done", "Batches", "Generation", "Workers", "Data"], job.epochs.map((epoch) => [
          String(epoch.epoch), percent(epoch.batches === 0 ? 1 : epoch.done / epoch.batches), count(epoch.batches),
          String(epoch.generation), count(epoch.sessions), epoch.dataset,
        ])),
        command(serverCommand(server(), "jobs", "show", job.job), "this job")));
  };

  return {
    title: name === "" ? "Epochs" : `Job ${name}`,
    element,
    interval: 2000,
    refresh: async () => {
      if (name === "") {
        const question = new URLSearchParams();
        const page = values.get("page");
        if (page !== null) question.set("page", page);
        const answer = await asker.ask<Jobs>("api/jobs", question);
        if (answer !== null) showJobs(answer);
        return;
      }
      try {
        const answer = await asker.ask<Job>("api/job", new URLSearchParams({ name }));
        if (answer !== null) showJob(answer);
      } catch (error) {
        if (!(error instanceof Refused) || error.status === 0) throw error;
        replace(detail, h("div", { class: "wide" }, empty(error.message), h("a", { href: "#/epochs" }, "All jobs")));
      }
    },
  };
};
