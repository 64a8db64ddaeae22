#include "service/server/services/dataset_drifts.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace packhouse {

// The mean rows of graphs, by component. Not in an anonymous namespace: Watch, which has two, has a
// name that other files know.
class RunningMean {
 public:
  explicit RunningMean(size_t num_components) : totals_(num_components) {}

  void Add(absl::Span<const uint32_t> tuple) {
    for (size_t k = 0; k < totals_.size(); ++k) totals_[k] += tuple[k];
    ++num_graphs_;
  }
  void Add(const SizeHistogram& histogram) {
    for (size_t k = 0; k < totals_.size(); ++k) {
      totals_[k] += static_cast<double>(histogram.total(k));
    }
    num_graphs_ += histogram.num_graphs();
  }
  uint64_t num_graphs() const { return num_graphs_; }
  double of(size_t k) const {
    return totals_[k] / static_cast<double>(std::max<uint64_t>(num_graphs_, 1));
  }

 private:
  std::vector<double> totals_;
  uint64_t num_graphs_ = 0;
};

class DatasetDrifts::Watch {
 public:
  Watch(size_t num_components, MemoryHold memory)
      : num_components_(num_components),
        memory_(std::move(memory)),
        detector_(num_components),
        reference_(num_components),
        after_(num_components) {}

  uint64_t held_bytes() const {
    absl::MutexLock lock(&mutex_);
    return memory_.bytes();
  }

  // The graphs that are there before the first that is observed.
  void SetReference(const SizeHistogram& histogram) {
    absl::MutexLock lock(&mutex_);
    detector_.AddReference(histogram);
    reference_.Add(histogram);
  }

  void Observe(const SizeTable& sizes, uint64_t first_graph) {
    if (sizes.num_components() != num_components_) return;
    absl::MutexLock lock(&mutex_);
    if (has_ended_) return;
    const size_t step = sizes.num_graphs() / kMostGraphsOfChunk + 1;
    for (size_t i = 0; i < sizes.num_graphs(); i += step) {
      ObserveOne(sizes.tuple(i), first_graph + i);
    }
  }

  // Nothing is observed from now on; gives back the memory. False if there is nothing to tell.
  bool End() {
    absl::MutexLock lock(&mutex_);
    has_ended_ = true;
    detector_ = DriftDetector(0);
    following_ = DriftDetector(0);
    memory_.Reset();
    return told_.num_changes() != 0;
  }

  bool ToWire(const SizeSchema& schema, v1::DatasetDrift& wire) const {
    absl::MutexLock lock(&mutex_);
    if (told_.num_changes() == 0 || schema.num_components() != num_components_) return false;
    wire = told_;
    for (size_t k = 0; k < num_components_; ++k) {
      wire.mutable_components(static_cast<int>(k))->set_component(std::string(schema.name(k)));
    }
    return true;
  }

 private:
  void ObserveOne(absl::Span<const uint32_t> tuple, uint64_t place)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (is_changing_) {
      after_.Add(tuple);
      following_.AddReference(tuple);
      if (after_.num_graphs() == kGraphs) EndChange();
      return;
    }
    if (reference_.num_graphs() < kGraphs) {
      reference_.Add(tuple);
      detector_.AddReference(tuple);
      return;
    }
    if (detector_.num_observed() == 0) begin_ = place;
    if (!detector_.Observe(tuple)) return;
    is_changing_ = true;
    following_ = DriftDetector(num_components_);
    found_graph_ = place;
    // The compared graphs are about equally far from each other.
    const double share = static_cast<double>(detector_.num_before_change()) /
                         static_cast<double>(detector_.num_observed());
    first_graph_ = begin_ + static_cast<uint64_t>(
                                share * static_cast<double>(place - std::min(place, begin_)));
  }

  void EndChange() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const uint64_t num_changes = told_.num_changes() + 1;
    told_.Clear();
    told_.set_num_changes(num_changes);
    told_.set_first_graph(first_graph_);
    told_.set_found_graph(found_graph_);
    for (size_t k = 0; k < num_components_; ++k) {
      v1::DatasetDrift::Component& component = *told_.add_components();
      component.set_reference_mean(reference_.of(k));
      component.set_mean(after_.of(k));
    }
    detector_ = std::move(following_);
    following_ = DriftDetector(1);
    reference_ = std::move(after_);
    after_ = RunningMean(num_components_);
    is_changing_ = false;
  }

  const size_t num_components_;
  mutable absl::Mutex mutex_;
  MemoryHold memory_ ABSL_GUARDED_BY(mutex_);
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
  DriftDetector detector_ ABSL_GUARDED_BY(mutex_);
  RunningMean reference_ ABSL_GUARDED_BY(mutex_);
  // The place of the first graph that the detector compared.
  uint64_t begin_ ABSL_GUARDED_BY(mutex_) = 0;
  // A change was found, and the graphs after it are the next reference.
  bool is_changing_ ABSL_GUARDED_BY(mutex_) = false;
  DriftDetector following_ ABSL_GUARDED_BY(mutex_){1};
  RunningMean after_ ABSL_GUARDED_BY(mutex_);
  uint64_t first_graph_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t found_graph_ ABSL_GUARDED_BY(mutex_) = 0;
  // The latest change, without the names of components.
  v1::DatasetDrift told_ ABSL_GUARDED_BY(mutex_);
};

