// Folders of graphs in the formats of others: what is written and read, and each error.
#include "service/wings/partition/jobs/graph_folders.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wings/graphs/source_graphs/memory_source_graph.h"
#include "service/wings/partition/cutting/homogeneous_graph.h"
#include "service/wings/partition/files/chunked_layout.h"
#include "service/wings/partition/files/dgl_reader.h"
#include "service/wings/partition/files/parmetis_rows.h"
#include "service/wings/partition/files/partition_json.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/graph_exports.h"
#include "service/wings/partition/jobs/parmetis_pipeline.h"
#include "tests/partition_jobs/chunked_graphs.h"
#include "tests/partitioning/random_source_graphs.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

class GraphFoldersTest : public testing::Test {
 protected:
  std::string Path(const std::string& file) const { return folder_.path() + "/" + file; }
  absl::Status NotThere(const std::string& file) const {
    return absl::NotFoundError(Path(file) + ": No such file or directory");
  }
  absl::Status Wrong(const std::string& text) const {
    return absl::InvalidArgumentError(Path(text));
  }

  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
};

constexpr char kAnyNumber[] = ", must be a whole number from 0 to 18446744073709551615";

// Two types of nodes; a self loop, an edge that is there twice, and edges of two types between the
// same nodes.
std::unique_ptr<const SourceGraph> TwoTypes() {
  return *MakeMemorySourceGraph(
      *SourceGraphSchema::Create({{"a", {}}, {"b", {}}},
                                 {{"ab", 0, 1, {}, std::nullopt}, {"aa", 0, 0, {}, std::nullopt}}),
      1, {{3, {}, {}, {}}, {2, {}, {}, {}}},
      {{{0, 1, 0, 2}, {0, 1, 0, 1}, {}}, {{0, 1, 2}, {1, 1, 0}, {}}});
}

TEST_F(GraphFoldersTest, AParmetisFolderHasTheseTexts) {
  const auto source = TwoTypes();
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  ASSERT_THAT(WriteParmetisFolder(graph, Path("in"), "g"), IsOk());
  EXPECT_EQ(BytesOf(Path("in/g_nodes.txt")), "0 1 0 0\n0 1 0 1\n0 1 0 2\n1 0 1 0\n1 0 1 1\n");
  // The type aa is the first one.
  EXPECT_EQ(BytesOf(Path("in/g_edges.txt")), "0 1 0 0\n2 0 2 0\n0 3 0 1\n1 4 1 1\n2 4 3 1\n");
  EXPECT_EQ(BytesOf(Path("in/g_removed_edges.txt")), "1 1 1 0\n0 3 2 1\n");
  EXPECT_EQ(BytesOf(Path("in/g_stats.txt")), "5 5 2\n");
  PH_ASSERT_OK_AND_ASSIGN(const ParmetisSchema schema,
                          ReadParmetisSchema(BytesOf(Path("in/g.json"))));
  ASSERT_EQ(schema.node_types.size(), 2U);
  EXPECT_EQ(schema.node_types[1].name, "b");
  EXPECT_EQ(schema.node_types[1].begin, 3U);
  EXPECT_EQ(schema.node_types[1].end, 5U);
  ASSERT_EQ(schema.edge_types.size(), 2U);
  EXPECT_EQ(schema.edge_types[1].name, "a:ab:b");
  EXPECT_EQ(schema.edge_types[1].begin, 3U);
  EXPECT_EQ(schema.edge_types[1].end, 7U);
}

