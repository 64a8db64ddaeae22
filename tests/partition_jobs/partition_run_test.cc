#include "service/wings/partition/jobs/partition_run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/checked_lines.h"
#include "service/base/disk_file.h"
#include "service/base/file_name.h"
#include "service/wings/graphs/source_graphs/checked_array.h"
#include "service/wings/graphs/source_graphs/memory_source_graph.h"
#include "service/wings/partition/cutting/homogeneous_graph.h"
#include "service/wings/partition/files/dgl_reader.h"
#include "service/wings/partition/files/partition_json.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/graph_exports.h"
#include "service/wings/partition/jobs/graph_folders.h"
#include "service/wings/partition/jobs/original_order.h"
#include "service/wings/partition/jobs/parmetis_pipeline.h"
#include "service/wings/partition/jobs/partition_contents.h"
#include "service/wings/partition/jobs/partition_list.h"
#include "service/wings/partition/jobs/partition_needs.h"
#include "service/wings/partition/jobs/partition_state.h"
#include "tests/partition_jobs/chunked_graphs.h"
#include "tests/partitioning/random_source_graphs.h"
#include "tests/support/fingerprint.h"
#include "tests/support/json_members.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Two node sets with columns of several kinds, two edge sets.
std::unique_ptr<const SourceGraph> FeaturedGraph(uint64_t seed) {
  Random random(seed);
  const auto bytes = [&random](uint64_t count) {
    std::string text(count, '\0');
    for (char& byte : text) byte = static_cast<char>(random.Next());
    return text;
  };
  constexpr uint64_t kA = 40;
  constexpr uint64_t kB = 25;
  constexpr uint64_t kEdges = 150;
  std::vector<SourceNodeSetSpec> node_specs = {
      {"b", {{"x", DType::kFloat32, {3}, false, false}, {"m", DType::kBool, {}, false, false}}},
      {"a", {{"h", DType::kBfloat16, {2}, false, false}, {"t", DType::kUint8, {}, true, true}}}};
  std::vector<SourceEdgeSetSpec> edge_specs = {
      {"r", 0, 1, {{"w", DType::kInt64, {}, false, false}}, std::nullopt},
      {"back", 1, 0, {}, size_t{0}},
      {"s", 0, 0, {}, std::nullopt}};
  std::vector<MemoryNodeSet> nodes(2);
  nodes[0].num_nodes = kB;
  nodes[0].columns = {{bytes(kB * 12), {}}, {std::string(kB, '\1'), {}}};
  nodes[1].num_nodes = kA;
  nodes[1].columns = {{bytes(kA * 4), {}}, {"", std::vector<uint64_t>(kA + 1, 0)}};
  std::vector<MemoryEdgeSet> edges(3);
  for (uint64_t i = 0; i < kEdges; ++i) {
    edges[0].sources.push_back(static_cast<uint32_t>(random.Below(kB)));
    edges[0].targets.push_back(static_cast<uint32_t>(random.Below(kA)));
    edges[2].sources.push_back(static_cast<uint32_t>(random.Below(kB)));
    edges[2].targets.push_back(static_cast<uint32_t>(random.Below(kB)));
  }
  edges[0].columns = {{bytes(kEdges * 8), {}}};
  return *MakeMemorySourceGraph(*SourceGraphSchema::Create(node_specs, edge_specs), seed + 1,
                                std::move(nodes), std::move(edges));
}

PartitionPlan PlanFor(uint32_t parts) {
  PartitionPlan plan;
  plan.name = "mini";
  plan.options.num_parts = parts;
  plan.options.method = PartMethod::kRandom;
  plan.forms = {true, true, true};
  plan.npy = true;
  plan.safetensors = true;
  plan.mapping = true;
  plan.assignment = true;
  return plan;
}

