#include "service/wings/partition/jobs/partition_contents.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/checked_lines.h"
#include "service/base/checksum.h"
#include "service/base/disk_file.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr absl::string_view kContentsTitle = "packhouse partition files 1";
constexpr size_t kReadBytes = size_t{1} << 20;

}  // namespace

std::string EncodePartitionContents(const PartitionContents& contents) {
  std::string lines;
  for (const auto& [path, content] : contents) {
    absl::StrAppend(&lines, content.num_bytes, " ", absl::Hex(content.crc32c, absl::kZeroPad8), " ",
                    absl::Utf8SafeCEscape(path), "\n");
  }
  return WithChecksumLine(kContentsTitle, lines);
}

absl::StatusOr<PartitionContents> DecodePartitionContents(absl::string_view text) {
  PH_ASSIGN_OR_RETURN(const std::vector<absl::string_view> lines, LinesOf(kContentsTitle, text));
  PartitionContents contents;
  for (const absl::string_view line : lines) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    PartitionFileContent content;
    std::string path;
    if (words.size() == 3 && absl::SimpleAtoi(words[0], &content.num_bytes) &&
        absl::SimpleHexAtoi(words[1], &content.crc32c) && absl::CUnescape(words[2], &path)) {
      contents.emplace(std::move(path), content);
    }
  }
  if (EncodePartitionContents(contents) == text) return contents;
  return absl::DataLossError("is damaged, or was written by a later release of packhoused");
}

absl::StatusOr<std::vector<PartitionJobFile>> FilesInFolder(const std::string& folder) {
  std::vector<PartitionJobFile> files;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator entry(folder, error), end;
       !error && entry != end; entry.increment(error)) {
    if (!entry->is_regular_file(error) || error) continue;
    const uint64_t bytes = entry->file_size(error);
    if (!error) files.push_back({entry->path().string().substr(folder.size() + 1), bytes});
  }
  if (error) return absl::UnavailableError(absl::StrCat(folder, ": ", error.message()));
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

absl::StatusOr<PartitionFileContent> ReadFileContent(const std::string& path) {
  PH_ASSIGN_OR_RETURN(const DiskFile file, DiskFile::Open(path, DiskFile::Mode::kRead));
  PartitionFileContent content;
  std::string bytes(kReadBytes, '\0');
  for (;;) {
    PH_ASSIGN_OR_RETURN(const size_t got,
                        file.ReadAt(content.num_bytes, bytes.data(), bytes.size()));
    if (got == 0) return content;
    content.crc32c = Crc32c(absl::string_view(bytes).substr(0, got), content.crc32c);
    content.num_bytes += got;
  }
}

absl::StatusOr<PartitionContents> ReadPartitionContents(const std::string& folder,
                                                        absl::FunctionRef<bool()> goes_on) {
  PH_ASSIGN_OR_RETURN(const std::vector<PartitionJobFile> files, FilesInFolder(folder));
  PartitionContents contents;
  for (const PartitionJobFile& file : files) {
    if (file.path == kPartitionContentsFile) continue;
    if (!goes_on()) return absl::CancelledError("the partition was cancelled");
    PH_ASSIGN_OR_RETURN(contents[file.path], ReadFileContent(absl::StrCat(folder, "/", file.path)));
  }
  return contents;
}

}  // namespace packhouse
