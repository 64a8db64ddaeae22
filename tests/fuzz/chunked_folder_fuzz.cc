// Any bytes as a graph in DGL's chunked layout: metadata.json, and the edges, features and parts of
// nodes that lie beside it. Whatever comes in: no crash, no memory for what a file only claims.
// What the reader of one machine takes, that of several ranks takes too, and finds the same edges
// in it.
//
// "\n%%\n" separates the files: metadata.json, partition_meta.json, a.txt and b.txt (parts of the
// nodes of the types a and b), then the files "0", "1" and so on, which the metadata names.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "service/wings/partition/jobs/graph_folders.h"
#include "service/wings/partition_mpi/runs/chunked_edge_reader.h"
#include "service/wings/partition_mpi/runs/chunked_input.h"
#include "tests/support/temporary_folder.h"

namespace {

constexpr size_t kNamedFiles = 4;
constexpr size_t kDataFiles = 6;
// Nodes without files are memory that the metadata may ask for: a large graph is one.
constexpr uint64_t kMostNodes = 1 << 12;

using Edges = std::vector<std::pair<uint64_t, uint64_t>>;

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// A rank that is alone.
class OneRank : public packhouse::Ranks {
 public:
  uint32_t rank() const override { return 0; }
  uint32_t size() const override { return 1; }
  std::vector<uint64_t> ExchangeCounts(absl::Span<const uint64_t> to) override {
    return {to.begin(), to.end()};
  }
  void ExchangeBytes(absl::Span<const absl::string_view> out, char* in,
                     absl::Span<const uint64_t> /*in_bytes*/) override {
    if (!out[0].empty()) std::memcpy(in, out[0].data(), out[0].size());
  }
  void Sum(absl::Span<uint64_t> /*values*/) override {}
  void Max(absl::Span<uint64_t> /*values*/) override {}
  void SumBefore(absl::Span<uint64_t> values) override {
    std::fill(values.begin(), values.end(), 0);
  }
  std::vector<std::string> Gather(absl::string_view bytes) override { return {std::string(bytes)}; }
};

void Write(const std::string& path, absl::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Whether this is metadata that names files of this folder alone, since paths may be absolute, and
// has few nodes.
bool IsTried(absl::string_view metadata) {
  const auto graph = packhouse::ReadChunkedMetadata(metadata);
  if (!graph.ok()) return false;
  const auto is_ours = [](const packhouse::ChunkedTable& table) {
    return std::all_of(table.files.begin(), table.files.end(), [](const std::string& file) {
      return file.size() == 1 && file[0] >= '0' && file[0] < static_cast<char>('0' + kDataFiles);
    });
  };
  uint64_t nodes = 0;
  for (const packhouse::ChunkedNodeType& type : graph->node_types) {
    if (type.num_nodes > kMostNodes || (nodes += type.num_nodes) > kMostNodes) return false;
    if (!std::all_of(type.features.begin(), type.features.end(), is_ours)) return false;
    // Its parts are in NAME.txt.
    if (type.name != "a" && type.name != "b") return false;
  }
  return std::all_of(graph->edge_types.begin(), graph->edge_types.end(), [&](const auto& type) {
    return is_ours(type.edges) && std::all_of(type.features.begin(), type.features.end(), is_ours);
  });
}

// By homogeneous id; empty unless the folder is taken.
bool ReadOnOneMachine(const std::string& folder, Edges& edges, std::vector<uint32_t>& parts) {
  const auto source = packhouse::ReadChunkedFolder(folder);
  if (!source.ok()) return false;
  const auto graph = packhouse::HomogeneousGraph::Create(source->get());
  if (!graph.ok()) return false;
  edges.resize(graph->num_edges());
  for (const packhouse::HomogeneousEdgeType& type : graph->edge_types()) {
    const uint32_t sources = graph->node_types()[type.source].start;
    const uint32_t targets = graph->node_types()[type.target].start;
    for (uint32_t row = 0; row < type.by_target.num_rows(); ++row) {
      for (uint64_t at = type.by_target.offsets[row]; at < type.by_target.offsets[row + 1]; ++at) {
        edges[type.start + type.by_target.edge(at)] = {sources + type.by_target.neighbours[at],
                                                       targets + row};
      }
    }
  }
  auto assignment = packhouse::ReadAssignmentFolder(folder, *graph);
  if (assignment.ok()) parts = std::move(assignment->part);
  return true;
}

bool ReadFeatures(const std::string& folder, const std::vector<packhouse::ChunkedTable>& tables,
                  uint64_t rows) {
  for (const packhouse::ChunkedTable& table : tables) {
    const auto feature = packhouse::FeatureRows::Open(folder, table, rows, 0, rows);
    if (!feature.ok()) return false;
    uint64_t sum = 0;
    for (uint64_t row = 0; row < rows && feature->row_bytes() > 0; ++row) {
      sum += static_cast<uint8_t>(feature->Row(row)[feature->row_bytes() - 1]);
      (void)feature->Number(row);
    }
    // So that the rows are read.
    Require(sum <= rows * UINT8_MAX, "a sum of bytes is too large");
  }
  return true;
}

bool ReadByARank(const std::string& folder, Edges& edges, std::vector<uint32_t>& parts) {
  const auto input = packhouse::ReadChunkedInput(folder);
  if (!input.ok()) return false;
  OneRank rank;
  const auto reader = packhouse::MakeChunkedEdgeReader(rank, *input);
  if (!reader.ok()) return false;
  edges.resize(input->types.num_edges);
  std::vector<packhouse::SharedEdge> some;
  uint64_t read = 0;
  for (;;) {
    const auto more = (*reader)->Next(some);
    if (!more.ok()) return false;
    if (!*more) break;
    for (const packhouse::SharedEdge& edge : some) edges.at(edge.edge) = {edge.source, edge.target};
    read += some.size();
  }
  Require(read == edges.size(), "a rank has not read all edges");
  for (const auto& type : input->node_types) {
    if (!ReadFeatures(folder, type.features, type.num_nodes)) return false;
  }
  for (const auto& type : input->edge_types) {
    if (!ReadFeatures(folder, type.features, type.num_edges)) return false;
  }
  auto given = packhouse::ReadGivenShare(folder, input->types, 0, input->types.num_nodes);
  if (given.ok()) parts = std::move(given->part);
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const packhouse::TemporaryFolder kept(packhouse::TemporaryFolder::InMemory());
  const std::string& folder = kept.path();
  std::vector<absl::string_view> files =
      absl::StrSplit(absl::string_view(reinterpret_cast<const char*>(data), size), "\n%%\n");
  files.resize(kNamedFiles + kDataFiles);
  if (!IsTried(files[0])) return 0;
  constexpr const char* kNames[kNamedFiles] = {"metadata.json", "partition_meta.json", "a.txt",
                                               "b.txt"};
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string name = i < kNamedFiles ? kNames[i] : std::to_string(i - kNamedFiles);
    Write(folder + "/" + name, files[i]);
  }
  Edges here, there;
  std::vector<uint32_t> parts_here, parts_there;
  const bool taken_here = ReadOnOneMachine(folder, here, parts_here);
  const bool taken_there = ReadByARank(folder, there, parts_there);
  // A source graph has bounds of its own, as for the names of columns.
  Require(taken_there || !taken_here, "the ranks refuse what one machine takes");
  if (!taken_here) return 0;
  Require(here == there, "the readers find other edges");
  Require(parts_here == parts_there, "the readers find other parts");
  return 0;
}
