#include "client/graph/files/npz_numbers.h"

#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace packhouse::client {

absl::StatusOr<std::vector<uint64_t>> ReadWholeNumbers(const NpzArchive& archive,
                                                       const NpzArray& array) {
  if (array.header.shape.size() != 1 || !IsInteger(array.header.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(archive.Place(array), ": has the shape ",
                                                   ShapeText(array.header),
                                                   "; must be one row of whole numbers"));
  }
  absl::StatusOr<NpzStream> stream = archive.OpenStream(array);
  if (!stream.ok()) return stream.status();
  std::string bytes;
  absl::Status status = stream->Append(array.header.data_bytes, bytes);
  if (!status.ok()) return status;
  std::vector<uint64_t> numbers;
  numbers.reserve(array.header.num_elements);
  ForEachWholeNumber(array.header.dtype, bytes, [&](auto value) {
    if (value < 0) {
      status = absl::InvalidArgumentError(absl::StrCat(archive.Place(array), ": element ",
                                                       numbers.size(), " is ", value,
                                                       ", must not be negative"));
      return false;
    }
    numbers.push_back(static_cast<uint64_t>(value));
    return true;
  });
  if (!status.ok()) return status;
  return numbers;
}

absl::StatusOr<std::vector<uint64_t>> ReadOffsets(const NpzArchive& archive,
                                                  const NpzArray& array) {
  absl::StatusOr<std::vector<uint64_t>> offsets = ReadWholeNumbers(archive, array);
  if (!offsets.ok()) return offsets;
  const auto fail = [&](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat(archive.Place(array), ": ", what...));
  };
  if (offsets->empty()) return fail("is empty, must have one element more than there are graphs");
  if (offsets->front() != 0) return fail("begins with ", offsets->front(), ", must with 0");
  for (std::size_t i = 1; i < offsets->size(); ++i) {
    const uint64_t before = (*offsets)[i - 1];
    if ((*offsets)[i] < before) {
      return fail("element ", i, " is ", (*offsets)[i], ", less than ", before, " before it");
    }
    if ((*offsets)[i] - before > std::numeric_limits<uint32_t>::max()) {
      return fail("graph ", i - 1, " has ", (*offsets)[i] - before,
                  " rows, at most 2^32 - 1 are supported");
    }
  }
  return offsets;
}

}  // namespace packhouse::client
