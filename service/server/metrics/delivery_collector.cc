#include "service/server/metrics/delivery_collector.h"

#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "prometheus/client_metric.h"
#include "prometheus/metric_type.h"
#include "service/access/policy.h"
#include "service/server/metrics/families.h"
#include "service/server/metrics/store_collector.h"

namespace packhouse::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr char kOthers[] = "other";

MetricFamily Counter(const char* name, const char* help, uint64_t value) {
  return CounterFamily(name, help, static_cast<double>(value));
}

MetricFamily Gauge(const char* name, const char* help, uint64_t value) {
  return GaugeFamily(name, help, static_cast<double>(value));
}

// What a job loads: its name, and the data set's.
using Loading = std::pair<std::string, std::string>;

void AddOfJob(MetricFamily& family, const Loading& loading, double value) {
  const auto& [job, dataset] = loading;
  ClientMetric& metric = family.metric.emplace_back();
  metric.label = {{"namespace", job == kOthers ? job : std::string(NamespaceOf(job))},
                  {"training_job", job},
                  {"dataset", dataset}};
  metric.gauge.value = value;
}

struct Batches {
  uint64_t done = 0;
  uint64_t all = 0;
  // Of epochs in segments whose bound is known: batches, and the fewest possible.
  uint64_t segmented = 0;
  uint64_t bound = 0;
  // Of epochs of which they are known: the sums of both, and how many epochs.
  double step_efficiency = 0;
  uint64_t with_steps = 0;
  double company = 0;
  uint64_t with_company = 0;

  Batches& operator+=(const Batches& other) {
    done += other.done;
    all += other.all;
    segmented += other.segmented;
    bound += other.bound;
    step_efficiency += other.step_efficiency;
    with_steps += other.with_steps;
    company += other.company;
    with_company += other.with_company;
    return *this;
  }
};

std::map<Loading, Batches> ByJob(const std::vector<EpochProgress>& progress) {
  std::map<Loading, Batches> jobs;
  for (const EpochProgress& epoch : progress) {
    Batches& batches = jobs[{epoch.key.job, epoch.dataset}];
    batches.done += epoch.num_done;
    batches.all += epoch.num_batches;
    batches.step_efficiency += epoch.step_efficiency.value_or(0);
    batches.with_steps += epoch.step_efficiency ? 1 : 0;
    batches.company += epoch.company.value_or(0);
    batches.with_company += epoch.company ? 1 : 0;
    if (epoch.segments.lower_bound == 0 || epoch.segments.num_segments == 0) continue;
    batches.segmented += epoch.num_batches;
    batches.bound += epoch.segments.lower_bound;
  }
  if (jobs.size() <= kMaxJobLabels) return jobs;
  // One place is kept for "other".
  Batches others;
  while (jobs.size() >= kMaxJobLabels) {
    const auto last = std::prev(jobs.end());
    others += last->second;
    jobs.erase(last);
  }
  jobs[{kOthers, kOthers}] += others;
  return jobs;
}

// Sessions by the namespace of their job. That of jobs without one is always there.
using NamespaceSessions = std::map<std::string, SessionCounts>;

NamespaceSessions ByNamespace(const std::map<std::string, SessionCounts>& jobs) {
  NamespaceSessions sums = {{std::string(NamespaceOf("")), {}}};
  for (const auto& [job, counts] : jobs) {
    std::string where(NamespaceOf(job));
    // One place is kept for "other".
    if (!sums.contains(where) && sums.size() + 1 >= kMaxNamespaceLabels) where = kOthers;
    sums[std::move(where)] += counts;
  }
  return sums;
}

MetricFamily OfSessions(const std::string& name, const std::string& help,
                        const NamespaceSessions& sessions, uint64_t SessionCounts::*count) {
  MetricFamily family = FamilyOf(name, help, MetricType::Gauge);
  for (const auto& [where, counts] : sessions) {
    ClientMetric& metric = family.metric.emplace_back();
    metric.label = {{"namespace", where}};
    metric.gauge.value = static_cast<double>(counts.*count);
  }
  return family;
}

}  // namespace

