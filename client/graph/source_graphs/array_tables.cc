#include "client/graph/source_graphs/array_tables.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/graph/files/npz_numbers.h"
#include "client/graph/source_graphs/array_readers.h"
#include "service/base/status_macros.h"

namespace packhouse::client {
namespace {

// The arrays of one set by the last part of their names.
using SetArrays = std::map<std::string, NpyArray>;

struct GraphArrays {
  std::map<std::string, SetArrays> nodes;
  std::map<std::string, SetArrays> edges;
};

template <typename... Parts>
absl::Status BadArray(const NpyArray& array, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(array.place, ": ", parts...));
}

absl::Status AddArray(const std::string& name, NpyArray array, GraphArrays* arrays) {
  // Sets may be called as paths are: edges/entity./film/genre.entity/source.
  const size_t first = name.find('/');
  const size_t last = name.rfind('/');
  const std::string kind = name.substr(0, first);
  const bool is_known = (kind == "nodes" || kind == "edges") && first + 1 < last &&
                        last + 1 < name.size() && last != std::string::npos;
  if (!is_known) return BadArray(array, "must be called nodes/SET/COLUMN or edges/SET/COLUMN");
  (kind == "nodes" ? arrays->nodes : arrays->edges)[name.substr(first + 1, last - first - 1)]
      .emplace(name.substr(last + 1), std::move(array));
  return absl::OkStatus();
}

absl::Status CheckNumbers(const NpyArray& array, size_t dimensions) {
  if (!IsInteger(array.header.dtype)) {
    return BadArray(array, "has elements of type ", DTypeName(array.header.dtype),
                    "; ids are whole numbers");
  }
  if (array.header.shape.size() != dimensions) {
    return BadArray(array, "has the shape ", ShapeText(array.header), ", ", dimensions,
                    dimensions == 1 ? " dimension is needed" : " dimensions are needed");
  }
  return absl::OkStatus();
}

// What a set has beside its ids.
struct SetColumns {
  std::vector<SourceColumnSpec> specs;
  std::vector<ArrayColumn> columns;
};

// `rows` if known; otherwise it becomes those of the first array.
absl::StatusOr<SetColumns> ColumnsOf(const SetArrays& arrays,
                                     const std::vector<std::string>& not_columns,
                                     std::optional<uint64_t>* rows) {
  SetColumns columns;
  for (const auto& [name, array] : arrays) {
    if (std::find(not_columns.begin(), not_columns.end(), name) != not_columns.end()) continue;
    PH_ASSIGN_OR_RETURN(SourceColumnSpec spec, ColumnOfArray(array, name));
    if (!*rows) *rows = array.rows();
    if (array.rows() != **rows) {
      return BadArray(array, "has ", array.rows(), " rows, other arrays of its set have ", **rows);
    }
    columns.specs.push_back(std::move(spec));
    columns.columns.push_back({{array}, array.header.RowElements()});
  }
  return columns;
}

absl::StatusOr<uint64_t> SizeOf(const NpyArray& array) {
  PH_RETURN_IF_ERROR(array.header.shape.empty() ? CheckNumbers(array, 0) : CheckNumbers(array, 1));
  if (array.header.num_elements != 1) {
    return BadArray(array, "has the shape ", ShapeText(array.header), ", one number is needed");
  }
  std::vector<int64_t> size;
  PH_RETURN_IF_ERROR(NpyStream({array}).AppendNumbers(1, &size));
  if (size[0] < 0) return BadArray(array, size[0], " is no number of nodes");
  return static_cast<uint64_t>(size[0]);
}

// SOURCE, NAME, TARGET of a set of edges.
absl::StatusOr<std::vector<std::string>> EndsOf(const std::string& set, const GraphArrays& arrays,
                                                const NpyArray& any) {
  // All names may have dots, if SOURCE and TARGET are node sets that have arrays.
  std::vector<std::vector<std::string>> readings;
  for (const auto& [source, of_source] : arrays.nodes) {
    if (!absl::StartsWith(set, source + ".")) continue;
    for (const auto& [target, of_target] : arrays.nodes) {
      if (!absl::EndsWith(set, "." + target)) continue;
      const size_t ends = source.size() + target.size() + 2;
      if (set.size() > ends) {
        readings.push_back({source, set.substr(source.size() + 1, set.size() - ends), target});
      }
    }
  }
  if (readings.size() > 1) {
    return BadArray(any, "'", set, "' can be read as SOURCE.NAME.TARGET in ", readings.size(),
                    " ways, as '", absl::StrJoin(readings[0], "' '"), "' and as '",
                    absl::StrJoin(readings[1], "' '"), "'; call the node sets otherwise");
  }
  if (readings.size() == 1) return readings[0];
  std::vector<std::string> parts = absl::StrSplit(set, '.');
  const bool is_triple =
      parts.size() == 3 && !parts[0].empty() && !parts[1].empty() && !parts[2].empty();
  // With one node set, dots belong to NAME, unless an end is that set.
  const bool is_name =
      arrays.nodes.size() == 1 &&
      !(is_triple && (arrays.nodes.contains(parts[0]) || arrays.nodes.contains(parts[2])));
  if (is_triple && !is_name) return parts;
  if (arrays.nodes.size() == 1) {
    const std::string& nodes = arrays.nodes.begin()->first;
    return std::vector<std::string>{nodes, set, nodes};
  }
  return BadArray(any,
                  "edges are called SOURCE.NAME.TARGET, unless there is one node set; there "
                  "are ",
                  arrays.nodes.size());
}

// Where an edge set has the numbers or ids of its ends. How many edges there are.
absl::StatusOr<uint64_t> FindEnds(const SetArrays& of_set, EdgeEnds& sources, EdgeEnds& targets) {
  if (const auto both = of_set.find("edge_index"); both != of_set.end()) {
    PH_RETURN_IF_ERROR(CheckNumbers(both->second, 2));
    if (both->second.rows() != 2) {
      return BadArray(both->second, "has the shape ", ShapeText(both->second.header),
                      ", [2, edges] is needed");
    }
    sources.ids = targets.ids = both->second;
    return both->second.header.shape[1];
  }
  const auto source = of_set.find("source");
  const auto target = of_set.find("target");
  if (source == of_set.end() || target == of_set.end()) {
    return BadArray(of_set.begin()->second,
                    "its edge set has neither source and target nor edge_index");
  }
  PH_RETURN_IF_ERROR(CheckNumbers(source->second, 1));
  PH_RETURN_IF_ERROR(CheckNumbers(target->second, 1));
  if (target->second.rows() != source->second.rows()) {
    return BadArray(target->second, "has ", target->second.rows(), " rows, source has ",
                    source->second.rows());
  }
  sources.ids = source->second;
  targets.ids = target->second;
  return source->second.rows();
}

absl::StatusOr<SourceTables> TablesOf(const GraphArrays& arrays, std::string fingerprint) {
  std::vector<SourceNodeSetSpec> node_sets;
  std::vector<SourceEdgeSetSpec> edge_sets;
  std::vector<OpenTable> tables;
  // Of node sets whose ids are their rows' numbers.
  std::map<std::string, uint64_t> numbered;
  for (const auto& [name, of_set] : arrays.nodes) {
    std::optional<uint64_t> num_nodes;
    std::vector<NpyArray> ids;
    if (const auto id = of_set.find("#id"); id != of_set.end()) {
      PH_RETURN_IF_ERROR(CheckNumbers(id->second, 1));
      num_nodes = id->second.rows();
      ids.push_back(id->second);
    }
    if (const auto size = of_set.find("#size"); size != of_set.end()) {
      PH_ASSIGN_OR_RETURN(const uint64_t said, SizeOf(size->second));
      if (num_nodes && *num_nodes != said) {
        return BadArray(size->second, said, " nodes, '#id' has ", *num_nodes);
      }
      num_nodes = said;
    }
    PH_ASSIGN_OR_RETURN(SetColumns columns, ColumnsOf(of_set, {"#id", "#size"}, &num_nodes));
    if (ids.empty()) numbered[name] = *num_nodes;
    const size_t set = node_sets.size();
    node_sets.push_back({name, std::move(columns.specs)});
    tables.emplace_back(
        [set, count = *num_nodes, ids,
         columns = std::move(columns.columns)]() -> absl::StatusOr<std::unique_ptr<TableReader>> {
          return ReadNodeArrays(set, count, ids, columns);
        });
  }
  const auto node_set = [&](const std::string& name) {
    const auto found = std::find_if(node_sets.begin(), node_sets.end(),
                                    [&](const SourceNodeSetSpec& s) { return s.name == name; });
    if (found != node_sets.end()) return static_cast<size_t>(found - node_sets.begin());
    node_sets.push_back({name, {}});
    return node_sets.size() - 1;
  };
  std::map<std::string, int> uses;
  for (const auto& [name, of_set] : arrays.edges) {
    PH_ASSIGN_OR_RETURN(const std::vector<std::string> ends,
                        EndsOf(name, arrays, of_set.begin()->second));
    ++uses[ends[1]];
  }
  for (const auto& [name, of_set] : arrays.edges) {
    PH_ASSIGN_OR_RETURN(const std::vector<std::string> ends,
                        EndsOf(name, arrays, of_set.begin()->second));
    SourceEdgeSetSpec spec;
    spec.name = uses[ends[1]] == 1 ? ends[1] : name;
    spec.source = node_set(ends[0]);
    spec.target = node_set(ends[2]);
    const auto ends_in = [&numbered](const std::string& set) {
      EdgeEnds end;
      end.node_set = set;
      if (const auto found = numbered.find(set); found != numbered.end()) {
        end.num_nodes = found->second;
      }
      return end;
    };
    EdgeEnds sources = ends_in(ends[0]);
    EdgeEnds targets = ends_in(ends[2]);
    PH_ASSIGN_OR_RETURN(std::optional<uint64_t> num_edges, FindEnds(of_set, sources, targets));
    PH_ASSIGN_OR_RETURN(SetColumns columns,
                        ColumnsOf(of_set, {"source", "target", "edge_index"}, &num_edges));
    spec.columns = std::move(columns.specs);
    const size_t set = edge_sets.size();
    edge_sets.push_back(std::move(spec));
    tables.emplace_back(
        [set, count = *num_edges, sources, targets,
         columns = std::move(columns.columns)]() -> absl::StatusOr<std::unique_ptr<TableReader>> {
          return ReadEdgeArrays(set, count, sources, targets, columns);
        });
  }
  PH_ASSIGN_OR_RETURN(SourceGraphSchema schema,
                      SourceGraphSchema::Create(std::move(node_sets), std::move(edge_sets)));
  return SourceTables{std::move(schema), /*has_text_ids=*/false, std::move(tables),
                      std::move(fingerprint)};
}

}  // namespace

