// Any bytes as a sampling spec of TF-GNN, and what it draws from a tiny graph. Whatever comes in:
// no crash; a spec means the same on the way back; what is drawn is what a slow sampler draws, and
// within the limits if there are any.
//
// Input: a byte of options, a byte of seeds, a byte of limits (0: none), then either a spec as it
// is in files, or four bytes an op.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/stubs/logging.h"
#include "service/wings/graphs/sampling/sampled_chunk.h"
#include "service/wings/graphs/sampling/sampler.h"
#include "service/wings/graphs/source_graphs/memory_source_graph.h"
#include "tests/sampling/slow_sampler.h"

namespace packhouse {
namespace {

using tfgnn::SamplingOp;
using tfgnn::SamplingSpec;

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// Six papers and four authors, with parallel edges, self-loops, weights and times.
std::unique_ptr<const SourceGraph> TinyGraph() {
  const auto column = [](const std::vector<int32_t>& values) {
    MemoryColumn made;
    made.bytes.assign(reinterpret_cast<const char*>(values.data()),
                      values.size() * sizeof(int32_t));
    return made;
  };
  const auto number = [](std::string name) {
    return SourceColumnSpec{std::move(name), DType::kInt32, {}, false, false};
  };
  std::vector<MemoryNodeSet> nodes(2);
  nodes[0].num_nodes = 6;
  nodes[0].columns = {column({3, 1, 4, 1, 5, 2})};
  nodes[1].num_nodes = 4;
  std::vector<MemoryEdgeSet> edges(3);
  edges[0].sources = {0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 5, 0, 0, 5};
  edges[0].targets = {1, 1, 0, 2, 3, 3, 4, 4, 4, 5, 0, 2, 5, 4, 0};
  edges[0].columns = {column({1, 2, 0, 4, -1, 3, 3, 9, 1, 2, 2, 5, 1, 1, 7}),
                      column({0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2})};
  edges[1].sources = {0, 1, 2, 3, 3, 3, 0, 2};
  edges[1].targets = {0, 0, 1, 2, 2, 5, 4, 3};
  edges[1].columns = {column({1, 1, 2, 2, 3, 3, 0, 0}), column({3, 2, 1, 0, 3, 2, 1, 0})};
  auto schema =
      SourceGraphSchema::Create({{"paper", {number("year")}}, {"author", {}}},
                                {{"cites", 0, 0, {number("weight"), number("when")}, std::nullopt},
                                 {"writes", 1, 0, {number("weight"), number("when")}, std::nullopt},
                                 {"written", 0, 1, {}, 1}});
  Require(schema.ok(), "the schema");
  auto graph = MakeMemorySourceGraph(*std::move(schema), 1, std::move(nodes), std::move(edges));
  Require(graph.ok(), "the graph");
  return *std::move(graph);
}

// A spec of ops that mostly fit each other: inputs as bits, edge set, sample size, strategy.
SamplingSpec ShortSpec(absl::string_view bytes) {
  SamplingSpec spec = {"seed", "paper", false, {}};
  for (size_t at = 0; at + 4 <= bytes.size() && spec.ops.size() < 12; at += 4) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[at + i]); };
    SamplingOp op;
    op.name = absl::StrCat("op", spec.ops.size());
    if ((byte(0) & 1) != 0) op.inputs.push_back("seed");
    for (size_t i = 0; i < 7; ++i) {
      if ((byte(0) >> (i + 1) & 1) != 0) op.inputs.push_back(absl::StrCat("op", i));
    }
    op.edge_set = byte(1) % 3 == 0 ? "cites" : byte(1) % 3 == 1 ? "writes" : "written";
    op.sample_size = byte(2);
    op.strategy = static_cast<tfgnn::SamplingStrategy>(byte(3) % 4);
    spec.ops.push_back(std::move(op));
  }
  return spec;
}

