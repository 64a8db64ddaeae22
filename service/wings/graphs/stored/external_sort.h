// Sorts more records than fit into memory.
//
// Records are gathered in blocks, and each full block is sorted. When all blocks of the given
// memory are full they are merged into a run on the disk. In the end runs and blocks are merged. If
// there are more runs than can be merged at a time, the first ones are merged into one before.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_EXTERNAL_SORT_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_EXTERNAL_SORT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/base/disk_file.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/stored/disk_space.h"
#include "service/wings/graphs/stored/seal_work.h"

namespace packhouse {

// `Less` is a strict weak order of records; equal ones come in any order. Thread-compatible.
template <typename Record, typename Less>
class ExternalSort {
  static_assert(std::is_trivially_copyable_v<Record>);

 public:
  // Sorted at a time: some milliseconds.
  static constexpr size_t kBlockRecords = size_t{1} << 16;
  static constexpr size_t kMaxMerged = 64;

  // Runs are files in `folder`, which count in `space`; they are gone with the sorter. Takes
  // `memory_bytes` for records at most, but always enough for a few hundred of them.
  ExternalSort(std::string folder, GraphSpace* space, uint64_t memory_bytes, SealWork* work,
               Less less)
      : folder_(std::move(folder)), space_(space), work_(work), less_(less) {
    const uint64_t records = std::max<uint64_t>(memory_bytes / sizeof(Record), 256);
    block_records_ = std::min<uint64_t>(kBlockRecords, records / 4);
    max_blocks_ = records / block_records_;
    // While runs are merged, each has a buffer.
    buffer_records_ = std::max<uint64_t>(records / (kMaxMerged + 1), 4);
  }
  ~ExternalSort() { space_->Give(run_bytes_); }
  ExternalSort(const ExternalSort&) = delete;
  ExternalSort& operator=(const ExternalSort&) = delete;

  // The error of the disk, RESOURCE_EXHAUSTED as GraphSpace::Take(), or CANCELLED.
  absl::Status Add(const Record& record) {
    if (blocks_.empty() || blocks_.back().size() == block_records_) {
      PH_RETURN_IF_ERROR(NextBlock());
    }
    blocks_.back().push_back(record);
    ++num_records_;
    return absl::OkStatus();
  }

  uint64_t num_records() const { return num_records_; }

  // Gives all records in order to `visit`, which returns a status. Once only.
  template <typename Visit>
  absl::Status Merge(const Visit& visit) {
    if (!blocks_.empty()) std::sort(blocks_.back().begin(), blocks_.back().end(), less_);
    if (!runs_.empty()) {
      // Blocks would need the memory of the runs' buffers.
      PH_RETURN_IF_ERROR(Spill());
      while (runs_.size() > kMaxMerged) PH_RETURN_IF_ERROR(MergeFirstRuns());
    }
    return MergeSources(runs_, blocks_, visit);
  }

 private:
  // Sorted records on the disk.
  struct Run {
    DiskFile file;
    uint64_t num_records = 0;
  };

  // Records of a block or a run, one after the other.
  struct Source {
    const Record* next = nullptr;
    const Record* end = nullptr;
    const Run* run = nullptr;
    uint64_t read = 0;  // Records of the run.
    std::vector<Record> buffer;
  };

  absl::Status NextBlock() {
    if (!blocks_.empty()) {
      std::sort(blocks_.back().begin(), blocks_.back().end(), less_);
      PH_RETURN_IF_ERROR(work_->Tick());
      if (blocks_.size() == max_blocks_) PH_RETURN_IF_ERROR(Spill());
    }
    blocks_.emplace_back();
    blocks_.back().reserve(block_records_);
    return absl::OkStatus();
  }

  // Merges `runs` and `blocks` into a new run.
  absl::StatusOr<Run> MakeRun(const std::vector<Run>& runs,
                              const std::vector<std::vector<Record>>& blocks) {
    Run made;
    PH_ASSIGN_OR_RETURN(made.file, DiskFile::OpenNameless(folder_));
    std::vector<Record> buffer;
    buffer.reserve(buffer_records_);
    const auto flush = [&]() -> absl::Status {
      const absl::string_view bytes(reinterpret_cast<const char*>(buffer.data()),
                                    buffer.size() * sizeof(Record));
      PH_RETURN_IF_ERROR(space_->Take(bytes.size()));
      run_bytes_ += bytes.size();
      PH_RETURN_IF_ERROR(made.file.WriteAt(made.num_records * sizeof(Record), bytes));
      made.num_records += buffer.size();
      buffer.clear();
      return work_->Tick();
    };
    const auto write = [&](const Record& record) -> absl::Status {
      buffer.push_back(record);
      return buffer.size() < buffer_records_ ? absl::OkStatus() : flush();
    };
    PH_RETURN_IF_ERROR(MergeSources(runs, blocks, write));
    PH_RETURN_IF_ERROR(flush());
    return made;
  }