std::map<std::string, std::string> FilesIn(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().string().substr(folder.size())] =
        std::string(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

TEST(PartitionPlanTest, TextIsThePlan) {
  PartitionPlan plan = PlanFor(7);
  plan.classes = {{"a", {"train", "valid"}}};
  plan.options.imbalance = 1.07;
  plan.options.balance_edges = true;
  plan.options.halo = HaloKind::kInEdges;
  const JsonExceptions optional = {{"without_files", "original_ids", "metis_weights"}, {}};
  for (const auto& change : std::vector<void (*)(PartitionPlan&)>{
           [](PartitionPlan& p) { p.name = "other"; },
           [](PartitionPlan& p) { p.options.seed = 2; },
           [](PartitionPlan& p) { p.options.num_parts = kMaxPartsOfDirectory; },
           [](PartitionPlan& p) { p.options.method = PartMethod::kStreaming; },
           [](PartitionPlan& p) { p.options.scheme = PartScheme::kRecursive; },
           [](PartitionPlan& p) { p.options.objective = PartObjective::kVolume; },
           [](PartitionPlan& p) { p.options.quality = PartQuality::kBest; },
           [](PartitionPlan& p) { p.options.halo = HaloKind::kPartitionGraph; },
           [](PartitionPlan& p) { p.options.num_hops = PartitionOptions::kMaxHops; },
           [](PartitionPlan& p) { p.options.balance_edges = false; },
           [](PartitionPlan& p) { p.options.imbalance = 1.08; },
           [](PartitionPlan& p) { p.options.trainers_per_machine = PartitionOptions::kMaxParts; },
           [](PartitionPlan& p) { p.forms.coo = false; },
           [](PartitionPlan& p) { p.forms.csr = false; },
           [](PartitionPlan& p) { p.forms.csc = false; },
           [](PartitionPlan& p) { p.npy = false; },
           [](PartitionPlan& p) { p.safetensors = false; },
           [](PartitionPlan& p) { p.mapping = false; },
           [](PartitionPlan& p) { p.assignment = false; },
           [](PartitionPlan& p) { p.original_ids = true; },
           [](PartitionPlan& p) { p.metis_weights = true; },
           [](PartitionPlan& p) { p.without_files = true; },
           [](PartitionPlan& p) { p.classes[0].node_set = "b"; },
           [](PartitionPlan& p) { p.classes[0].columns[1] = "test"; },
           [](PartitionPlan& p) { p.classes.clear(); }}) {
    PartitionPlan changed = plan;
    change(changed);
    const std::string text = PlanText(changed);
    EXPECT_NE(text, PlanText(plan));
    PH_ASSERT_OK_AND_ASSIGN(const PartitionPlan again, PlanOfText(text));
    EXPECT_EQ(PlanText(again), text);
    ExpectMembersChecked(
        text, [](const std::string& of) { return PlanOfText(of).status(); }, optional);
    // What is beyond its bound is no such plan either.
    auto json = nlohmann::ordered_json::parse(text);
    const auto kept = json;
    for (const auto& [key, value] : kept.items()) {
      if (!value.is_number() || key == "seed") continue;
      json[key] = PartitionOptions::kMaxParts + 1;
      EXPECT_EQ(PlanOfText(json.dump()).status().code(), absl::StatusCode::kInvalidArgument) << key;
      json[key] = value;
    }
  }
  plan.metis_weights = plan.original_ids = true;
  PH_ASSERT_OK_AND_ASSIGN(const PartitionPlan again, PlanOfText(PlanText(plan)));
  EXPECT_EQ(again.classes[0].columns, plan.classes[0].columns);
  EXPECT_TRUE(again.metis_weights && again.original_ids && !again.without_files);
  plan.name = "has 1";
  EXPECT_THAT(CheckPartitionPlan(plan),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'has 1'")));
}

TEST(PartitionReportTest, TextIsTheReport) {
  PartitionReport report;
  report.assignment.method = PartMethod::kStreaming;
  report.assignment.reason = "so";
  report.assignment.notes = {"a note"};
  report.assignment.num_parts = 1;
  report.assignment.cut_edges = 2;
  report.assignment.volume = 3;
  report.assignment.nodes_of_part = {4};
  report.assignment.edges_of_part = {5};
  report.assignment.balance = {{"nodes", 6, 7, 1.5, 1.25, true, "dropped"}};
  report.num_nodes = 8;
  report.num_edges = 9;
  report.parts = {{10, 11, 12, 13, 14, 15}};
  const std::string text = ReportText(report);
  PH_ASSERT_OK_AND_ASSIGN(const PartitionReport again, ReportOfText(text));
  EXPECT_EQ(ReportText(again), text);
  for (const int value : {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}) {
    EXPECT_THAT(text, testing::ContainsRegex(absl::StrCat("[^0-9]", value, "[^0-9]")));
  }
  ExpectMembersChecked(text, [](const std::string& of) { return ReportOfText(of).status(); });
}

// No other text is taken for a state: neither a part of one, nor one of which a byte has changed.
TEST(PartitionStateTest, TextIsTheState) {
  for (const auto& end : std::vector<std::optional<absl::Status>>{
           std::nullopt, absl::OkStatus(), absl::ResourceExhaustedError("two\nlines")}) {
    const std::string text = StateText({PlanFor(3), "an owner\n", end});
    PH_ASSERT_OK_AND_ASSIGN(const PartitionState again, StateOfText(text));
    EXPECT_EQ(again.owner, "an owner\n");
    EXPECT_EQ(again.end, end);
    EXPECT_EQ(PlanText(again.plan), PlanText(PlanFor(3)));
    for (size_t at = 0; at < text.size(); ++at) {
      std::string changed = text;
      changed[at] ^= 1;
      for (const std::string& other : {text.substr(0, at), changed}) {
        EXPECT_EQ(StateOfText(other).status().code(), absl::StatusCode::kDataLoss) << at;
      }
    }
  }
}

// Wherever it is cancelled, nothing has the folder's name; going on gives the bytes of a run that
// was never stopped.
class StoppedRunTest : public testing::TestWithParam<uint32_t> {};

TEST_P(StoppedRunTest, GoesOnWhereItWasStopped) {
  const auto graph = FeaturedGraph(1);
  PartitionPlan plan = PlanFor(5);
  plan.options.trainers_per_machine = GetParam();
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  const std::string whole = folder.path() + "/whole";
  PH_ASSERT_OK_AND_ASSIGN(const PartitionReport want,
                          RunPartition(*graph, plan, whole, nullptr, {}));
  const auto files = FilesIn(whole);
  EXPECT_EQ(files.count("/mini.json"), 1U);
  EXPECT_EQ(files.count("/part4/edge_feat.dgl"), 1U);
  EXPECT_EQ(files.count("/part0/node_feat/b/x.npy"), 1U);
  EXPECT_EQ(files.count("/mapping/edges/b:r:a.npy"), 1U);
  EXPECT_EQ(files.count("/plan.json"), 0U);
  int stopped = 0;
  for (int stop = 0; stop < 1000; ++stop) {
    const std::string output = folder.path() + "/output";
    int looks = 0;
    RunWatch watch;
    watch.cancelled = [&looks, stop] { return looks++ == stop; };
    const auto result = RunPartition(*graph, plan, output, nullptr, watch);
    if (result.ok()) {
      EXPECT_EQ(FilesIn(output), files);
      break;
    }
    ++stopped;
    EXPECT_THAT(result, StatusIs(absl::StatusCode::kCancelled, HasSubstr("cancelled")));
    EXPECT_FALSE(PathExists(output));
    PH_ASSERT_OK_AND_ASSIGN(const PartitionReport again,
                            RunPartition(*graph, plan, output, nullptr, {}));
    EXPECT_EQ(again.parts, want.parts);
    EXPECT_EQ(ReportText(again), ReportText(want));
    EXPECT_EQ(FilesIn(output), files) << "stopped at look " << stop;
    ASSERT_THAT(RemoveFolder(output), IsOk());
  }
  EXPECT_GT(stopped, 5);
}

INSTANTIATE_TEST_SUITE_P(TrainersOfAMachine, StoppedRunTest, testing::Values(1, 2));

// Bytes of all files, and what is told meanwhile. A partition that is lost is made again by the
// same arguments: who changes its bytes changes this number.
TEST(PartitionRunTest, TheSameArgumentsGiveTheseFiles) {
  Fingerprint fingerprint;
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const auto graph = FeaturedGraph(seed);
    PartitionPlan plan = PlanFor(static_cast<uint32_t>(1 + seed % 5));
    plan.forms = {seed % 4 != 3, seed % 3 == 0, seed % 2 == 1};
    plan.options.method = seed % 2 == 0 ? PartMethod::kRandom : PartMethod::kStreaming;
    plan.options.trainers_per_machine = static_cast<uint32_t>(1 + seed % 3);
    plan.options.halo = seed % 4 == 1 ? HaloKind::kInEdges : HaloKind::kPartitionGraph;
    plan.options.num_hops = seed % 4 == 1 ? 1 : static_cast<uint32_t>(1 + seed % 2);
    plan.options.balance_edges = seed % 3 == 1;
    plan.npy = seed % 2 == 0;
    plan.safetensors = seed % 4 < 2;
    plan.mapping = seed != 5;
    plan.assignment = seed != 6;
    plan.original_ids = seed < 5;
    if (seed % 3 == 2) plan.classes = {{"b", {"m"}}};
    RunWatch watch;
    watch.progress = [&fingerprint](RunPhase phase, double share) {
      fingerprint.Add(static_cast<uint64_t>(phase));
      fingerprint.AddDouble(share);
    };
    watch.wrote = [&fingerprint](uint64_t bytes) {
      fingerprint.Add(bytes);
      return absl::OkStatus();
    };
    watch.kept = [&fingerprint] { fingerprint.Add(1); };
    const std::string output = absl::StrCat(folder.path(), "/", seed);
    ASSERT_THAT(RunPartition(*graph, plan, output, nullptr, watch), IsOk());
    for (const auto& [path, bytes] : FilesIn(output)) {
      fingerprint.AddAll(path);
      fingerprint.AddAll(bytes);
    }
  }
  EXPECT_EQ(fingerprint.value(), 16372272947684863073U);
}

TEST(PartitionPlanTest, WhatIsBeyondItsBoundsIsNamed) {
  const auto refusal = [](const std::function<void(PartitionPlan&)>& change) {
    PartitionPlan plan = PlanFor(2);
    change(plan);
    const absl::Status status = CheckPartitionPlan(plan);
    EXPECT_EQ(status.ok() ? absl::StatusCode::kInvalidArgument : status.code(),
              absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  const std::string most(128, 'n');
  const auto name = [](const std::string& given) {
    return "the name '" + given + "' must be 1 to 128 letters and underscores";
  };
  EXPECT_EQ(refusal([&](auto& p) { p.name = most; }), "");
  EXPECT_EQ(refusal([&](auto& p) { p.name = "a_Z"; }), "");
  EXPECT_EQ(refusal([&](auto& p) { p.name = most + "n"; }), name(most + "... (129 bytes)"));
  EXPECT_EQ(refusal([](auto& p) { p.name = ""; }), name(""));
  EXPECT_EQ(refusal([](auto& p) { p.name = "a1"; }), name("a1"));
  EXPECT_EQ(refusal([](auto& p) { p.options.num_parts = 65536; }), "");
  EXPECT_EQ(refusal([](auto& p) { p.options.num_parts = 65537; }),
            "num_parts is 65537, must be 1 to 65536");
  EXPECT_EQ(refusal([](auto& p) { p.options.num_parts = 0; }),
            "num_parts is 0, must be 1 to 65536");
  EXPECT_EQ(refusal([](auto& p) { p.options.imbalance = 1e6; }), "");
  EXPECT_EQ(refusal([](auto& p) { p.options.imbalance = 1; }), "");
  EXPECT_EQ(refusal([](auto& p) { p.options.imbalance = 1.5e6; }),
            "imbalance is 1.5e+06, must be 1 to 1e+06");
  EXPECT_EQ(refusal([](auto& p) { p.options.imbalance = 0.5; }),
            "imbalance is 0.5, must be 1 to 1e+06");
  EXPECT_EQ(refusal([](auto& p) { p.options.imbalance = std::nan(""); }),
            "imbalance is nan, must be 1 to 1e+06");
  EXPECT_EQ(refusal([](auto& p) {
              p.forms = {false, false, false};
            }),
            "graph_forms must have one of coo, csr and csc");
  EXPECT_EQ(refusal([](auto& p) { p.forms = {false, false, true}; }), "");
  EXPECT_EQ(refusal([](auto& p) { p.without_files = true; }), "mapping: not without files");
  EXPECT_EQ(refusal([](auto& p) {
              p.without_files = p.original_ids = true;
              p.mapping = false;
            }),
            "original_ids: not without files");
  std::string text = PlanText(PlanFor(2));
  EXPECT_EQ(absl::StrReplaceAll({{"\"1030000000\"", "\"x\""}}, &text), 1);
  EXPECT_EQ(PlanOfText(text).status(), absl::InvalidArgumentError("imbalance is no number"));
}

TEST(PartitionPlanTest, ColumnsAreLookedForInTheGraph) {
  const auto graph = FeaturedGraph(1);
  PartitionPlan plan = PlanFor(2);
  plan.classes = {{"b", {"m"}}};
  PH_ASSERT_OK_AND_ASSIGN(const PartitionOptions one, OptionsFor(*graph, plan));
  EXPECT_EQ(one.classes[0].num_classes, 1U);
  plan.classes = {{"b", {"m", "m"}}};
  PH_ASSERT_OK_AND_ASSIGN(const PartitionOptions two, OptionsFor(*graph, plan));
  ASSERT_EQ(two.classes.size(), 1U);
  EXPECT_EQ(two.classes[0].num_classes, 4U);
  EXPECT_EQ(two.classes[0].names.back(), "\"m\" and \"m\"");
  EXPECT_THAT(CheckPlanOf(*graph, plan), IsOk());
  const auto refused = [&](std::vector<PlannedClasses> classes, const absl::Status& by_options,
                           const std::string& by_check) {
    plan.classes = std::move(classes);
    EXPECT_EQ(OptionsFor(*graph, plan).status(), by_options);
    EXPECT_EQ(CheckPlanOf(*graph, plan), absl::InvalidArgumentError(by_check));
  };
  refused({{"c", {"m"}}}, absl::NotFoundError("balance_node_sets: there is no node set 'c'"),
          "balance_node_sets[0].node_set: the graph has no node set 'c'");
  const absl::Status no_column = absl::NotFoundError("node set \"b\" has no column \"n\"");
  refused({{"b", {"m"}}, {"b", {"m", "n"}}}, no_column,
          "balance_node_sets[1].columns: node set 'b' has no column 'n'");
  refused({{"b", {"n"}}}, no_column,
          "balance_node_sets[0].columns: node set 'b' has no column 'n'");
  plan.classes = {{"b", {}}};
  EXPECT_EQ(
      CheckPlanOf(*graph, plan),
      absl::InvalidArgumentError("balance_node_sets[0].columns: has none, must have at least 1"));
  plan.classes = {{"b", {"m"}}, {"b", {"m"}}};
  EXPECT_THAT(CheckPlanOf(*graph, plan), IsOk());
}

TEST(PartitionNeedsTest, AreThoseOfTheMethodAndItsBound) {
  const auto graph = OneSetGraph(60, RingOfCliques(12, 5));
  PartitionPlan plan = PlanFor(4);
  constexpr uint64_t kNodes = 32 * 60;
  constexpr uint64_t kWhole = 60 * 264 + kNodes;
  constexpr uint64_t kLeast = kWhole / 4 + kNodes;
  const auto needs = [&](PartMethod method, uint64_t most) {
    plan.options.method = method;
    const auto found = NeedsOf(*graph, plan, most);
    return found.ok() ? std::pair(found->bytes, found->assignment_bytes)
                      : std::pair(uint64_t{0}, uint64_t{0});
  };
  using Needs = std::pair<uint64_t, uint64_t>;
  for (const PartMethod method : {PartMethod::kMetis, PartMethod::kAutomatic}) {
    EXPECT_EQ(needs(method, 0), Needs(kWhole, 0));
    EXPECT_EQ(needs(method, 2 * kWhole), Needs(kWhole, 0));
  }
  for (const PartMethod method : {PartMethod::kRandom, PartMethod::kStreaming}) {
    EXPECT_EQ(needs(method, 0), Needs(kLeast, 0));
    EXPECT_EQ(needs(method, kLeast), Needs(kLeast, 0));
    EXPECT_EQ(needs(method, kLeast - 1), Needs(0, 0));
  }
  EXPECT_EQ(needs(PartMethod::kAutomatic, 2 * kWhole - 2), Needs(kWhole - 1, kWhole - 1));
  EXPECT_EQ(needs(PartMethod::kAutomatic, kLeast), Needs(kLeast, kLeast));
  EXPECT_EQ(needs(PartMethod::kMetis, kWhole), Needs(kWhole, 0));
  const auto refusal = [&](uint64_t bytes, const char* more) {
    return absl::ResourceExhaustedError(absl::StrCat("partition 'mini' needs ", bytes,
                                                     " bytes for 264 ends of edges, the bound of "
                                                     "working memory is 100",
                                                     more));
  };
  const char* const less = " (the streaming method needs less)";
  plan.options.method = PartMethod::kMetis;
  EXPECT_EQ(NeedsOf(*graph, plan, 100).status(), refusal(kWhole, less));
  plan.options.method = PartMethod::kAutomatic;
  EXPECT_EQ(NeedsOf(*graph, plan, 100).status(), refusal(kLeast, less));
  plan.options.method = PartMethod::kStreaming;
  EXPECT_EQ(NeedsOf(*graph, plan, 100).status(), refusal(kLeast, ""));
  // One part has everything while it is written.
  plan.options.num_parts = 1;
  EXPECT_EQ(needs(PartMethod::kMetis, 0), Needs(kWhole + kNodes, 0));
}

// A text with its checksum that nobody wrote is no such text.
TEST(PartitionStateTest, LinesThatAreNoneAreRefused) {
  const absl::Status damaged =
      absl::DataLossError("is damaged, or was written by a later release of packhoused");
  const std::string plan = absl::StrCat("plan ", PlanText(PlanFor(2)), "\n");
  const auto state = [](const std::string& lines) {
    return StateOfText(WithChecksumLine("packhouse partition 1", lines)).status();
  };
  EXPECT_THAT(state(plan + "owner me\n"), IsOk());
  EXPECT_THAT(state(plan + "owner me\nended 5 so\n"), IsOk());
  for (const std::string& lines :
       {std::string("plan {}\nowner me\n"), plan + "owner \\q\n", plan + "owner me\nended 5\n",
        plan + "owner me\nended x so\n", plan + "owner me\nended 5 \\q\n",
        plan + "owner me\nother\n", std::string()}) {
    EXPECT_EQ(state(lines), damaged) << lines;
  }
  for (const char* const lines : {"a1\n", "b\na\n", "a\na\n"}) {
    EXPECT_EQ(DecodePartitionList(WithChecksumLine("packhouse partitions 1", lines)).status(),
              damaged)
        << lines;
  }
  for (const char* const lines :
       {"1 00000002\n", "x 00000002 f\n", "1 0000000x f\n", "1 00000002 \\q\n", "1 2 f\n"}) {
    EXPECT_EQ(
        DecodePartitionContents(WithChecksumLine("packhouse partition files 1", lines)).status(),
        damaged)
        << lines;
  }
  PH_ASSERT_OK_AND_ASSIGN(
      const PartitionContents contents,
      DecodePartitionContents(WithChecksumLine("packhouse partition files 1", "1 00000002 f\n")));
  EXPECT_EQ(contents.at("f").num_bytes, 1U);
  EXPECT_EQ(contents.at("f").crc32c, 2U);
}

TEST(PartitionContentsTest, AreThoseOfAllFilesButTheirOwn) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  ASSERT_THAT(MakeFolder(folder.path() + "/below"), IsOk());
  for (const char* const file : {"b", "below/a", "contents"}) {
    std::ofstream(folder.path() + "/" + file) << "123456789";
  }
  PH_ASSERT_OK_AND_ASSIGN(const PartitionContents contents,
                          ReadPartitionContents(folder.path(), [] { return true; }));
  ASSERT_EQ(contents.size(), 2U);
  for (const char* const file : {"b", "below/a"}) {
    EXPECT_EQ(contents.at(file).num_bytes, 9U);
    EXPECT_EQ(contents.at(file).crc32c, 0xE3069283U);
  }
  EXPECT_EQ(ReadPartitionContents(folder.path(), [] { return false; }).status(),
            absl::CancelledError("the partition was cancelled"));
  const std::string none = folder.path() + "/none";
  EXPECT_EQ(ReadPartitionContents(none, [] { return true; }).status(),
            absl::UnavailableError(none + ": No such file or directory"));
}

// What was kept is taken while it is whole; otherwise it is made again, and the partition is the
// same.
TEST(PartitionRunTest, OnlyAWholeAssignmentIsTaken) {
  const auto graph = FeaturedGraph(1);
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  const PartitionPlan plan = PlanFor(3);
  const std::string output = folder.path() + "/p";
  ASSERT_THAT(RunPartition(*graph, plan, output, nullptr, {}), IsOk());
  const auto whole = FilesIn(output);
  const std::string partial = PartialFolder(output);
  const std::string numbers = partial + "/assigned.npy";
  const auto rewrite = [&numbers](DType dtype, uint64_t count, uint32_t first) {
    std::vector<uint32_t> parts(count);
    parts[0] = first;
    WriteNumbers(numbers, dtype, {count}, parts);
  };
  const std::vector<std::function<void()>> damages = {
      [] {},
      [&] { WriteText(numbers, BytesOf(numbers).substr(0, 100)); },
      [&] { EXPECT_THAT(RemoveFolder(numbers), IsOk()); },
      [&] { rewrite(DType::kUint32, 65, 3); },
      [&] { rewrite(DType::kUint32, 64, 0); },
      [&] { rewrite(DType::kInt32, 65, 0); },
      [&] { WriteText(partial + "/assigned.json", "{"); },
      [&] { EXPECT_THAT(RemoveFolder(partial + "/assigned.json"), IsOk()); },
  };
  for (size_t damage = 0; damage < damages.size(); ++damage) {
    SCOPED_TRACE(damage);
    ASSERT_THAT(RemoveFolder(output), IsOk());
    RunWatch watch;
    bool is_kept = false;
    watch.kept = [&is_kept] { is_kept = true; };
    watch.cancelled = [&is_kept] { return is_kept; };
    EXPECT_EQ(RunPartition(*graph, plan, output, nullptr, watch).status().code(),
              absl::StatusCode::kCancelled);
    damages[damage]();
    int num_kept = 0;
    watch.kept = [&num_kept] { ++num_kept; };
    watch.cancelled = nullptr;
    ASSERT_THAT(RunPartition(*graph, plan, output, nullptr, watch), IsOk());
    // Three parts, and the assignment where it is made again.
    EXPECT_EQ(num_kept, damage == 0 ? 3 : 4);
    EXPECT_EQ(FilesIn(output), whole);
  }
}

// What is lost or refused before it is published is told, and nothing is published.
TEST(PartitionRunTest, WhatIsLostMeanwhileIsNamed) {
  const auto graph = FeaturedGraph(1);
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  PartitionPlan plan = PlanFor(2);
  const std::string output = folder.path() + "/p";
  const std::string first = PartialFolder(output) + "/part0/graph.dgl";
  const auto ended = [&](const std::function<void()>& after_parts) {
    RunWatch watch;
    int num_kept = 0;
    watch.kept = [&] {
      if (++num_kept == 3) after_parts();
    };
    const absl::Status status = RunPartition(*graph, plan, output, nullptr, watch).status();
    EXPECT_FALSE(PathExists(output));
    EXPECT_THAT(RemoveFolder(PartialFolder(output)), IsOk());
    return status;
  };
  const auto gone = [&] { EXPECT_THAT(RemoveFolder(first), IsOk()); };
  const absl::Status not_there = absl::NotFoundError(first + ": No such file or directory");
  EXPECT_EQ(ended(gone), not_there);
  EXPECT_EQ(ended([&] { WriteText(first, "x"); }),
            absl::InvalidArgumentError("at byte 0: the file ends within 8 bytes: it has 1 more"));
  EXPECT_EQ(ended([&] { WriteText(first, GraphOfNodes(0, std::nullopt)); }),
            absl::DataLossError(PartialFolder(output) + "/part0 is damaged"));
  // Of a part that was there before, too.
  plan.mapping = false;
  RunWatch watch;
  bool is_kept = false;
  watch.progress = [&is_kept](RunPhase phase, double) { is_kept |= phase == RunPhase::kWriting; };
  watch.cancelled = [&is_kept] { return is_kept; };
  for (const bool is_torn : {false, true}) {
    EXPECT_EQ(RunPartition(*graph, plan, output, nullptr, watch).status().code(),
              absl::StatusCode::kCancelled);
    gone();
    if (is_torn) WriteText(first, "x");
    EXPECT_EQ(RunPartition(*graph, plan, output, nullptr, {}).status(),
              is_torn ? absl::InvalidArgumentError(
                            "at byte 0: the file ends within 8 bytes: it has 1 more")
                      : not_there);
    EXPECT_THAT(RemoveFolder(PartialFolder(output)), IsOk());
    is_kept = false;
  }
  RunWatch refusing;
  std::string seen;
  refusing.whole = [&seen](const std::string& path) {
    seen = path;
    return absl::AbortedError("not this one");
  };
  EXPECT_EQ(RunPartition(*graph, plan, output, nullptr, refusing).status(),
            absl::AbortedError("not this one"));
  EXPECT_EQ(seen, PartialFolder(output));
  EXPECT_FALSE(PathExists(output));
  plan.name = "";
  EXPECT_EQ(RunPartition(*graph, plan, output, nullptr, {}).status(), CheckPartitionPlan(plan));
}

// A partition that a server has made has no original ids of its own.
TEST(PartitionRunTest, OriginalIdsThatAreAddedAreThoseOfTheRun) {
  const auto graph = FeaturedGraph(1);
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  PartitionPlan plan = PlanFor(5);
  const std::string without = folder.path() + "/without";
  ASSERT_THAT(RunPartition(*graph, plan, without, nullptr, {}).status(), IsOk());
  plan.original_ids = true;
  const std::string with = folder.path() + "/with";
  ASSERT_THAT(RunPartition(*graph, plan, with, nullptr, {}).status(), IsOk());
  ASSERT_THAT(AddOriginalIds(without, plan.name), IsOk());
  auto want = FilesIn(with);
  auto got = FilesIn(without);
  EXPECT_EQ(got.count("/part4/orig_eids.dgl"), 1U);
  // The report has the bytes of all files.
  want.erase("/report.json");
  got.erase("/report.json");
  EXPECT_EQ(got, want);
  EXPECT_THAT(AddOriginalIds(without, "other"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("other.json")));
}

TEST(PartitionRunTest, WorkOfOtherWordsOrAnotherGraphIsNotTaken) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  const std::string output = folder.path() + "/output";
  const auto graph = FeaturedGraph(1);
  const auto other = FeaturedGraph(2);
  const auto stop_late = [&](const SourceGraph& of, const PartitionPlan& plan) {
    RunWatch watch;
    double seen = 0;
    watch.progress = [&seen](RunPhase, double share) { seen = share; };
    watch.cancelled = [&seen] { return seen > 0.9; };
    EXPECT_THAT(RunPartition(of, plan, output, nullptr, watch),
                StatusIs(absl::StatusCode::kCancelled, HasSubstr("")));
    EXPECT_TRUE(PathExists(PartialFolder(output) + "/part0"));
  };
  const PartitionPlan plan = PlanFor(8);
  PartitionPlan other_plan = plan;
  other_plan.options.seed = 99;
  PH_ASSERT_OK_AND_ASSIGN(const auto want,
                          RunPartition(*graph, plan, folder.path() + "/want", nullptr, {}));
  for (const auto& [of, with] : {std::pair(other.get(), &plan), {graph.get(), &other_plan}}) {
    stop_late(*of, *with);
    EXPECT_THAT(RunPartition(*graph, plan, output, nullptr, {}), IsOk());
    EXPECT_EQ(FilesIn(output), FilesIn(folder.path() + "/want"));
    ASSERT_THAT(RemoveFolder(output), IsOk());
  }
  EXPECT_EQ(want.parts.size(), 8U);
  EXPECT_THAT(RunPartition(*graph, plan, folder.path() + "/want", nullptr, {}),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("want is there already")));
}

