// kill -9 at any moment: everything that was answered is there, once, and nothing in part.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "service/wings/graphs/stored/file_source_graph_store.h"
#include "tests/datasets/killed_process.h"
#include "tests/source_graphs/stored/killed_rows.h"

namespace packhouse {
namespace {

TEST(SourceGraphCrashTest, WhatWasAnsweredIsThereAfterAKill) {
  const std::string folder = testing::TempDir() + "/source_graph_crash";
  std::filesystem::remove_all(folder);
  std::map<uint64_t, uint64_t> appended;  // The largest sequence of each graph.
  std::map<uint64_t, bool> sealed;
  uint64_t num_lines = 0;
  for (int kill = 0; kill < 12; ++kill) {
    SCOPED_TRACE(testing::Message() << "kill " << kill);
    std::vector<std::string> lines;
    RunAndKill(PACKHOUSE_APPEND_ROWS_UNTIL_KILLED, folder, 1 + kill * 5 % 17, lines);
    num_lines += lines.size();
    for (const std::string& line : lines) {
      unsigned long long graph = 0;
      unsigned long long sequence = 0;
      if (std::sscanf(line.c_str(), "appended %llu %llu", &graph, &sequence) == 2) {
        appended[graph] = std::max<uint64_t>(appended[graph], sequence);
      } else if (std::sscanf(line.c_str(), "sealed %llu", &graph) == 1) {
        sealed[graph] = true;
      }
    }
    FileSourceGraphStore::Options options;
    options.folder = folder;
    options.min_free_bytes = 0;
    const auto store = FileSourceGraphStore::Open(options);
    ASSERT_TRUE(store.ok()) << store.status();
    for (const auto& [graph, sequence] : appended) {
      const std::string name = absl::StrCat("graph", graph);
      const auto info = (*store)->Get(name);
      ASSERT_TRUE(info.ok()) << info.status();
      if (sealed[graph]) {
        EXPECT_EQ(info->state, SourceGraphState::kSealed);
      }
      const auto report = (*store)->Verify(name, [](const SourceGraphProgress&) { return true; });
      ASSERT_TRUE(report.ok());
      EXPECT_TRUE(report->ok()) << report->damaged.front();
      if (info->state == SourceGraphState::kSealed) {
        RowsOfGraph all;
        for (uint64_t s = 1; s <= kAppendsOfGraph; ++s) {
          const RowsOfGraph rows = RowsOf(graph, s);
          all.nodes.insert(all.nodes.end(), rows.nodes.begin(), rows.nodes.end());
          all.edges.insert(all.edges.end(), rows.edges.begin(), rows.edges.end());
        }
        EXPECT_TRUE(Read(**(*store)->Open(name)) == Expected(LawSchema(), LawOptions(), all));
        continue;
      }
      // One append more may be there than was answered.
      uint64_t least = 0;
      for (uint64_t s = 1; s <= sequence; ++s) least += RowsOf(graph, s).nodes.size();
      const uint64_t most = least + RowsOf(graph, sequence + 1).nodes.size();
      const uint64_t num_nodes = info->num_nodes[0] + info->num_nodes[1];
      EXPECT_TRUE(num_nodes == least || num_nodes == most) << num_nodes;
    }
  }
  EXPECT_GT(num_lines, 12U);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace packhouse
