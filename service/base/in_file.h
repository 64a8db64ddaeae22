// Errors that name the file, or the place in it.
#ifndef PACKHOUSE_SERVICE_BASE_IN_FILE_H_
#define PACKHOUSE_SERVICE_BASE_IN_FILE_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// `status`, which is not OK, with "PATH: " before its message.
inline absl::Status InFile(absl::string_view path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_IN_FILE_H_
