// Safetensors: named arrays in one file, whose head is JSON.
//
// The file is the length of the head as uint64, the head, and the rows of all arrays. The head maps
// each name to {"dtype", "shape", "data_offsets": [begin, end)}, counted from the head's end.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_SAFETENSORS_FILE_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_SAFETENSORS_FILE_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/wings/partition/files/array.h"
#include "service/wings/partition/files/byte_sink.h"

namespace packhouse {

// The format's own bound.
inline constexpr size_t kMaxSafetensorsHead = 100'000'000;

// Arrays stand in the order given, one behind the other. Errors, before anything is written:
// INVALID_ARGUMENT naming an array that is too large, whose name is there twice, is "__metadata__"
// or is not UTF-8; those of `sink`.
absl::Status WriteSafetensorsFile(absl::Span<const ArraySource> arrays, ByteSink& sink);

// The arrays in the order in which they lie in the file; rows point into `file`.
//
// Errors: INVALID_ARGUMENT saying what is wrong, for any bytes: also where arrays overlap, leave
// gaps, or do not fill the file.
absl::StatusOr<std::vector<ArrayView>> ReadSafetensorsFile(absl::string_view file);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_SAFETENSORS_FILE_H_
