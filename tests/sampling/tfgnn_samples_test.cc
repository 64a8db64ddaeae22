// What the real samplers of TF-GNN drew where the whole neighbourhood is taken, and how large the
// sub-graphs of a real spec were.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wings/tfgnn/sampling_spec.h"
#include "tests/sampling/sampling_worlds.h"
#include "tests/sampling/slow_sampler.h"
#include "tests/support/status_matchers.h"
#include "tests/tfgnn/golden_files.h"

namespace packhouse {
namespace {

SamplingOptions AsTfgnn() {
  SamplingOptions options;
  options.merge_parallel = true;
  return options;
}

using Pairs = std::set<std::pair<uint32_t, uint32_t>>;
using tfgnn::GoldenBytes;
using tfgnn::GoldenJson;
using tfgnn::Json;

// The small full graph, from the edges that its maker kept. "written" is "writes" backwards.
std::unique_ptr<const SourceGraph> Unigraph() {
  const Json truth = GoldenJson("unigraph/ground_truth.json");
  const std::vector<std::string> names = {"author", "field_of_study", "institution", "paper"};
  std::vector<SourceNodeSetSpec> node_sets;
  std::vector<MemoryNodeSet> nodes(names.size());
  for (size_t n = 0; n < names.size(); ++n) {
    node_sets.push_back({names[n], {}});
    nodes[n].num_nodes = truth["nodes"][names[n]].get<uint64_t>();
  }
  const std::vector<std::tuple<std::string, size_t, size_t>> sets = {
      {"affiliated_with", 0, 2}, {"cites", 3, 3}, {"has_topic", 3, 1}, {"writes", 0, 3}};
  std::vector<SourceEdgeSetSpec> edge_sets;
  std::vector<MemoryEdgeSet> edges;
  for (const auto& [name, source, target] : sets) {
    edge_sets.push_back({name, source, target, {}, std::nullopt});
    MemoryEdgeSet& set = edges.emplace_back();
    for (const Json& pair : truth["edges"][name]) {
      set.sources.push_back(pair[0].get<uint32_t>());
      set.targets.push_back(pair[1].get<uint32_t>());
    }
  }
  edge_sets.push_back({"written", 3, 0, {}, 3});
  edges.emplace_back();
  return MakeGraph(std::move(node_sets), std::move(edge_sets), std::move(nodes), std::move(edges));
}

// The number of "paper17" of the set "paper".
uint32_t NumberOf(const std::string& id, const std::string& set) {
  return static_cast<uint32_t>(std::strtoul(id.c_str() + set.size(), nullptr, 10));
}

Pairs PairsOf(const std::vector<SlowEdge>& edges) {
  Pairs pairs;
  for (const SlowEdge& edge : edges) pairs.emplace(edge.source, edge.target);
  return pairs;
}

TEST(TfgnnSamplesTest, WholeNeighbourhoodsAreThoseOfBothSamplers) {
  PH_SKIP_WITHOUT_GOLDENS();
  const auto graph = Unigraph();
  const SourceGraphSchema& schema = graph->schema();
  size_t num_samples = 0;
  for (const std::string spec_name : {"two_hops", "full"}) {
    PH_ASSERT_OK_AND_ASSIGN(
        const tfgnn::SamplingSpec spec,
        tfgnn::ParseSamplingSpec(GoldenBytes("sampling/" + spec_name + ".pbtxt")));
    const Sampler sampler = SamplerOf(*graph, spec, AsTfgnn());
    for (const std::string which : {"beam", "in_memory"}) {
      const Json samples = GoldenJson("sampling/" + spec_name + "_" + which + ".json");
      for (const Json& sample : samples["samples"]) {
        SCOPED_TRACE(spec_name + " " + which + " " + sample["seed"].get<std::string>());
        const std::vector<uint32_t> seeds = {NumberOf(sample["seed"], "paper")};
        DrawRequest request;
        request.seeds = seeds;
        const SampledGraph sampled = Draw(sampler, request);
        const SlowGraph drawn = ByNumbers(sampler.plan(), sampled);
        EXPECT_EQ(sampled.node_sets[sampler.plan().seed_set()].numbers.front(), seeds[0]);
        std::map<std::string, std::vector<uint32_t>> nodes;
        for (const auto& [set, ids] : sample["nodes"].items()) {
          for (const Json& id : ids) nodes[set].push_back(NumberOf(id, set));
        }
        for (const auto& [n, numbers] : drawn.nodes) {
          EXPECT_THAT(numbers,
                      testing::UnorderedElementsAreArray(nodes[schema.node_sets()[n].name]));
        }
        for (const auto& [set, ends] : sample["edges"].items()) {
          const size_t e = *schema.EdgeSetIndex(set);
          const auto& sources = nodes[schema.node_sets()[schema.edge_sets()[e].source].name];
          const auto& targets = nodes[schema.node_sets()[schema.edge_sets()[e].target].name];
          Pairs pairs;
          for (size_t i = 0; i < ends["source"].size(); ++i) {
            pairs.emplace(sources[ends["source"][i].get<size_t>()],
                          targets[ends["target"][i].get<size_t>()]);
          }
          const auto found = drawn.edges.find(e);
          EXPECT_EQ(found == drawn.edges.end() ? Pairs() : PairsOf(found->second), pairs) << set;
          EXPECT_EQ(found == drawn.edges.end() ? 0 : found->second.size(), pairs.size()) << set;
        }
        ++num_samples;
      }
    }
  }
  EXPECT_EQ(num_samples, 28U);
}

// The small questions that were put to the library: the same sets, or a refusal where it refuses,
// and where it does not look.
TEST(TfgnnSamplesTest, SmallQuestionsHaveTheSameAnswers) {
  PH_SKIP_WITHOUT_GOLDENS();
  const std::set<std::string> refused_here = {"sample size 0",
                                              "edge set of another node set than the input"};
  size_t num_samples = 0;
  size_t num_refused = 0;
  const Json questions = GoldenJson("sampling/cases.json");
  for (const Json& question : questions["cases"]) {
    if (!question.contains("nodes")) continue;
    const std::string name = question["name"];
    SCOPED_TRACE(name);
    std::vector<SourceNodeSetSpec> node_sets;
    std::vector<MemoryNodeSet> nodes;
    std::map<std::string, size_t> numbers;
    for (const auto& [set, count] : question["nodes"].items()) {
      numbers[set] = node_sets.size();
      node_sets.push_back({set, {}});
      nodes.emplace_back().num_nodes = count.get<uint64_t>();
    }
    std::vector<SourceEdgeSetSpec> edge_sets;
    std::vector<MemoryEdgeSet> edges;
    for (const auto& [set, table] : question["edges"].items()) {
      edge_sets.push_back(
          {set, numbers[table["source_set"]], numbers[table["target_set"]], {}, std::nullopt});
      MemoryEdgeSet& to = edges.emplace_back();
      for (const Json& pair : table["pairs"]) {
        to.sources.push_back(pair[0].get<uint32_t>());
        to.targets.push_back(pair[1].get<uint32_t>());
      }
    }
    const auto graph = MakeGraph(node_sets, edge_sets, std::move(nodes), std::move(edges));
    PH_ASSERT_OK_AND_ASSIGN(const tfgnn::SamplingSpec spec,
                            tfgnn::ParseSamplingSpec(question["spec"].get<std::string>()));
    const auto plan = SamplingPlan::Create(graph->schema(), spec, {});
    if (question.contains("error") || refused_here.count(name) != 0) {
      EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_TRUE(absl::StrContains(plan.status().message(), "op 'h")) << plan.status();
      ++num_refused;
      continue;
    }
    const Sampler sampler = SamplerOf(*graph, spec, AsTfgnn());
    for (size_t i = 0; i < question["seeds"].size(); ++i) {
      const auto seeds = question["seeds"][i].get<std::vector<uint32_t>>();
      DrawRequest request;
      request.seeds = seeds;
      const SlowGraph drawn = ByNumbers(sampler.plan(), Draw(sampler, request));
      const Json& sample = question["samples"][i];
      for (const auto& [n, drawn_nodes] : drawn.nodes) {
        EXPECT_THAT(drawn_nodes,
                    testing::UnorderedElementsAreArray(
                        sample["nodes"][node_sets[n].name].get<std::vector<uint32_t>>()));
      }
      for (const auto& [set, ends] : sample["edges"].items()) {
        const size_t e = *graph->schema().EdgeSetIndex(set);
        Pairs pairs;
        for (size_t j = 0; j < ends["source"].size(); ++j) {
          const Json& from = sample["nodes"][node_sets[edge_sets[e].source].name];
          const Json& to = sample["nodes"][node_sets[edge_sets[e].target].name];
          pairs.emplace(from[ends["source"][j].get<size_t>()].get<uint32_t>(),
                        to[ends["target"][j].get<size_t>()].get<uint32_t>());
        }
        const auto found = drawn.edges.find(e);
        EXPECT_EQ(found == drawn.edges.end() ? Pairs() : PairsOf(found->second), pairs);
      }
      ++num_samples;
    }
  }
  EXPECT_EQ(num_samples, 13U);
  EXPECT_EQ(num_refused, 6U);
}

// The guide's fan-outs over all 500 papers: sizes as the library's, which draws twice from a node
// that it reaches twice, and therefore has slightly more.
TEST(TfgnnSamplesTest, SizesOfTheGuidesSpecAreThoseOfTheLibrary) {
  PH_SKIP_WITHOUT_GOLDENS();
  const auto graph = Unigraph();
  PH_ASSERT_OK_AND_ASSIGN(const tfgnn::SamplingSpec spec,
                          tfgnn::ParseSamplingSpec(GoldenBytes("sampling/guide.pbtxt")));
  const Sampler sampler = SamplerOf(*graph, spec, AsTfgnn());
  std::map<std::string, double> sums;
  for (uint32_t paper = 0; paper < 500; ++paper) {
    DrawRequest request;
    request.seeds = absl::MakeConstSpan(&paper, 1);
    const SampledGraph sampled = Draw(sampler, request);
    for (size_t n = 0; n < sampled.node_sets.size(); ++n) {
      sums[graph->schema().node_sets()[sampler.plan().node_sets()[n]].name] +=
          static_cast<double>(sampled.node_sets[n].numbers.size());
    }
    for (size_t e = 0; e < sampled.edge_sets.size(); ++e) {
      sums[graph->schema().edge_sets()[sampler.plan().edge_sets()[e].edge_set].name] +=
          static_cast<double>(sampled.edge_sets[e].sources.size());
    }
  }
  const Json statistics = GoldenJson("sampling/statistics.json");
  for (const auto& [set, sizes] : statistics["guide_spec_over_all_500_papers"].items()) {
    const double mean = sums[set] / 500;
    const double theirs = sizes["mean"].get<double>();
    EXPECT_LT(mean, theirs * 1.01) << set;
    EXPECT_GT(mean, theirs * 0.93) << set;
  }
}

}  // namespace
}  // namespace packhouse
