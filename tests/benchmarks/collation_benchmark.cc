#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "service/collation/batch_layout.h"
#include "service/collation/collate.h"
#include "service/graphs/graph_chunk.h"
#include "tests/packing/molecule_sizes.h"
#include "tests/support/random.h"

namespace packhouse {
namespace {

constexpr size_t kNodes = 0;
constexpr size_t kEdges = 1;
constexpr size_t kGraphsComponent = 2;

// As in ogbg-molhiv: nine features an atom, three a bond, a label.
absl::StatusOr<GraphSchema> MoleculeSchema() {
  return GraphSchema::Create(SizeSchema::NodesAndEdges(),
                             {{"x", DType::kInt64, {9}, kNodes, {}, ""},
                              {"senders", DType::kInt32, {}, kEdges, kNodes, ""},
                              {"receivers", DType::kInt32, {}, kEdges, kNodes, ""},
                              {"edge_attr", DType::kInt64, {3}, kEdges, {}, ""},
                              {"y", DType::kFloat32, {}, kGraphsComponent, {}, ""}});
}

// Random molecule-like graphs; everything but the indices is zero.
absl::StatusOr<GraphChunk> MoleculeChunk(const GraphSchema& schema, size_t num_graphs) {
  std::vector<uint32_t> sizes = MoleculeSizes(num_graphs, 0);
  uint64_t nodes = 0;
  uint64_t edges = 0;
  std::string endpoints;
  Random random(1);
  for (size_t i = 0; i < sizes.size(); i += 2) {
    nodes += sizes[i];
    edges += sizes[i + 1];
    for (uint32_t e = 0; e < sizes[i + 1]; ++e) {
      const auto node = static_cast<int32_t>(random.Below(sizes[i]));
      endpoints.append(reinterpret_cast<const char*>(&node), sizeof(node));
    }
  }
  auto columns = std::make_shared<const std::vector<std::string>>(
      std::vector<std::string>{std::string(nodes * 72, '\0'), endpoints, endpoints,
                               std::string(edges * 24, '\0'), std::string(num_graphs * 4, '\0')});
  const std::vector<absl::string_view> views(columns->begin(), columns->end());
  absl::StatusOr<SizeTable> table =
      SizeTable::WithConsecutiveIds(num_graphs, 2, std::move(sizes), 0);
  if (!table.ok()) return table.status();
  return GraphChunk::Create(&schema, *std::move(table), views, columns);
}

// Bytes of padded tensors a second; the argument is the number of graphs in a batch.
void BM_Collate(benchmark::State& state) {
  const size_t num_graphs = state.range(0);
  const absl::StatusOr<GraphSchema> schema = MoleculeSchema();
  if (!schema.ok()) return state.SkipWithError("bad schema");
  const absl::StatusOr<GraphChunk> chunk = MoleculeChunk(*schema, num_graphs);
  if (!chunk.ok()) return state.SkipWithError("bad chunk");
  // About a tenth of padding.
  std::vector<uint64_t> capacities = {0, 0, num_graphs + num_graphs / 10 + 1};
  std::vector<GraphRef> graphs;
  for (size_t i = 0; i < num_graphs; ++i) {
    graphs.push_back({&*chunk, i});
    capacities[kNodes] += chunk->count(i, kNodes);
    capacities[kEdges] += chunk->count(i, kEdges);
  }
  capacities[kNodes] += capacities[kNodes] / 10 + 1;
  capacities[kEdges] += capacities[kEdges] / 10 + 1;
  const absl::StatusOr<BatchLayout> layout = BatchLayout::Create(
      &*schema, capacities, Padding::kGraph, {.row_counts = true, .graph_index = true});
  if (!layout.ok()) return state.SkipWithError("bad layout");
  for (auto unused : state) {
    absl::StatusOr<Batch> batch = Collate(*layout, graphs, UINT64_MAX);
    if (!batch.ok()) return state.SkipWithError("no batch");
    benchmark::DoNotOptimize(*batch);
  }
  state.SetBytesProcessed(
      static_cast<int64_t>(state.iterations() * layout->FixedBatchBytes().value_or(0)));
}
BENCHMARK(BM_Collate)->Arg(8)->Arg(64)->Arg(1024);

}  // namespace
}  // namespace packhouse
