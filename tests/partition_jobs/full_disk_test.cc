// What has no room on the disk for all of it says so and leaves nothing that is taken for whole,
// wherever the disk is full. Arrays and texts are longer than what is held back before it is
// written.
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/source_graphs/memory_source_graph.h"
#include "service/wings/partition/cutting/homogeneous_graph.h"
#include "service/wings/partition/files/npy_file.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/graph_exports.h"
#include "service/wings/partition/jobs/original_order.h"
#include "service/wings/partition/jobs/parmetis_pipeline.h"
#include "service/wings/partition/jobs/partition_run.h"
#include "tests/support/files_below.h"
#include "tests/support/small_disk.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

constexpr uint32_t kManyNodes = 140000;
constexpr uint64_t kMiB = uint64_t{1} << 20;

// A ring; nodes and edges have a column of eight bytes.
std::unique_ptr<const SourceGraph> LargeGraph() {
  const SourceColumnSpec column = {"x", DType::kInt64, {}, false, false};
  std::string numbers(kManyNodes * sizeof(int64_t), '\0');
  MemoryEdgeSet edges;
  for (uint32_t n = 0; n < kManyNodes; ++n) {
    const int64_t number = n;
    std::memcpy(numbers.data() + n * sizeof(number), &number, sizeof(number));
    edges.sources.push_back(n);
    edges.targets.push_back((n + 1) % kManyNodes);
  }
  edges.columns = {{numbers, {}}};
  std::vector<MemoryNodeSet> nodes(1);
  nodes[0].num_nodes = kManyNodes;
  nodes[0].columns = {{numbers, {}}};
  return *MakeMemorySourceGraph(
      *SourceGraphSchema::Create({{"_N", {column}}}, {{"_E", 0, 0, {column}, std::nullopt}}), 1,
      std::move(nodes), {std::move(edges)});
}

PartitionPlan PlanOfAll() {
  PartitionPlan plan;
  plan.name = "g";
  plan.options.num_parts = 1;
  plan.options.method = PartMethod::kRandom;
  plan.npy = true;
  plan.safetensors = true;
  plan.mapping = true;
  plan.assignment = true;
  return plan;
}

// Calls it on disks with more and more room, until all has some. What has its name by then is as it
// is in the end: a file, or `unit`, a folder that appears as a whole.
void ExpectAllOrNone(const std::function<absl::Status(const std::string& folder)>& call,
                     uint64_t step, const std::string& unit = "") {
  const TemporaryFolder roomy(TemporaryFolder::InMemory());
  ASSERT_THAT(call(roomy.path()), IsOk());
  const std::map<std::string, std::string> whole = FilesBelow(roomy.path());
  for (uint64_t bytes = step;; bytes += step) {
    const SmallDisk disk(bytes);
    if (!disk.is_mounted()) GTEST_SKIP() << "cannot mount: " << disk.error();
    const absl::Status status = call(disk.path());
    if (status.ok()) {
      EXPECT_EQ(FilesBelow(disk.path()), whole);
      EXPECT_GT(bytes, 2 * step) << "it was never full";
      return;
    }
    ASSERT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status << " at " << bytes;
    for (const auto& [path, content] : FilesBelow(disk.path())) {
      if (absl::StrContains(path, ".partial")) continue;
      ASSERT_EQ(unit, "") << path << " is there at " << bytes;
      const auto found = whole.find(path);
      ASSERT_TRUE(found != whole.end()) << path;
      ASSERT_TRUE(found->second == content) << path << " is cut at " << bytes;
    }
  }
}

TEST(FullDiskTest, APartition) {
  const auto graph = LargeGraph();
  ExpectAllOrNone(
      [&graph](const std::string& folder) {
        return RunPartition(*graph, PlanOfAll(), folder + "/p", nullptr, {}).status();
      },
      2 * kMiB, "p");
}

TEST(FullDiskTest, WhatIsExported) {
  const auto source = LargeGraph();
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  ExpectAllOrNone(
      [&graph](const std::string& folder) {
        return WriteParmetisFolder(graph, folder + "/in", "g");
      },
      kMiB);
  ExpectAllOrNone(
      [&graph](const std::string& folder) {
        return WriteDurably(folder + "/metis",
                            [&graph](ByteSink& sink) { return WriteMetisGraphOf(graph, sink); })
            .status();
      },
      kMiB / 2);
  ExpectAllOrNone(
      [&graph](const std::string& folder) {
        return WriteChunkedFolder(graph, {}, folder + "/chunked").status();
      },
      kMiB, "chunked");
}

TEST(FullDiskTest, ThePartsOfAParmetisFolder) {
  const auto source = LargeGraph();
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  const TemporaryFolder input(TemporaryFolder::InMemory());
  ParmetisPartition partition;
  partition.input_folder = input.path() + "/in";
  partition.graph_name = "g";
  partition.options.num_parts = 1;
  ASSERT_THAT(WriteParmetisFolder(graph, partition.input_folder, "g"), IsOk());
  ExpectAllOrNone(
      [&partition](const std::string& folder) {
        partition.output = folder + "/parts";
        return PartitionParmetisFolder(partition, nullptr).status();
      },
      kMiB, "parts");
}

TEST(FullDiskTest, RowsInTheirOriginalOrder) {
  const auto graph = LargeGraph();
  const TemporaryFolder input(TemporaryFolder::InMemory());
  PartitionPlan plan;
  plan.name = "g";
  plan.options.num_parts = 1;
  plan.options.method = PartMethod::kRandom;
  ASSERT_THAT(RunPartition(*graph, plan, input.path() + "/p", nullptr, {}), IsOk());
  const std::vector<int64_t> rows(2 * kManyNodes, 7);
  ArraySource array = Int64Array("", absl::MakeConstSpan(rows));
  array.header.shape = {kManyNodes, 2};
  RestoreRequest request;
  request.json = input.path() + "/p/g.json";
  request.inputs = {input.path() + "/rows.npy"};
  ASSERT_THAT(WriteDurably(request.inputs[0],
                           [&array](ByteSink& sink) { return WriteNpyFile(array, sink); }),
              IsOk());
  ExpectAllOrNone(
      [&request](const std::string& folder) {
        request.output = folder + "/rows.npy";
        return RestoreRows(request).status();
      },
      kMiB / 2);
}

}  // namespace
}  // namespace packhouse
