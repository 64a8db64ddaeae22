#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "service/algorithms/collation/batch_layout.h"
#include "service/algorithms/collation/collate.h"
#include "service/algorithms/collation/gathered_graph.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "tests/packing/molecule_sizes.h"
#include "tests/support/random.h"

namespace packhouse {
namespace {

constexpr size_t kNodes = 0;
constexpr size_t kEdges = 1;
constexpr size_t kGraphsComponent = 2;

// As in ogbg-molhiv: nine features an atom, three a bond, a label. OGB gives features as int64;
// they fit int16 and int8.
absl::StatusOr<GraphSchema> MoleculeSchema(DType atoms = DType::kInt64,
                                           DType bonds = DType::kInt64) {
  return GraphSchema::Create(SizeSchema::NodesAndEdges(),
                             {{"x", atoms, {9}, kNodes, {}, ""},
                              {"senders", DType::kInt32, {}, kEdges, kNodes, ""},
                              {"receivers", DType::kInt32, {}, kEdges, kNodes, ""},
                              {"edge_attr", bonds, {3}, kEdges, {}, ""},
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
  auto columns = std::make_shared<const std::vector<std::string>>(std::vector<std::string>{
      std::string(nodes * schema.row_bytes(0), '\0'), endpoints, endpoints,
      std::string(edges * schema.row_bytes(3), '\0'), std::string(num_graphs * 4, '\0')});
  const std::vector<absl::string_view> views(columns->begin(), columns->end());
  absl::StatusOr<SizeTable> table =
      SizeTable::WithConsecutiveIds(num_graphs, 2, std::move(sizes), 0);
  if (!table.ok()) return table.status();
  return GraphChunk::Create(&schema, *std::move(table), views, columns);
}

// Bytes of padded tensors a second, in their declared types; the arguments are the number of graphs
// in a batch, and whether integers become narrow: here uint8, and int16 for some indices.
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
      &*schema, capacities, Padding::kGraph, {.row_counts = true, .graph_index = true}, {},
      state.range(1) != 0 ? IntegerWidth::kCompact : IntegerWidth::kDeclared);
  if (!layout.ok()) return state.SkipWithError("bad layout");
  for (auto unused : state) {
    absl::StatusOr<Batch> batch = Collate(*layout, graphs, UINT64_MAX);
    if (!batch.ok()) return state.SkipWithError("no batch");
    benchmark::DoNotOptimize(*batch);
  }
  state.SetBytesProcessed(
      static_cast<int64_t>(state.iterations() * layout->FixedBatchBytes().value_or(0)));
}
BENCHMARK(BM_Collate)->ArgNames({"graphs", "compact"})->ArgsProduct({{8, 64, 1024}, {0, 1}});

constexpr size_t kManyGraphs = 400'000;

// As the server does: batches are not given back to the kernel.
void KeepFreedMemory() {
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
}

template <typename Graph>
void Shuffle(std::vector<Graph>& graphs) {
  Random random(7);
  for (size_t i = graphs.size() - 1; i > 0; --i) std::swap(graphs[i], graphs[random.Below(i + 1)]);
}

absl::StatusOr<BatchLayout> LayoutOfMolecules(const GraphSchema& schema, size_t per_batch) {
  return BatchLayout::Create(&schema, {400 + per_batch * 40, 900 + per_batch * 90, per_batch + 1},
                             Padding::kGraph, {.row_counts = true, .graph_index = true});
}

// Narrow rows of graphs that lie apart, as in a shuffled epoch: of 400,000 molecules (far more than
// the caches hold), the given number a batch. Beside it, batch by batch, `memcpy_share` and
// `gather_share`: the time of copying as many bytes from one place, and of copying the rows of as
// many other graphs one by one, over that of the collation.
void BM_CollateShuffled(benchmark::State& state) {
  KeepFreedMemory();
  const size_t per_batch = state.range(0);
  const absl::StatusOr<GraphSchema> schema = MoleculeSchema(DType::kInt16, DType::kInt8);
  if (!schema.ok()) return state.SkipWithError("bad schema");
  const absl::StatusOr<GraphChunk> chunk = MoleculeChunk(*schema, kManyGraphs);
  if (!chunk.ok()) return state.SkipWithError("bad chunk");
  std::vector<GraphRef> graphs;
  for (size_t i = 0; i < kManyGraphs; ++i) graphs.push_back({&*chunk, i});
  Shuffle(graphs);
  const absl::StatusOr<BatchLayout> layout = LayoutOfMolecules(*schema, per_batch);
  if (!layout.ok()) return state.SkipWithError("bad layout");
  const uint64_t bytes = layout->FixedBatchBytes().value_or(0);
  const absl::string_view rows = chunk->column(0);
  std::vector<char> copied(bytes);
  using Clock = std::chrono::steady_clock;
  Clock::duration collating{};
  Clock::duration copying{};
  Clock::duration gathering{};
  size_t first = 0;
  for (auto unused : state) {
    const Clock::time_point begin = Clock::now();
    absl::StatusOr<Batch> batch =
        Collate(*layout, absl::MakeConstSpan(graphs).subspan(first, per_batch), UINT64_MAX);
    if (!batch.ok()) return state.SkipWithError("no batch");
    benchmark::DoNotOptimize(*batch);
    const Clock::time_point middle = Clock::now();
    for (uint64_t done = 0; done < bytes;) {
      const size_t from = (first * 457 + done) % rows.size();
      const size_t part = std::min<uint64_t>(bytes - done, rows.size() - from);
      std::memcpy(copied.data() + done, rows.data() + from, part);
      done += part;
    }
    benchmark::DoNotOptimize(copied.data());
    const Clock::time_point end = Clock::now();
    char* next = copied.data();
    for (size_t t = 0; t < schema->tensors().size(); ++t) {
      for (size_t i = 0; i < per_batch; ++i) {
        const GraphRef& graph = graphs[(first + kManyGraphs / 2 + i) % kManyGraphs];
        const absl::string_view own = graph.chunk->rows(graph.index, t);
        if (next + own.size() > copied.data() + bytes) break;
        std::memcpy(next, own.data(), own.size());
        next += own.size();
      }
    }
    benchmark::DoNotOptimize(copied.data());
    gathering += Clock::now() - end;
    collating += middle - begin;
    copying += end - middle;
    state.SetIterationTime(std::chrono::duration<double>(middle - begin).count());
    first = (first + per_batch) % (kManyGraphs - per_batch);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes));
  state.counters["gather_share"] =
      static_cast<double>(gathering.count()) / static_cast<double>(collating.count());
  state.counters["memcpy_share"] =
      static_cast<double>(copying.count()) / static_cast<double>(collating.count());
}
BENCHMARK(BM_CollateShuffled)->Arg(16)->Arg(64)->Arg(256)->Arg(1024)->UseManualTime();

// The same graphs and batches, each graph in one run of bytes.
void BM_CollateGathered(benchmark::State& state) {
  KeepFreedMemory();
  const size_t per_batch = state.range(0);
  const absl::StatusOr<GraphSchema> schema = MoleculeSchema(DType::kInt16, DType::kInt8);
  if (!schema.ok()) return state.SkipWithError("bad schema");
  const absl::StatusOr<GraphChunk> chunk = MoleculeChunk(*schema, kManyGraphs);
  if (!chunk.ok()) return state.SkipWithError("bad chunk");
  const auto bytes_of = [&](size_t i) {
    return GatheredGraph::BytesOf(*schema, chunk->sizes().tuple(i));
  };
  uint64_t all_bytes = 0;
  for (size_t i = 0; i < kManyGraphs; ++i) all_bytes += bytes_of(i);
  // In large pages, as the server's copy.
  constexpr uint64_t kLargePage = uint64_t{2} << 20;
  const uint64_t mapped = (all_bytes / kLargePage + 1) * kLargePage;
  const std::unique_ptr<char, decltype(&std::free)> copy(
      static_cast<char*>(std::aligned_alloc(kLargePage, mapped)), &std::free);
  (void)madvise(copy.get(), mapped, MADV_HUGEPAGE);
  std::vector<absl::string_view> graphs;
  char* next = copy.get();
  for (size_t i = 0; i < kManyGraphs; ++i) {
    GatherGraph(*chunk, i, next);
    graphs.emplace_back(next, bytes_of(i));
    next += bytes_of(i);
  }
  Shuffle(graphs);
  const absl::StatusOr<BatchLayout> layout = LayoutOfMolecules(*schema, per_batch);
  if (!layout.ok()) return state.SkipWithError("bad layout");
  size_t first = 0;
  for (auto unused : state) {
    absl::StatusOr<Batch> batch =
        CollateGathered(*layout, absl::MakeConstSpan(graphs).subspan(first, per_batch), UINT64_MAX);
    if (!batch.ok()) return state.SkipWithError("no batch");
    benchmark::DoNotOptimize(*batch);
    first = (first + per_batch) % (kManyGraphs - per_batch);
  }
  state.SetBytesProcessed(
      static_cast<int64_t>(state.iterations() * layout->FixedBatchBytes().value_or(0)));
}
BENCHMARK(BM_CollateGathered)->Arg(16)->Arg(64)->Arg(256)->Arg(1024);

// Molecules whose edges are one tensor [edges, 2], or with its rows last [2, edges].
absl::StatusOr<GraphSchema> JoinedEndsSchema(Layout layout) {
  return GraphSchema::Create(SizeSchema::NodesAndEdges(),
                             {{"x", DType::kInt16, {9}, kNodes, {}, ""},
                              {"edge_index", DType::kInt32, {2}, kEdges, kNodes, "", layout},
                              {"edge_attr", DType::kInt8, {3}, kEdges, {}, ""},
                              {"y", DType::kFloat32, {}, kGraphsComponent, {}, ""}});
}

// Everything but the sizes is zero.
absl::StatusOr<GraphChunk> ZeroChunk(const GraphSchema& schema, size_t num_graphs) {
  std::vector<uint32_t> sizes = MoleculeSizes(num_graphs, 0);
  uint64_t rows[] = {0, 0, num_graphs};
  for (size_t i = 0; i < sizes.size(); ++i) rows[i % 2] += sizes[i];
  auto columns = std::make_shared<std::vector<std::string>>();
  for (size_t t = 0; t < schema.tensors().size(); ++t) {
    columns->emplace_back(rows[schema.tensors()[t].component] * schema.row_bytes(t), '\0');
  }
  const std::vector<absl::string_view> views(columns->begin(), columns->end());
  absl::StatusOr<SizeTable> table =
      SizeTable::WithConsecutiveIds(num_graphs, 2, std::move(sizes), 0);
  if (!table.ok()) return table.status();
  return GraphChunk::Create(&schema, *std::move(table), views, columns);
}

// The same shuffled batches with the rows of edge_index last, of the given number of graphs;
// `rows_last_share` is the time that they take over that of rows first, batch by batch.
void BM_CollateRowsLast(benchmark::State& state) {
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  constexpr size_t kGraphs = 200'000;
  const size_t per_batch = state.range(0);
  const absl::StatusOr<GraphSchema> schemas[] = {JoinedEndsSchema(Layout::kRowsFirst),
                                                 JoinedEndsSchema(Layout::kRowsLast)};
  std::vector<GraphChunk> chunks;
  std::vector<BatchLayout> layouts;
  for (const auto& schema : schemas) {
    if (!schema.ok()) return state.SkipWithError("bad schema");
    absl::StatusOr<GraphChunk> chunk = ZeroChunk(*schema, kGraphs);
    absl::StatusOr<BatchLayout> layout =
        BatchLayout::Create(&*schema, {400 + per_batch * 40, 900 + per_batch * 90, per_batch + 1},
                            Padding::kGraph, {.row_counts = true, .graph_index = true});
    if (!chunk.ok() || !layout.ok()) return state.SkipWithError("bad chunk or layout");
    chunks.push_back(*std::move(chunk));
    layouts.push_back(*std::move(layout));
  }
  std::vector<uint32_t> order(kGraphs);
  for (size_t i = 0; i < kGraphs; ++i) order[i] = static_cast<uint32_t>(i);
  Random random(7);
  for (size_t i = kGraphs - 1; i > 0; --i) std::swap(order[i], order[random.Below(i + 1)]);
  using Clock = std::chrono::steady_clock;
  Clock::duration times[2] = {};
  size_t first = 0;
  for (auto unused : state) {
    for (size_t layout = 0; layout < 2; ++layout) {
      std::vector<GraphRef> graphs;
      // Others than those that the other layout has just brought near.
      for (size_t i = 0; i < per_batch; ++i) {
        graphs.push_back({&chunks[layout], order[(first + i) % kGraphs]});
      }
      first += per_batch;
      const Clock::time_point begin = Clock::now();
      absl::StatusOr<Batch> batch = Collate(layouts[layout], graphs, UINT64_MAX);
      if (!batch.ok()) return state.SkipWithError("no batch");
      benchmark::DoNotOptimize(*batch);
      const Clock::duration took = Clock::now() - begin;
      times[layout] += took;
      if (layout == 1) state.SetIterationTime(std::chrono::duration<double>(took).count());
    }
  }
  state.SetBytesProcessed(
      static_cast<int64_t>(state.iterations() * layouts[1].FixedBatchBytes().value_or(0)));
  state.counters["rows_last_share"] =
      static_cast<double>(times[1].count()) / static_cast<double>(times[0].count());
}
BENCHMARK(BM_CollateRowsLast)->Arg(16)->Arg(64)->Arg(256)->Arg(1024)->UseManualTime();

}  // namespace
}  // namespace packhouse
