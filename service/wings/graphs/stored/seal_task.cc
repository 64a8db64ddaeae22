#include "service/wings/graphs/stored/seal_task.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace packhouse {

absl::Status PlaceList::Add(uint64_t place) {
  buffer_.push_back(place);
  return buffer_.size() < kBuffered ? absl::OkStatus() : Flush();
}

absl::Status PlaceList::Flush() {
  if (buffer_.empty()) return absl::OkStatus();
  if (!file_.is_open()) {
    PH_ASSIGN_OR_RETURN(file_, DiskFile::OpenNameless(folder_));
  }
  const absl::string_view bytes(reinterpret_cast<const char*>(buffer_.data()),
                                buffer_.size() * sizeof(uint64_t));
  PH_RETURN_IF_ERROR(space_->Take(bytes.size()));
  bytes_ += bytes.size();
  PH_RETURN_IF_ERROR(file_.WriteAt(bytes_ - bytes.size(), bytes));
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status PlaceList::Read(uint64_t& at, std::vector<uint64_t>& places) const {
  places.resize(std::min<uint64_t>(kBuffered, (bytes_ - at) / sizeof(uint64_t)));
  const size_t bytes = places.size() * sizeof(uint64_t);
  PH_ASSIGN_OR_RETURN(const size_t got,
                      file_.ReadAt(at, reinterpret_cast<char*>(places.data()), bytes));
  if (got != bytes) return absl::UnavailableError(file_.path() + ": was cut off");
  at += bytes;
  return absl::OkStatus();
}

absl::StatusOr<bool> WriteRows(SealTask& task, absl::Span<const StoredRows> parts,
                               const std::string& name, PlaceList& places) {
  bool is_identity = true;
  uint64_t last = 0;
  PH_RETURN_IF_ERROR(ForEachRow(parts, places, [&](uint64_t number, uint64_t row) {
    is_identity &= number == row;
    last = std::max(last, row);
    return task.work->Advance(1);
  }));
  if (is_identity) return false;
  const bool is_narrow = last <= std::numeric_limits<uint32_t>::max();
  PH_ASSIGN_OR_RETURN(ArrayWriter rows, task.NewArray(name));
  task.work->AddTotal(last);
  const auto write = [&](uint64_t /*number*/, uint64_t row) -> absl::Status {
    PH_RETURN_IF_ERROR(is_narrow ? rows.AppendValue(static_cast<uint32_t>(row))
                                 : rows.AppendValue(row));
    return task.work->Advance(1);
  };
  PH_RETURN_IF_ERROR(ForEachRow(parts, places, write));
  PH_RETURN_IF_ERROR(task.Finish(rows));
  return true;
}

absl::Status WriteColumn(SealTask& task, absl::Span<const StoredRows> parts, size_t array,
                         const SourceColumnSpec& spec, const std::string& name, PlaceList& places) {
  const uint64_t step_bytes = SourceStepBytes(spec);
  PH_ASSIGN_OR_RETURN(ArrayWriter data, task.NewArray(name));
  std::optional<ArrayWriter> offsets;
  if (spec.ragged) {
    PH_ASSIGN_OR_RETURN(offsets, task.NewArray(absl::StrCat(name, kOffsetsPart)));
    PH_RETURN_IF_ERROR(offsets->AppendValue(uint64_t{0}));
  }
  const auto write = [&](uint64_t place) -> absl::Status {
    if (place != PlaceList::kNone) {
      PH_RETURN_IF_ERROR(data.Append(RowBytes(parts[RowPlace::PartOf(place)].arrays[array],
                                              step_bytes, RowPlace::RowOf(place))));
    } else if (!spec.ragged) {
      PH_RETURN_IF_ERROR(data.AppendZeros(step_bytes));
    }
    if (offsets) PH_RETURN_IF_ERROR(offsets->AppendValue(data.bytes() / step_bytes));
    return task.work->Advance(1);
  };
  PH_RETURN_IF_ERROR(places.ForEach(write));
  PH_RETURN_IF_ERROR(task.Finish(data));
  return offsets ? task.Finish(*offsets) : absl::OkStatus();
}

}  // namespace packhouse