  absl::Status Spill() {
    if (blocks_.empty()) return absl::OkStatus();
    PH_ASSIGN_OR_RETURN(Run run, MakeRun({}, blocks_));
    runs_.push_back(std::move(run));
    blocks_.clear();
    return absl::OkStatus();
  }

  absl::Status MergeFirstRuns() {
    std::vector<Run> first;
    for (size_t r = 0; r < kMaxMerged; ++r) first.push_back(std::move(runs_[r]));
    runs_.erase(runs_.begin(), runs_.begin() + kMaxMerged);
    PH_ASSIGN_OR_RETURN(Run run, MakeRun(first, {}));
    const uint64_t bytes = run.num_records * sizeof(Record);
    runs_.push_back(std::move(run));
    first.clear();
    space_->Give(bytes);
    run_bytes_ -= bytes;
    return absl::OkStatus();
  }

  absl::Status Refill(Source& source) const {
    if (source.run == nullptr || source.read == source.run->num_records) return absl::OkStatus();
    source.buffer.resize(
        std::min<uint64_t>(buffer_records_, source.run->num_records - source.read));
    const size_t bytes = source.buffer.size() * sizeof(Record);
    PH_ASSIGN_OR_RETURN(
        const size_t got,
        source.run->file.ReadAt(source.read * sizeof(Record),
                                reinterpret_cast<char*>(source.buffer.data()), bytes));
    if (got != bytes) return absl::UnavailableError(source.run->file.path() + ": was cut off");
    source.read += source.buffer.size();
    source.next = source.buffer.data();
    source.end = source.next + source.buffer.size();
    return absl::OkStatus();
  }

  template <typename Visit>
  absl::Status MergeSources(const std::vector<Run>& runs,
                            const std::vector<std::vector<Record>>& blocks,
                            const Visit& visit) const {
    std::vector<std::unique_ptr<Source>> sources;
    for (const std::vector<Record>& block : blocks) {
      if (block.empty()) continue;
      auto source = std::make_unique<Source>();
      source->next = block.data();
      source->end = block.data() + block.size();
      sources.push_back(std::move(source));
    }
    for (const Run& run : runs) {
      auto source = std::make_unique<Source>();
      source->run = &run;
      PH_RETURN_IF_ERROR(Refill(*source));
      if (source->next != source->end) sources.push_back(std::move(source));
    }
    // A heap with the least next record at its top.
    std::vector<Source*> heap;
    for (const auto& source : sources) heap.push_back(source.get());
    const auto is_after = [this](const Source* a, const Source* b) {
      return less_(*b->next, *a->next);
    };
    std::make_heap(heap.begin(), heap.end(), is_after);
    while (heap.size() > 1) {
      Source& least = *heap.front();
      PH_RETURN_IF_ERROR(visit(*least.next));
      if (++least.next == least.end) {
        PH_RETURN_IF_ERROR(Refill(least));
        if (least.next == least.end) {
          heap.front() = heap.back();
          heap.pop_back();
        }
      }
      SiftDown(heap);
    }
    if (heap.empty()) return absl::OkStatus();
    Source& last = *heap.front();
    while (last.next != last.end) {
      PH_RETURN_IF_ERROR(visit(*last.next));
      if (++last.next == last.end) PH_RETURN_IF_ERROR(Refill(last));
    }
    return absl::OkStatus();
  }

  // The top's record has become larger: moves it to its place.
  void SiftDown(std::vector<Source*>& heap) const {
    Source* const moved = heap.front();
    size_t hole = 0;
    for (size_t child = 1; child < heap.size(); child = 2 * hole + 1) {
      if (child + 1 < heap.size() && less_(*heap[child + 1]->next, *heap[child]->next)) ++child;
      if (!less_(*heap[child]->next, *moved->next)) break;
      heap[hole] = heap[child];
      hole = child;
    }
    heap[hole] = moved;
  }

  const std::string folder_;
  GraphSpace* const space_;
  SealWork* const work_;
  const Less less_;
  uint64_t block_records_;
  uint64_t max_blocks_;
  uint64_t buffer_records_;
  std::vector<std::vector<Record>> blocks_;
  std::vector<Run> runs_;
  uint64_t num_records_ = 0;
  uint64_t run_bytes_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_EXTERNAL_SORT_H_
