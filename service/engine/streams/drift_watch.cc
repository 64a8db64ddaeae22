#include "service/engine/streams/drift_watch.h"

#include <algorithm>
#include <utility>

#include "absl/numeric/int128.h"
#include "service/algorithms/planning/oversize_graphs.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// Each reference is so many times as long as the one before.
constexpr uint64_t kGrowth = 4;
// No reference waits for more graphs than this, or than it had at first.
constexpr uint64_t kLongestReference = uint64_t{1} << 20;
// One chunk has at most this many changes: a message of 64 MiB has 2^24 graphs at the most, and
// references grow to kLongestReference, the shortest one in six steps.
constexpr uint64_t kMostChanges = 24;

}  // namespace

absl::StatusOr<SizeHistogram> ThinnedOut(const SizeHistogram& histogram, uint64_t most) {
  SizeHistogram thinned(histogram.num_components());
  const uint64_t all = histogram.num_graphs();
  const uint64_t wanted = std::min(most, all);
  uint64_t taken = 0;
  uint64_t end = 0;
  for (const uint32_t row : histogram.SortedRows()) {
    end += histogram.count(row);
    // Graph i of those that are taken is the one in the middle of the i-th of equal parts.
    uint64_t count = 0;
    while (taken + count < wanted &&
           absl::uint128(2 * (taken + count) + 1) * all < absl::uint128(2 * wanted) * end) {
      ++count;
    }
    PH_RETURN_IF_ERROR(thinned.Add(histogram.tuple(row), count));
    taken += count;
  }
  return thinned;
}

std::vector<double> MeanRows(const SizeHistogram& histogram) {
  std::vector<double> means;
  const double graphs = static_cast<double>(std::max<uint64_t>(histogram.num_graphs(), 1));
  for (size_t k = 0; k < histogram.num_components(); ++k) {
    means.push_back(static_cast<double>(histogram.total(k)) / graphs);
  }
  return means;
}

absl::StatusOr<DriftReference> DriftReferenceOf(const SizeHistogram& histogram,
                                                const DeviceProfile* allowed) {
  if (allowed == nullptr) {
    PH_ASSIGN_OR_RETURN(SizeHistogram sample, ThinnedOut(histogram, DriftReference::kMostGraphs));
    DriftReference reference{DriftDetector(histogram.num_components()), std::move(sample),
                             MeanRows(histogram)};
    reference.detector.AddReference(histogram);
    return reference;
  }
  SizeHistogram fitting(histogram.num_components());
  for (size_t row = 0; row < histogram.num_distinct(); ++row) {
    if (ExcessOverProfile(histogram.tuple(row), *allowed)) continue;
    PH_RETURN_IF_ERROR(fitting.Add(histogram.tuple(row), histogram.count(row)));
  }
  return DriftReferenceOf(fitting, nullptr);
}

DriftWatch::DriftWatch(size_t num_components, uint64_t num_graphs,
                       std::optional<DeviceProfile> allowed)
    : num_components_(num_components),
      num_graphs_(num_graphs),
      allowed_(std::move(allowed)),
      detector_(num_components),
      reference_length_(num_graphs),
      collected_(num_components) {}

uint64_t DriftWatch::BytesFor(size_t num_components, uint64_t num_graphs) {
  return 2 * DriftDetector::BytesFor(num_components) +
         SizeHistogram::BytesFor(DriftReference::kMostGraphs, num_components) +
         (kMostChanges + 1) * SizeHistogram::BytesFor(num_graphs, num_components);
}

void DriftWatch::SetReference(DriftReference reference, uint64_t first_graph) {
  detector_ = std::move(reference.detector);
  sample_ = std::move(reference.sample);
  means_ = std::move(reference.means);
  num_seen_ = first_graph;
  watched_from_ = first_graph;
  state_ = State::kWatching;
}

absl::Status DriftWatch::Observe(const SizesView& sizes, size_t skipped) {
  for (size_t i = skipped; i < sizes.num_graphs(); ++i) {
    const absl::Span<const uint32_t> tuple =
        sizes.counts().subspan(i * num_components_, num_components_);
    if (!allowed_ || !ExcessOverProfile(tuple, *allowed_)) PH_RETURN_IF_ERROR(ObserveOne(tuple));
    ++num_seen_;
  }
  return absl::OkStatus();
}

absl::Status DriftWatch::ObserveOne(absl::Span<const uint32_t> tuple) {
  switch (state_) {
    case State::kReference:
      detector_.AddReference(tuple);
      if (!sample_) PH_RETURN_IF_ERROR(collected_.Add(tuple));
      if (detector_.num_reference() < reference_length_) return absl::OkStatus();
      watched_from_ = num_seen_ + 1;
      state_ = State::kWatching;
      return sample_ ? absl::OkStatus() : EndFirst();
    case State::kWatching:
      if (!detector_.Observe(tuple)) return absl::OkStatus();
      change_.first_graph = std::min(watched_from_ + detector_.num_before_change(), num_seen_);
      change_.found_graph = num_seen_;
      state_ = State::kCollecting;
      return absl::OkStatus();
    case State::kCollecting:
      PH_RETURN_IF_ERROR(collected_.Add(tuple));
      if (collected_.num_graphs() == num_graphs_) EndCollecting();
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status DriftWatch::EndFirst() {
  PH_ASSIGN_OR_RETURN(sample_, ThinnedOut(collected_, DriftReference::kMostGraphs));
  means_ = MeanRows(collected_);
  collected_ = SizeHistogram(num_components_);
  return absl::OkStatus();
}

void DriftWatch::EndCollecting() {
  detector_ = DriftDetector(num_components_);
  detector_.AddReference(collected_);
  reference_length_ =
      std::max(std::min(kGrowth * reference_length_, kLongestReference), num_graphs_);
  change_.end_graph = num_seen_ + 1;
  change_.graphs = std::exchange(collected_, SizeHistogram(num_components_));
  changes_.push_back(std::move(change_));
  change_ = SizeChange{};
  state_ = State::kReference;
}

SizeChange DriftWatch::TakeChange() {
  SizeChange change = std::move(changes_.front());
  changes_.pop_front();
  return change;
}

}  // namespace packhouse
