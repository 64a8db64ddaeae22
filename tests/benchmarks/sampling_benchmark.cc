// Draws from a graph of OGBN-MAG's shape: how many edges a second, and how fast features are
// gathered. Beside the latter, memcpy of as many random rows.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "benchmark/benchmark.h"
#include "service/base/seeded_random.h"
#include "service/wings/graphs/sampling/sampled_chunk.h"
#include "service/wings/graphs/sampling/sampled_schema.h"
#include "service/wings/graphs/sampling/sampler.h"
#include "service/wings/graphs/source_graphs/memory_source_graph.h"
#include "service/wings/tfgnn/sampling_spec.h"

namespace packhouse {
namespace {

void Must(const absl::Status& status) {
  if (!status.ok()) std::abort();
}

// A part of OGBN-MAG's nodes and edges. 1: all.
double MagScale() {
  const char* const given = std::getenv("PACKHOUSE_MAG_SCALE");
  return given == nullptr ? 0.05 : std::atof(given);
}

enum MagNodeSet : size_t { kAuthor, kField, kInstitution, kPaper };

// The first nodes have many edges: the share of node i is in proportion to about i^-0.45, so that
// the degrees' tail falls with the power 3.2. Numbers are shuffled, as in tables.
class DegreeTail {
 public:
  DegreeTail(uint64_t count, SeededRandom& random) : order_(count) {
    std::iota(order_.begin(), order_.end(), uint32_t{0});
    for (uint64_t i = 0; i + 1 < count; ++i) {
      std::swap(order_[i], order_[i + random.Below(count - i)]);
    }
  }
  uint32_t Draw(SeededRandom& random) const {
    const double uniform = static_cast<double>(random.Next() >> 11) * 0x1p-53;
    const auto rank =
        static_cast<uint64_t>(std::pow(uniform, 1 / 0.55) * static_cast<double>(order_.size()));
    return order_[std::min<uint64_t>(rank, order_.size() - 1)];
  }

