// Which files a partition has, in a file beside them: so that one that was deleted, cut off or
// changed is not taken for what was written.
//
// It is one of checked_lines.h; each line is the bytes of a file, its CRC32C in hexadecimal, and
// its path below the folder, with C's escapes. It is written before the folder has its name, so
// whoever finds the folder finds it.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_CONTENTS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_CONTENTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// No file of a partition is called so; Files() of a partition does not have it.
inline constexpr char kPartitionContentsFile[] = "contents";

struct PartitionJobFile {
  std::string path;  // Relative to the partition's folder.
  uint64_t num_bytes = 0;
};

// What a file has in it.
struct PartitionFileContent {
  uint64_t num_bytes = 0;
  uint32_t crc32c = 0;

  friend bool operator==(const PartitionFileContent&, const PartitionFileContent&) = default;
};

// By path.
using PartitionContents = std::map<std::string, PartitionFileContent>;

std::string EncodePartitionContents(const PartitionContents& contents);
// DATA_LOSS unless EncodePartitionContents() wrote the text.
absl::StatusOr<PartitionContents> DecodePartitionContents(absl::string_view text);

// All files in a folder and below, in ascending order of paths. Errors of the disk.
absl::StatusOr<std::vector<PartitionJobFile>> FilesInFolder(const std::string& folder);
// Reads a file as a whole.
absl::StatusOr<PartitionFileContent> ReadFileContent(const std::string& path);
// Reads all files in a folder and below, but for that of the contents. CANCELLED if `goes_on`,
// asked before each file, says no; errors of the disk.
absl::StatusOr<PartitionContents> ReadPartitionContents(const std::string& folder,
                                                        absl::FunctionRef<bool()> goes_on);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_CONTENTS_H_
