#include "service/engine/epochs/epoch_identity.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/algorithms/planning/limits.h"
#include "service/base/checked_arithmetic.h"

namespace packhouse {
namespace {

constexpr size_t kMaxRankGroups = 16;

// "(222, 502, -) of 3 ranks, 40 batches; ...".
std::string RankGroupsText(const EpochIdentity& identity) {
  return absl::StrJoin(identity.rank_groups, "; ",
                       [](std::string* out, const IdentityRankGroup& rank_group) {
                         absl::StrAppend(out, "(",
                                         absl::StrJoin(rank_group.capacities, ", ",
                                                       [](std::string* text, uint64_t capacity) {
                                                         if (capacity == kUnlimited) {
                                                           absl::StrAppend(text, "-");
                                                         } else {
                                                           absl::StrAppend(text, capacity);
                                                         }
                                                       }),
                                         ")");
                         if (rank_group.planned_ranks != 0)
                           absl::StrAppend(out, " of ", rank_group.planned_ranks, " ranks");
                         absl::StrAppend(out, ", ", rank_group.num_batches, " batches");
                       });
}

}  // namespace

uint64_t EpochIdentity::num_batches() const {
  uint64_t sum = 0;
  for (const IdentityRankGroup& rank_group : rank_groups) sum += rank_group.num_batches;
  return sum;
}

std::vector<uint64_t> EpochIdentity::first_batches() const {
  std::vector<uint64_t> first = {0};
  for (const IdentityRankGroup& rank_group : rank_groups) {
    first.push_back(first.back() + rank_group.num_batches);
  }
  return first;
}

absl::Status CheckSameEpoch(const EpochIdentity& epoch, const EpochIdentity& other,
                            absl::string_view what) {
  const auto compare = [what](absl::string_view field, const auto& of_other, const auto& of_epoch) {
    if (of_other == of_epoch) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(what, ": is of ", field, " ", of_other,
                                                      ", the epoch has ", field, " ", of_epoch));
  };
  absl::Status status = compare("job", other.key.job, epoch.key.job);
  status.Update(compare("epoch", other.key.epoch, epoch.key.epoch));
  status.Update(compare("dataset", other.dataset, epoch.dataset));
  status.Update(compare("dataset version", other.dataset_version, epoch.dataset_version));
  status.Update(compare("seed", other.seed, epoch.seed));
  status.Update(compare("limits", RankGroupsText(other), RankGroupsText(epoch)));
  status.Update(compare("options", other.options, epoch.options));
  status.Update(compare("windows", other.num_windows, epoch.num_windows));
  return status;
}

absl::Status CheckIdentity(const EpochIdentity& identity) {
  if (identity.key.job.empty()) return absl::InvalidArgumentError("epoch: without a job name");
  return CheckBatchCounts(identity);
}

absl::Status CheckBatchCounts(const EpochIdentity& identity) {
  if (identity.rank_groups.empty() || identity.rank_groups.size() > kMaxRankGroups) {
    return absl::InvalidArgumentError(absl::StrCat("epoch: ", identity.rank_groups.size(),
                                                   " rank groups, must be 1 to ", kMaxRankGroups));
  }
  uint64_t sum = 0;
  for (const IdentityRankGroup& rank_group : identity.rank_groups) {
    const auto next = CheckedAdd(sum, rank_group.num_batches);
    if (!next || *next > std::numeric_limits<uint32_t>::max()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "epoch: ", sum, " and ", rank_group.num_batches, " batches, at most 2^32 - 1"));
    }
    sum = *next;
  }
  return absl::OkStatus();
}

}  // namespace packhouse