std::shared_ptr<DatasetDrifts::Watch> DatasetDrifts::Find(uint64_t id) const {
  absl::MutexLock lock(&mutex_);
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second->second;
}

std::shared_ptr<DatasetDrifts::Watch> DatasetDrifts::Use(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  watches_.splice(watches_.begin(), watches_, found->second);
  return found->second->second;
}

void DatasetDrifts::Open(const DatasetInfo& info, const DatasetStore& store) {
  const size_t num_components = info.schema->num_components();
  if (info.state != DatasetState::kOpen || num_components == 0 || Use(info.id) != nullptr) return;
  MemoryHold memory;
  if (memory_ != nullptr) {
    absl::StatusOr<MemoryHold> hold = memory_->Hold("the watch of a data set's sizes",
                                                    2 * DriftDetector::BytesFor(num_components));
    if (!hold.ok()) return;
    memory = *std::move(hold);
  }
  auto watch = std::make_shared<Watch>(num_components, std::move(memory));
  if (info.num_graphs >= kGraphs) {
    constexpr absl::string_view kWhat = "the sizes of a data set that is to be watched";
    MemoryHold of_histogram;
    if (memory_ != nullptr) {
      absl::StatusOr<MemoryHold> hold = memory_->Hold(kWhat, 0);
      if (!hold.ok()) return;
      of_histogram = *std::move(hold);
    }
    const absl::StatusOr<SizeHistogram> histogram =
        store.GetReservedHistogram(info.name, [&](uint64_t bytes) {
          return memory_ == nullptr ? absl::OkStatus() : of_histogram.Grow(kWhat, bytes);
        });
    if (!histogram.ok() || histogram->num_components() != num_components) return;
    watch->SetReference(*histogram);
  }
  absl::MutexLock lock(&mutex_);
  // Another stream may have been quicker.
  if (by_id_.contains(info.id)) return;
  held_bytes_ += watch->held_bytes();
  watches_.emplace_front(info.id, std::move(watch));
  by_id_[info.id] = watches_.begin();
  while (AreTooMany()) Remove(std::prev(watches_.end()));
}

void DatasetDrifts::Remove(Watches::iterator watch) {
  held_bytes_ -= watch->second->held_bytes();
  by_id_.erase(watch->first);
  watches_.erase(watch);
}

bool DatasetDrifts::AreTooMany() const {
  if (watches_.size() <= 1) return false;
  return watches_.size() > kMostDatasets ||
         (memory_ != nullptr && held_bytes_ > memory_->bound() / kShareOfMemory);
}

void DatasetDrifts::Observe(uint64_t id, const SizeTable& sizes, uint64_t first_graph) {
  if (const std::shared_ptr<Watch> watch = Use(id)) watch->Observe(sizes, first_graph);
}

void DatasetDrifts::EndWatch(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  Watch& watch = *found->second->second;
  held_bytes_ -= watch.held_bytes();
  if (!watch.End()) Remove(found->second);
}

void DatasetDrifts::Forget(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  const auto found = by_id_.find(id);
  if (found != by_id_.end()) Remove(found->second);
}

bool DatasetDrifts::ToWire(uint64_t id, const SizeSchema& schema, v1::DatasetDrift& wire) const {
  const std::shared_ptr<Watch> watch = Find(id);
  return watch != nullptr && watch->ToWire(schema, wire);
}

}  // namespace packhouse