// What is exported, cut and converted has each edge of the graph once, in the part of its target.
TEST_F(GraphFoldersTest, ThePipelineOfParmetisKeepsEveryEdge) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const auto source = RandomSourceGraph(seed);
    PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
    bool is_whole = graph.num_nodes() > 0;
    for (const HomogeneousNodeType& type : graph.node_types()) is_whole &= type.size > 0;
    for (const HomogeneousEdgeType& type : graph.edge_types()) is_whole &= type.size > 0;
    // Types without rows are not known to a file of rows.
    if (!is_whole || graph.edge_types().empty()) continue;
    const std::string at = absl::StrCat(seed, "/");
    ASSERT_THAT(MakeFolder(Path(at)), IsOk());
    ASSERT_THAT(WriteParmetisFolder(graph, Path(at + "in"), "g"), IsOk());
    ParmetisPartition partition;
    partition.input_folder = Path(at + "in");
    partition.graph_name = "g";
    partition.output = Path(at + "parts");
    partition.options.num_parts = static_cast<uint32_t>(1 + seed % 4);
    partition.options.seed = seed;
    PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment,
                            PartitionParmetisFolder(partition, nullptr));
    // Classes are those of types.
    EXPECT_EQ(assignment.balance.size(), graph.node_types().size());
    std::string parts;
    for (size_t node = 0; node < assignment.part.size(); ++node) {
      absl::StrAppend(&parts, node, " ", assignment.part[node], "\n");
    }
    EXPECT_EQ(BytesOf(absl::StrCat(partition.output, "/g_part.", partition.options.num_parts)),
              parts);
    EXPECT_FALSE(PathExists(partition.output + ".partial"));
    uint64_t rows = 0;
    for (uint32_t part = 0; part < partition.options.num_parts; ++part) {
      const std::string prefix = absl::StrFormat("%s/p%03d-g_", partition.output, part);
      PH_ASSERT_OK_AND_ASSIGN(const ParmetisStats stats,
                              ReadParmetisStats(BytesOf(prefix + "stats.txt")));
      EXPECT_EQ(stats.num_nodes, assignment.nodes_of_part[part]);
      EXPECT_EQ(stats.num_weights, graph.node_types().size());
      const std::string edges = BytesOf(prefix + "edges.txt");
      EXPECT_EQ(stats.num_edges, std::count(edges.begin(), edges.end(), '\n'));
      rows += stats.num_edges;
    }
    const std::string kept = BytesOf(Path(at + "in/g_edges.txt"));
    EXPECT_EQ(rows, std::count(kept.begin(), kept.end(), '\n'));
    ParmetisConversion conversion;
    conversion.input_folder = partition.output;
    conversion.graph_name = "g";
    conversion.schema = Path(at + "in/g.json");
    conversion.num_parts = partition.options.num_parts;
    conversion.num_weights = graph.node_types().size();
    conversion.removed_edges = Path(at + "in/g_removed_edges.txt");
    conversion.output = Path(at + "out");
    PH_ASSERT_OK_AND_ASSIGN(const PartitionJson json, ConvertParmetisFolder(conversion));
    EXPECT_EQ(json.num_nodes, graph.num_nodes());
    EXPECT_EQ(json.num_edges, graph.num_edges());
    EXPECT_EQ(BytesOf(Path(at + "out/g.json")), *WritePartitionJson(json));
    // By type and number: homogeneous ids of the ends.
    std::map<std::pair<int64_t, int64_t>, std::pair<uint64_t, uint64_t>> got;
    for (uint32_t part = 0; part < conversion.num_parts; ++part) {
      const std::string bytes = BytesOf(absl::StrCat(Path(at + "out/part"), part, "/graph.dgl"));
      PH_ASSERT_OK_AND_ASSIGN(const DglGraphView view, ReadDglGraphFile(bytes));
      const auto number = [](const std::vector<ArrayView>& arrays, const char* name, uint64_t i) {
        int64_t value;
        std::memcpy(&value, FindArray(arrays, name)->bytes.data() + i * sizeof(value),
                    sizeof(value));
        return value;
      };
      const auto node = [&](uint64_t local) {
        const auto type = static_cast<size_t>(number(view.node_data, "_TYPE", local));
        return graph.node_types()[type].start +
               static_cast<uint64_t>(number(view.node_data, "orig_id", local));
      };
      for (uint64_t e = 0; e < view.coo->sources.header.shape[0]; ++e) {
        const uint64_t from =
            node(static_cast<uint64_t>(number({view.coo->sources}, "sources", e)));
        const uint64_t to = node(static_cast<uint64_t>(number({view.coo->targets}, "targets", e)));
        EXPECT_EQ(assignment.part[to], part);
        EXPECT_TRUE(got.try_emplace({number(view.edge_data, "_TYPE", e),
                                     number(view.edge_data, "orig_id", e)},
                                    from, to)
                        .second);
      }
    }
    ASSERT_EQ(got.size(), graph.num_edges());
    for (size_t t = 0; t < graph.edge_types().size(); ++t) {
      const HomogeneousEdgeType& type = graph.edge_types()[t];
      for (uint32_t row = 0; row < type.by_target.num_rows(); ++row) {
        for (uint64_t e = type.by_target.offsets[row]; e < type.by_target.offsets[row + 1]; ++e) {
          const std::pair<int64_t, int64_t> key(t, type.by_target.edge(e));
          EXPECT_EQ(got[key].first,
                    graph.node_types()[type.source].start + type.by_target.neighbours[e]);
          EXPECT_EQ(got[key].second, graph.node_types()[type.target].start + row);
        }
      }
    }
  }
}

