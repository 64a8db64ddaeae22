// TF-GNN's unigraph of the shared data, file by file.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "service/wings/graphs/files/csv_reader.h"
#include "service/wings/graphs/files/table_rows.h"
#include "service/wings/graphs/files/unigraph.h"
#include "service/wings/tfgnn/record_framing.h"
#include "tests/support/shared_data.h"

namespace packhouse::graph_files {
namespace {

std::string Bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The rows of a table's files, in the order of their names.
SourceRows ReadTable(const std::filesystem::path& folder, const Unigraph& unigraph,
                     const SetTable& table) {
  const RowsSpec spec = RowsSpecOf(unigraph.schema, table.is_edges, table.set, table.is_swapped);
  SourceRows rows;
  ClearRows(spec, &rows);
  const std::string base = table.filename.substr(0, table.filename.find('@'));
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name == table.filename || absl::StartsWith(name, absl::StrCat(base, "-0"))) {
      files[name] = Bytes(entry.path());
    }
  }
  EXPECT_FALSE(files.empty()) << table.filename;
  for (const auto& [name, bytes] : files) {
    if (table.format == TableFormat::kCsv) {
      CsvReader reader;
      reader.Feed(bytes);
      reader.End();
      EXPECT_TRUE(*reader.Next());
      const auto csv = CsvRows::Create(spec, reader.fields());
      EXPECT_TRUE(csv.ok()) << csv.status();
      while (*reader.Next()) {
        const absl::Status status = csv->Append(reader.fields(), &rows);
        EXPECT_TRUE(status.ok()) << name << ": line " << reader.line() << ": " << status;
      }
    } else {
      tfgnn::RecordReader reader(name);
      reader.Feed(bytes);
      ExampleRows examples(spec);
      for (auto record = reader.Next(); record.ok() && record->has_value();
           record = reader.Next()) {
        const absl::Status status = examples.Append(**record, &rows);
        EXPECT_TRUE(status.ok()) << name << ": " << status;
      }
    }
  }
  return rows;
}

TEST(UnigraphGoldenTest, EdgesAreThoseOfTheGroundTruth) {
  const std::filesystem::path folder = std::filesystem::path(SharedData()) / "tfgnn" / "unigraph";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is missing";
  const auto unigraph = ParseUnigraph(Bytes(folder / "graph_schema.pbtxt"));
  ASSERT_TRUE(unigraph.ok()) << unigraph.status();
  const nlohmann::json truth = nlohmann::json::parse(Bytes(folder / "ground_truth.json"));
  const SourceGraphSchema& schema = unigraph->schema;
  EXPECT_EQ(schema.edge_sets()[*schema.EdgeSetIndex("written")].reverse_of,
            schema.EdgeSetIndex("writes"));
  size_t edge_tables = 0;
  for (const SetTable& table : unigraph->tables) {
    const SourceRows rows = ReadTable(folder, *unigraph, table);
    if (!table.is_edges) {
      const std::string& set = schema.node_sets()[table.set].name;
      EXPECT_EQ(rows.count, truth["nodes"][set]) << set;
      continue;
    }
    ++edge_tables;
    const SourceEdgeSetSpec& set = schema.edge_sets()[table.set];
    SCOPED_TRACE(set.name);
    const nlohmann::json& edges = truth["edges"][set.name];
    // Shards of a table hold its rows in turn or in blocks, as their writer likes.
    std::multimap<std::string, std::string> wanted;
    std::multimap<std::string, std::string> found;
    for (const auto& edge : edges) {
      wanted.emplace(absl::StrCat(schema.node_sets()[set.source].name, edge[0].get<int>()),
                     absl::StrCat(schema.node_sets()[set.target].name, edge[1].get<int>()));
    }
    for (size_t i = 0; i < rows.count; ++i) {
      found.emplace(rows.sources.text(i), rows.targets.text(i));
    }
    using Edges = std::vector<std::pair<std::string, std::string>>;
    Edges wanted_edges(wanted.begin(), wanted.end());
    Edges found_edges(found.begin(), found.end());
    std::sort(wanted_edges.begin(), wanted_edges.end());
    std::sort(found_edges.begin(), found_edges.end());
    EXPECT_EQ(found_edges, wanted_edges);
  }
  EXPECT_EQ(edge_tables, 4);
}

}  // namespace
}  // namespace packhouse::graph_files
