// numpy's .npy files: one array each.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_NPY_FILE_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_NPY_FILE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/wings/partition/files/array.h"
#include "service/wings/partition/files/byte_sink.h"

namespace packhouse {

// Format 1.0 in row-major order; the bytes are those of numpy.save. bfloat16, which numpy does not
// have, is written as uint16. Errors: as WriteRows, and those of `sink`.
absl::Status WriteNpyFile(const ArraySource& array, ByteSink& sink);

// A whole file; the array's name is empty. The rows point into `file`.
//
// Errors: INVALID_ARGUMENT saying what is wrong, for any bytes: as ParseNpyHeader, or too few or
// too many rows. The caller names the file.
absl::StatusOr<ArrayView> ReadNpyFile(absl::string_view file);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_NPY_FILE_H_
