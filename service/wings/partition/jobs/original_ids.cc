#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/in_file.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/files/dgl_reader.h"
#include "service/wings/partition/files/dgl_writer.h"
#include "service/wings/partition/files/partition_json.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/original_order.h"

namespace packhouse {
namespace {

// The rows of inner nodes, or edges, by type. `data` has all that the part has.
absl::Status WriteRowsOfTypes(const std::vector<TypeRanges>& map, uint64_t part,
                              const std::vector<ArrayView>& data, const std::string& path) {
  const ArrayView* const ids = FindArray(data, "orig_id");
  const uint64_t first = map.empty() ? 0 : map.front().parts[part].begin;
  const uint64_t inner = map.empty() ? 0 : map.back().parts[part].end - first;
  if (ids == nullptr || ids->header.dtype != DType::kInt64 ||
      ids->bytes.size() < inner * sizeof(int64_t)) {
    return absl::DataLossError("has no orig_id of its inner rows");
  }
  std::vector<ArraySource> arrays;
  for (const TypeRanges& type : map) {
    const PartRange& range = type.parts[part];
    ArrayView of_type;
    of_type.header = {type.name, DType::kInt64, {range.end - range.begin}};
    of_type.bytes = ids->bytes.substr((range.begin - first) * sizeof(int64_t),
                                      (range.end - range.begin) * sizeof(int64_t));
    arrays.push_back(SourceOf(of_type));
  }
  return WriteDurably(path, [&arrays](ByteSink& sink) { return WriteDglTensorFile(arrays, sink); })
      .status();
}

}  // namespace

absl::Status AddOriginalIds(const std::string& folder, const std::string& name) {
  const std::string json_path = absl::StrCat(folder, "/", name, ".json");
  PH_ASSIGN_OR_RETURN(const MappedFile json_file, MappedFile::Open(json_path));
  const absl::StatusOr<PartitionJson> json = ReadPartitionJson(json_file.bytes());
  if (!json.ok()) return InFile(json_path, json.status());
  for (size_t part = 0; part < json->parts.size(); ++part) {
    const std::string path = absl::StrCat(folder, "/", json->parts[part].graph);
    const std::string beside = std::filesystem::path(path).parent_path().string();
    PH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
    const absl::StatusOr<DglGraphView> graph = ReadDglGraphFile(file.bytes());
    if (!graph.ok()) return InFile(path, graph.status());
    absl::Status written =
        WriteRowsOfTypes(json->node_map, part, graph->node_data, beside + "/orig_nids.dgl");
    if (written.ok()) {
      written = WriteRowsOfTypes(json->edge_map, part, graph->edge_data, beside + "/orig_eids.dgl");
    }
    if (!written.ok()) return InFile(path, written);
    PH_RETURN_IF_ERROR(SyncFolder(beside));
  }
  return absl::OkStatus();
}

}  // namespace packhouse