// Of parts that were written before, too, whatever form their files have.
TEST(PartitionRunTest, CutEdgesAreCountedInEachForm) {
  const auto graph = FeaturedGraph(3);
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  for (const int form : {0, 1, 2}) {
    PartitionPlan plan = PlanFor(8);
    plan.forms = {.coo = form == 0, .csr = form == 1, .csc = form == 2};
    const std::string output = absl::StrCat(folder.path(), "/", form);
    RunWatch watch;
    double seen = 0;
    watch.progress = [&seen](RunPhase, double share) { seen = share; };
    watch.cancelled = [&seen] { return seen > 0.9; };
    EXPECT_THAT(RunPartition(*graph, plan, output, nullptr, watch),
                StatusIs(absl::StatusCode::kCancelled, HasSubstr("")));
    EXPECT_TRUE(PathExists(PartialFolder(output) + "/part0"));
    PH_ASSERT_OK_AND_ASSIGN(const PartitionReport report,
                            RunPartition(*graph, plan, output, nullptr, {}));
    uint64_t cut = 0;
    for (const ReportedPart& part : report.parts) cut += part.num_cut_edges;
    EXPECT_EQ(cut, report.assignment.cut_edges) << form;
  }
}

TEST(PartitionRunTest, ReportsAndNames) {
  const auto graph = FeaturedGraph(3);
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  PartitionPlan plan = PlanFor(3);
  plan.options.trainers_per_machine = 2;
  const std::string output = folder.path() + "/output";
  std::vector<double> shares;
  RunWatch watch;
  watch.progress = [&shares](RunPhase, double share) { shares.push_back(share); };
  PH_ASSERT_OK_AND_ASSIGN(const PartitionReport report,
                          RunPartition(*graph, plan, output, nullptr, watch));
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_EQ(shares.back(), 1);
  uint64_t nodes = 0, edges = 0, cut = 0;
  for (const ReportedPart& part : report.parts) {
    nodes += part.num_inner_nodes;
    edges += part.num_inner_edges;
    cut += part.num_cut_edges;
  }
  EXPECT_EQ(nodes, 65U);
  EXPECT_EQ(edges, 450U);
  EXPECT_EQ(cut, report.assignment.cut_edges);
  // Text has no array; bfloat16 becomes float32.
  EXPECT_THAT(report.assignment.notes, testing::Contains(HasSubstr("column 't' of 'a'")));
  PH_ASSERT_OK_AND_ASSIGN(const MappedFile file, MappedFile::Open(output + "/part1/node_feat.dgl"));
  PH_ASSERT_OK_AND_ASSIGN(const auto arrays, ReadDglTensorFile(file.bytes()));
  std::vector<std::string> names;
  for (const ArrayView& array : arrays) names.push_back(array.header.name);
  EXPECT_THAT(names, testing::ElementsAre("a/h", "a/trainer_id", "b/x", "b/m", "b/trainer_id"));
  EXPECT_EQ(arrays[0].header.dtype, DType::kFloat32);
  PH_ASSERT_OK_AND_ASSIGN(const auto again, ReportOfText(ReportText(report)));
  EXPECT_EQ(ReportText(again), ReportText(report));
}