TEST_F(GraphFoldersTest, WhatParmetisCannotTakeIsNamed) {
  ASSERT_THAT(MakeFolder(Path("in")), IsOk());
  const std::map<std::string, std::string> whole = {
      {"stats", "4 3 2\n"},
      {"nodes", "0 1 0 0\n0 1 0 1\n2 0 1 0\n2 0 1 1\n"},
      {"edges", "0 1 0 0\n0 2 0 1\n2 3 0 0\n"}};
  const auto error = [&](const std::map<std::string, std::string>& changes) {
    for (const auto& [file, text] : whole) {
      const auto changed = changes.find(file);
      WriteText(Path("in/g_" + file + ".txt"), changed == changes.end() ? text : changed->second);
    }
    ParmetisPartition partition;
    partition.input_folder = Path("in");
    partition.graph_name = "g";
    partition.output = Path("out");
    const absl::Status status = PartitionParmetisFolder(partition, nullptr).status();
    EXPECT_EQ(PathExists(Path("out")), status.ok());
    EXPECT_THAT(RemoveFolder(Path("out")), IsOk());
    return status;
  };
  EXPECT_THAT(error({}), IsOk());
  EXPECT_EQ(error({{"stats", "4 3\n"}}),
            Wrong("in/g_stats.txt: the number of weights is '', must be a whole number from 0 to "
                  "1024"));
  EXPECT_EQ(error({{"stats", "4 3 2\n4 3 2\n"}}),
            Wrong("in/g_stats.txt: there must be one line of three numbers"));
  EXPECT_EQ(error({{"stats", "5 3 2\n"}}),
            Wrong("in/g_nodes.txt: has 4 nodes, " + Path("in/g_stats.txt says 5")));
  EXPECT_EQ(error({{"stats", "4 2 2\n"}}),
            Wrong("in/g_edges.txt: has 3 edges, " + Path("in/g_stats.txt says 2")));
  EXPECT_EQ(error({{"nodes", "x\n"}}),
            Wrong(absl::StrCat("in/g_nodes.txt: line 1: the node type is 'x'", kAnyNumber)));
  EXPECT_EQ(error({{"nodes", "0 1 0 0\n2 0 1 0\n1 0 1 1\n"}}),
            Wrong("in/g_nodes.txt: line 3: node type 1 comes after 2, must ascend"));
  EXPECT_EQ(error({{"nodes", "0 1 0 0\n0 2 0 1\n"}}),
            Wrong("in/g_nodes.txt: line 2: a weight is above 1: classes of nodes are spread evenly "
                  "here, whose weights are 0 and 1"));
  EXPECT_EQ(error({{"edges", "0 1 0 0\n4 1 0 0\n"}}),
            Wrong("in/g_edges.txt: line 2: joins 4 and 1, there are 4 nodes"));
  EXPECT_EQ(error({{"edges", "0 4 0 0\n"}}),
            Wrong("in/g_edges.txt: line 1: joins 0 and 4, there are 4 nodes"));
  EXPECT_EQ(error({{"edges", "0 1 0\n"}}),
            Wrong(absl::StrCat("in/g_edges.txt: line 1: the edge type is ''", kAnyNumber)));
  std::string nodes;
  std::string edges;
  for (int i = 0; i < 257; ++i) {
    absl::StrAppend(&nodes, "0 ");
    for (int bit = 0; bit < 9; ++bit) absl::StrAppend(&nodes, i >> bit & 1, " ");
    absl::StrAppend(&nodes, i, "\n");
    absl::StrAppend(&edges, "0 1 0 ", i, "\n");
  }
  EXPECT_EQ(error({{"stats", "257 0 9\n"}, {"nodes", nodes}}),
            Wrong("in/g_nodes.txt: line 257: nodes have more than 256 different rows of weights"));
  EXPECT_EQ(error({{"edges", edges}}),
            Wrong("in/g_edges.txt: line 257: more than 256 edge types, told apart by the types of "
                  "their ends"));
  nodes.clear();
  for (int i = 0; i < 257; ++i) absl::StrAppend(&nodes, i, " 1 1 0\n");
  EXPECT_EQ(error({{"nodes", nodes}}), Wrong("in/g_nodes.txt: line 257: more than 256 node types"));
  for (const char* const file : {"stats", "nodes", "edges"}) {
    ASSERT_THAT(error({}), IsOk());
    ASSERT_THAT(RemoveFolder(Path(absl::StrCat("in/g_", file, ".txt"))), IsOk());
    ParmetisPartition partition;
    partition.input_folder = Path("in");
    partition.graph_name = "g";
    partition.output = Path("out");
    EXPECT_EQ(PartitionParmetisFolder(partition, nullptr).status(),
              NotThere(absl::StrCat("in/g_", file, ".txt")));
    partition.output = Path("in");
    EXPECT_EQ(PartitionParmetisFolder(partition, nullptr).status(),
              absl::AlreadyExistsError(Path("in is there already")));
  }
}

