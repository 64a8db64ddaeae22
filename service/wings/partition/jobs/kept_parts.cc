#include "service/wings/partition/jobs/kept_parts.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/files/dgl_reader.h"
#include "service/wings/partition/files/npy_file.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/part_writer.h"
#include "service/wings/partition/jobs/partition_run.h"

namespace packhouse {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

absl::Status BrokenParts(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, " is damaged: ", what));
}

template <typename T>
T ValueAt(const ArrayView& array, uint64_t at) {
  T value;
  std::memcpy(&value, array.bytes.data() + at * sizeof(T), sizeof(T));
  return value;
}

absl::Status TakePart(const std::string& path, uint32_t part, const HomogeneousGraph& graph,
                      std::vector<uint32_t>& parts) {
  PH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const absl::StatusOr<DglGraphView> view = ReadDglGraphFile(file.bytes());
  if (!view.ok()) return BrokenParts(path, view.status().message());
  const ArrayView* const inner = FindArray(view->node_data, "inner_node");
  const ArrayView* const originals = FindArray(view->node_data, "orig_id");
  const ArrayView* const types = FindArray(view->node_data, "_TYPE");
  const bool has_types = graph.node_types().size() > 1;
  if (inner == nullptr || originals == nullptr || inner->header.dtype != DType::kUint8 ||
      originals->header.dtype != DType::kInt64 ||
      (has_types && (types == nullptr || types->header.dtype != DType::kInt32))) {
    return BrokenParts(path, "its nodes have no inner_node, orig_id or _TYPE");
  }
  for (uint64_t i = 0; i < view->num_nodes; ++i) {
    if (ValueAt<uint8_t>(*inner, i) == 0) break;  // The halo.
    const int64_t type = has_types ? ValueAt<int32_t>(*types, i) : 0;
    const int64_t original = ValueAt<int64_t>(*originals, i);
    if (type < 0 || static_cast<size_t>(type) >= graph.node_types().size() || original < 0 ||
        original >= static_cast<int64_t>(graph.node_types()[static_cast<size_t>(type)].size)) {
      return BrokenParts(path, absl::StrCat("node ", i, " is none of the graph"));
    }
    uint32_t& of_node = parts[graph.node_types()[static_cast<size_t>(type)].start +
                              static_cast<uint32_t>(original)];
    if (of_node != kNone) return BrokenParts(path, absl::StrCat("node ", i, " is in two parts"));
    of_node = part;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> ReadKeptParts(const std::string& folder, uint32_t num_parts,
                                                    const HomogeneousGraph& graph) {
  std::vector<uint32_t> parts(graph.num_nodes(), kNone);
  const std::string all = folder + kPartsOfNodesFile;
  if (PathExists(all)) {
    PH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(all));
    const absl::StatusOr<ArrayView> array = ReadNpyFile(file.bytes());
    if (!array.ok() || array->header.dtype != DType::kUint32 ||
        array->bytes.size() != parts.size() * sizeof(uint32_t)) {
      return BrokenParts(all, "it does not have a part for each node");
    }
    std::memcpy(parts.data(), array->bytes.data(), array->bytes.size());
  } else {
    for (uint32_t part = 0; part < num_parts; ++part) {
      PH_RETURN_IF_ERROR(TakePart(PartFolder(folder, part) + "/graph.dgl", part, graph, parts));
    }
  }
  if (std::any_of(parts.begin(), parts.end(),
                  [num_parts](uint32_t part) { return part >= num_parts; })) {
    return BrokenParts(folder, "a node is in no part");
  }
  return parts;
}

}  // namespace packhouse
