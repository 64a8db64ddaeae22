#include "service/wings/partition/jobs/part_writer.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/file_name.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/files/npy_file.h"
#include "service/wings/partition/files/safetensors_file.h"
#include "service/wings/partition/jobs/durable_files.h"

namespace packhouse {
namespace {

void AddNamed(const std::string& prefix, const std::vector<ArraySource>& arrays,
              std::vector<ArraySource>& all) {
  for (const ArraySource& array : arrays) {
    all.push_back(array);
    all.back().header.name = absl::StrCat(prefix, array.header.name);
  }
}

// The graph's arrays under names, for formats that know no graphs.
std::vector<ArraySource> GraphArrays(const DglGraphSource& graph) {
  std::vector<ArraySource> all;
  if (graph.coo) {
    all.push_back(graph.coo->sources);
    all.back().header.name = "sources";
    all.push_back(graph.coo->targets);
    all.back().header.name = "targets";
  }
  const auto add = [&all](const std::string& form, const DglCsrSource& csr) {
    AddNamed(absl::StrCat(form, "/"), {csr.offsets, csr.neighbours, csr.edges}, all);
  };
  if (graph.csr) add("csr", *graph.csr);
  if (graph.csc) add("csc", *graph.csc);
  AddNamed("nodes/", graph.node_data, all);
  AddNamed("edges/", graph.edge_data, all);
  return all;
}

absl::Status WriteNpyFiles(const std::string& folder, const std::vector<ArraySource>& arrays,
                           uint64_t& bytes) {
  PH_RETURN_IF_ERROR(MakeFolder(folder));
  for (const ArraySource& array : arrays) {
    // Names of sets may have slashes, those of their columns have none.
    const absl::string_view name = array.header.name;
    const size_t slash = name.rfind('/');
    const bool has_set = slash != absl::string_view::npos;
    const std::string at =
        has_set ? absl::StrCat(folder, "/", FileNameOf(name.substr(0, slash))) : folder;
    const std::string path =
        absl::StrCat(at, "/", FileNameOf(name.substr(has_set ? slash + 1 : 0)), ".npy");
    PH_RETURN_IF_ERROR(MakeFolder(at));
    PH_ASSIGN_OR_RETURN(const uint64_t written, WriteDurably(path, [&array](ByteSink& sink) {
                          return WriteNpyFile(array, sink);
                        }));
    PH_RETURN_IF_ERROR(SyncFolder(at));
    bytes += written;
  }
  return SyncFolder(folder);
}

absl::Status WriteTable(const std::string& path, const std::vector<ArraySource>& arrays,
                        const DglGraphSource* graph, const PartFormats& formats, uint64_t& bytes) {
  PH_ASSIGN_OR_RETURN(const uint64_t dgl,
                      WriteDurably(path + ".dgl", [&arrays, graph](ByteSink& sink) {
                        return graph != nullptr ? WriteDglGraphFile(*graph, sink)
                                                : WriteDglTensorFile(arrays, sink);
                      }));
  bytes += dgl;
  if (formats.safetensors) {
    PH_ASSIGN_OR_RETURN(const uint64_t written,
                        WriteDurably(path + ".safetensors", [&arrays](ByteSink& sink) {
                          return WriteSafetensorsFile(arrays, sink);
                        }));
    bytes += written;
  }
  if (!formats.npy) return absl::OkStatus();
  return WriteNpyFiles(path, arrays, bytes);
}

}  // namespace

std::string PartFolder(const std::string& folder, uint64_t number) {
  return absl::StrCat(folder, "/part", number);
}

absl::StatusOr<uint64_t> WritePart(const PartSources& part, const PartFormats& formats,
                                   const std::string& folder, uint64_t number) {
  const std::string whole = PartFolder(folder, number);
  const std::string partial = whole + ".partial";
  PH_RETURN_IF_ERROR(RemoveFolder(partial));
  PH_RETURN_IF_ERROR(MakeFolder(partial));
  uint64_t bytes = 0;
  PH_RETURN_IF_ERROR(
      WriteTable(partial + "/graph", GraphArrays(part.graph), &part.graph, formats, bytes));
  PH_RETURN_IF_ERROR(
      WriteTable(partial + "/node_feat", part.node_features, nullptr, formats, bytes));
  PH_RETURN_IF_ERROR(
      WriteTable(partial + "/edge_feat", part.edge_features, nullptr, formats, bytes));
  if (formats.original_ids) {
    PH_RETURN_IF_ERROR(WriteTable(partial + "/orig_nids", part.original_nodes, nullptr, {}, bytes));
    PH_RETURN_IF_ERROR(WriteTable(partial + "/orig_eids", part.original_edges, nullptr, {}, bytes));
  }
  PH_RETURN_IF_ERROR(SyncFolder(partial));
  PH_RETURN_IF_ERROR(RenameDurably(partial, whole));
  return bytes;
}

absl::StatusOr<uint64_t> FolderBytes(const std::string& folder) {
  std::error_code error;
  uint64_t bytes = 0;
  std::filesystem::recursive_directory_iterator at(folder, error);
  for (; !error && at != std::filesystem::recursive_directory_iterator(); at.increment(error)) {
    if (at->is_regular_file(error)) bytes += at->file_size(error);
  }
  if (error) return absl::UnavailableError(absl::StrCat(folder, ": ", error.message()));
  return bytes;
}

}  // namespace packhouse
