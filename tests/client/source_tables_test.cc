// Large graphs as files have them: what is written is read, and bad rows are named.
#include "client/graph/source_graphs/source_tables.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/graph/source_graphs/mag_tables.h"
#include "client/graph/source_graphs/ogb_tables.h"
#include "client/graph/source_graphs/source_graph_wire.h"
#include "client/graph/source_graphs/table_writers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/shared_data.h"

namespace packhouse::client {
namespace {

using graph_files::IdRows;
using graph_files::SourceRows;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class SourceTablesTest : public testing::Test {
 protected:
  SourceTablesTest()
      : folder_(std::filesystem::path(testing::TempDir()) /
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~SourceTablesTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return Path(name);
  }

  const std::filesystem::path folder_;
};

// Everything of a graph, by the names of sets.
struct Everything {
  std::map<std::string, SourceRows> sets;
  absl::Status status;
};

void Append(const IdRows& from, IdRows* to) {
  to->is_text = from.is_text;
  to->numbers.insert(to->numbers.end(), from.numbers.begin(), from.numbers.end());
  for (size_t i = 0; from.is_text && i < from.size(); ++i) to->AddText(from.text(i));
}

template <typename Number>
std::vector<Number> Numbers(const graph_files::ColumnRows& rows) {
  std::vector<Number> numbers(rows.bytes.size() / sizeof(Number));
  std::memcpy(numbers.data(), rows.bytes.data(), rows.bytes.size());
  return numbers;
}

Everything ReadAll(const SourceTables& tables, size_t max_bytes = 1000) {
  Everything all;
  SourceTablesReader reader(tables);
  SourceRows rows;
  while (true) {
    const absl::StatusOr<bool> has_rows = reader.Read(max_bytes, &rows);
    all.status = has_rows.status();
    if (!has_rows.ok() || !*has_rows) return all;
    EXPECT_GT(rows.count, 0);
    const std::string name = rows.is_edges ? tables.schema.edge_sets()[rows.set].name
                                           : tables.schema.node_sets()[rows.set].name;
    SourceRows& set = all.sets[name];
    set.count += rows.count;
    Append(rows.ids, &set.ids);
    Append(rows.sources, &set.sources);
    Append(rows.targets, &set.targets);
    set.columns.resize(rows.columns.size());
    // What is sent to a server has them, too.
    const v1::AppendSourceGraphRequest wire = WireSourceRows(tables.schema, rows);
    const auto& sent = rows.is_edges ? wire.edges(0).columns() : wire.nodes(0).columns();
    for (size_t c = 0; c < rows.columns.size(); ++c) {
      const auto& [bytes, lengths] = rows.columns[c];
      set.columns[c].bytes += bytes;
      set.columns[c].lengths.insert(set.columns[c].lengths.end(), lengths.begin(), lengths.end());
      const std::vector<uint32_t> narrow(lengths.begin(), lengths.end());
      EXPECT_EQ(sent[static_cast<int>(c)].data(), bytes);
      EXPECT_EQ(sent[static_cast<int>(c)].lengths(),
                std::string(reinterpret_cast<const char*>(narrow.data()), 4 * narrow.size()));
    }
  }
}

std::string ReadError(const std::string& path) {
  const absl::StatusOr<SourceTables> tables = OpenSourceTables(path);
  if (!tables.ok()) return std::string(tables.status().message());
  return std::string(ReadAll(*tables).status.message());
}

void ExpectSameIds(const IdRows& wanted, const std::string& set, const IdRows& ids) {
  ASSERT_EQ(ids.size(), wanted.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (wanted.is_text) {
      ASSERT_EQ(ids.text(i), wanted.text(i));
    } else if (ids.is_text) {
      ASSERT_EQ(ids.text(i), absl::StrCat(set, wanted.numbers[i]));
    } else {
      ASSERT_EQ(ids.numbers[i], wanted.numbers[i]);
    }
  }
}

// What was written as `path` is the graph of `tables`.
void ExpectRoundTrip(const SourceTables& tables, const std::string& path, bool is_unigraph) {
  const absl::StatusOr<SourceTables> again = OpenSourceTables(path);
  ASSERT_TRUE(again.ok()) << again.status();
  const Everything wanted = ReadAll(tables, 50'000);
  const Everything found = ReadAll(*again, 777);
  ASSERT_TRUE(found.status.ok()) << found.status;
  ASSERT_EQ(found.sets.size(), wanted.sets.size());
  for (const auto& [name, rows] : wanted.sets) {
    SCOPED_TRACE(name);
    const SourceRows& read = found.sets.at(name);
    EXPECT_EQ(read.count, rows.count);
    const auto edges = tables.schema.EdgeSetIndex(name);
    if (edges) {
      const SourceEdgeSetSpec& spec = tables.schema.edge_sets()[*edges];
      ExpectSameIds(rows.sources, tables.schema.node_sets()[spec.source].name, read.sources);
      ExpectSameIds(rows.targets, tables.schema.node_sets()[spec.target].name, read.targets);
    } else {
      ExpectSameIds(rows.ids, name, read.ids);
    }
    ASSERT_EQ(read.columns.size(), rows.columns.size());
    for (size_t c = 0; c < rows.columns.size(); ++c) {
      EXPECT_TRUE(read.columns[c].bytes == rows.columns[c].bytes) << c;
      EXPECT_TRUE(read.columns[c].lengths == rows.columns[c].lengths) << c;
    }
  }
  EXPECT_EQ(again->schema.EdgeSetIndex("written").has_value(), is_unigraph);
}

TEST_F(SourceTablesTest, AGeneratedGraphIsReadBackFromEitherFormat) {
  const absl::StatusOr<SourceTables> tables = OpenMagTables({0.0005, 3});
  ASSERT_TRUE(tables.ok());
  ASSERT_TRUE(WriteArrays(*tables, Path("npy")).ok());
  ExpectRoundTrip(*tables, Path("npy"), false);
  UnigraphOptions options;
  options.shards = 1;
  ASSERT_TRUE(WriteUnigraph(*tables, Path("unigraph"), options).ok());
  ExpectRoundTrip(*tables, Path("unigraph"), true);
}

// Labels are lists of one number; a schema may call them lists of any length as well.
TEST_F(SourceTablesTest, RaggedColumnsAreWrittenAsRagged) {
  ASSERT_TRUE(WriteUnigraph(*OpenMagTables({0.0005, 3}), Path("dense"), {}).ok());
  std::ifstream file(Path("dense/graph_schema.pbtxt"));
  std::string schema((std::istreambuf_iterator<char>(file)), {});
  const size_t at = schema.find("size: 1\n", schema.find("labels"));
  ASSERT_NE(at, std::string::npos);
  const absl::StatusOr<SourceTables> ragged = OpenSourceTables(
      Write("dense/ragged.pbtxt", schema.replace(at, std::strlen("size: 1"), "size: -1")));
  ASSERT_TRUE(ragged.ok()) << ragged.status();
  ASSERT_TRUE(WriteUnigraph(*ragged, Path("again"), {}).ok());
  ExpectRoundTrip(*ragged, Path("again"), true);
  const absl::StatusOr<SourceTables> again = OpenSourceTables(Path("again"));
  ASSERT_TRUE(again.ok()) << again.status();
  const size_t paper = again->schema.NodeSetIndex("paper").value();
  EXPECT_TRUE(again->schema.node_sets()[paper].columns[1].ragged);
  EXPECT_FALSE(again->schema.node_sets()[paper].columns[2].ragged);
}

TEST_F(SourceTablesTest, AGeneratedGraphIsAFunctionOfItsOptions) {
  const Everything a = ReadAll(*OpenMagTables({0.001, 7}), 100);
  const Everything b = ReadAll(*OpenMagTables({0.001, 7}), 1 << 20);
  const Everything other = ReadAll(*OpenMagTables({0.001, 8}), 1 << 20);
  ASSERT_EQ(a.sets.size(), 8);
  for (const auto& [name, rows] : a.sets) {
    EXPECT_EQ(rows.sources.numbers, b.sets.at(name).sources.numbers);
    EXPECT_EQ(rows.targets.numbers, b.sets.at(name).targets.numbers);
  }
  EXPECT_EQ(a.sets.at("paper").columns[0].bytes, b.sets.at("paper").columns[0].bytes);
  EXPECT_NE(a.sets.at("paper").columns[0].bytes, other.sets.at("paper").columns[0].bytes);
  EXPECT_NE(a.sets.at("cites").sources.numbers, other.sets.at("cites").sources.numbers);
}

TEST_F(SourceTablesTest, AGeneratedGraphHasMagsShape) {
  const absl::StatusOr<SourceTables> tables = OpenMagTables({0.01, 0});
  const Everything all = ReadAll(*tables, 1 << 20);
  const std::map<std::string, uint64_t> counts = {
      {"paper", 7364},  {"author", 11346},          {"institution", 87},  {"field_of_study", 600},
      {"cites", 54163}, {"affiliated_with", 10440}, {"has_topic", 75051}, {"writes", 71457}};
  for (const auto& [name, count] : counts) EXPECT_EQ(all.sets.at(name).count, count) << name;
  for (const SourceEdgeSetSpec& spec : tables->schema.edge_sets()) {
    if (spec.reverse_of.has_value()) continue;
    SCOPED_TRACE(spec.name);
    const SourceRows& edges = all.sets.at(spec.name);
    std::map<int64_t, uint64_t> in_degrees;
    for (uint64_t i = 0; i < edges.count; ++i) {
      ASSERT_LT(edges.sources.numbers[i],
                all.sets.at(tables->schema.node_sets()[spec.source].name).count);
      ASSERT_LT(edges.targets.numbers[i],
                all.sets.at(tables->schema.node_sets()[spec.target].name).count);
      if (spec.name == "cites") {
        ASSERT_NE(edges.sources.numbers[i], edges.targets.numbers[i]);
      }
      ++in_degrees[edges.targets.numbers[i]];
    }
    // Every paper has a topic and an author.
    if (spec.name == "writes") {
      EXPECT_EQ(in_degrees.size(), 7364);
    }
    uint64_t most = 0;
    for (const auto& [node, degree] : in_degrees) most = std::max(most, degree);
    // Heavy tails: even at the flatter end some node has several times the mean.
    EXPECT_GT(most * in_degrees.size(), 3 * edges.count);
  }
  EXPECT_EQ(OpenMagTables({0, 0}).status().message(),
            "--scale 0: must be above 0, and at most 100");
}

TEST_F(SourceTablesTest, BadRowsOfAUnigraphAreNamed) {
  const std::string schema = Write(
      "s.pbtxt",
      "node_sets { key: 'a' value { features { key: 'h' value { dtype: DT_INT64 } } metadata { "
      "filename: 'a-*.csv' } } } edge_sets { key: 'e' value { source: 'a' target: 'a' metadata { "
      "filename: 'e.csv@2' } } }");
  const std::string good = Write("a-0.csv", "id,h\nx,1\n\"y\nz\",2\n");
  const std::string bad = Write("a-1.csv", "h,#id\n5,v\nfive,w\n");
  EXPECT_EQ(ReadError(schema), absl::StrCat("'", Path("e.csv@2"),
                                            "': ", Path("e.csv-00000-of-00002"), " is not there"));
  Write("e.csv-00000-of-00002", "source,target\nx,v\n");
  const std::string second = Write("e.csv-00001-of-00002", "source,target\nx\n");
  EXPECT_EQ(ReadError(schema), absl::StrCat(bad, ": line 3: column 'h': 'five' is no int64"));
  Write("a-1.csv", "h,#id\n5,v\n");
  EXPECT_EQ(ReadError(schema), absl::StrCat(second, ": line 2: has 1 fields, the header 2"));
  Write("e.csv-00001-of-00002", "");
  EXPECT_EQ(ReadError(schema), absl::StrCat(second, ": has no header"));
  Write("e.csv-00001-of-00002", "source,target\na,\"b\n");
  EXPECT_EQ(
      ReadError(schema),
      absl::StrCat(second, ": line 3, byte 1: a quote that nothing closes, in field 2 'b\\n'"));
  Write("e.csv-00001-of-00002", "source,target\nv,\"y\nz\"\n");
  EXPECT_EQ(ReadError(Path("")), "");
  const Everything all = ReadAll(*OpenSourceTables(schema));
  EXPECT_EQ(all.sets.at("a").count, 3);
  EXPECT_EQ(all.sets.at("a").ids.text(1), "y\nz");
  EXPECT_EQ(all.sets.at("e").targets.text(1), "y\nz");
}

TEST_F(SourceTablesTest, ADownloadOfOgbOfOneKindIsRead) {
  Write("ogbn_arxiv/raw/num-node-list.csv", "3\n");
  Write("ogbn_arxiv/raw/num-edge-list.csv", "2\n");
  Write("ogbn_arxiv/raw/edge.csv", "0,1\n2,1\n");
  Write("ogbn_arxiv/raw/node-feat.csv", "0.5,1\n-1,2e3\n0,0\n");
  Write("ogbn_arxiv/raw/node-label.csv", "4\n0\n\n");
  Write("ogbn_arxiv/raw/node_year.csv", "2010\n2011\n2012\n");
  EXPECT_EQ(ReadError(Path("ogbn_arxiv")),
            absl::StrCat(Path("ogbn_arxiv/raw/node-label.csv"),
                         ": column 'labels' has fewer rows than its set"));
  Write("ogbn_arxiv/raw/node-label.csv", "4\n0\n7\n");
  const absl::StatusOr<SourceTables> tables = OpenSourceTables(Path("ogbn_arxiv"));
  ASSERT_TRUE(tables.ok()) << tables.status();
  const SourceNodeSetSpec& nodes = tables->schema.node_sets()[0];
  EXPECT_EQ(nodes.name, "nodes");
  ASSERT_EQ(nodes.columns.size(), 3);
  EXPECT_EQ(nodes.columns[0].dtype, DType::kFloat32);
  EXPECT_THAT(nodes.columns[0].row_shape, ElementsAre(2));
  EXPECT_EQ(nodes.columns[1].name, "labels");
  EXPECT_EQ(nodes.columns[1].dtype, DType::kInt64);
  EXPECT_EQ(nodes.columns[2].name, "year");
  const Everything all = ReadAll(*tables, 1);
  ASSERT_TRUE(all.status.ok()) << all.status;
  EXPECT_EQ(all.sets.at("nodes").columns[0].bytes.size(), 3 * 2 * sizeof(float));
  EXPECT_THAT(all.sets.at("edges").sources.numbers, ElementsAre(0, 2));
  EXPECT_THAT(all.sets.at("edges").targets.numbers, ElementsAre(1, 1));

  const auto expect = [&](const std::string& file, const std::string& content,
                          const std::string& message) {
    std::ifstream before(Path(file));
    const std::string kept(std::istreambuf_iterator<char>(before), {});
    Write(file, content);
    EXPECT_EQ(ReadError(Path("ogbn_arxiv")), absl::StrCat(Path(file), message));
    Write(file, kept);
  };
  expect("ogbn_arxiv/raw/edge.csv", "0,1\n2,3\n",
         ": line 2: field 2: target 3 is none of the 3 nodes");
  expect("ogbn_arxiv/raw/edge.csv", "0,1\n-1,2\n",
         ": line 2: field 1: source -1 is none of the 3 nodes");
  expect("ogbn_arxiv/raw/edge.csv", "0,1\nx,2\n", ": line 2: field 1: source: 'x' is no int64");
  expect("ogbn_arxiv/raw/edge.csv", "0,1\n1\n", ": line 2: has 1 fields, 2 are needed");
  expect("ogbn_arxiv/raw/edge.csv", "0,1\n", ": there are 1 edges, 2 were said to be");
  expect("ogbn_arxiv/raw/edge.csv", "0,1\n1,2\n1,2\n", ": there are 3 edges, 2 were said to be");
  expect("ogbn_arxiv/raw/node-feat.csv", "1,2\n3,18446744073709551616\n4,5\n",
         ": line 2: field 2: '18446744073709551616' is no int64");
  expect("ogbn_arxiv/raw/node-feat.csv", "1,2\n3\n4,5\n", ": line 2: has 1 fields, 2 are needed");
  expect("ogbn_arxiv/raw/node-feat.csv", "1,2\n3,?\n4,5\n", ": line 2: field 2: '?' is no float32");
  expect("ogbn_arxiv/raw/node-feat.csv", "1,2\n3,4\n4,5\n6,7\n",
         ": line 4: column 'feat' has more rows than its set");
  Write("ogbn_arxiv/raw/edge-feat.csv", "0.5\n-1\n");
  ASSERT_TRUE(OpenSourceTables(Path("ogbn_arxiv")).ok());
  expect("ogbn_arxiv/raw/edge-feat.csv", "0.5\n?\n", ": line 2: field 1: '?' is no float32");
  expect("ogbn_arxiv/raw/edge-feat.csv", "0.5\n", ": column 'feat' has fewer rows than its set");
  expect("ogbn_arxiv/raw/edge-feat.csv", "0.5\n-1\n2\n",
         ": line 3: column 'feat' has more rows than its set");
  expect(
      "ogbn_arxiv/raw/num-node-list.csv", "3\n4\n",
      ": the data set has 2 graphs, and a source graph is one large graph: load it in Python, as "
      "ogb.graphproppred.PygGraphPropPredDataset does, and give it to packhouse.pyg.ingest");
}

TEST_F(SourceTablesTest, ADownloadOfOgbOfSeveralKindsIsRead) {
  Write("ogbn_mag/raw/num-node-dict.csv", "author,paper\n2,3\n");
  Write("ogbn_mag/raw/triplet-type-list.csv", "author,writes,paper\npaper,cites,paper\n");
  for (const char* relation : {"author___writes___paper", "paper___cites___paper"}) {
    Write(absl::StrCat("ogbn_mag/raw/relations/", relation, "/edge.csv"), "0,1\n1,2\n");
    Write(absl::StrCat("ogbn_mag/raw/relations/", relation, "/num-edge-list.csv"), "2\n");
  }
  Write("ogbn_mag/raw/node-feat/paper/node-feat.csv", "1\n2\n3\n");
  Write("ogbn_mag/raw/node-feat/paper/node_year.csv", "2019\n2018\n2017\n");
  Write("ogbn_mag/raw/node-label/paper/node-label.csv", "0.5\nnan\n1\n");
  Write("ogbn_mag/split/time/paper/train.csv", "2\n");
  Write("ogbn_mag/split/time/paper/valid.csv", "1\n");
  absl::StatusOr<SourceTables> tables = OpenSourceTables(Path("ogbn_mag"));
  ASSERT_TRUE(tables.ok()) << tables.status();
  EXPECT_EQ(tables->schema.node_sets()[1].columns[1].dtype, DType::kFloat32);
  ASSERT_TRUE(AddReverses({"written=writes"}, &*tables).ok());
  EXPECT_EQ(tables->schema.edge_sets()[2].reverse_of, 0);
  EXPECT_EQ(AddReverses({"x=none"}, &*tables).message(),
            "--reverse 'x=none': there is no edge set 'none'");
  EXPECT_EQ(AddReverses({"x"}, &*tables).message(), "--reverse 'x': must be NAME=EDGE_SET");
  const absl::StatusOr<OgbSplits> splits = ReadOgbSplits(Path("ogbn_mag"));
  ASSERT_TRUE(splits.ok()) << splits.status();
  ASSERT_EQ(splits->parts.size(), 2);
  EXPECT_EQ(splits->parts[0].part, "train");
  EXPECT_EQ(splits->parts[0].node_set, "paper");
  EXPECT_THAT(splits->parts[0].nodes, ElementsAre(2));

  ASSERT_TRUE(WriteUnigraph(*tables, Path("out"), UnigraphOptions()).ok());
  const absl::StatusOr<SourceTables> again = OpenSourceTables(Path("out"));
  ASSERT_TRUE(again.ok()) << again.status();
  const Everything all = ReadAll(*again);
  EXPECT_EQ(all.sets.at("author").ids.text(1), "author1");
  EXPECT_EQ(all.sets.at("writes").targets.text(1), "paper2");
  EXPECT_EQ(again->schema.edge_sets()[2].name, "written");
  EXPECT_TRUE(again->schema.edge_sets()[2].reverse_of.has_value());

  Write("ogbn_mag/raw/num-node-dict.csv", "../../author,paper\n2,3\n");
  EXPECT_EQ(ReadError(Path("ogbn_mag")),
            absl::StrCat(Path("ogbn_mag/raw/num-node-dict.csv"),
                         ": line 1: field 1: '../../author' cannot be the name of a folder"));
  Write("ogbn_mag/raw/num-node-dict.csv", "author,paper\n2,many\n");
  EXPECT_EQ(ReadError(Path("ogbn_mag")), absl::StrCat(Path("ogbn_mag/raw/num-node-dict.csv"),
                                                      ": line 2: field 2: 'many' is no count"));
}

// The facts are those of OGB's own list: the edges of these come in both directions, one behind the
// other, with the same columns.
TEST_F(SourceTablesTest, OgbsInverseEdgesAreThere) {
  for (const char* name :
       {"ogbn_proteins", "ogbn-products", "ogbl_ppa", "ogbl_collab", "ogbl_ddi"}) {
    SCOPED_TRACE(name);
    const auto write = [&](const std::string& file, const std::string& text) {
      Write(absl::StrCat(name, "/raw/", file), text);
    };
    write("num-node-list.csv", "3\n");
    write("num-edge-list.csv", "3\n");
    write("edge.csv", "0,1\n2,0\n1,1\n");
    write("species.csv", "7\n8\n9007199254740993\n");
    write("edge-feat.csv", "0.5\n1.5\n2.5\n");
    write("edge_weight.csv", "2\n1\n7\n");
    write("edge_year.csv", "2001\n2010\n2017\n");
    for (const size_t max_bytes : {size_t{1}, size_t{100}, size_t{10000}}) {
      const absl::StatusOr<SourceTables> tables = OpenSourceTables(Path(name));
      ASSERT_TRUE(tables.ok()) << tables.status();
      const Everything all = ReadAll(*tables, max_bytes);
      ASSERT_TRUE(all.status.ok()) << all.status;
      const SourceRows& edges = all.sets.at("edges");
      EXPECT_THAT(edges.sources.numbers, ElementsAre(0, 1, 2, 0, 1, 1));
      EXPECT_THAT(edges.targets.numbers, ElementsAre(1, 0, 0, 2, 1, 1));
      EXPECT_THAT(Numbers<float>(edges.columns[0]), ElementsAre(0.5, 0.5, 1.5, 1.5, 2.5, 2.5));
      EXPECT_EQ(tables->schema.edge_sets()[0].columns[2].name, "year");
      EXPECT_THAT(Numbers<int64_t>(edges.columns[2]),
                  ElementsAre(2001, 2001, 2010, 2010, 2017, 2017));
      EXPECT_EQ(tables->schema.node_sets()[0].columns[0].name, "species");
      EXPECT_THAT(Numbers<int64_t>(all.sets.at("nodes").columns[0]),
                  ElementsAre(7, 8, 9007199254740993));
      EXPECT_THAT(tables->notes, ElementsAre(HasSubstr("the same edge the other way was added")));
    }
  }
}

TEST_F(SourceTablesTest, WhatIsNotKnownOfOgbIsAskedFor) {
  const auto write = [this](const std::string& folder) {
    Write(folder + "/raw/num-node-list.csv", "2\n");
    Write(folder + "/raw/num-edge-list.csv", "1\n");
    Write(folder + "/raw/edge.csv", "0,1\n");
  };
  write("mine");
  const absl::Status status = OpenSourceTables(Path("mine")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("'mine' is none of the data sets of OGB"), HasSubstr("ogbl-biokg"),
                    HasSubstr("--ogb-name as-is")));
  EXPECT_EQ(ReadAll(*OpenSourceTables(Path("mine"), "as-is")).sets.at("edges").count, 1);
  EXPECT_EQ(ReadAll(*OpenSourceTables(Path("mine"), "ogbl-ddi")).sets.at("edges").count, 2);
  EXPECT_EQ(OpenSourceTables(Path("mine"), "ogbn-art").status().code(),
            absl::StatusCode::kInvalidArgument);
  // What its loader needs, and this folder lacks.
  for (const char* name : {"ogbl_wikikg2", "ogbl_collab", "ogbn_proteins", "ogbl-citation2"}) {
    write(name);
    EXPECT_EQ(OpenSourceTables(Path(name)).status().code(), absl::StatusCode::kNotFound) << name;
  }
  // An option of OGB's for another graph.
  Write("arrays/nodes/a/#size.npy", "");
  EXPECT_EQ(OpenSourceTables(Path("arrays"), "ogbl-ddi").status().code(),
            absl::StatusCode::kInvalidArgument);
  write("ogbn_papers100M");
  Write("ogbn_papers100M/raw/data.npz", "");
  EXPECT_EQ(OpenSourceTables(Path("ogbn_papers100M")).status().code(),
            absl::StatusCode::kUnimplemented);
  Write("ogbg/raw/num-node-dict.csv", "a,b\n1,2\n3,4\n");
  EXPECT_EQ(OpenSourceTables(Path("ogbg"), "as-is").status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST_F(SourceTablesTest, EachFileOfOgbThatIsNotReadIsNamed) {
  Write("ogbl_ppa/raw/num-node-list.csv", "2\n");
  Write("ogbl_ppa/raw/num-edge-list.csv", "1\n");
  Write("ogbl_ppa/raw/edge.csv", "0,1\n");
  const std::string text = Write("ogbl_ppa/raw/sub/README.md", "");
  const std::string other = Write("ogbl_ppa/raw/weights.csv", "1\n");
  const absl::StatusOr<SourceTables> tables = OpenSourceTables(Path("ogbl_ppa"));
  ASSERT_TRUE(tables.ok()) << tables.status();
  EXPECT_THAT(tables->notes,
              ElementsAre(testing::_, text + " is not read", other + " is not read"));
}

// The types that pyarrow gives the columns of the same texts.
TEST_F(SourceTablesTest, NumbersOfTextsKeepTheirValues) {
  const auto read = [this](const std::string& text, DType dtype) {
    const std::string path = Write("metadata.json", R"({"node_type": ["u"],
        "num_nodes_per_type": [3], "edge_type": ["u:r:u"], "num_edges_per_type": [1], "edges":
        {"u:r:u": {"format": {"name": "csv", "delimiter": " "}, "data": ["e"]}}, "node_data": {"u":
        {"x": {"format": {"name": "csv"}, "data": ["x"]}}}})");
    Write("e", "0 1\n");
    Write("x", text);
    const absl::StatusOr<SourceTables> tables = OpenSourceTables(path);
    EXPECT_TRUE(tables.ok()) << tables.status();
    EXPECT_EQ(tables->schema.node_sets()[0].columns[0].dtype, dtype) << text;
    const Everything all = ReadAll(*tables);
    EXPECT_TRUE(all.status.ok()) << all.status;
    return all.sets.at("u").columns[0];
  };
  EXPECT_THAT(Numbers<int64_t>(read("16777217\n16777219\n1099511627777\n", DType::kInt64)),
              ElementsAre(16777217, 16777219, 1099511627777));
  EXPECT_THAT(
      Numbers<int64_t>(read("-9223372036854775808\n0\n9223372036854775807\n", DType::kInt64)),
      ElementsAre(INT64_MIN, 0, INT64_MAX));
  EXPECT_THAT(Numbers<double>(read("16777217\n0.1\n-inf\n", DType::kFloat64)),
              ElementsAre(16777217, 0.1, -std::numeric_limits<double>::infinity()));
  EXPECT_THAT(Numbers<int64_t>(read("1,2\n3,4\n5,6\n", DType::kInt64)),
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(Numbers<double>(read("1,2\n3,4\n5,6.5\n", DType::kFloat64)),
              ElementsAre(1, 2, 3, 4, 5, 6.5));
  EXPECT_THAT(Numbers<uint8_t>(read("true\nFalse\nTRUE\n", DType::kBool)), ElementsAre(1, 0, 1));
}

TEST_F(SourceTablesTest, ChunksOfDglAreReadAsTheyAreShared) {
  const std::filesystem::path folder =
      std::filesystem::path(SharedData()) / "partition" / "chunked";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is missing";
  const absl::StatusOr<SourceTables> tables = OpenSourceTables(folder.string());
  ASSERT_TRUE(tables.ok()) << tables.status();
  const Everything all = ReadAll(*tables);
  ASSERT_TRUE(all.status.ok()) << all.status;
  EXPECT_EQ(all.sets.at("item").count, 150);
  EXPECT_EQ(all.sets.at("buys").count, 500);
  EXPECT_EQ(all.sets.at("top").count, 1);
  EXPECT_FALSE(all.sets.at("user").columns[0].bytes.empty());
}

// As `convert-chunked` writes them.
TEST_F(SourceTablesTest, EdgesOfChunksMayBeArrays) {
  const auto pairs = [](const std::vector<int64_t>& ids, bool by_column = false) {
    std::string header =
        absl::StrCat("{'descr': '<i8', 'fortran_order': ", by_column ? "True" : "False",
                     ", 'shape': (", ids.size() / 2, ", 2), }");
    header.resize(117, ' ');
    std::string bytes("\x93NUMPY\x01\x00\x76\x00", 10);
    absl::StrAppend(&bytes, header, "\n");
    bytes.append(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int64_t));
    return bytes;
  };
  const std::string path = Write("metadata.json", R"({"node_type": ["u"], "num_nodes_per_type": [3],
      "edge_type": ["u:/a/r:u"], "num_edges_per_type": [3], "edges": {"u:/a/r:u": {"format":
      {"name": "numpy"}, "data": ["e0.npy", "e1.npy"]}}})");
  Write("e0.npy", pairs({0, 1, 2, 0}));
  const std::string last = Write("e1.npy", pairs({1, 2}));
  const absl::StatusOr<SourceTables> tables = OpenSourceTables(path);
  ASSERT_TRUE(tables.ok()) << tables.status();
  const Everything all = ReadAll(*tables);
  ASSERT_TRUE(all.status.ok()) << all.status;
  EXPECT_THAT(all.sets.at("/a/r").sources.numbers, ElementsAre(0, 2, 1));
  EXPECT_THAT(all.sets.at("/a/r").targets.numbers, ElementsAre(1, 0, 2));
  Write("e1.npy", pairs({1, 3}));
  EXPECT_EQ(ReadError(path), absl::StrCat(last, ": row 0: target 3 is none of the 3 nodes"));
  // Its numbers would be taken for other edges.
  Write("e1.npy", pairs({1, 2}, /*by_column=*/true));
  EXPECT_EQ(ReadError(path), absl::StrCat(last,
                                          ": is in Fortran order; save "
                                          "numpy.ascontiguousarray of it"));
  Write("e1.npy", pairs({1, 2, 0, 0}));
  EXPECT_EQ(ReadError(path), absl::StrCat(path, ": edge type 'u:/a/r:u' has 3 edges, its files 4"));
}

TEST_F(SourceTablesTest, EdgesOfChunksAreBetweenTheSetsOfTheirName) {
  const std::string path = Write("metadata.json", R"({"node_type": ["u", "v", "w"],
      "num_nodes_per_type": [1, 2, 3], "edge_type": ["w:r:v", "u:s:w"],
      "num_edges_per_type": [2, 1],
      "edges": {"w:r:v": {"format": {"name": "csv", "delimiter": " "}, "data": ["e"]},
                "u:s:w": {"format": {"name": "csv", "delimiter": " "}, "data": ["f"]}}})");
  const std::string edges = Write("e", "2 1\n0 0\n");
  Write("f", "0 2\n");
  const absl::StatusOr<SourceTables> tables = OpenSourceTables(path);
  ASSERT_TRUE(tables.ok()) << tables.status();
  const SourceEdgeSetSpec& spec = tables->schema.edge_sets()[0];
  EXPECT_EQ(tables->schema.node_sets()[spec.source].name, "w");
  EXPECT_EQ(tables->schema.node_sets()[spec.target].name, "v");
  const Everything all = ReadAll(*tables);
  ASSERT_TRUE(all.status.ok()) << all.status;
  EXPECT_THAT(all.sets.at("r").targets.numbers, ElementsAre(1, 0));
  EXPECT_THAT(all.sets.at("s").targets.numbers, ElementsAre(2));
  Write("e", "0 0\n3 0\n");
  EXPECT_THAT(ReadError(path), HasSubstr(absl::StrCat(edges, ": line 2: ")));
}

TEST_F(SourceTablesTest, ChunksThatDisagreeAreNamed) {
  const auto metadata = [](const std::string& nodes) {
    return absl::StrCat(
        R"({"node_type": ["u"], "num_nodes_per_type": [)", nodes,
        R"(], "edge_type": ["u:r:u"], "num_edges_per_type": [2], "edges": {"u:r:u": {"format":
        {"name": "csv", "delimiter": " "}, "data": ["e0", "e1"]}}, "node_data": {"u": {"x":
        {"format": {"name": "csv"}, "data": ["x"]}}}})");
  };
  const std::string path = Write("metadata.json", metadata("2"));
  Write("e0", "0 1\n");
  const std::string last = Write("e1", "1 2\n");
  const std::string x = Write("x", "1\n2\n");
  EXPECT_EQ(ReadError(path),
            absl::StrCat(last, ": line 1: field 2: target 2 is none of the 2 nodes"));
  Write("e1", "1 0\n");
  EXPECT_EQ(ReadError(path), "");
  Write("metadata.json", metadata("3"));
  EXPECT_EQ(ReadError(path), absl::StrCat(x, ": column 'x' has fewer rows than its set"));
  std::filesystem::remove(x);
  EXPECT_EQ(ReadError(path), absl::StrCat(x, ": is not there"));
}

TEST_F(SourceTablesTest, WhatIsNoGraphIsRefused) {
  EXPECT_EQ(ReadError(Path("none")), absl::StrCat(Path("none"), ": is not there"));
  const std::string text = Write("x.txt", "");
  EXPECT_EQ(
      ReadError(text),
      absl::StrCat(text, ": must be a .npz, a schema (.pbtxt), a metadata.json, or a folder"));
}

}  // namespace
}  // namespace packhouse::client
