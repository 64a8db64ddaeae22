// Figures of delivery, for monitoring.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_DELIVERY_SNAPSHOT_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_DELIVERY_SNAPSHOT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "service/engine/epochs/epoch_identity.h"
#include "service/engine/jobs/kept_plan.h"

namespace packhouse {

// Totals of leases since the counting object was made.
struct LeaseCounters {
  uint64_t leased = 0;
  uint64_t redelivered = 0;   // Batches of `leased` that had been leased before.
  uint64_t acknowledged = 0;  // Batches that became done.
  uint64_t duplicates = 0;    // Acknowledgements of batches that were already done.
  uint64_t expired = 0;
  uint64_t given_back = 0;  // By sessions that ended or lost their queue.

  friend LeaseCounters operator+(const LeaseCounters& a, const LeaseCounters& b) {
    return {
        a.leased + b.leased,         a.redelivered + b.redelivered, a.acknowledged + b.acknowledged,
        a.duplicates + b.duplicates, a.expired + b.expired,         a.given_back + b.given_back};
  }
};

// What an epoch has for one worker: for all of its rank's readers, or its rank group.
struct EpochShare {
  // Steps in its generation, and how many of them are done.
  uint64_t num_steps = 0;
  uint64_t num_steps_done = 0;
  // Not all batches are known.
  bool is_estimate = false;
  // Batches that were done before the generation.
  uint64_t num_batches_before = 0;
  // Steps if nothing had been done before.
  uint64_t num_steps_of_epoch = 0;

  friend bool operator==(const EpochShare&, const EpochShare&) = default;
};

// The progress of an epoch.
struct EpochProgress {
  EpochKey key;
  uint64_t generation = 0;  // 0: not opened.
  uint64_t num_done = 0;
  uint64_t num_batches = 0;
  // Of which data set; empty for an epoch that nobody has opened.
  std::string dataset = {};
  // Of an epoch in segments that was opened.
  KeptSegments segments = {};
  // Of a worker that was asked for, or that has joined.
  std::optional<EpochShare> share = std::nullopt;
  // Of an epoch that somebody loads, where they are known: the efficiency of its steps
  // (StepFigures), and its company over that of a shuffle.
  std::optional<double> step_efficiency = std::nullopt;
  std::optional<double> company = std::nullopt;
};

// What goes on now.
struct SessionCounts {
  uint64_t num_in_flight = 0;  // Batches that are leased.
  uint64_t num_sessions = 0;
  // Who waits for whom (LeaseTable::WaitOf()): sessions whose worker waits for the server, and
  // sessions for which the server waits.
  uint64_t num_starved = 0;
  uint64_t num_awaited = 0;

  SessionCounts& operator+=(const SessionCounts& other) {
    num_in_flight += other.num_in_flight;
    num_sessions += other.num_sessions;
    num_starved += other.num_starved;
    num_awaited += other.num_awaited;
    return *this;
  }
};

// Totals are since the loader was opened, and never fall.
struct DeliverySnapshot {
  LeaseCounters totals;
  uint64_t num_generations = 0;  // Started.
  uint64_t num_epochs = 0;
  uint64_t num_shared_batches = 0;  // SharedBatches::num_taken().
  // Of the jobs that have an epoch in memory, by name.
  std::map<std::string, SessionCounts> jobs;
  // The epochs that somebody loads now.
  std::vector<EpochProgress> progress;

  // Of all jobs.
  SessionCounts sessions() const {
    SessionCounts sum;
    for (const auto& [job, counts] : jobs) sum += counts;
    return sum;
  }
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_DELIVERY_SNAPSHOT_H_
