#include "service/engine/epochs/shared_batches.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "service/algorithms/collation/batch_place.h"
#include "service/algorithms/collation/collate.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// What is known of a batch besides its rows: names and shapes of tensors.
constexpr uint64_t kBytesBesides = 4096;

uint64_t BytesOfMade(const Batch& batch) {
  uint64_t bytes = batch.framed.size();
  if (bytes == 0) {
    for (const BatchTensor& tensor : batch.tensors) bytes += tensor.data.size();
  }
  return bytes + sizeof(uint64_t) * batch.graph_ids.size() + sizeof(uint32_t) * batch.sizes.size() +
         kBytesBesides;
}

std::string KeyOfGroup(uint64_t group) { return absl::StrCat(group, "\n"); }

}  // namespace

size_t SharedBatches::Hash::operator()(const EpochIdentity& epoch) const {
  return absl::HashOf(epoch.dataset, epoch.dataset_version, epoch.seed, epoch.key.epoch,
                      epoch.key.job);
}

std::unique_ptr<SharedBatches::Member> SharedBatches::Join(const EpochIdentity& epoch) {
  EpochIdentity of_all = epoch;
  of_all.key.job.clear();
  return JoinAs(std::move(of_all), epoch.key.job);
}

std::unique_ptr<SharedBatches::Member> SharedBatches::JoinPass(const EpochIdentity& epoch,
                                                               absl::string_view share) {
  EpochIdentity of_all = epoch;
  // No job has such a name.
  of_all.key.job = absl::StrCat("\n", share);
  return JoinAs(std::move(of_all), absl::StrCat("\n", num_passes_++));
}

std::unique_ptr<SharedBatches::Member> SharedBatches::JoinAs(EpochIdentity of_all,
                                                             std::string job) {
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<Group>& group = groups_[of_all];
  if (group == nullptr) {
    group = std::make_shared<Group>();
    group->number = num_groups_++;
  }
  ++group->streams[job];
  group->num_jobs = group->streams.size();
  return std::unique_ptr<Member>(new Member(this, std::move(of_all), std::move(job), group));
}

void SharedBatches::Leave(const EpochIdentity& of_all, const std::string& job) {
  std::string unshared;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = groups_.find(of_all);
    Group& group = *found->second;
    const auto streams = group.streams.find(job);
    if (--streams->second != 0) return;
    group.streams.erase(streams);
    group.num_jobs = group.streams.size();
    if (group.streams.size() > 1) return;
    unshared = KeyOfGroup(group.number);
    if (group.streams.empty()) groups_.erase(found);
  }
  made_.Drop(unshared);
}

absl::StatusOr<std::shared_ptr<const SharedBatches::Made>> SharedBatches::Keep(
    BuiltBatch& built) const {
  auto made = std::make_shared<Made>();
  made->bytes = BytesOfMade(built.batch);
  if (memory_ != nullptr) {
    const uint64_t most = memory_->bound() / 4 * 3;
    const uint64_t held = memory_->held();
    if (held > most || made->bytes > most - held) {
      return absl::ResourceExhaustedError("a batch that jobs share: others need the room");
    }
    PH_ASSIGN_OR_RETURN(made->memory, memory_->Hold("a batch that jobs share", made->bytes));
  }
  made->built = std::move(built);
  return made;
}

absl::StatusOr<BuiltBatch> SharedBatches::Build(const Group& group, const std::string& job,
                                                const LoadableEpoch& epoch, uint64_t number) {
  if (group.num_jobs < 2) return epoch.Build(number);
  const std::string key = absl::StrCat(KeyOfGroup(group.number), number, "\n");
  std::optional<absl::StatusOr<BuiltBatch>> own;
  const auto make = [&]() -> absl::StatusOr<std::shared_ptr<const Made>> {
    // Not where a client can write.
    const BatchPlaceScope in_own_memory(nullptr);
    own = epoch.Build(number);
    PH_RETURN_IF_ERROR(own->status());
    return Keep(**own);
  };
  const auto found = made_.Get(
      key, [] { return false; }, make);
  // Nothing is kept of it: each makes its own, and is told what fails.
  if (!found.ok()) {
    if (!own) return epoch.Build(number);
    PH_RETURN_IF_ERROR(own->status());
    (*own)->batch = AtBatchPlace(std::move((*own)->batch), framing_);
    return *std::move(own);
  }
  if (!own) num_taken_.fetch_add(1, std::memory_order_relaxed);
  bool had_by_all = false;
  {
    absl::MutexLock lock(&mutex_);
    (*found)->takers.insert(job);
    had_by_all = std::all_of(group.streams.begin(), group.streams.end(), [&](const auto& each) {
      return (*found)->takers.contains(each.first);
    });
  }
  if (had_by_all) made_.Drop(key);
  BuiltBatch built = (*found)->built;
  // The stream has it, and its memory, as long as the buffer.
  built.batch.buffer = std::shared_ptr<const void>(*found, built.batch.buffer.get());
  built.batch = AtBatchPlace(std::move(built.batch), framing_);
  return built;
}

}  // namespace packhouse