void CheckDraw(const Sampler& sampler, const SourceGraph& graph, const DrawRequest& request,
               const SampledGraph& sampled) {
  const SamplingPlan& plan = sampler.plan();
  if (request.limits.nodes.empty() && !plan.spec().link_seeds) {
    const SlowSampler slow(graph, plan.spec(), plan.options());
    const SlowGraph expected =
        slow.Draw(request.seed_number, request.epoch,
                  std::vector<uint32_t>(request.seeds.begin(), request.seeds.end()),
                  request.occurrences, request.time);
    const SlowGraph drawn = ByNumbers(plan, sampled);
    for (const auto& [set, nodes] : expected.nodes) {
      const auto found = drawn.nodes.find(set);
      Require(nodes.empty() || (found != drawn.nodes.end() && found->second == nodes), "nodes");
    }
    for (const auto& [set, edges] : expected.edges) {
      const auto found = drawn.edges.find(set);
      Require(edges.empty() || (found != drawn.edges.end() && found->second == edges), "edges");
    }
  }
  for (size_t n = 0; n < request.limits.nodes.size(); ++n) {
    Require(sampled.node_sets[n].numbers.size() <= request.limits.nodes[n], "nodes beyond limits");
  }
  for (size_t e = 0; e < request.limits.edges.size(); ++e) {
    Require(sampled.edge_sets[e].sources.size() <= request.limits.edges[e], "edges beyond limits");
  }
  const auto schema =
      SampledSchema::Create(plan, graph, {.numbers = true, .rows = true, .ids = true});
  if (!schema.ok()) return;  // Too many sets or tensors.
  SampledChunk chunk(&*schema);
  Require(chunk.Append(sampled).ok(), "append");
  const auto graphs = chunk.Finish(0);
  Require(graphs.ok(), "finish");
  // Ends of edges are checked again, as if a client had sent them.
  std::vector<absl::string_view> columns;
  for (size_t t = 0; t < graphs->num_columns(); ++t) columns.push_back(graphs->column(t));
  Require(GraphChunk::Create(&schema->schema(), graphs->sizes(), columns, nullptr).ok(), "ends");
}

void Run(absl::string_view bytes) {
  static const SourceGraph* const graph = TinyGraph().release();
  if (bytes.size() < 3) return;
  const auto bits = static_cast<uint8_t>(bytes[0]);
  const auto seed_bits = static_cast<uint8_t>(bytes[1]);
  const auto limit = static_cast<uint8_t>(bytes[2]);
  const absl::string_view rest = bytes.substr(3);
  SamplingSpec spec;
  if ((bits & 1) != 0) {
    spec = ShortSpec(rest);
  } else {
    auto parsed = tfgnn::ParseSamplingSpec(rest);
    if (!parsed.ok()) return;
    spec = *std::move(parsed);
    // Names that are no UTF-8 are not printed as they are.
    const auto again = tfgnn::ParseSamplingSpec(tfgnn::SamplingSpecText(spec));
    Require(again.ok() && *again == spec, "text");
  }
  const auto of_bytes = tfgnn::ParseSamplingSpec(tfgnn::SamplingSpecBytes(spec));
  Require(of_bytes.ok() && *of_bytes == spec, "bytes");

  SamplingOptions options;
  options.induced = (bits & 2) != 0;
  if ((bits & 4) != 0) options.node_time_column = "year";
  if ((bits & 4) != 0 && (bits & 32) != 0) options.untimed_sets = {"author", "field"};
  if ((bits & 8) != 0) options.edge_time_column = "when";
  options.latest = (bits & 16) != 0;
  if (spec.link_seeds) options.link_node_set = "paper";
  auto plan = SamplingPlan::Create(graph->schema(), spec, options);
  if (!plan.ok()) {
    Require(plan.status().code() == absl::StatusCode::kInvalidArgument, "the code of a refusal");
    return;
  }
  const auto shared = std::make_shared<const SamplingPlan>(*std::move(plan));
  const auto sampler = Sampler::Create(shared, graph);
  Require(sampler.ok(), "the sampler");
  std::vector<uint32_t> seeds;
  for (uint32_t seed = 0; seed < 4; ++seed) {
    if ((seed_bits >> seed & 1) != 0) seeds.push_back(seed);
  }
  DrawRequest request;
  request.seeds = seeds;
  request.epoch = seed_bits >> 4;
  if (shared->is_temporal()) request.time = seed_bits >> 5;
  if (limit != 0) {
    request.limits.nodes.assign(shared->node_sets().size(), limit % 16);
    request.limits.edges.assign(shared->edge_sets().size(), limit / 16);
  }
  SamplerScratch scratch;
  SampledGraph sampled;
  const absl::Status status = sampler->Draw(request, scratch, sampled);
  if (status.ok()) return CheckDraw(*sampler, *graph, request, sampled);
  const bool is_odd = spec.link_seeds && seeds.size() % 2 == 1;
  Require(status.code() ==
              (is_odd ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kOutOfRange),
          "the code of a draw");
}

}  // namespace
}  // namespace packhouse

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // protobuf logs every name that is no UTF-8.
  static const google::protobuf::LogSilencer silencer;
  packhouse::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