TEST_F(GraphFoldersTest, WhatCannotBeConvertedIsNamed) {
  const auto source = TwoTypes();
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  ASSERT_THAT(WriteParmetisFolder(graph, Path("in"), "g"), IsOk());
  ParmetisPartition partition;
  partition.input_folder = Path("in");
  partition.graph_name = "g";
  partition.output = Path("parts");
  ASSERT_THAT(PartitionParmetisFolder(partition, nullptr), IsOk());
  ParmetisConversion whole;
  whole.input_folder = Path("parts");
  whole.graph_name = "g";
  whole.schema = Path("in/g.json");
  whole.num_parts = 2;
  whole.num_weights = 2;
  whole.removed_edges = Path("in/g_removed_edges.txt");
  whole.output = Path("out");
  const auto error = [&whole](const std::function<void(ParmetisConversion&)>& change) {
    ParmetisConversion conversion = whole;
    change(conversion);
    const absl::Status status = ConvertParmetisFolder(conversion).status();
    EXPECT_FALSE(PathExists(whole.output));
    return status;
  };
  EXPECT_EQ(error([&](auto& c) { c.output = Path("in"); }),
            absl::AlreadyExistsError(Path("in is there already")));
  EXPECT_EQ(error([](auto& c) { c.num_parts = 0; }),
            absl::InvalidArgumentError("the number of parts is 0, must be 1 to 65536"));
  EXPECT_EQ(error([](auto& c) { c.num_parts = 65537; }),
            absl::InvalidArgumentError("the number of parts is 65537, must be 1 to 65536"));
  EXPECT_EQ(error([](auto& c) { c.num_parts = 3; }), NotThere("parts/p002-g_nodes.txt"));
  EXPECT_EQ(error([&](auto& c) { c.schema = Path("none"); }), NotThere("none"));
  EXPECT_EQ(error([&](auto& c) { c.removed_edges = Path("none"); }), NotThere("none"));
  WriteText(Path("schema"), "{\"nid\": {}, \"eid\": {}}");
  EXPECT_EQ(error([&](auto& c) { c.schema = Path("schema"); }), Wrong("schema: 'nid' has no type"));
  // Without removed edges they are looked for beside the parts; there may be none.
  EXPECT_EQ(error([](auto& c) { c.removed_edges = ""; }),
            absl::InvalidArgumentError(
                "edge 1 of 'a:aa:a' is neither in a part nor among the removed edges"));
  WriteText(Path("parts/g_removed_edges.txt"), BytesOf(whole.removed_edges));
  whole.removed_edges.clear();
  PH_ASSERT_OK_AND_ASSIGN(const PartitionJson json, ConvertParmetisFolder(whole));
  EXPECT_EQ(json.num_edges, 7U);
  EXPECT_EQ(json.part_method, "metis");
  EXPECT_TRUE(PathExists(Path("out/part1/edge_feat.dgl")));
  ASSERT_THAT(RemoveFolder(Path("out")), IsOk());
  ASSERT_THAT(RemoveFolder(Path("parts/p001-g_edges.txt")), IsOk());
  EXPECT_EQ(error([](auto&) {}), NotThere("parts/p001-g_edges.txt"));
}