 private:
  std::vector<uint32_t> order_;
};

std::unique_ptr<const SourceGraph> MakeMag(double scale) {
  SeededRandom random(1);
  const auto scaled = [&](double count) { return static_cast<uint64_t>(count * scale); };
  std::vector<MemoryNodeSet> nodes(4);
  nodes[kAuthor].num_nodes = scaled(1134649);
  nodes[kField].num_nodes = scaled(59965);
  nodes[kInstitution].num_nodes = scaled(8740);
  nodes[kPaper].num_nodes = scaled(736389);
  std::vector<DegreeTail> tails;
  for (const MemoryNodeSet& set : nodes) tails.emplace_back(set.num_nodes, random);
  MemoryColumn feat;
  feat.bytes.resize(nodes[kPaper].num_nodes * 128 * sizeof(float));
  for (size_t at = 0; at + 8 <= feat.bytes.size(); at += 8) {
    const uint64_t bits = random.Next() & 0x3fffffff3fffffff;
    std::memcpy(&feat.bytes[at], &bits, 8);
  }
  nodes[kPaper].columns.push_back(std::move(feat));
  const auto edges = [&](MagNodeSet source, MagNodeSet target, double count) {
    MemoryEdgeSet set;
    for (uint64_t e = scaled(count); e > 0; --e) {
      set.sources.push_back(tails[source].Draw(random));
      set.targets.push_back(tails[target].Draw(random));
    }
    return set;
  };
  std::vector<MemoryEdgeSet> sets;
  sets.push_back(edges(kAuthor, kInstitution, 1043998));
  sets.push_back(edges(kPaper, kPaper, 5416271));
  sets.push_back(edges(kPaper, kField, 7505078));
  sets.push_back(edges(kAuthor, kPaper, 7145660));
  sets.emplace_back();
  auto schema =
      SourceGraphSchema::Create({{"author", {}},
                                 {"field_of_study", {}},
                                 {"institution", {}},
                                 {"paper", {{"feat", DType::kFloat32, {128}, false, false}}}},
                                {{"affiliated_with", kAuthor, kInstitution, {}, std::nullopt},
                                 {"cites", kPaper, kPaper, {}, std::nullopt},
                                 {"has_topic", kPaper, kField, {}, std::nullopt},
                                 {"writes", kAuthor, kPaper, {}, std::nullopt},
                                 {"written", kPaper, kAuthor, {}, 3}});
  auto graph =
      MakeMemorySourceGraph(std::move(schema).value(), 1, std::move(nodes), std::move(sets));
  return std::move(graph).value();
}

const SourceGraph& Mag() {
  static const SourceGraph* const graph = MakeMag(MagScale()).release();
  return *graph;
}

// The data preparation guide's.
const char* const kGuideSpec = R"(
seed_op { op_name: "seed" node_set_name: "paper" }
sampling_ops { op_name: "seed->paper" input_op_names: "seed" edge_set_name: "cites"
               sample_size: 32 strategy: RANDOM_UNIFORM }
sampling_ops { op_name: "paper->author" input_op_names: "seed" input_op_names: "seed->paper"
               edge_set_name: "written" sample_size: 8 strategy: RANDOM_UNIFORM }
sampling_ops { op_name: "author->paper" input_op_names: "paper->author" edge_set_name: "writes"
               sample_size: 16 strategy: RANDOM_UNIFORM }
sampling_ops { op_name: "author->institution" input_op_names: "paper->author"
               edge_set_name: "affiliated_with" sample_size: 16 strategy: RANDOM_UNIFORM }
sampling_ops { op_name: "paper->field_of_study" input_op_names: "seed" input_op_names: "seed->paper"
               input_op_names: "author->paper" edge_set_name: "has_topic" sample_size: 16
               strategy: RANDOM_UNIFORM })";

const Sampler& GuideSampler() {
  static const Sampler* const sampler = [] {
    auto spec = tfgnn::ParseSamplingSpec(kGuideSpec);
    auto plan = SamplingPlan::Create(Mag().schema(), spec.value(), {});
    auto made =
        Sampler::Create(std::make_shared<const SamplingPlan>(std::move(plan).value()), &Mag());
    return new Sampler(std::move(made).value());
  }();
  return *sampler;
}

std::vector<uint32_t> RandomPapers(size_t count, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<uint32_t> papers;
  for (size_t i = 0; i < count; ++i) {
    papers.push_back(static_cast<uint32_t>(random.Below(Mag().num_nodes(kPaper))));
  }
  return papers;
}

// One sub-graph for range(0) seeds; with edge numbers if range(1).
void BM_SamplingDraw(benchmark::State& state) {
  const auto per_graph = static_cast<size_t>(state.range(0));
  const std::vector<uint32_t> papers = RandomPapers(per_graph * 512, 2);
  SamplerScratch scratch;
  SampledGraph sampled;
  DrawRequest request;
  request.edge_numbers = state.range(1) != 0;
  size_t next = 0;
  uint64_t edges = 0;
  for (auto _ : state) {
    request.seeds = absl::MakeConstSpan(papers).subspan(next, per_graph);
    next = next + per_graph == papers.size() ? 0 : next + per_graph;
    Must(GuideSampler().Draw(request, scratch, sampled));
    edges += sampled.num_edges();
  }
  state.counters["edges/s"] =
      benchmark::Counter(static_cast<double>(edges), benchmark::Counter::kIsRate);
  state.counters["seeds/s"] =
      benchmark::Counter(static_cast<double>(per_graph) * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
  state.counters["edges/seed"] = static_cast<double>(edges) /
                                 static_cast<double>(state.iterations()) /
                                 static_cast<double>(per_graph);
}
BENCHMARK(BM_SamplingDraw)
    ->Args({1, 0})
    ->Args({1, 1})
    ->Args({16, 0})
    ->Args({128, 0})
    ->Args({128, 1});

// Features of sub-graphs, gathered into chunks of 16 graphs.
void BM_SamplingGather(benchmark::State& state) {
  constexpr size_t kGraphs = 16;
  const Sampler& sampler = GuideSampler();
  const SampledSchema schema = SampledSchema::Create(sampler.plan(), Mag(), {}).value();
  const std::vector<uint32_t> papers = RandomPapers(64 * kGraphs, 3);
  std::vector<SampledGraph> graphs(papers.size());
  SamplerScratch scratch;
  for (size_t i = 0; i < papers.size(); ++i) {
    DrawRequest request;
    request.seeds = absl::MakeConstSpan(papers).subspan(i, 1);
    Must(sampler.Draw(request, scratch, graphs[i]));
  }
  size_t next = 0;
  uint64_t bytes = 0;
  std::vector<uint64_t> counts(schema.schema().num_components());
  std::vector<uint32_t> tuple;
  for (auto _ : state) {
    SampledChunk chunk(&schema);
    std::fill(counts.begin(), counts.end(), 0);
    for (size_t i = 0; i < kGraphs; ++i) {
      Must(schema.Sizes(graphs[next + i], tuple));
      for (size_t k = 0; k < tuple.size(); ++k) counts[k] += tuple[k];
    }
    chunk.Reserve(counts);
    for (size_t i = 0; i < kGraphs; ++i) Must(chunk.Append(graphs[next + i]));
    next = next + kGraphs == graphs.size() ? 0 : next + kGraphs;
    bytes += chunk.num_bytes();
    benchmark::DoNotOptimize(chunk);
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
}
BENCHMARK(BM_SamplingGather);

// What gathering is compared with: as many random rows of 128 floats, into fresh memory as well.
void BM_SamplingMemcpyRows(benchmark::State& state) {
  constexpr size_t kRows = 16 * 1000;
  constexpr size_t kRowBytes = 128 * sizeof(float);
  const SourceColumn feat = Mag().NodeColumn(kPaper, 0);
  const std::vector<uint32_t> papers = RandomPapers(kRows * 8, 4);
  size_t next = 0;
  for (auto _ : state) {
    const auto to = std::make_unique_for_overwrite<char[]>(kRows * kRowBytes);
    for (size_t i = 0; i < kRows; ++i) {
      std::memcpy(&to[i * kRowBytes], feat.data + papers[next + i] * kRowBytes, kRowBytes);
    }
    next = next + kRows == papers.size() ? 0 : next + kRows;
    benchmark::DoNotOptimize(to.get());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kRows * kRowBytes));
}
BENCHMARK(BM_SamplingMemcpyRows);

}  // namespace
}  // namespace packhouse
