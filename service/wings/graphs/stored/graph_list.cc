#include "service/wings/graphs/stored/graph_list.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/checked_lines.h"
#include "service/base/disk_file.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/stored/source_graph_names.h"

namespace packhouse {
namespace {

constexpr absl::string_view kTitle = "packhouse source graphs 1";

}  // namespace

std::string EncodeGraphList(const GraphList& list) {
  std::string lines;
  for (const auto& [folder, name] : list) absl::StrAppend(&lines, folder, " ", name, "\n");
  return WithChecksumLine(kTitle, lines);
}

absl::StatusOr<GraphList> DecodeGraphList(absl::string_view text) {
  PH_ASSIGN_OR_RETURN(const std::vector<absl::string_view> lines, LinesOf(kTitle, text));
  GraphList list;
  for (const absl::string_view line : lines) {
    // Names have no blanks.
    std::pair<std::string, std::string> graph = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    if (IsSourceGraphFolderName(graph.first)) list.insert(std::move(graph));
  }
  if (EncodeGraphList(list) == text) return list;
  return absl::DataLossError("is damaged, or was written by a later release of packhoused");
}

absl::StatusOr<GraphList> ReadGraphList(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kGraphListFile);
  const auto text = ReadWhole(path);
  if (absl::IsNotFound(text.status())) return GraphList();
  PH_RETURN_IF_ERROR(text.status());
  auto list = DecodeGraphList(*text);
  if (list.ok()) return list;
  return absl::DataLossError(absl::StrCat("'", path, "' ", list.status().message()));
}

}  // namespace packhouse