// A graph of which one array is damaged. Those that were asked for are known by their names.
class DamagedGraph final : public SourceGraph {
 public:
  explicit DamagedGraph(const SourceGraph* graph) : graph_(graph), numbers_(1000) {
    std::iota(numbers_.begin(), numbers_.end(), 0);
  }

  std::string damaged;
  mutable std::set<std::string> asked;

  const SourceGraphSchema& schema() const override { return graph_->schema(); }
  uint64_t version() const override { return graph_->version(); }
  uint64_t num_nodes(size_t set) const override { return graph_->num_nodes(set); }
  uint64_t num_edges(size_t set) const override { return graph_->num_edges(set); }
  absl::StatusOr<Adjacency> BySource(size_t set) const override {
    if (IsDamaged("by source", set)) return checks_.Damaged("edges");
    return graph_->BySource(set);
  }
  absl::StatusOr<Adjacency> ByTarget(size_t set) const override {
    if (IsDamaged("by target", set)) return checks_.Damaged("edges");
    return graph_->ByTarget(set);
  }
  SourceColumn NodeColumn(size_t set, size_t column) const override {
    return Column(graph_->NodeColumn(set, column), num_nodes(set), "node column", set, column);
  }
  SourceColumn EdgeColumn(size_t set, size_t column) const override {
    return Column(graph_->EdgeColumn(set, column), num_edges(set), "edge column", set, column);
  }
  SourceColumn NodeIds(size_t set) const override { return graph_->NodeIds(set); }
  bool integer_ids(size_t set) const override { return graph_->integer_ids(set); }
  ImportedRows NodeRows(size_t set) const override {
    return ImportedRows(Column(Numbers(), num_nodes(set), "rows of nodes", set));
  }
  ImportedRows EdgeRows(size_t set) const override {
    return ImportedRows(Column(Numbers(), num_edges(set), "rows of edges", set));
  }

