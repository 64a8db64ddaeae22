#include <algorithm>
#include <nlohmann/json.hpp>

#include "service/wings/page/page_json.h"

namespace packhouse::page {
namespace {

constexpr uint64_t kLeastLag = 3;
constexpr uint64_t kLagShare = 10;
constexpr absl::Duration kSilence = absl::Seconds(30);

// Null for InfinitePast().
Json SecondsSince(absl::Time then, absl::Time now) {
  return then == absl::InfinitePast() ? Json() : Json(absl::ToDoubleSeconds(now - then));
}

Json OrNull(const std::optional<double>& number) { return number ? Json(*number) : Json(); }

// Who waits.
const char* NameOf(SessionWait wait) {
  switch (wait) {
    case SessionWait::kWorker:
      return "worker";
    case SessionWait::kServer:
      return "server";
    case SessionWait::kNobody:
      break;
  }
  return "nobody";
}

}  // namespace

Json JobJson(const v1::Job& job, size_t most) {
  Json epochs = Json::array();
  for (const v1::JobEpoch& epoch : job.epochs()) {
    if (epochs.size() == most) break;
    epochs.push_back({{"epoch", epoch.epoch()},
                      {"generation", epoch.generation()},
                      {"done", epoch.num_done()},
                      {"batches", epoch.num_batches()},
                      {"dataset", epoch.dataset()},
                      {"sessions", epoch.num_sessions()}});
  }
  return {
      {"job", job.job()},
      {"num_epochs", job.num_epochs()},
      {"num_sessions", job.num_sessions()},
      {"owner", job.owner()},
      {"last_used", job.has_last_used() ? Json(job.last_used().seconds() * int64_t{1000}) : Json()},
      {"epochs", std::move(epochs)}};
}

std::vector<bool> Stragglers(const EpochWatch& epoch, absl::Time now) {
  const std::vector<WorkerWatch>& workers = epoch.workers;
  std::vector<bool> straggles(workers.size(), false);
  if (workers.size() < 2) return straggles;
  if (epoch.is_ranked) {
    std::vector<uint64_t> left;
    for (const WorkerWatch& worker : workers) left.push_back(worker.num_steps - worker.num_done);
    std::vector<uint64_t> sorted = left;
    std::sort(sorted.begin(), sorted.end());
    // Of two, the better one.
    const uint64_t median = sorted[(sorted.size() - 1) / 2];
    for (size_t i = 0; i < workers.size(); ++i) {
      straggles[i] = left[i] > median + std::max(kLeastLag, workers[i].num_steps / kLagShare);
    }
    return straggles;
  }
  absl::Time latest = absl::InfinitePast();
  for (const WorkerWatch& worker : workers) latest = std::max(latest, worker.last_heard);
  if (now - latest >= kSilence) return straggles;
  for (size_t i = 0; i < workers.size(); ++i) {
    straggles[i] = workers[i].num_in_flight != 0 && now - workers[i].last_heard >= kSilence;
  }
  return straggles;
}

Json EpochWatchJson(const EpochWatch& epoch, std::optional<double> batches_per_second,
                    absl::Time now) {
  const std::vector<bool> straggles = Stragglers(epoch, now);
  Json workers = Json::array();
  for (size_t i = 0; i < epoch.workers.size(); ++i) {
    const WorkerWatch& worker = epoch.workers[i];
    workers.push_back({{"queue", worker.queue},
                       {"reader", worker.reader},
                       {"readers", worker.num_readers},
                       {"worker", worker.worker},
                       {"steps", worker.num_steps},
                       {"done", worker.num_done},
                       {"acknowledged", worker.num_acknowledged},
                       {"in_flight", worker.num_in_flight},
                       {"silent_seconds", SecondsSince(worker.last_heard, now)},
                       {"ended", worker.has_ended},
                       {"waits", NameOf(worker.wait)},
                       {"transport", worker.shares_memory ? "lane" : "grpc"},
                       {"straggles", bool{straggles[i]}}});
  }
  Json queues = Json::array();
  for (const QueueWatch& queue : epoch.queues) {
    queues.push_back({{"batches", queue.num_batches},
                      {"done", queue.num_done},
                      {"given_back", queue.num_given_back}});
  }
  const uint64_t left =
      epoch.progress.num_batches - std::min(epoch.progress.num_batches, epoch.progress.num_done);
  Json seconds_left;
  if (left == 0) {
    seconds_left = 0;
  } else if (batches_per_second && *batches_per_second > 0) {
    seconds_left = static_cast<double>(left) / *batches_per_second;
  }
  return {{"epoch", epoch.progress.key.epoch},
          {"generation", epoch.progress.generation},
          {"done", epoch.progress.num_done},
          {"batches", epoch.progress.num_batches},
          {"ranked", epoch.is_ranked},
          {"in_flight", epoch.num_leased},
          {"num_sessions", epoch.num_sessions},
          {"step_efficiency", OrNull(epoch.progress.step_efficiency)},
          {"company", OrNull(epoch.progress.company)},
          {"leased", epoch.counters.leased},
          {"redelivered", epoch.counters.redelivered},
          {"expired", epoch.counters.expired},
          {"given_back", epoch.counters.given_back},
          {"batches_per_second", OrNull(batches_per_second)},
          {"seconds_left", std::move(seconds_left)},
          {"queues", std::move(queues)},
          {"workers", std::move(workers)}};
}

}  // namespace packhouse::page
