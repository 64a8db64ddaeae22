// Rows of features on their way to the part that they belong to.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_SPOOLED_ROWS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_SPOOLED_ROWS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/wings/partition_mpi/runs/chunked_input.h"
#include "service/wings/partition_mpi/shares/part_gatherer.h"
#include "service/wings/partition_mpi/shares/ranks.h"

namespace packhouse {

// A file of a fixed size that is written at any place. Its bytes are memory that the system may
// take back, so that rows need none of the process's own. Movable.
class SpoolFile {
 public:
  // All bytes are 0. RESOURCE_EXHAUSTED if the disk has no room for all of it, UNAVAILABLE.
  static absl::StatusOr<SpoolFile> Create(const std::string& path, uint64_t bytes);
  SpoolFile(SpoolFile&& other) noexcept
      : path_(std::move(other.path_)),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  SpoolFile& operator=(SpoolFile&& other) = delete;
  // Removes the file.
  ~SpoolFile();

  char* data() const { return data_; }
  absl::string_view bytes() const { return {data_, bytes_}; }

 private:
  SpoolFile(std::string path, char* data, uint64_t bytes)
      : path_(std::move(path)), data_(data), bytes_(bytes) {}

  std::string path_;
  char* data_;
  uint64_t bytes_;
};

// The rows [begin, end) of one type, which this rank reads, and where each belongs.
class RowPlan {
 public:
  // `new_ids` are homogeneous, one a row; `part_of` says the part of such an id. 16 bytes a row.
  template <typename PartOf>
  RowPlan(uint64_t begin, std::vector<uint64_t> new_ids, uint32_t num_parts, const PartOf& part_of)
      : begin_(begin), new_ids_(std::move(new_ids)), first_(num_parts + size_t{1}) {
    for (const uint64_t id : new_ids_) ++first_[part_of(id) + 1];
    for (size_t p = 1; p < first_.size(); ++p) first_[p] += first_[p - 1];
    std::vector<uint64_t> next(first_.begin(), first_.end() - 1);
    order_.resize(new_ids_.size());
    for (uint64_t i = 0; i < new_ids_.size(); ++i) order_[next[part_of(new_ids_[i])]++] = i;
  }

  uint64_t begin() const { return begin_; }
  uint64_t end() const { return begin_ + new_ids_.size(); }
  // Of a part, ascending: rows less begin().
  absl::Span<const uint64_t> RowsOf(uint32_t part) const {
    return absl::MakeConstSpan(order_).subspan(first_[part], first_[part + 1] - first_[part]);
  }
  uint64_t new_id(uint64_t row) const { return new_ids_[row]; }

 private:
  uint64_t begin_;
  std::vector<uint64_t> new_ids_;
  std::vector<uint64_t> first_;
  std::vector<uint64_t> order_;
};

// All ranks together: the rows of each part of the wave go to its rank, to `to` there, in the order
// of new ids. `ranges` are those of the type, by part.
void SendRows(Ranks& ranks, const PartGatherer::Wave& wave, const RowPlan& plan,
              const FeatureRows& rows, absl::Span<const IdRange> ranges, char* to);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_SPOOLED_ROWS_H_