 private:
  bool IsDamaged(absl::string_view what, size_t set, size_t column = 0) const {
    const std::string name = absl::StrCat(what, " ", set, " ", column);
    asked.insert(name);
    return name == damaged;
  }
  SourceColumn Numbers() const {
    return {reinterpret_cast<const char*>(numbers_.data()), sizeof(uint32_t), {}};
  }
  SourceColumn Column(SourceColumn array, uint64_t rows, absl::string_view what, size_t set,
                      size_t column = 0) const {
    if (IsDamaged(what, set, column)) {
      array.checked_data = CheckedArray({array.data, rows * array.row_bytes}, &checks_);
    }
    return array;
  }

  const SourceGraph* const graph_;
  std::vector<uint32_t> numbers_;
  mutable GraphChecks damages_{"a graph"};
  const ArrayChecks checks_{"an array", {}, &damages_};
};

TEST(PartitionRunTest, WhateverIsDamagedOfTheGraphThereIsNoPartition) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  // Four nodes in a ring, with sizes, and weights of nodes and edges.
  std::ofstream(folder.path() + "/ring") << "4 4 111\n1 2 2 3 4 3\n1 2 1 3 3 3\n"
                                            "1 2 2 3 4 3\n1 2 1 3 3 3\n";
  PH_ASSERT_OK_AND_ASSIGN(const auto ring, ReadMetisFile(folder.path() + "/ring"));
  const auto featured = FeaturedGraph(4);
  PartitionPlan whole = PlanFor(2);
  whole.original_ids = true;
  whole.classes = {{"b", {"m"}}};
  PartitionPlan bare = PlanFor(2);
  bare.without_files = true;
  bare.mapping = bare.assignment = false;
  bare.metis_weights = true;
  const std::string output = folder.path() + "/p";
  for (const auto& [source, plan] :
       {std::pair{featured.get(), whole}, std::pair{ring.get(), bare}}) {
    DamagedGraph graph(source);
    ASSERT_THAT(RunPartition(graph, plan, output, nullptr, {}).status(), IsOk());
    ASSERT_THAT(RemoveFolder(output), IsOk());
    const std::set<std::string> all = graph.asked;
    EXPECT_GE(all.size(), 7U);
    for (const std::string& array : all) {
      graph.damaged = array;
      EXPECT_THAT(RunPartition(graph, plan, output, nullptr, {}),
                  StatusIs(absl::StatusCode::kDataLoss, HasSubstr("an array")))
          << array;
      EXPECT_FALSE(PathExists(output)) << array;
      ASSERT_THAT(RemoveFolder(PartialFolder(output)), IsOk());
    }
  }
}

