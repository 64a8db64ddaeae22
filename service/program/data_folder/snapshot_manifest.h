// What a snapshot consists of: its files with their checksums, in a file that is written last.
//
//   manifest := "# packhouse snapshot 1\n" ("# " KEY " " VALUE "\n")* (SHA256 "  " PATH "\n")*
//               "# end " SHA256-of-all-before "\n"
//
// `sha256sum -c manifest`, run in the snapshot's folder, checks it too.
#ifndef PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_SNAPSHOT_MANIFEST_H_
#define PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_SNAPSHOT_MANIFEST_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

inline constexpr char kSnapshotManifest[] = "manifest";

struct SnapshotManifest {
  static constexpr uint64_t kVersion = 1;

  // Of the machine's pages; a restore needs the same.
  uint64_t page_bytes = 0;
  // All bytes of keys and values of data sets.
  uint64_t dataset_bytes = 0;
  // When it was taken, as RFC 3339, for people.
  std::string taken;
  // SHA-256 in hexadecimal, by path; paths are relative to the snapshot's folder.
  std::map<std::string, std::string> files;
};

std::string EncodeSnapshotManifest(const SnapshotManifest& manifest);
// DATA_LOSS unless EncodeSnapshotManifest() wrote the text; FAILED_PRECONDITION naming both
// versions for another version. Paths of the result are below the folder.
absl::StatusOr<SnapshotManifest> DecodeSnapshotManifest(absl::string_view text);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_SNAPSHOT_MANIFEST_H_
