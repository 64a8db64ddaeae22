// A file that somebody names, read whole.
#ifndef PACKHOUSE_CLIENT_GRAPH_FILES_INPUT_FILE_H_
#define PACKHOUSE_CLIENT_GRAPH_FILES_INPUT_FILE_H_

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace packhouse::client {

// NOT_FOUND if it cannot be opened, INVALID_ARGUMENT for a folder, UNAVAILABLE if it cannot be
// read; all name it. (Of a folder an iterator over a stream throws, and a stream copies nothing.)
inline absl::StatusOr<std::string> ReadInputFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a folder; name a file"));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  // A stream that copies the file's buffer takes a failing read for the file's end.
  std::string bytes;
  std::array<char, 1 << 16> block;
  do {
    file.read(block.data(), block.size());
    bytes.append(block.data(), static_cast<size_t>(file.gcount()));
  } while (file);
  if (file.bad()) return absl::UnavailableError(absl::StrCat(path, ": cannot be read"));
  return bytes;
}

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_FILES_INPUT_FILE_H_