// Each file of a folder says so if it is another than was written.
void ExpectFilesRead(const std::string& folder,
                     absl::FunctionRef<absl::Status(const std::string& folder)> read) {
  for (const auto& [path, bytes] : FilesIn(folder)) {
    for (const std::string& other : {std::string(), std::string("x\n"), std::string("x 0\n"),
                                     std::string("0 x\n"), bytes.substr(0, bytes.size() / 2)}) {
      std::ofstream(folder + path) << other;
      const absl::Status status = read(folder);
      EXPECT_TRUE(other == bytes || !status.ok()) << path << ": " << other;
    }
    std::ofstream(folder + path) << bytes;
  }
  EXPECT_THAT(read(folder), IsOk());
}

// What is written in chunks is read as the same graph, except bfloat16 and columns left out.
// Names of sets and columns are any text: nothing but the partition's folder is written, and what
// was written is found again. The tree around the folder is watched.
TEST(PartitionRunTest, NamesStayWithinTheFolder) {
  const std::vector<std::string> hostile = {"..",
                                            ".",
                                            "../../notes",
                                            "/film/film/genre",
                                            "a/b",
                                            "100%",
                                            "%2F",
                                            "a\nb",
                                            "-rf *",
                                            std::string(128, '/'),
                                            "Gr\xc3\xb6\xc3\x9f"
                                            "e"};
  const TemporaryFolder watched(TemporaryFolder::InMemory());
  std::vector<SourceNodeSetSpec> node_specs;
  std::vector<MemoryNodeSet> nodes;
  std::vector<SourceEdgeSetSpec> edge_specs;
  std::vector<MemoryEdgeSet> edges;
  Random random(3);
  for (size_t i = 0; i < hostile.size(); ++i) {
    node_specs.push_back({hostile[i], {{"..", DType::kUint8, {}, false, false}}});
    nodes.emplace_back().num_nodes = 10;
    nodes.back().columns = {{std::string(10, static_cast<char>(i)), {}}};
    const size_t target = (i + 1) % hostile.size();
    SourceEdgeSetSpec spec = {hostile[i], i, target, {}, std::nullopt};
    spec.columns = {{hostile[i] == "100%" ? "x/y" : "%", DType::kUint8, {}, false, false}};
    edge_specs.push_back(std::move(spec));
    MemoryEdgeSet& set = edges.emplace_back();
    for (uint64_t e = 0; e < 30; ++e) {
      set.sources.push_back(static_cast<uint32_t>(random.Below(10)));
      set.targets.push_back(static_cast<uint32_t>(random.Below(10)));
    }
    set.columns = {{std::string(30, static_cast<char>(i)), {}}};
  }
  const auto graph = *MakeMemorySourceGraph(*SourceGraphSchema::Create(node_specs, edge_specs), 1,
                                            std::move(nodes), std::move(edges));
  PartitionPlan plan = PlanFor(2);
  plan.original_ids = true;
  // As deep as the names climb.
  const std::string output = watched.path() + "/a/b/c/d/e/output";
  ASSERT_THAT(MakeFolder(watched.path() + "/a/b/c/d/e"), IsOk());
  ASSERT_THAT(RunPartition(*graph, plan, output, nullptr, {}).status(), IsOk());
  const auto files = FilesIn(watched.path());
  for (const auto& [path, bytes] : files) EXPECT_THAT(path, StartsWith("/a/b/c/d/e/output/"));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(watched.path())) {
    const std::string path = entry.path().string();
    EXPECT_TRUE(output.substr(0, path.size()) == path || path.substr(0, output.size()) == output)
        << path;
  }
  for (size_t i = 0; i < hostile.size(); ++i) {
    const std::string set = FileNameOf(hostile[i]);
    EXPECT_EQ(files.count("/a/b/c/d/e/output/mapping/nodes/" + set + ".npy"), 1U) << set;
    EXPECT_EQ(files.count("/a/b/c/d/e/output/assignment/" + set + ".txt"), 1U) << set;
    EXPECT_EQ(files.count("/a/b/c/d/e/output/part1/node_feat/" + set + "/%2E..npy"), 1U) << set;
  }
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph homogeneous,
                          HomogeneousGraph::Create(graph.get()));
  PH_ASSERT_OK_AND_ASSIGN(const FolderAssignment again,
                          ReadAssignmentFolder(output + "/assignment", homogeneous));
  EXPECT_EQ(again.num_parts, 2U);
  ExpectFilesRead(output + "/assignment", [&](const std::string& folder) {
    return ReadAssignmentFolder(folder, homogeneous).status();
  });
  // Names of files that flags give.
  for (const std::string name : {"../x", "..", "", "a/b", "/x"}) {
    EXPECT_THAT(WriteParmetisFolder(homogeneous, watched.path() + "/parmetis", name),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the graph's name")));
    ParmetisConversion conversion;
    conversion.graph_name = name;
    conversion.input_folder = output;
    conversion.output = watched.path() + "/converted";
    EXPECT_THAT(ConvertParmetisFolder(conversion),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the graph's name")));
    ParmetisPartition partition;
    partition.graph_name = name;
    partition.input_folder = output;
    partition.output = watched.path() + "/parts";
    EXPECT_THAT(PartitionParmetisFolder(partition, nullptr),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the graph's name")));
  }
  EXPECT_EQ(FilesIn(watched.path()), files);
}

TEST(ChunkedFolderTest, IsReadAsTheSameGraph) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const TemporaryFolder folder(TemporaryFolder::InMemory());
    const std::string path = folder.path() + "/chunked";
    const auto source = seed % 2 == 0 ? FeaturedGraph(seed) : RandomSourceGraph(seed);
    PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
    ChunkedFolderOptions options;
    options.num_chunks = 1 + seed % 5;
    PH_ASSERT_OK_AND_ASSIGN(const std::vector<std::string> notes,
                            WriteChunkedFolder(graph, options, path));
    EXPECT_EQ(notes.size(), seed % 2 == 0 ? 1 : 0);
    PH_ASSERT_OK_AND_ASSIGN(const auto read_source, ReadChunkedFolder(path));
    PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph read,
                            HomogeneousGraph::Create(read_source.get()));
    ASSERT_EQ(read.node_types().size(), graph.node_types().size());
    for (size_t t = 0; t < graph.node_types().size(); ++t) {
      EXPECT_EQ(read.node_types()[t].name, graph.node_types()[t].name);
      EXPECT_EQ(read.node_types()[t].size, graph.node_types()[t].size);
    }
    ASSERT_EQ(read.edge_types().size(), graph.edge_types().size());
    for (size_t t = 0; t < graph.edge_types().size(); ++t) {
      const HomogeneousEdgeType& a = graph.edge_types()[t];
      const HomogeneousEdgeType& b = read.edge_types()[t];
      EXPECT_EQ(b.name, a.name);
      ASSERT_EQ(b.size, a.size);
      EXPECT_EQ(b.by_target.offsets, a.by_target.offsets);
      EXPECT_EQ(b.by_target.neighbours, a.by_target.neighbours);
      for (uint64_t at = 0; at < a.size; ++at) {
        EXPECT_EQ(b.by_target.edge(at), a.by_target.edge(at));
      }
    }
    EXPECT_THAT(WriteChunkedFolder(graph, options, path).status(),
                StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr(path)));
    if (seed < 2) {
      ExpectFilesRead(path, [](const std::string& of) { return ReadChunkedFolder(of).status(); });
    }
    if (seed % 2 == 1) continue;
    const auto rows = [](const SourceColumn& column, uint64_t count) {
      return std::string(column.data, count * column.row_bytes);
    };
    const size_t b = *read_source->schema().NodeSetIndex("b");
    // Features are read in the order of their names: m, x.
    EXPECT_EQ(rows(read_source->NodeColumn(b, 1), 25), rows(source->NodeColumn(0, 0), 25));
    EXPECT_EQ(rows(read_source->NodeColumn(b, 0), 25), rows(source->NodeColumn(0, 1), 25));
    const auto edges = read_source->schema().EdgeSetIndex("b:r:a");
    ASSERT_TRUE(edges.has_value());
    EXPECT_EQ(rows(read_source->EdgeColumn(*edges, 0), 150), rows(source->EdgeColumn(0, 0), 150));
  }
}

}  // namespace
}  // namespace packhouse
