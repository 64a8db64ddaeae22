// What a file is that a command does not read, by its first bytes.
#ifndef PACKHOUSE_CLIENT_GRAPH_FILES_FILE_KINDS_H_
#define PACKHOUSE_CLIENT_GRAPH_FILES_FILE_KINDS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace packhouse::client {

// How many bytes tell most.
inline constexpr std::size_t kKindBytes = 512;

// What to do with a file that is something else.
struct KindAdvice {
  // As in `no list of sizes`.
  absl::string_view wanted;
  // Of arrays (HDF5, a database, .npy, JSON), and of what Python loads (a pickle, XML, GML).
  absl::string_view of_arrays;
  absl::string_view of_objects;
};

// OK for what may be text, by its first bytes. INVALID_ARGUMENT saying what the file is, and what
// to do: for HDF5, SQLite, .npy, Parquet, Arrow, JSON, XML, GML, pickles, UTF-16, and bytes that no
// text has.
absl::Status CheckIsText(const std::string& path, absl::string_view first,
                         const KindAdvice& advice);

// The same of a file or folder: OK also if it cannot be read.
absl::Status CheckIsTextFile(const std::string& path, const KindAdvice& advice);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_FILES_FILE_KINDS_H_