absl::StatusOr<SourceTables> OpenNpzTables(const std::string& path) {
  PH_ASSIGN_OR_RETURN(std::unique_ptr<NpzArchive> opened, NpzArchive::Open(path));
  const std::shared_ptr<const NpzArchive> archive = std::move(opened);
  GraphArrays arrays;
  for (const NpzArray& entry : archive->arrays()) {
    NpyArray array;
    array.place = archive->Place(entry);
    array.header = entry.header;
    array.archive = archive;
    array.entry = &entry;
    PH_RETURN_IF_ERROR(AddArray(entry.name, std::move(array), &arrays));
  }
  return TablesOf(arrays, FingerprintOfFiles({path}));
}

absl::StatusOr<SourceTables> OpenNpyFolderTables(const std::string& path) {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  for (const char* kind : {"nodes", "edges"}) {
    std::error_code error;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(path) / kind, error)) {
      if (entry.path().extension() == ".npy") paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  GraphArrays arrays;
  for (const std::string& file : paths) {
    PH_ASSIGN_OR_RETURN(NpyArray array, OpenNpyFile(file));
    const std::string name =
        fs::path(file).lexically_relative(path).replace_extension().generic_string();
    PH_RETURN_IF_ERROR(AddArray(name, std::move(array), &arrays));
  }
  return TablesOf(arrays, FingerprintOfFiles(paths));
}

}  // namespace packhouse::client
