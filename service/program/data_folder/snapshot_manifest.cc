#include "service/program/data_folder/snapshot_manifest.h"

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "service/base/digest.h"
#include "service/base/file_name.h"

namespace packhouse {
namespace {

constexpr absl::string_view kTitle = "# packhouse snapshot ";
constexpr absl::string_view kEnd = "# end ";
constexpr size_t kHexBytes = 64;

std::string HexOf(absl::string_view text) {
  Digest digest;
  digest.AddBytes(text);
  return digest.Hex(kHexBytes / 2);
}

absl::Status Malformed(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the manifest of the snapshot is damaged: ", what));
}

bool IsHex(absl::string_view text) {
  return text.size() == kHexBytes &&
         text.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

absl::Status TakeHeading(absl::string_view line, SnapshotManifest& manifest) {
  const std::pair<absl::string_view, absl::string_view> words =
      absl::StrSplit(line, absl::MaxSplits(' ', 1));
  if (words.first == "taken") {
    manifest.taken = std::string(words.second);
    return absl::OkStatus();
  }
  uint64_t number = 0;
  if (!absl::SimpleAtoi(words.second, &number)) return Malformed("a heading is no number");
  if (words.first == "page_bytes") {
    manifest.page_bytes = number;
  } else if (words.first == "dataset_bytes") {
    manifest.dataset_bytes = number;
  } else {
    return Malformed("a heading is not known");
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodeSnapshotManifest(const SnapshotManifest& manifest) {
  std::string text = absl::StrCat(kTitle, SnapshotManifest::kVersion, "\n# page_bytes ",
                                  manifest.page_bytes, "\n# dataset_bytes ", manifest.dataset_bytes,
                                  "\n# taken ", manifest.taken, "\n");
  for (const auto& [path, hex] : manifest.files) absl::StrAppend(&text, hex, "  ", path, "\n");
  absl::StrAppend(&text, kEnd, HexOf(text), "\n");
  return text;
}

absl::StatusOr<SnapshotManifest> DecodeSnapshotManifest(absl::string_view text) {
  absl::string_view rest = text;
  uint64_t version = 0;
  if (!absl::ConsumePrefix(&rest, kTitle) ||
      !absl::SimpleAtoi(rest.substr(0, rest.find('\n')), &version)) {
    return Malformed("its first line");
  }
  if (version != SnapshotManifest::kVersion) {
    return absl::FailedPreconditionError(absl::StrCat("the snapshot has version ", version,
                                                      ", this release reads version ",
                                                      SnapshotManifest::kVersion));
  }
  const size_t end = text.rfind(kEnd);
  if (end == absl::string_view::npos ||
      text.substr(end) != absl::StrCat(kEnd, HexOf(text.substr(0, end)), "\n")) {
    return Malformed("its checksum is wrong, or it was cut off");
  }
  SnapshotManifest manifest;
  const std::vector<absl::string_view> lines = absl::StrSplit(text.substr(0, end), '\n');
  for (size_t i = 1; i + 1 < lines.size(); ++i) {
    absl::string_view line = lines[i];
    if (absl::ConsumePrefix(&line, "# ")) {
      if (absl::Status status = TakeHeading(line, manifest); !status.ok()) return status;
      continue;
    }
    const absl::string_view hex = line.substr(0, kHexBytes);
    const absl::string_view path = line.size() > kHexBytes + 2 ? line.substr(kHexBytes + 2) : "";
    if (!IsHex(hex) || !IsPathBelow(path)) return Malformed(absl::StrCat("line ", i + 1));
    manifest.files[std::string(path)] = std::string(hex);
  }
  // It is read only if this release would write it so.
  if (EncodeSnapshotManifest(manifest) != text) return Malformed("it was not written so");
  return manifest;
}

}  // namespace packhouse
