#include "service/engine/jobs/stored_epoch.h"

#include <string>
#include <utility>

#include "service/base/checked_arithmetic.h"

namespace packhouse {

void WriteEpochKey(const EpochKey& key, internal::EpochKey& stored) {
  stored.set_job(key.job);
  stored.set_epoch(key.epoch);
}

EpochKey ReadEpochKey(const internal::EpochKey& stored) { return {stored.job(), stored.epoch()}; }

void WriteIdentity(const EpochIdentity& identity, internal::EpochIdentity& stored) {
  WriteEpochKey(identity.key, *stored.mutable_key());
  stored.set_dataset(identity.dataset);
  stored.set_dataset_version(identity.dataset_version);
  stored.set_seed(identity.seed);
  for (const IdentityRankGroup& group : identity.rank_groups) {
    stored.add_num_capacities(static_cast<uint32_t>(group.capacities.size()));
    stored.add_planned_ranks(group.planned_ranks);
    stored.add_num_batches(group.num_batches);
    // 2^64 - 1, which is "no limit", would take ten bytes.
    for (const uint64_t capacity : group.capacities) stored.add_capacities(capacity + 1);
  }
  stored.set_options(identity.options);
  stored.set_num_windows(identity.num_windows);
}

std::optional<EpochIdentity> ReadIdentity(const internal::EpochIdentity& stored) {
  const int num_groups = stored.num_capacities_size();
  if (stored.planned_ranks_size() != num_groups || stored.num_batches_size() != num_groups) {
    return std::nullopt;
  }
  EpochIdentity identity;
  identity.key = ReadEpochKey(stored.key());
  identity.dataset = stored.dataset();
  identity.dataset_version = stored.dataset_version();
  identity.seed = stored.seed();
  int taken = 0;
  for (int i = 0; i < num_groups; ++i) {
    IdentityRankGroup& group = identity.rank_groups.emplace_back();
    group.planned_ranks = stored.planned_ranks(i);
    group.num_batches = stored.num_batches(i);
    const uint32_t count = stored.num_capacities(i);
    if (count > static_cast<uint32_t>(stored.capacities_size() - taken)) return std::nullopt;
    for (const int end = taken + static_cast<int>(count); taken < end; ++taken) {
      group.capacities.push_back(stored.capacities(taken) - 1);
    }
  }
  if (taken != stored.capacities_size()) return std::nullopt;
  identity.options = stored.options();
  identity.num_windows = stored.num_windows();
  return identity;
}

void WriteBatches(const BatchSet& batches, google::protobuf::RepeatedField<uint64_t>& stored) {
  stored.Reserve(static_cast<int>(2 * batches.num_runs()));
  uint64_t last = 0;
  for (const auto& [begin, end] : batches.Runs()) {
    stored.Add(begin - last);
    stored.Add(end - begin);
    last = end;
  }
}

std::optional<BatchSet> ReadBatches(const google::protobuf::RepeatedField<uint64_t>& stored) {
  if (stored.size() % 2 != 0) return std::nullopt;
  BatchSet batches;
  uint64_t last = 0;
  for (int i = 0; i < stored.size(); i += 2) {
    const uint64_t gap = stored.Get(i);
    const uint64_t length = stored.Get(i + 1);
    const auto begin = CheckedAdd(last, gap);
    const auto end = begin ? CheckedAdd(*begin, length) : std::nullopt;
    if (!end || length == 0 || (gap == 0 && !batches.empty())) return std::nullopt;
    batches.InsertRun({*begin, *end});
    last = *end;
  }
  return batches;
}

}  // namespace packhouse
