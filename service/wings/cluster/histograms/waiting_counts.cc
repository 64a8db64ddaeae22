#include "service/wings/cluster/histograms/waiting_counts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/status_macros.h"
#include "service/wings/cluster/histograms/shared_histogram_format.h"

namespace packhouse {
namespace {

std::string HalfLifeOf(const HistogramKey& key) {
  return key.half_life ? absl::FormatDuration(*key.half_life) : "unset";
}

}  // namespace

absl::StatusOr<bool> WaitingCounts::Add(const HistogramKey& key, SizeHistogram& sizes,
                                        absl::Time now) {
  absl::MutexLock lock(&mutex_);
  PH_RETURN_IF_ERROR(AddLocked(key, sizes, now));
  return counts_.size() > kMaxHistograms || bytes_ > kMaxBytes ||
         shared_histogram::RunBytes(counts_.find(key.name)->second.sizes) > kMostOfRun / 2;
}

absl::Status WaitingCounts::AddLocked(const HistogramKey& key, SizeHistogram& sizes,
                                      absl::Time now) {
  const std::string what = absl::StrCat("histogram '", key.name, "': room for what waits");
  const size_t l = sizes.num_components();
  auto found = counts_.find(key.name);
  if (found == counts_.end()) {
    Counts counts = {key, SizeHistogram(l), now};
    counts.bytes = sizeof(Counts) + 2 * key.name.size() + sizes.bytes();
    if (memory_ != nullptr) {
      PH_ASSIGN_OR_RETURN(counts.memory, memory_->Hold(what, counts.bytes));
    }
    counts.sizes = std::move(sizes);
    bytes_ += counts_.emplace(key.name, std::move(counts)).first->second.bytes;
    return absl::OkStatus();
  }
  Counts& counts = found->second;
  if (!(counts.key.schema == key.schema) || counts.key.half_life != key.half_life) {
    return absl::FailedPreconditionError(absl::StrCat(
        "histogram '", key.name, "': components [", absl::StrJoin(key.schema.components(), ", "),
        "], half_life ", HalfLifeOf(key), "; what waits to be counted has [",
        absl::StrJoin(counts.key.schema.components(), ", "), "], half_life ",
        HalfLifeOf(counts.key)));
  }
  const uint64_t had = counts.sizes.bytes();
  const uint64_t growing =
      SizeHistogram::BytesFor(counts.sizes.num_distinct() + sizes.num_distinct(), l);
  if (memory_ != nullptr && growing > had) {
    PH_RETURN_IF_ERROR(counts.memory.Grow(what, growing - had));
  }
  const absl::Status merged = counts.sizes.Merge(sizes);
  bytes_ += counts.sizes.bytes() - had;
  counts.bytes += counts.sizes.bytes() - had;
  counts.memory.ShrinkTo(counts.bytes);
  counts.now = std::max(counts.now, now);
  return merged;
}

std::optional<WaitingCounts::Counts> WaitingCounts::Take(absl::string_view name) {
  absl::MutexLock lock(&mutex_);
  const auto found = counts_.find(name);
  if (found == counts_.end()) return std::nullopt;
  bytes_ -= found->second.bytes;
  std::optional<Counts> taken = std::move(found->second);
  counts_.erase(found);
  return taken;
}

absl::Status WaitingCounts::PutBack(Counts& counts, const absl::Status& otherwise) {
  absl::MutexLock lock(&mutex_);
  const auto found = counts_.find(counts.key.name);
  const uint64_t bytes_there =
      found == counts_.end() ? 0 : shared_histogram::RunBytes(found->second.sizes);
  const bool has_room = (found != counts_.end() || counts_.size() < kMaxHistograms) &&
                        bytes_ + counts.bytes <= kMaxBytes &&
                        bytes_there + shared_histogram::RunBytes(counts.sizes) <= kMostOfRun;
  if (!has_room) return otherwise;
  counts.memory.Reset();
  return AddLocked(counts.key, counts.sizes, counts.now);
}

std::optional<std::string> WaitingCounts::NameAfter(absl::string_view name) const {
  absl::MutexLock lock(&mutex_);
  const auto next = counts_.upper_bound(name);
  if (next == counts_.end()) return std::nullopt;
  return next->first;
}

}  // namespace packhouse