// Parallel edges, whatever their direction, are one of their number; loops go.
TEST_F(GraphFoldersTest, AGraphOfMetisHasThisText) {
  const auto source = TwoTypes();
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  StringSink sink;
  ASSERT_THAT(WriteMetisGraphOf(graph, sink), IsOk());
  EXPECT_EQ(sink.bytes(), "5 5 001\n2 1 3 1 4 2\n1 1 5 1\n1 1 5 1\n1 2\n2 1 3 1\n");
  const auto path = OneSetGraph(4, {{0, 1}, {2, 1}, {3, 3}});
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph plain, HomogeneousGraph::Create(path.get()));
  StringSink without;
  ASSERT_THAT(WriteMetisGraphOf(plain, without), IsOk());
  EXPECT_EQ(without.bytes(), "4 2\n2\n1 3\n2\n\n");
}

TEST_F(GraphFoldersTest, AMetisFileIsReadAsAGraph) {
  WriteText(Path("g"), "3 2 111 2\n7 1 2 2 5\n8 3 4 1 5 3 6\n9 5 6 2 6\n");
  PH_ASSERT_OK_AND_ASSIGN(const auto graph, ReadMetisFile(Path("g")));
  const auto numbers = [](const SourceColumn& column, size_t count) {
    std::vector<int64_t> values(count);
    std::memcpy(values.data(), column.data, count * sizeof(int64_t));
    return values;
  };
  const SourceNodeSetSpec& nodes = graph->schema().node_sets()[0];
  EXPECT_EQ(nodes.name, "_N");
  ASSERT_EQ(nodes.columns.size(), 2U);
  EXPECT_EQ(nodes.columns[0].name, "weight");
  EXPECT_EQ(nodes.columns[0].dtype, DType::kInt64);
  EXPECT_THAT(nodes.columns[0].row_shape, testing::ElementsAre(2));
  EXPECT_THAT(numbers(graph->NodeColumn(0, 0), 6), testing::ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(nodes.columns[1].name, "size");
  EXPECT_TRUE(nodes.columns[1].row_shape.empty());
  EXPECT_THAT(numbers(graph->NodeColumn(0, 1), 3), testing::ElementsAre(7, 8, 9));
  const SourceEdgeSetSpec& edges = graph->schema().edge_sets()[0];
  EXPECT_EQ(edges.name, "_E");
  ASSERT_EQ(edges.columns.size(), 1U);
  EXPECT_EQ(edges.columns[0].name, "weight");
  EXPECT_THAT(numbers(graph->EdgeColumn(0, 0), 4), testing::ElementsAre(5, 5, 6, 6));
  PH_ASSERT_OK_AND_ASSIGN(const Adjacency rows, graph->BySource(0));
  EXPECT_THAT(rows.offsets, testing::ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(rows.neighbours, testing::ElementsAre(1, 0, 2, 1));
  WriteText(Path("plain"), "2 1\n2\n1\n");
  PH_ASSERT_OK_AND_ASSIGN(const auto plain, ReadMetisFile(Path("plain")));
  EXPECT_TRUE(plain->schema().node_sets()[0].columns.empty());
  EXPECT_TRUE(plain->schema().edge_sets()[0].columns.empty());
  EXPECT_NE(plain->version(), graph->version());
  EXPECT_EQ((*ReadMetisFile(Path("plain")))->version(), plain->version());
  EXPECT_EQ(ReadMetisFile(Path("none")).status(), NotThere("none"));
  WriteText(Path("g"), "2 1\n2\n");
  EXPECT_EQ(ReadMetisFile(Path("g")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StartsWith(ReadMetisFile(Path("g")).status().message(), Path("g: ")));
}

// Each number of a graph is in its version.
TEST_F(GraphFoldersTest, TheVersionIsThatOfAllNumbers) {
  WriteChunkedGraph(folder_.path());
  const auto version = [this] { return (*ReadChunkedFolder(folder_.path()))->version(); };
  const uint64_t before = version();
  EXPECT_EQ(version(), before);
  for (const char* const file : {"mask.npy", "x0.npy", "x1.npy", "b0.npy", "b1.npy", "w.npy"}) {
    const std::string bytes = BytesOf(Path(file));
    std::string other = bytes;
    // The target of the last edge, or the last number.
    char& number = other[other.size() - (file[0] == 'b' ? 4 : 1)];
    number = number == 0 ? 1 : 0;
    WriteText(Path(file), other);
    EXPECT_NE(version(), before) << file;
    WriteText(Path(file), bytes);
  }
  for (const char* const file : {"f0.csv", "f1.csv"}) {
    const std::string bytes = BytesOf(Path(file));
    for (const size_t at : {size_t{0}, bytes.find(',') + 1}) {
      std::string other = bytes;
      other[at] = other[at] == '1' ? '2' : '1';
      WriteText(Path(file), other);
      EXPECT_NE(version(), before) << file;
    }
    WriteText(Path(file), bytes);
  }
  EXPECT_EQ(version(), before);
}

TEST_F(GraphFoldersTest, WhatIsNoChunkedFolderIsNamed) {
  WriteChunkedGraph(folder_.path());
  const std::string metadata = BytesOf(Path("metadata.json"));
  const auto told = [this] { return ReadChunkedFolder(folder_.path()).status(); };
  const auto with_file = [&](const std::string& file, const std::function<void()>& write) {
    const std::string bytes = BytesOf(Path(file));
    write();
    const absl::Status status = told();
    WriteText(Path(file), bytes);
    return status;
  };
  for (const char* const file : {"mask.npy", "x1.npy", "b0.npy", "w.npy", "f1.csv"}) {
    EXPECT_EQ(with_file(file, [&] { EXPECT_THAT(RemoveFolder(Path(file)), IsOk()); }),
              NotThere(file));
  }
  const auto pairs = [&](DType dtype, std::vector<uint64_t> shape, auto source, auto target) {
    using T = decltype(source);
    uint64_t count = 1;
    for (const uint64_t extent : shape) count *= extent;
    std::vector<T> numbers(count);
    if (count > 3) numbers[2] = source;
    if (count > 3) numbers[3] = target;
    return with_file("b1.npy", [&] { WriteNumbers<T>(Path("b1.npy"), dtype, shape, numbers); });
  };
  const auto joins = [this](const char* ends) {
    return Wrong(absl::StrCat("b1.npy: row 1 joins ", ends, ", there are 37 and 23 nodes"));
  };
  EXPECT_THAT(pairs(DType::kInt32, {40, 2}, int32_t{36}, int32_t{22}), IsOk());
  EXPECT_EQ(pairs(DType::kInt32, {40, 2}, int32_t{37}, int32_t{22}), joins("37 and 22"));
  EXPECT_EQ(pairs(DType::kInt64, {40, 2}, int64_t{36}, int64_t{23}), joins("36 and 23"));
  EXPECT_EQ(pairs(DType::kInt64, {40, 2}, int64_t{-1}, int64_t{0}), joins("-1 and 0"));
  EXPECT_EQ(pairs(DType::kUint32, {40, 2}, uint32_t{0}, uint32_t{23}), joins("0 and 23"));
  EXPECT_EQ(pairs(DType::kUint64, {40, 2}, uint64_t{0}, UINT64_MAX),
            joins("0 and 18446744073709551615"));
  EXPECT_THAT(pairs(DType::kUint64, {40, 2}, uint64_t{36}, uint64_t{22}), IsOk());
  const absl::Status no_pairs = Wrong("b1.npy: must have rows of two ids");
  EXPECT_EQ(pairs(DType::kInt32, {40, 3}, int32_t{0}, int32_t{0}), no_pairs);
  EXPECT_EQ(pairs(DType::kInt32, {80}, int32_t{0}, int32_t{0}), no_pairs);
  EXPECT_EQ(pairs(DType::kFloat32, {40, 2}, 0.0F, 0.0F),
            Wrong("b1.npy: ids must be int32, int64, uint32 or uint64"));
  EXPECT_EQ(pairs(DType::kInt32, {41, 2}, int32_t{0}, int32_t{0}),
            Wrong("metadata.json: edge type 'user:/buys/it:item' has 140 edges, its files 141"));
  const auto lines = [&](const char* text) {
    return with_file("f1.csv", [&] { WriteText(Path("f1.csv"), text); });
  };
  EXPECT_EQ(lines("\xEF\xBB\xBF"
                  "1,2\n\n37,1\n"),
            Wrong("f1.csv: line 3: source 37 is none of the 37 nodes"));
  EXPECT_EQ(lines("1,2\n1,-1\n"), Wrong("f1.csv: line 2: target -1 is none of the 37 nodes"));
  EXPECT_EQ(lines("1,2,3\n"), Wrong("f1.csv: line 1: has 3 fields, 2 are needed"));
  EXPECT_EQ(lines("1\n"), Wrong("f1.csv: line 1: has 1 fields, 2 are needed"));
  const auto column = [&](DType dtype, std::vector<uint64_t> shape) {
    uint64_t bytes = ElementBytes(dtype);
    for (const uint64_t extent : shape) bytes *= extent;
    return with_file("x1.npy", [&] {
      WriteNumbers<uint8_t>(Path("x1.npy"), dtype, shape, std::vector<uint8_t>(bytes));
    });
  };
  const absl::Status other =
      Wrong("x1.npy: its rows are of another type or shape than those before");
  EXPECT_THAT(column(DType::kFloat32, {3, 2}), IsOk());
  EXPECT_EQ(column(DType::kInt32, {3, 2}), other);
  EXPECT_EQ(column(DType::kFloat32, {3, 3}), other);
  EXPECT_EQ(column(DType::kFloat32, {3}), other);
  EXPECT_EQ(column(DType::kFloat32, {}), Wrong("x1.npy: must have rows"));
  // Columns are read in the order of their names.
  EXPECT_EQ(column(DType::kFloat32, {4, 2}),
            absl::InvalidArgumentError("feature 'a/b' has 24 rows, must have 23"));
  const auto with = [&](const std::string& file, const std::string& format) {
    const size_t at = metadata.find("\"" + file + "\"");
    const size_t begin = metadata.rfind("numpy", at);
    std::string changed = metadata;
    changed.replace(begin, 5, format);
    WriteText(Path("metadata.json"), changed);
    return told();
  };
  const std::string parquet(ParquetIsNotRead().message());
  EXPECT_EQ(with("mask.npy", "parquet"), absl::UnimplementedError(Path("mask.npy: ") + parquet));
  EXPECT_EQ(with("b0.npy", "parquet"), absl::UnimplementedError(Path("b0.npy: ") + parquet));
  EXPECT_EQ(
      with("w.npy", "csv"),
      absl::UnimplementedError(Path("w.npy: features are read from numpy files, not from csv")));
  std::string large = metadata;
  absl::StrReplaceAll({{"37", "4294967296"}}, &large);
  WriteText(Path("metadata.json"), large);
  EXPECT_TRUE(absl::StartsWith(
      told().message(), Path("metadata.json: node type 'user' has 4294967296 nodes, at most ")))
      << told();
  EXPECT_THAT(RemoveFolder(Path("metadata.json")), IsOk());
  EXPECT_EQ(told(), NotThere("metadata.json"));
}

TEST_F(GraphFoldersTest, ChunksHaveABound) {
  const auto source = OneSetGraph(5, {{0, 1}, {1, 2}, {2, 3}});
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  ChunkedFolderOptions options;
  for (const uint64_t chunks : {0, 65537}) {
    options.num_chunks = chunks;
    EXPECT_EQ(WriteChunkedFolder(graph, options, Path("out")).status(),
              absl::InvalidArgumentError(absl::StrCat("chunks: ", chunks, ", must be 1 to 65536")));
  }
  options.num_chunks = 3;
  options.graph_name = "named";
  EXPECT_THAT(WriteChunkedFolder(graph, options, Path("out")), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const ChunkedGraph read,
                          ReadChunkedMetadata(BytesOf(Path("out/metadata.json"))));
  EXPECT_EQ(read.graph_name, "named");
  EXPECT_THAT(read.node_types[0].chunks, testing::ElementsAre(1, 2, 2));
  EXPECT_THAT(read.edge_types[0].chunks, testing::ElementsAre(1, 1, 1));
  EXPECT_THAT(
      read.edge_types[0].edges.files,
      testing::ElementsAre("edges/0-ends-0.npy", "edges/0-ends-1.npy", "edges/0-ends-2.npy"));
}

}  // namespace
}  // namespace packhouse