std::vector<MetricFamily> DeliveryCollector::Collect() const {
  const DeliverySnapshot now = snapshot_();
  const LeaseCounters& totals = now.totals;
  const NamespaceSessions sessions = ByNamespace(now.jobs);
  std::vector<MetricFamily> families = {
      Counter("packhouse_batches_leased_total",
              "Batches of epochs sent to workers, those sent again among them.", totals.leased),
      Counter("packhouse_batches_redelivered_total",
              "Batches of epochs sent to a worker that had been sent before, to whomever.",
              totals.redelivered),
      Counter("packhouse_batches_acknowledged_total", "Batches of epochs that became done.",
              totals.acknowledged),
      Counter("packhouse_shared_batches_total",
              "Batches of epochs that a job was given which had been made for another job.",
              now.num_shared_batches),
      Counter("packhouse_duplicate_acknowledgements_total",
              "Acknowledgements of batches that were done already.", totals.duplicates),
      Counter("packhouse_leases_expired_total",
              "Leases of batches that ended because the worker was silent for too long.",
              totals.expired),
      Counter("packhouse_batches_given_back_total",
              "Unacknowledged batches of workers that went away, or that came anew.",
              totals.given_back),
      Counter(
          "packhouse_generations_total",
          "Times that an epoch was dealt: when it was begun, from a cursor, or to another number "
          "of workers.",
          now.num_generations),
      OfSessions("packhouse_batches_in_flight",
                 "Batches of epochs sent and not yet acknowledged, by the namespace of the job.",
                 sessions, &SessionCounts::num_in_flight),
      OfSessions("packhouse_load_sessions",
                 "Workers that load an epoch now, by the namespace of the job.", sessions,
                 &SessionCounts::num_sessions),
      OfSessions(
          "packhouse_load_sessions_starved",
          "Workers that load an epoch and have no batch to work on, although there are more: they "
          "wait for the server.",
          sessions, &SessionCounts::num_starved),
      OfSessions("packhouse_load_sessions_awaited",
                 "Workers that load an epoch and have batches, while nothing is made for them: the "
                 "server waits until they read or acknowledge.",
                 sessions, &SessionCounts::num_awaited),
      Gauge("packhouse_epochs", "Epochs that are remembered, begun or finished.", now.num_epochs),
  };
  MetricFamily ratio = FamilyOf("packhouse_epoch_progress_ratio",
                                "Done batches over all of them, by job and data set, of the epochs "
                                "that someone loads now.",
                                MetricType::Gauge);
  MetricFamily left = FamilyOf("packhouse_epoch_batches_left",
                               "Batches that are not done, by job and data set, of the epochs that "
                               "someone loads now.",
                               MetricType::Gauge);
  MetricFamily lost = FamilyOf("packhouse_epoch_segmentation_loss_ratio",
                               "At most this part of the batches is lost to segmentation, by job "
                               "and data set, of the epochs in segments that someone loads now.",
                               MetricType::Gauge);
  MetricFamily steps = FamilyOf("packhouse_epoch_step_efficiency_ratio",
                                "The part of their time that ranks compute, by job and data set, "
                                "of the epochs in steps of like cost that someone loads now.",
                                MetricType::Gauge);
  MetricFamily company = FamilyOf("packhouse_epoch_company_ratio",
                                  "How often two graphs of a batch were together in the epoch "
                                  "before, over how often in a shuffle, by job and data set, of "
                                  "the epochs that someone loads now, where it is known.",
                                  MetricType::Gauge);
  for (const auto& [loading, batches] : ByJob(now.progress)) {
    // An epoch without batches is done.
    const double share =
        batches.all == 0 ? 1 : static_cast<double>(batches.done) / static_cast<double>(batches.all);
    AddOfJob(ratio, loading, share);
    AddOfJob(left, loading, static_cast<double>(batches.all - batches.done));
    if (batches.with_steps != 0) {
      AddOfJob(steps, loading, batches.step_efficiency / static_cast<double>(batches.with_steps));
    }
    if (batches.with_company != 0) {
      AddOfJob(company, loading, batches.company / static_cast<double>(batches.with_company));
    }
    if (batches.bound == 0) continue;
    AddOfJob(lost, loading,
             static_cast<double>(batches.segmented) / static_cast<double>(batches.bound) - 1);
  }
  if (ratio.metric.empty()) return families;
  families.push_back(std::move(ratio));
  families.push_back(std::move(left));
  for (MetricFamily* const family : {&lost, &steps, &company}) {
    if (!family->metric.empty()) families.push_back(std::move(*family));
  }
  return families;
}

}  // namespace packhouse::metrics
