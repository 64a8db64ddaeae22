#include "client/graph/files/file_kinds.h"

#include <cstddef>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace packhouse::client {
namespace {

enum class KindOf { kArrays, kObjects, kNamed };

struct FileKind {
  absl::string_view begins;
  absl::string_view what;
  KindOf of;
};
constexpr FileKind kKinds[] = {
    {absl::string_view("\x89HDF", 4), "an HDF5 file", KindOf::kArrays},
    {absl::string_view("SQLite format 3\0", 16), "an SQLite database", KindOf::kArrays},
    {absl::string_view("\x93NUMPY", 6), "one array of numpy", KindOf::kArrays},
    {"{", "JSON", KindOf::kArrays},
    {"PAR1", "a Parquet file: name it .parquet, which `packhouse` reads", KindOf::kNamed},
    {"ARROW1", "an Arrow file: name it .arrow, which `packhouse` reads", KindOf::kNamed},
    {"<?xml", "an XML file, as GraphML is one", KindOf::kObjects},
    {"<graphml", "a GraphML file", KindOf::kObjects},
    {"graph [", "a GML file", KindOf::kObjects},
    {absl::string_view("\x80\x02", 2), "a pickle", KindOf::kObjects},
    {absl::string_view("\x80\x03", 2), "a pickle", KindOf::kObjects},
    {absl::string_view("\x80\x04", 2), "a pickle", KindOf::kObjects},
    {absl::string_view("\x80\x05", 2), "a pickle", KindOf::kObjects},
};

}  // namespace

absl::Status CheckIsText(const std::string& path, absl::string_view first,
                         const KindAdvice& advice) {
  for (const FileKind& kind : kKinds) {
    if (!absl::StartsWith(first, kind.begins)) continue;
    if (kind.of == KindOf::kNamed) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": is ", kind.what));
    }
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is ", kind.what, ", no ", advice.wanted, ": ",
                     kind.of == KindOf::kArrays ? advice.of_arrays : advice.of_objects));
  }
  if (absl::StartsWith(first, "\xFF\xFE") || absl::StartsWith(first, "\xFE\xFF") ||
      (first.size() > 1 && (first[0] == '\0') != (first[1] == '\0'))) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": is in UTF-16: save it as UTF-8 ('CSV UTF-8' in a spreadsheet program)"));
  }
  if (first.find('\0') != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is no text, and so no ", advice.wanted));
  }
  return absl::OkStatus();
}

absl::Status CheckIsTextFile(const std::string& path, const KindAdvice& advice) {
  std::ifstream file(path, std::ios::binary);
  std::string first(kKindBytes, '\0');
  file.read(first.data(), static_cast<std::streamsize>(first.size()));
  first.resize(static_cast<std::size_t>(file.gcount()));
  return CheckIsText(path, first, advice);
}

}  // namespace packhouse::client
