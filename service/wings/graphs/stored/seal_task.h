// What the steps of sealing share.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SEAL_TASK_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SEAL_TASK_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/stored/array_file.h"
#include "service/wings/graphs/stored/disk_space.h"
#include "service/wings/graphs/stored/graph_files.h"
#include "service/wings/graphs/stored/logged_rows.h"
#include "service/wings/graphs/stored/seal_work.h"

namespace packhouse {

// Thread-compatible. The pointees outlive it.
struct SealTask {
  const GraphDefinition* definition = nullptr;
  const LoggedRows* rows = nullptr;
  std::string folder;  // Of the arrays.
  GraphSpace* space = nullptr;
  // For sorting and for tables of ids, all together.
  uint64_t memory_bytes = 0;
  DuplicateNodes duplicates = DuplicateNodes::kRefuse;
  SealWork* work = nullptr;
  // The arrays that are made.
  std::vector<ArrayInfo> arrays = {};

  absl::StatusOr<ArrayWriter> NewArray(const std::string& name) const {
    return ArrayWriter::Create(folder, name, space);
  }
  absl::Status Finish(ArrayWriter& writer) {
    PH_ASSIGN_OR_RETURN(ArrayInfo info, writer.Finish());
    arrays.push_back(std::move(info));
    return absl::OkStatus();
  }
};

// Places of rows, one after the other, in a file that is gone in the end. Written, then read.
class PlaceList {
 public:
  static constexpr uint64_t kNone = ~uint64_t{0};

  PlaceList(std::string folder, GraphSpace* space) : folder_(std::move(folder)), space_(space) {}
  ~PlaceList() { space_->Give(bytes_); }
  PlaceList(const PlaceList&) = delete;
  PlaceList& operator=(const PlaceList&) = delete;

  absl::Status Add(uint64_t place);
  // Gives all places to `visit`, which returns a status. As often as wanted.
  template <typename Visit>
  absl::Status ForEach(const Visit& visit) {
    PH_RETURN_IF_ERROR(Flush());
    std::vector<uint64_t> places;
    for (uint64_t at = 0; at < bytes_;) {
      PH_RETURN_IF_ERROR(Read(at, places));
      for (const uint64_t place : places) PH_RETURN_IF_ERROR(visit(place));
    }
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kBuffered = size_t{1} << 16;

  absl::Status Flush();
  absl::Status Read(uint64_t& at, std::vector<uint64_t>& places) const;

  const std::string folder_;
  GraphSpace* const space_;
  DiskFile file_;
  uint64_t bytes_ = 0;
  std::vector<uint64_t> buffer_;
};

// Writes one column: the rows at `places` of array number `array` of `parts`, in that order; zeros,
// or no steps, for PlaceList::kNone. `name` is that of the array, without a part.
absl::Status WriteColumn(SealTask& task, absl::Span<const StoredRows> parts, size_t array,
                         const SourceColumnSpec& spec, const std::string& name, PlaceList& places);

// Which row each of `places` is, counted over `parts`; PlaceList::kNone stands for the rows that
// follow. Gives `number` and `row` to `visit`, in order.
template <typename Visit>
absl::Status ForEachRow(absl::Span<const StoredRows> parts, PlaceList& places, const Visit& visit) {
  std::vector<uint64_t> begin = {0};
  for (const StoredRows& part : parts) begin.push_back(begin.back() + part.num_rows);
  uint64_t behind = begin.back();
  uint64_t number = 0;
  return places.ForEach([&](uint64_t place) -> absl::Status {
    const uint64_t row = place == PlaceList::kNone
                             ? behind++
                             : begin[RowPlace::PartOf(place)] + RowPlace::RowOf(place);
    return visit(number++, row);
  });
}

// Writes the array `name` of these rows, 4 bytes each where they all fit, otherwise 8; unless
// element n is row n for all n. Whether it did.
absl::StatusOr<bool> WriteRows(SealTask& task, absl::Span<const StoredRows> parts,
                               const std::string& name, PlaceList& places);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SEAL_TASK_H_
