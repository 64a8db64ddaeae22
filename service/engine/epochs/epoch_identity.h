// What makes two epochs the same: everything that decides which items are in which batch.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_IDENTITY_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_IDENTITY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// Which epoch of which job. An evaluation's epoch has no job.
struct EpochKey {
  std::string job;
  uint64_t epoch = 0;

  friend bool operator==(const EpochKey&, const EpochKey&) = default;
  // NOLINTNEXTLINE(modernize-use-nullptr): of the 0 that what is generated is compared with.
  friend auto operator<=>(const EpochKey&, const EpochKey&) = default;
};

// One rank group's part of the batches.
struct IdentityRankGroup {
  // Capacity per component, `graphs` last.
  std::vector<uint64_t> capacities;
  // Ranks that the rounds were planned for (round_plan.h), or the steps of like cost
  // (cost_order.h); 0 if there is one rank group, and no such steps. Later the number of ranks may
  // differ; the plan stays, since otherwise the batches would change.
  uint64_t planned_ranks = 0;
  uint64_t num_batches = 0;

  friend bool operator==(const IdentityRankGroup&, const IdentityRankGroup&) = default;
};

struct EpochIdentity {
  EpochKey key;
  std::string dataset;
  uint64_t dataset_version = 0;
  uint64_t seed = 0;
  std::vector<IdentityRankGroup> rank_groups;
  // Everything else that decides the batches, as a text for people: shuffle, look-ahead, grouping,
  // a hash of the subset or of the weights, the plan's receipt.
  std::string options;
  // Of an epoch whose batches become known window by window (loadable_epoch.h); 0 if all are known.
  // Then the numbers of batches are bounds: those of a rank group, and of padding, are numbered as
  // if there were so many before.
  uint64_t num_windows = 0;

  // The numbers of batches of all windows, of each one for each rank group.
  uint64_t num_counts() const { return num_windows * rank_groups.size(); }
  uint64_t num_batches() const;
  // As EpochBatches::first_batches().
  std::vector<uint64_t> first_batches() const;

  friend bool operator==(const EpochIdentity&, const EpochIdentity&) = default;
};

// OK if they are equal. Otherwise FAILED_PRECONDITION with the first difference and both values:
// "WHAT is of seed 7, the epoch has seed 8". `what` says where `other` comes from: "cursor",
// "load".
absl::Status CheckSameEpoch(const EpochIdentity& epoch, const EpochIdentity& other,
                            absl::string_view what);

// INVALID_ARGUMENT for an empty job name, or as CheckBatchCounts().
absl::Status CheckIdentity(const EpochIdentity& identity);
// For an epoch that may have no job. INVALID_ARGUMENT for no rank groups or more than 16, or for
// 2^32 batches or more.
absl::Status CheckBatchCounts(const EpochIdentity& identity);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_IDENTITY_H_
