// Large graphs as files have them: what is written is read, and bad rows are named.
#include "client/graph/source_graphs/source_tables.h"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/graph/files/fingerprint.h"
#include "client/graph/source_graphs/graph_import.h"
#include "client/graph/source_graphs/mag_tables.h"
#include "client/graph/source_graphs/ogb_tables.h"
#include "client/graph/source_graphs/source_graph_wire.h"
#include "client/graph/source_graphs/table_writers.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "service/wings/graphs/files/npy_header.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace packhouse::client {
namespace {

using graph_files::IdRows;
using graph_files::SourceRows;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::StartsWith;

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
  // How many rows each piece has.
  std::map<std::string, std::vector<uint64_t>> pieces;
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
    all.pieces[name].push_back(rows.count);
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

// A .npy file.
template <typename Number>
std::string Npy(DType dtype, const std::vector<uint64_t>& shape,
                const std::vector<Number>& elements) {
  std::string bytes = MakeNpyHeader(dtype, shape);
  bytes.append(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(Number));
  return bytes;
}

std::string Ints(const std::vector<uint64_t>& shape, const std::vector<int64_t>& elements) {
  return Npy(DType::kInt64, shape, elements);
}

std::string Content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The fingerprint of the graph at `path` is of each of these files.
void ExpectFingerprintOf(const std::string& path, const std::vector<std::string>& files) {
  std::string before = OpenSourceTables(path).value().fingerprint;
  EXPECT_EQ(OpenSourceTables(path).value().fingerprint, before);
  for (const std::string& file : files) {
    std::filesystem::last_write_time(
        file, std::filesystem::last_write_time(file) + std::chrono::seconds(1));
    const std::string after = OpenSourceTables(path).value().fingerprint;
    EXPECT_NE(after, before) << file;
    before = after;
  }
}

// Tables were opened, and then one of their files is cut, or goes.
void ExpectEachIsNeeded(const SourceTables& tables, const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    const std::string whole = Content(file);
    std::ofstream(file, std::ios::binary) << whole.substr(0, whole.size() - 1);
    EXPECT_EQ(ReadAll(tables).status, absl::DataLossError(absl::StrCat(file, ": ends too soon")));
    std::filesystem::remove(file);
    EXPECT_THAT(ReadAll(tables).status,
                StatusIs(absl::StatusCode::kNotFound, StartsWith(absl::StrCat(file, ": "))));
    std::ofstream(file, std::ios::binary) << whole;
  }
  EXPECT_THAT(ReadAll(tables).status, IsOk());
}

// No gzip, though it begins so.
constexpr absl::string_view kBroken("\x1f\x8b\x08\0\0\0\0\0\0\x03\xff\xff\xff\xff", 14);

// Each file of the graph at `path` is read: of one that is broken its name is told.
void ExpectEachIsRead(const std::string& path, const std::vector<std::string>& files,
                      const std::string& ogb_name = "") {
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    const std::string whole = Content(file);
    std::ofstream(file, std::ios::binary) << kBroken;
    const absl::StatusOr<SourceTables> tables = OpenSourceTables(path, ogb_name);
    EXPECT_THAT(tables.ok() ? ReadAll(*tables).status : tables.status(),
                StatusIs(absl::StatusCode::kDataLoss, StartsWith(absl::StrCat(file, ": "))));
    std::ofstream(file, std::ios::binary) << whole;
  }
}

// Tables of texts were opened, and then one of their files goes, or is broken.
void ExpectEachIsStillNeeded(const SourceTables& tables, const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    const std::string whole = Content(file);
    std::filesystem::remove(file);
    EXPECT_EQ(ReadAll(tables).status,
              absl::NotFoundError(absl::StrCat(file, ": No such file or directory")));
    std::ofstream(file, std::ios::binary) << kBroken;
    EXPECT_THAT(ReadAll(tables).status,
                StatusIs(absl::StatusCode::kDataLoss, StartsWith(absl::StrCat(file, ": "))));
    std::ofstream(file, std::ios::binary) << whole;
  }
  EXPECT_THAT(ReadAll(tables).status, IsOk());
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
  EXPECT_THAT(ReadError(Write("dense/two.pbtxt",
                              std::string(schema).replace(at, std::strlen("size: 1"), "size: 2"))),
              StartsWith(absl::StrCat(Path("dense/nodes-paper.tfrecords"),
                                      ": record 0: feature 'labels': ")));
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

// The same on every machine, and in every release.
TEST_F(SourceTablesTest, AGeneratedGraphStaysTheSame) {
  const absl::StatusOr<SourceTables> tables = OpenMagTables({0.001, 7});
  ASSERT_TRUE(tables.ok()) << tables.status();
  std::map<std::string, std::string> found;
  const Everything all = ReadAll(*tables, 1100);
  for (const auto& [name, rows] : all.sets) {
    Fingerprint fingerprint;
    for (const IdRows* const ids : {&rows.ids, &rows.sources, &rows.targets}) {
      for (const int64_t id : ids->numbers) fingerprint.Add(static_cast<uint64_t>(id));
    }
    for (const graph_files::ColumnRows& column : rows.columns) fingerprint.Add(column.bytes);
    found[name] = fingerprint.Hex();
  }
  EXPECT_THAT(
      found,
      ElementsAre(Pair("affiliated_with", "5f727a12b370cb55"), Pair("author", "834f9279f4a4d436"),
                  Pair("cites", "2170069eb2f478bc"), Pair("field_of_study", "d823ee269a8105e5"),
                  Pair("has_topic", "7fd5f04b90a378f7"), Pair("institution", "49614f10fb0856cd"),
                  Pair("paper", "7aba868194d4010b"), Pair("writes", "099bbd345b3f792b")));
  // By it an import that was interrupted goes on.
  EXPECT_EQ(tables->fingerprint, "10b16b1f36c5788c");
  EXPECT_EQ(all.pieces.at("paper")[0], 2);
  EXPECT_EQ(all.pieces.at("author")[0], 137);
  EXPECT_EQ(all.pieces.at("cites")[0], 68);
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
  for (const double wrong : {0.0, -1.0, 100.5}) {
    EXPECT_EQ(OpenMagTables({wrong, 0}).status(),
              absl::InvalidArgumentError(
                  absl::StrCat("--scale ", wrong, ": must be above 0, and at most 100")));
  }
  EXPECT_TRUE(OpenMagTables({100, 0}).ok());
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
  EXPECT_THAT(ReadAll(*OpenSourceTables(schema), 1).pieces.at("a"), ElementsAre(1, 1, 1));
  ExpectFingerprintOf(schema, {schema, good, bad, second});
  Write("s.pbtxt", absl::StrCat("node_sets { key: 'b' value { metadata { filename: "
                                "'gs://b/b.csv' } } }",
                                Content(schema)));
  EXPECT_EQ(ReadError(schema), absl::StrCat(schema,
                                            ": the table 'gs://b/b.csv' is in no local "
                                            "file system"));
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
  EXPECT_EQ(AddReverses({"=writes"}, &*tables).message(),
            "--reverse '=writes': must be NAME=EDGE_SET");
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
    for (const size_t max_bytes : {size_t{1}, size_t{145}, size_t{10000}}) {
      const absl::StatusOr<SourceTables> tables = OpenSourceTables(Path(name));
      ASSERT_TRUE(tables.ok()) << tables.status();
      const Everything all = ReadAll(*tables, max_bytes);
      ASSERT_TRUE(all.status.ok()) << all.status;
      const SourceRows& edges = all.sets.at("edges");
      EXPECT_THAT(edges.sources.numbers, ElementsAre(0, 1, 2, 0, 1, 1));
      EXPECT_THAT(edges.targets.numbers, ElementsAre(1, 0, 0, 2, 1, 1));
      // Two edges of 72 bytes with what is added.
      if (max_bytes == 145) {
        EXPECT_THAT(all.pieces.at("edges"), ElementsAre(4, 2));
      }
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
  EXPECT_EQ(ReadAll(*OpenSourceTables(Path("mine/"), "ogbl_ddi")).sets.at("edges").count, 2);
  EXPECT_NE(OpenSourceTables(Path("mine"), "as-is")->fingerprint,
            OpenSourceTables(Path("mine"), "ogbl-ddi")->fingerprint);
  EXPECT_EQ(OpenSourceTables(Path("mine"), "ogbn-art").status().code(),
            absl::StatusCode::kInvalidArgument);
  // What its loader needs, and this folder lacks.
  for (const auto& [name, needed] :
       {std::pair("ogbl_wikikg2", "edge_reltype"), std::pair("ogbl_collab", "edge_weight"),
        std::pair("ogbn_proteins", "node_species"), std::pair("ogbl-citation2", "node_year")}) {
    write(name);
    EXPECT_EQ(
        OpenSourceTables(Path(name)).status(),
        absl::NotFoundError(absl::StrCat(Path(name), "/raw/", needed, ".csv.gz: is not there")));
  }
  // An option of OGB's for another graph.
  Write("arrays/nodes/a/#size.npy", "");
  EXPECT_EQ(OpenSourceTables(Path("arrays"), "ogbl-ddi").status().code(),
            absl::StatusCode::kInvalidArgument);
  write("ogbn_papers100M");
  Write("ogbn_papers100M/raw/data.npz", "");
  EXPECT_EQ(OpenSourceTables(Path("ogbn_papers100M")).status().code(),
            absl::StatusCode::kUnimplemented);
  const std::string many = Write("ogbg/raw/num-node-dict.csv", "a,b\n1,2\n3,4\n");
  EXPECT_THAT(OpenSourceTables(Path("ogbg"), "as-is").status(),
              StatusIs(absl::StatusCode::kUnimplemented,
                       StartsWith(absl::StrCat(many, ": the data set has 2 graphs, and "))));
}

TEST_F(SourceTablesTest, EachFileOfOgbIsNeededAndRead) {
  std::vector<std::string> files;
  const auto write = [&](const std::string& name, const std::string& text) {
    files.push_back(Write(absl::StrCat("o/raw/", name, ".csv"), text));
  };
  write("num-node-list", "2\n");
  write("num-edge-list", "1\n");
  write("edge", "0,1\n");
  for (const char* const name : {"node-feat", "node-label", "node_year", "species"}) {
    write(name, "1\n2\n");
  }
  for (const char* const name : {"edge-feat", "edge_weight"}) write(name, "1\n");
  ExpectEachIsRead(Path("o"), files, "as-is");
  const absl::StatusOr<SourceTables> tables = OpenSourceTables(Path("o"), "as-is");
  ASSERT_TRUE(tables.ok()) << tables.status();
  ExpectEachIsStillNeeded(*tables, {files.begin() + 2, files.end()});
  const auto missing = [&](const std::string& folder, const std::string& name) {
    std::filesystem::rename(Path(folder + name + ".csv"), Path("away"));
    EXPECT_EQ(OpenSourceTables(Path(folder.substr(0, folder.find('/'))), "as-is").status(),
              absl::NotFoundError(absl::StrCat(Path(folder + name), ".csv.gz: is not there")));
    std::filesystem::rename(Path("away"), Path(folder + name + ".csv"));
  };
  for (const char* const name : {"num-node-list", "num-edge-list", "edge"}) {
    missing("o/raw/", name);
  }
  // A name twice.
  for (const char* const name : {"node_feat", "edge_feat"}) {
    const std::string twice = Write(absl::StrCat("o/raw/", name, ".csv"), "1\n2\n");
    EXPECT_THAT(OpenSourceTables(Path("o"), "as-is").status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("feat")));
    std::filesystem::remove(twice);
  }

  files = {Write("k/raw/num-node-dict.csv", "a\n2\n"),
           Write("k/raw/triplet-type-list.csv", "a,r,a\n"),
           Write("k/raw/relations/a___r___a/num-edge-list.csv", "1\n"),
           Write("k/raw/relations/a___r___a/edge.csv", "0,1\n"),
           Write("k/raw/node-feat/a/node-feat.csv", "1\n2\n"),
           Write("k/raw/node-feat/a/node_year.csv", "1\n2\n"),
           Write("k/raw/node-label/a/node-label.csv", "1\n2\n")};
  ExpectEachIsRead(Path("k"), files, "as-is");
  missing("k/raw/", "triplet-type-list");
  for (const char* const name : {"num-edge-list", "edge"}) {
    missing("k/raw/relations/a___r___a/", name);
  }
  Write("k/raw/num-node-dict.csv", "a,a\n2,2\n");
  EXPECT_THAT(OpenSourceTables(Path("k"), "as-is").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"a\" is there twice")));
  // The most fields, and one more.
  std::string fields(size_t{2} << 20, ',');
  for (size_t i = 0; i < fields.size(); i += 2) fields[i] = 'a';
  fields.back() = '\n';
  const std::string dict = Write("k/raw/num-node-dict.csv", fields);
  EXPECT_EQ(ReadError(Path("k")).find("fields"), std::string::npos);
  Write("k/raw/num-node-dict.csv", absl::StrCat("b,", fields));
  EXPECT_EQ(OpenSourceTables(Path("k"), "as-is").status(),
            absl::InvalidArgumentError(absl::StrCat(dict, ": line 1: more than 1048576 fields")));
}

TEST_F(SourceTablesTest, SplitsOfOgbAreThoseOfTheFirstFolder) {
  EXPECT_TRUE(ReadOgbSplits(Path("none"))->parts.empty());
  const std::string train = Write("o/split/b/train.csv", "2\n0\n");
  const std::string valid = Write("o/split/b/paper/valid.csv", "1\n");
  Write("o/split/b/nodetype-has-split.csv", "");
  Write("o/split/README", "");
  const std::string torch = Write("o/split/b/paper/test.pt", "");
  const std::string other = Write("o/split/b/split_dict.json", "");
  Write("o/split/c/train.csv", "1\n");
  const absl::StatusOr<OgbSplits> splits = ReadOgbSplits(Path("o"));
  ASSERT_TRUE(splits.ok()) << splits.status();
  ASSERT_EQ(splits->parts.size(), 2);
  EXPECT_EQ(splits->parts[0].node_set, "nodes");
  EXPECT_EQ(splits->parts[0].part, "train");
  EXPECT_THAT(splits->parts[0].nodes, ElementsAre(2, 0));
  EXPECT_EQ(splits->parts[1].node_set, "paper");
  EXPECT_EQ(splits->parts[1].part, "valid");
  EXPECT_THAT(splits->parts[1].nodes, ElementsAre(1));
  EXPECT_THAT(
      splits->notes,
      ElementsAre(absl::StrCat(Path("o/split/c"), " is not read: the seeds are those of ",
                               Path("o/split/b")),
                  absl::StrCat(torch, " is not read: in Python, torch.load() gives what it has"),
                  absl::StrCat(other, " is not read")));
  for (const std::string& file : {train, valid}) {
    const std::string whole = Content(file);
    Write("o/" + std::filesystem::path(file).lexically_relative(Path("o")).string(),
          std::string(kBroken));
    EXPECT_THAT(ReadOgbSplits(Path("o")), StatusIs(absl::StatusCode::kDataLoss, StartsWith(file)));
    std::ofstream(file, std::ios::binary) << whole;
  }
}

TEST_F(SourceTablesTest, EachFileOfOgbThatIsNotReadIsNamed) {
  Write("ogbl_ppa/raw/num-node-list.csv", "2\n");
  Write("ogbl_ppa/raw/num-edge-list.csv", "1\n");
  Write("ogbl_ppa/raw/edge.csv", "0,1\n");
  const std::string text = Write("ogbl_ppa/raw/sub/README.md", "");
  const std::string other = Write("ogbl_ppa/raw/weights.csv", "1\n");
  Write("ogbl_ppa/raw/nodetype-has-feat.csv", "");
  Write("ogbl_ppa/raw/sub/nodetype-has-label.csv.gz", "");
  // Its name is that of the folder.
  const absl::StatusOr<SourceTables> tables = OpenSourceTables(Path("ogbl_ppa/"));
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
  EXPECT_THAT(ReadAll(*tables, 33).pieces.at("/a/r"), ElementsAre(2, 1));
  EXPECT_THAT(ReadAll(*tables, 17).pieces.at("u"), ElementsAre(2, 1));
  ExpectEachIsNeeded(*tables, {Path("e0.npy"), last});
  ExpectFingerprintOf(path, {path, Path("e0.npy"), last});
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

TEST_F(SourceTablesTest, ChunksOfArraysThatDisagreeAreNamed) {
  const std::string path = Write("metadata.json", R"({"node_type": ["u"], "num_nodes_per_type": [3],
      "edge_type": ["u:r:u"], "num_edges_per_type": [2],
      "edges": {"u:r:u": {"format": {"name": "numpy"}, "data": ["e.npy"]}},
      "node_data": {"u": {"x": {"format": {"name": "numpy"}, "data": ["x0.npy", "x1.npy"]}}},
      "edge_data": {"u:r:u": {"w": {"format": {"name": "csv"}, "data": ["w.csv"]}}}})");
  const std::string x0 = Write("x0.npy", Ints({2}, {5, 6}));
  const std::string x1 = Write("x1.npy", Ints({1}, {7}));
  const std::string edges = Write("e.npy", Ints({2, 2}, {0, 1, 2, 0}));
  const std::string w = Write("w.csv", "8\n9\n");
  const absl::StatusOr<SourceTables> tables = OpenSourceTables(path);
  ASSERT_TRUE(tables.ok()) << tables.status();
  const Everything all = ReadAll(*tables, 48);
  ASSERT_TRUE(all.status.ok()) << all.status;
  EXPECT_THAT(Numbers<int64_t>(all.sets.at("u").columns[0]), ElementsAre(5, 6, 7));
  EXPECT_THAT(Numbers<int64_t>(all.sets.at("r").columns[0]), ElementsAre(8, 9));
  EXPECT_THAT(all.pieces, ElementsAre(Pair("r", ElementsAre(2)), Pair("u", ElementsAre(3))));
  EXPECT_THAT(ReadAll(*tables, 47).pieces,
              ElementsAre(Pair("r", ElementsAre(1, 1)), Pair("u", ElementsAre(2, 1))));
  ExpectEachIsNeeded(*tables, {x0, x1, edges});
  ExpectFingerprintOf(path, {path, x0, x1, edges, w});
  const auto expect = [&](const std::string& file, const std::string& content,
                          const std::string& message) {
    const std::string kept = Content(file);
    std::ofstream(file, std::ios::binary) << content;
    EXPECT_EQ(ReadError(path), message);
    std::ofstream(file, std::ios::binary) << kept;
  };
  expect(x1, Npy<float>(DType::kFloat32, {1}, {7}),
         absl::StrCat(x1, ": has rows of float32 [1], the first chunk has others"));
  expect(x1, Ints({1, 1}, {7}),
         absl::StrCat(x1, ": has rows of int64 [1, 1], the first chunk has others"));
  expect(x1, Ints({2}, {7, 8}), absl::StrCat(path, ": feature 'x' has 4 rows, its type 3"));
  expect(x1, Ints({}, {7}), absl::StrCat(x1, ": has no dimension; the first one numbers its rows"));
  expect(edges, Npy<double>(DType::kFloat64, {1, 2}, {0, 1}),
         absl::StrCat(edges, ": has rows of float64 [1, 2], two whole numbers are needed"));
  expect(edges, Ints({2}, {0, 1}),
         absl::StrCat(edges, ": has rows of int64 [2], two whole numbers are needed"));
  expect(edges, Ints({1, 3}, {0, 1, 2}),
         absl::StrCat(edges, ": has rows of int64 [1, 3], two whole numbers are needed"));
  expect(edges, Ints({2, 2}, {0, 1, -1, 0}),
         absl::StrCat(edges, ": row 1: source -1 is none of the 3 nodes"));
  for (const std::string& file : {x0, x1, edges, w}) {
    const std::string kept = Content(file);
    std::filesystem::remove(file);
    EXPECT_EQ(OpenSourceTables(path).status(),
              absl::NotFoundError(absl::StrCat(file, ": is not there")));
    std::ofstream(file, std::ios::binary) << kept;
  }
  ExpectEachIsRead(path, {w});
  for (const std::string& file : {x0, x1, edges}) {
    expect(file, "junk", absl::StrCat(file, ": is no .npy file: it ends after 4 bytes"));
  }
  expect(path, "{", absl::StrCat(path, ": is no JSON"));
  expect(w, "8\n", absl::StrCat(w, ": column 'w' has fewer rows than its set"));
  expect(w, "8\n9\n1\n", absl::StrCat(w, ": line 3: column 'w' has more rows than its set"));
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
  Write("x", "1\n2\n");
  std::filesystem::remove(last);
  EXPECT_EQ(ReadError(path), absl::StrCat(last, ": is not there"));
  std::string parquet = metadata("2");
  parquet.replace(parquet.find("csv"), 3, "parquet");
  Write("metadata.json", parquet);
  EXPECT_THAT(ReadError(path), AllOf(StartsWith(path + ": "), HasSubstr("Parquet")));
}

TEST_F(SourceTablesTest, WhatIsNoGraphIsRefused) {
  EXPECT_EQ(ReadError(Path("")),
            absl::StrCat(Path(""),
                         ": has no schema (.pbtxt), no metadata.json, no raw/ of OGB, "
                         "and no nodes/ or edges/ of arrays"));
  Write("two/a.pbtxt", "");
  Write("two/b.pbtxt", "");
  EXPECT_EQ(ReadError(Path("two")), absl::StrCat(Path("two"),
                                                 ": has 2 schemas (.pbtxt); name the "
                                                 "one that is meant"));
  EXPECT_EQ(ReadError(Path("none")), absl::StrCat(Path("none"), ": is not there"));
  EXPECT_EQ(ReadError(Write("x.h5", "\x89HDF")),
            absl::StrCat(Path("x.h5"),
                         ": is an HDF5 file, no large graph that is read here: write its arrays as "
                         "nodes/SET/COLUMN.npy and edges/SET/edge_index.npy in a folder, and name "
                         "that (docs/sampling.md)"));
  const std::string text = Write("x.txt", "");
  EXPECT_EQ(
      ReadError(text),
      absl::StrCat(text, ": must be a .npz, a schema (.pbtxt), a metadata.json, or a folder"));
}

TEST_F(SourceTablesTest, ArraysThatAreNoGraphAreNamed) {
  const auto no_number = [](const std::vector<uint64_t>& shape) {
    return Npy<double>(DType::kFloat64, shape, {1});
  };
  const std::string two = Ints({2}, {0, 1});
  const std::string three = Ints({3}, {0, 1, 1});
  const std::string column = Ints({2, 1}, {0, 1});
  const std::string p = "nodes/p/#size";
  const std::string size = Ints({}, {3});
  struct Case {
    // The last one is named.
    std::vector<std::pair<std::string, std::string>> files;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{{"nodes/x", two}}, "must be called nodes/SET/COLUMN or edges/SET/COLUMN"},
      {{{"nodes/p/#id", no_number({1})}}, "has elements of type float64; ids are whole numbers"},
      {{{"nodes/p/#id", column}}, "has the shape [2, 1], 1 dimension is needed"},
      {{{p, column}}, "has the shape [2, 1], 1 dimension is needed"},
      {{{p, Npy<uint64_t>(DType::kUint64, {1}, {uint64_t{1} << 63})}},
       "9223372036854775808 is no int64"},
      {{{"nodes/p/x", "junk"}}, "is no .npy file: it ends after 4 bytes"},
      {{{"nodes/p/x", Ints({0, uint64_t{1} << 32}, {})}},
       "has the shape [0, 4294967296]; extents of a row must be from 1 to 4294967295"},
      {{{p, size}, {"edges/e/edge_index", Ints({2, 2}, {0, 2, 2, 3})}},
       "edge 1: target 3 is none of the 3 nodes of 'p', whose ids count from 0 unless an array "
       "'#id' says them"},
      {{{p, size}, {"edges/e/target", two}, {"edges/e/source", Ints({2}, {0, -1})}},
       "edge 1: source -1 is none of the 3 nodes of 'p', whose ids count from 0 unless an array "
       "'#id' says them"},
      {{{p, two}}, "has the shape [2], one number is needed"},
      {{{p, Ints({}, {-1})}}, "-1 is no number of nodes"},
      {{{p, no_number({})}}, "has elements of type float64; ids are whole numbers"},
      {{{"nodes/p/#id", two}, {p, size}}, "3 nodes, '#id' has 2"},
      {{{"nodes/p/#id", two}, {"nodes/p/x", three}}, "has 3 rows, other arrays of its set have 2"},
      {{{"nodes/p/x", size}}, "has no dimension; the first one numbers its rows"},
      {{{"nodes/p/x", Ints({2, 0}, {})}},
       "has the shape [2, 0]; extents of a row must be from 1 to 4294967295"},
      {{{"nodes/p/x", two}, {"nodes/p/y", three}}, "has 3 rows, other arrays of its set have 2"},
      {{{"nodes/p/x", Ints({3}, {0, 1})}}, "has 16 bytes of elements, its header says 24"},
      {{{"nodes/p/x", Ints({1}, {0, 1})}}, "has 16 bytes of elements, its header says 8"},
      {{{"nodes/p/#id", Npy<uint64_t>(DType::kUint64, {1}, {uint64_t{1} << 63})}},
       "9223372036854775808 is no int64"},
      {{{p, size}, {"nodes/q/#size", size}, {"edges/e/source", two}},
       "edges are called SOURCE.NAME.TARGET, unless there is one node set; there are 2"},
      {{{p, size}, {"edges/e/source", two}},
       "its edge set has neither source and target nor edge_index"},
      {{{p, size}, {"edges/e/target", two}},
       "its edge set has neither source and target nor edge_index"},
      {{{p, size}, {"edges/e/source", two}, {"edges/e/target", three}}, "has 3 rows, source has 2"},
      {{{p, size}, {"edges/e/source", two}, {"edges/e/target", column}},
       "has the shape [2, 1], 1 dimension is needed"},
      {{{p, size}, {"edges/e/target", two}, {"edges/e/source", column}},
       "has the shape [2, 1], 1 dimension is needed"},
      {{{p, size}, {"edges/e/edge_index", two}}, "has the shape [2], 2 dimensions are needed"},
      {{{p, size}, {"edges/e/edge_index", Ints({3, 1}, {0, 0, 0})}},
       "has the shape [3, 1], [2, edges] is needed"},
      {{{p, size}, {"edges/e/edge_index", Ints({2, 2}, {0, 1, 1, 0})}, {"edges/e/w", three}},
       "has 3 rows, other arrays of its set have 2"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.message);
    std::filesystem::remove_all(Path("g"));
    std::string named;
    for (const auto& [name, bytes] : c.files)
      named = Write(absl::StrCat("g/", name, ".npy"), bytes);
    EXPECT_EQ(ReadError(Path("g")), absl::StrCat(named, ": ", c.message));
  }
}

// Of every type, and as many as `#size` says, too.
TEST_F(SourceTablesTest, IdsAreWholeNumbersOfAnyType) {
  const auto expect_ids = [this](const std::string& bytes) {
    Write("g/nodes/p/#id.npy", bytes);
    Write("g/nodes/p/#size.npy", Ints({}, {2}));
    const Everything all = ReadAll(*OpenSourceTables(Path("g")));
    EXPECT_THAT(all.status, IsOk());
    EXPECT_THAT(all.sets.at("p").ids.numbers, ElementsAre(1, 100));
  };
  expect_ids(Npy<int8_t>(DType::kInt8, {2}, {1, 100}));
  expect_ids(Npy<int16_t>(DType::kInt16, {2}, {1, 100}));
  expect_ids(Npy<int32_t>(DType::kInt32, {2}, {1, 100}));
  expect_ids(Npy<int64_t>(DType::kInt64, {2}, {1, 100}));
  expect_ids(Npy<uint8_t>(DType::kUint8, {2}, {1, 100}));
  expect_ids(Npy<uint16_t>(DType::kUint16, {2}, {1, 100}));
  expect_ids(Npy<uint32_t>(DType::kUint32, {2}, {1, 100}));
  expect_ids(Npy<uint64_t>(DType::kUint64, {2}, {1, 100}));
  std::filesystem::remove_all(Path("g/nodes"));
  Write("g/edges/a.e.b/edge_index.npy", Ints({2, 1}, {7, 8}));
  EXPECT_THAT(ReadAll(*OpenSourceTables(Path("g"))).sets.at("e").sources.numbers, ElementsAre(7));
  std::filesystem::create_directories(Path("g/nodes/p"));
  std::filesystem::create_symlink("nowhere", Path("g/nodes/p/x.npy"));
  EXPECT_EQ(
      OpenSourceTables(Path("g")).status(),
      absl::NotFoundError(absl::StrCat(Path("g/nodes/p/x.npy"), ": No such file or directory")));
}

// A set of several pieces, and a table that cannot be opened or read.
TEST_F(SourceTablesTest, PiecesOfASetAreWrittenOneBehindTheOther) {
  std::vector<int64_t> numbers(9000 * 64);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i);
  const std::string x = Write("g/nodes/p/x.npy", Ints({9000, 64}, numbers));
  const absl::StatusOr<SourceTables> tables = OpenSourceTables(Path("g"));
  ASSERT_TRUE(tables.ok()) << tables.status();
  ASSERT_THAT(WriteUnigraph(*tables, Path("tfgnn"), {}), IsOk());
  ASSERT_THAT(WriteArrays(*tables, Path("npy")), IsOk());
  for (const char* const folder : {"tfgnn", "npy"}) {
    const Everything all = ReadAll(*OpenSourceTables(Path(folder)), 1 << 20);
    EXPECT_TRUE(Numbers<int64_t>(all.sets.at("p").columns[0]) == numbers) << folder;
  }
  std::filesystem::resize_file(x, 2'000'000);
  const absl::Status cut = absl::DataLossError(absl::StrCat(x, ": ends too soon"));
  EXPECT_EQ(WriteUnigraph(*tables, Path("cut"), {}).status(), cut);
  EXPECT_EQ(WriteArrays(*tables, Path("cut")).status(), cut);
  SourceTables closed = *tables;
  closed.tables = {[]() -> absl::StatusOr<std::unique_ptr<TableReader>> {
    return absl::PermissionDeniedError("not you");
  }};
  EXPECT_EQ(ReadAll(closed).status, absl::PermissionDeniedError("not you"));
}

TEST_F(SourceTablesTest, TextsAndShortFloatsAreWrittenAsAUnigraph) {
  const auto schema = [](const std::string& dtype) {
    return absl::StrCat("node_sets { key: 'p' value { features { key: 't' value { dtype: ", dtype,
                        " } } metadata { filename: 'p.csv' } } }");
  };
  const std::string table = Write("p.csv", "id,t\nx,12\ny,7\n");
  const std::string path = Write("s.pbtxt", schema("DT_STRING"));
  ASSERT_THAT(WriteUnigraph(*OpenSourceTables(path), Path("texts"), {}), IsOk());
  const Everything texts = ReadAll(*OpenSourceTables(Path("texts")));
  EXPECT_EQ(texts.sets.at("p").columns[0].bytes, "127");
  EXPECT_THAT(texts.sets.at("p").columns[0].lengths, ElementsAre(2, 1));
  Write("s.pbtxt", schema("DT_BFLOAT16"));
  const absl::StatusOr<SourceTables> floats = OpenSourceTables(path);
  ASSERT_TRUE(floats.ok()) << floats.status();
  ASSERT_THAT(WriteUnigraph(*floats, Path("floats"), {}), IsOk());
  EXPECT_EQ(ReadAll(*OpenSourceTables(Path("floats"))).sets.at("p").columns[0].bytes,
            std::string("\x40\x41\xe0\x40"));
  EXPECT_EQ(WriteArrays(*floats, Path("arrays")).status(),
            absl::InvalidArgumentError("nodes/p: column 't' is no array of numpy's types"));
  ExpectEachIsStillNeeded(*floats, {table});
  Write("p.csv", "t\n12\n");
  EXPECT_THAT(ReadAll(*floats).status, StatusIs(absl::StatusCode::kInvalidArgument,
                                                StartsWith(absl::StrCat(table, ": line 1: "))));
  const std::string records = Path("floats/nodes-p.tfrecords");
  std::filesystem::resize_file(records, std::filesystem::file_size(records) - 1);
  EXPECT_THAT(ReadAll(*OpenSourceTables(Path("floats"))).status,
              StatusIs(absl::StatusCode::kDataLoss, StartsWith(records)));
  Write("s.pbtxt", "junk");
  EXPECT_THAT(ReadError(path), StartsWith(path + ": "));
  std::filesystem::create_directories(Path("f/a.pbtxt"));
  EXPECT_EQ(ReadError(Path("f")), Path("f/a.pbtxt") + ": is a folder; name a file");
  EXPECT_EQ(UnigraphId("p", 5, {1, false}), "5");
  EXPECT_EQ(UnigraphId("p", 5, {1, true}), "p5");
}

// Whatever the pieces are, rows are those of the arrays.
TEST_F(SourceTablesTest, ArraysAreReadInPieces) {
  const std::string id = Write("g/nodes/p/#id.npy", Ints({5}, {7, 8, -1, 9, 10}));
  const std::string x =
      Write("g/nodes/p/x.npy", Npy<float>(DType::kFloat32, {5, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  const std::string ends =
      Write("g/edges/e/edge_index.npy",
            Npy<int16_t>(DType::kInt16, {2, 5}, {7, 8, 9, 10, 7, 8, 9, 10, 7, 8}));
  const std::string w = Write("g/edges/e/w.npy", Npy<uint8_t>(DType::kUint8, {5}, {1, 2, 3, 4, 5}));
  const std::string source = Write("g/edges/f/source.npy", Ints({2}, {7, 8}));
  const std::string target = Write("g/edges/f/target.npy", Ints({2}, {8, -1}));
  const absl::StatusOr<SourceTables> tables = OpenSourceTables(Path("g"));
  ASSERT_TRUE(tables.ok()) << tables.status();
  for (const size_t max_bytes : {size_t{1}, size_t{34}, size_t{1000}}) {
    SCOPED_TRACE(max_bytes);
    const Everything all = ReadAll(*tables, max_bytes);
    ASSERT_TRUE(all.status.ok()) << all.status;
    EXPECT_THAT(all.sets.at("p").ids.numbers, ElementsAre(7, 8, -1, 9, 10));
    EXPECT_THAT(Numbers<float>(all.sets.at("p").columns[0]),
                ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
    EXPECT_THAT(all.sets.at("e").sources.numbers, ElementsAre(7, 8, 9, 10, 7));
    EXPECT_THAT(all.sets.at("e").targets.numbers, ElementsAre(8, 9, 10, 7, 8));
    EXPECT_THAT(Numbers<uint8_t>(all.sets.at("e").columns[0]), ElementsAre(1, 2, 3, 4, 5));
    EXPECT_THAT(all.sets.at("f").targets.numbers, ElementsAre(8, -1));
  }
  // Of 16 bytes a node, 17 and 16 an edge.
  EXPECT_THAT(ReadAll(*tables, 34).pieces,
              ElementsAre(Pair("e", ElementsAre(2, 2, 1)), Pair("f", ElementsAre(2)),
                          Pair("p", ElementsAre(2, 2, 1))));
  EXPECT_THAT(ReadAll(*tables, 33).pieces,
              ElementsAre(Pair("e", ElementsAre(1, 1, 1, 1, 1)), Pair("f", ElementsAre(2)),
                          Pair("p", ElementsAre(2, 2, 1))));
  ExpectEachIsNeeded(*tables, {id, x, ends, w, source, target});
  ExpectFingerprintOf(Path("g"), {id, x, ends, w, source, target});
}

TEST_F(SourceTablesTest, RelationsOfOneNameKeepTheirEnds) {
  const std::string edges = Ints({2, 1}, {0, 0});
  for (const char* set : {"a", "b"}) {
    Write(absl::StrCat("g/nodes/", set, "/#size.npy"), Ints({}, {1}));
  }
  for (const char* set : {"a.r.b", "a.t.c", "b.r.a", "b.s.b"}) {
    Write(absl::StrCat("g/edges/", set, "/edge_index.npy"), edges);
  }
  const auto sets_of = [](const absl::StatusOr<SourceTables>& tables) {
    std::vector<std::string> sets;
    EXPECT_TRUE(tables.ok()) << tables.status();
    if (!tables.ok()) return sets;
    for (const SourceEdgeSetSpec& set : tables->schema.edge_sets()) {
      sets.push_back(absl::StrCat(set.name, " ", set.source, " ", set.target));
    }
    return sets;
  };
  EXPECT_THAT(sets_of(OpenSourceTables(Path("g"))),
              ElementsAre("a.r.b 0 1", "t 0 2", "b.r.a 1 0", "s 1 1"));
  Write("c/metadata.json", R"({"node_type": ["a", "b"], "num_nodes_per_type": [1, 1],
      "edge_type": ["a:r:b", "b:r:a", "b:s:b"], "num_edges_per_type": [1, 1, 1],
      "edges": {"a:r:b": {"format": {"name": "csv", "delimiter": " "}, "data": ["e"]},
                "b:r:a": {"format": {"name": "csv", "delimiter": " "}, "data": ["e"]},
                "b:s:b": {"format": {"name": "csv", "delimiter": " "}, "data": ["e"]}}})");
  Write("c/e", "0 0\n");
  EXPECT_THAT(sets_of(OpenSourceTables(Path("c"))), ElementsAre("a:r:b 0 1", "b:r:a 1 0", "s 1 1"));
  Write("o/raw/num-node-dict.csv", "a,b\n1,1\n");
  Write("o/raw/triplet-type-list.csv", "a,r,b\nb,r,a\n");
  for (const char* relation : {"a___r___b", "b___r___a"}) {
    Write(absl::StrCat("o/raw/relations/", relation, "/edge.csv"), "0,0\n");
    Write(absl::StrCat("o/raw/relations/", relation, "/num-edge-list.csv"), "1\n");
  }
  EXPECT_THAT(sets_of(OpenSourceTables(Path("o"), "as-is")), ElementsAre("r 0 1", "b.r.a 1 0"));
  ExpectFingerprintOf(Path("c"), {Path("c/metadata.json"), Path("c/e")});
}

TEST_F(SourceTablesTest, ListsOfOgbThatDisagreeAreNamed) {
  Write("ogbn_mag/raw/num-node-dict.csv", "author,paper\n2,3\n");
  Write("ogbn_mag/raw/triplet-type-list.csv", "author,writes,paper\n");
  for (const char* relation :
       {"author___writes___paper", "paper___in___book", "book___in___paper"}) {
    Write(absl::StrCat("ogbn_mag/raw/relations/", relation, "/edge.csv"), "0,1\n1,2\n1,2\n");
    Write(absl::StrCat("ogbn_mag/raw/relations/", relation, "/num-edge-list.csv"), "3\n");
  }
  const std::string relation = "relations/author___writes___paper/";
  const std::vector<std::vector<std::string>> cases = {
      {"num-node-dict.csv", "author,paper\n",
       ": must be a line of names, and a line of as many counts"},
      {"num-node-dict.csv", "author,paper\n2\n",
       ": must be a line of names, and a line of as many counts"},
      {"num-node-dict.csv", "author,a/b\n2,3\n",
       ": line 1: field 2: 'a/b' cannot be the name of a folder"},
      {"triplet-type-list.csv", "author,writes,paper\nauthor,paper\n",
       ": line 2: must be source,relation,target"},
      {"triplet-type-list.csv", "author,writes,paper\npaper,../x,paper\n",
       ": line 2: field 2: '../x' cannot be the name of a folder"},
      {"triplet-type-list.csv", "author,writes,paper\npaper,in,book\n",
       ": line 2: field 3: 'book' is no node set"},
      {"triplet-type-list.csv", "book,in,paper\n", ": line 1: field 1: 'book' is no node set"},
      {relation + "num-edge-list.csv", "", ": has 0 numbers, one count is needed"},
      {relation + "num-edge-list.csv", "-1\n", ": has 1 numbers, one count is needed"},
      {relation + "num-edge-list.csv", "1,2\n", ": line 1: has 2 fields, 1 is needed"},
      {relation + "num-edge-list.csv", "x\n", ": line 1: 'x' is no int64"},
  };
  for (const std::vector<std::string>& c : cases) {
    SCOPED_TRACE(c[2]);
    const std::string path = Path("ogbn_mag/raw/" + c[0]);
    const std::string kept = Content(path);
    Write("ogbn_mag/raw/" + c[0], c[1]);
    EXPECT_EQ(ReadError(Path("ogbn_mag")), absl::StrCat(path, c[2]));
    Write("ogbn_mag/raw/" + c[0], kept);
  }
  EXPECT_EQ(ReadError(Path("ogbn_mag")), "");
  const std::string edges = Path("ogbn_mag/raw/" + relation + "edge.csv");
  ExpectFingerprintOf(Path("ogbn_mag"), {edges});
  // Told before the end is read.
  Write("ogbn_mag/raw/" + relation + "num-edge-list.csv", "1\n");
  EXPECT_EQ(ReadAll(*OpenSourceTables(Path("ogbn_mag")), 1).status,
            absl::InvalidArgumentError(
                absl::StrCat(edges, ": there are at least 2 edges, 1 were said to be")));
}

// As OGB's loader has them.
TEST_F(SourceTablesTest, EmptyFieldsOfFloatsAreNanAndSpeciesAreReadOnce) {
  Write("o/raw/num-node-list.csv", "2\n");
  Write("o/raw/num-edge-list.csv", "1\n");
  Write("o/raw/edge.csv", "0,1\n");
  Write("o/raw/node-feat.csv", "0.5,\n,1\n");
  Write("o/raw/node_.csv", "1\n2\n");
  Write("o/raw/species.csv", "1\n2\n");
  Write("o/raw/node_species.csv", "3\n4\n");
  const absl::StatusOr<SourceTables> tables = OpenSourceTables(Path("o"), "as-is");
  ASSERT_TRUE(tables.ok()) << tables.status();
  const Everything all = ReadAll(*tables);
  ASSERT_TRUE(all.status.ok()) << all.status;
  ASSERT_EQ(all.sets.at("nodes").columns.size(), 2);
  const std::vector<float> feat = Numbers<float>(all.sets.at("nodes").columns[0]);
  ASSERT_EQ(feat.size(), 4);
  EXPECT_EQ(feat[0], 0.5);
  EXPECT_TRUE(std::isnan(feat[1]));
  EXPECT_TRUE(std::isnan(feat[2]));
  EXPECT_EQ(feat[3], 1);
  EXPECT_THAT(Numbers<int64_t>(all.sets.at("nodes").columns[1]), ElementsAre(3, 4));
}

TEST_F(SourceTablesTest, TextsLongerThanABufferAreReadWhole) {
  constexpr int64_t kNodes = 60'000;
  std::string lines;
  std::vector<int64_t> up;
  for (int64_t i = 0; i < kNodes; ++i) {
    // The last line has no end.
    absl::StrAppend(&lines, i == 0 ? "" : "\n", i, ",", kNodes - 1 - i);
    up.push_back(i);
  }
  Write("o/raw/num-node-list.csv", absl::StrCat(kNodes));
  Write("o/raw/num-edge-list.csv", absl::StrCat(kNodes));
  const std::string edges = Write("o/raw/edge.csv", lines);
  Everything all = ReadAll(*OpenSourceTables(Path("o"), "as-is"), 1 << 20);
  ASSERT_TRUE(all.status.ok()) << all.status;
  EXPECT_TRUE(all.sets.at("edges").sources.numbers == up);
  EXPECT_TRUE(all.sets.at("edges").targets.numbers == std::vector<int64_t>(up.rbegin(), up.rend()));
  Write("p.csv", absl::StrCat("id,x\n", lines));
  all = ReadAll(*OpenSourceTables(Write("s.pbtxt",
                                        "node_sets { key: 'p' value { metadata { "
                                        "filename: 'p.csv' } } }")));
  ASSERT_TRUE(all.status.ok()) << all.status;
  ASSERT_EQ(all.sets.at("p").count, kNodes);
  for (int64_t i = 0; i < kNodes; ++i) {
    ASSERT_EQ(all.sets.at("p").ids.text(static_cast<size_t>(i)), absl::StrCat(i));
  }
  Write("o/raw/edge.csv", absl::StrCat("0,1\n", std::string((16 << 20) + 1, '1')));
  EXPECT_EQ(
      ReadAll(*OpenSourceTables(Path("o"), "as-is")).status,
      absl::InvalidArgumentError(absl::StrCat(edges, ": line 2: has more than 16777216 bytes")));
}

TEST_F(SourceTablesTest, AFingerprintIsOfNamesLengthsAndTimes) {
  namespace fs = std::filesystem;
  const std::string path = Write("a", "x");
  const fs::file_time_type time = fs::last_write_time(path);
  const std::string one = FingerprintOfFiles({path});
  std::set<std::string> seen = {one};
  const auto is_new = [&seen](const std::vector<std::string>& files) {
    return seen.insert(FingerprintOfFiles(files)).second;
  };
  EXPECT_EQ(one.size(), 16);
  EXPECT_FALSE(is_new({path}));
  EXPECT_TRUE(is_new({path, path}));
  EXPECT_TRUE(is_new({}));
  fs::last_write_time(path, time + std::chrono::nanoseconds(1));
  EXPECT_TRUE(is_new({path}));
  fs::last_write_time(path, time + std::chrono::seconds(1));
  EXPECT_TRUE(is_new({path}));
  fs::last_write_time(Write("a", "xy"), time);
  EXPECT_TRUE(is_new({path}));
  const std::string other = Write("b", "x");
  fs::last_write_time(other, time);
  EXPECT_TRUE(is_new({other}));
  // Not of its folder.
  const std::string moved = Write("folder/a", "x");
  fs::last_write_time(moved, time);
  EXPECT_EQ(FingerprintOfFiles({moved}), one);
}

TEST_F(SourceTablesTest, NumbersOfEveryTypeAreWrittenAndReadAgain) {
  std::vector<DType> dtypes;
  std::vector<std::string> rows;
  for (int i = 0; i <= static_cast<int>(DType::kFloat64); ++i) {
    const auto dtype = static_cast<DType>(i);
    // numpy has none.
    if (dtype == DType::kBfloat16) continue;
    // 1 and 0.
    std::string one(ElementBytes(dtype), '\0');
    switch (dtype) {
      case DType::kFloat16:
        one = {'\0', '\x3c'};
        break;
      case DType::kFloat32:
        one.replace(2, 2, "\x80\x3f");
        break;
      case DType::kFloat64:
        one.replace(6, 2, "\xf0\x3f");
        break;
      default:
        one[0] = 1;
    }
    dtypes.push_back(dtype);
    rows.push_back(one + std::string(one.size(), '\0'));
    const std::string name = absl::StrCat("g/nodes/p/x", 10 + i, ".npy");
    Write(name, MakeNpyHeader(dtype, std::vector<uint64_t>{2}) + rows.back());
  }
  // A set without rows has files, too.
  Write("g/nodes/q/#size.npy", Ints({}, {0}));
  Write("g/edges/p.e.q/edge_index.npy", Ints({2, 0}, {}));
  const absl::StatusOr<SourceTables> tables = OpenSourceTables(Path("g"));
  ASSERT_TRUE(tables.ok()) << tables.status();
  UnigraphOptions options;
  options.shards = 3;
  const absl::StatusOr<WrittenTables> written = WriteUnigraph(*tables, Path("tfgnn"), options);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->num_nodes, 2);
  EXPECT_EQ(written->num_edges, 0);
  ASSERT_TRUE(WriteArrays(*tables, Path("npy")).ok());
  EXPECT_THAT(Content(Path("tfgnn/graph_schema.pbtxt")), HasSubstr("cardinality: 2"));
  for (const char* folder : {"tfgnn", "npy"}) {
    SCOPED_TRACE(folder);
    const absl::StatusOr<SourceTables> again = OpenSourceTables(Path(folder));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->schema.EdgeSetIndex("e").has_value(), std::string(folder) == "tfgnn");
    const Everything all = ReadAll(*again);
    ASSERT_TRUE(all.status.ok()) << all.status;
    for (size_t c = 0; c < dtypes.size(); ++c) {
      EXPECT_EQ(again->schema.node_sets()[0].columns[c].dtype, dtypes[c]) << c;
      EXPECT_EQ(all.sets.at("p").columns[c].bytes, rows[c]) << c;
    }
  }
}

TEST_F(SourceTablesTest, WhatCannotBeWrittenIsNamed) {
  Write("g/nodes/p/x.npy", Ints({1}, {5}));
  Write("g/nodes/q/#size.npy", Ints({}, {1}));
  Write("g/nodes/r/#size.npy", Ints({}, {0}));
  Write("g/edges/p.e.q/source.npy", Ints({1}, {0}));
  Write("g/edges/p.e.q/target.npy", Ints({1}, {0}));
  const absl::StatusOr<SourceTables> tables = OpenSourceTables(Path("g"));
  ASSERT_TRUE(tables.ok()) << tables.status();
  // Folders stand in the way.
  const auto expect = [&](bool is_unigraph, const std::string& folder, const std::string& named) {
    SCOPED_TRACE(folder);
    std::filesystem::remove_all(Path("out"));
    std::filesystem::create_directories(Path("out/" + folder + "/x"));
    const absl::Status status = is_unigraph ? WriteUnigraph(*tables, Path("out"), {}).status()
                                            : WriteArrays(*tables, Path("out")).status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                                 StartsWith(absl::StrCat(Path("out/" + named), ": "))));
  };
  for (const char* file :
       {"nodes/p/x.npy", "nodes/q/#size.npy", "edges/p.e.q/source.npy", "edges/p.e.q/target.npy"}) {
    expect(false, file, file);
  }
  for (const char* file : {"nodes-p.tfrecords", "nodes-r.tfrecords", "edges-e.tfrecords"}) {
    expect(true, file, file);
    expect(true, absl::StrCat(file, ".part"), absl::StrCat(file, ".part"));
    // A folder without a schema was not finished.
    EXPECT_FALSE(std::filesystem::exists(Path("out/graph_schema.pbtxt")));
  }
  expect(true, "graph_schema.pbtxt", "graph_schema.pbtxt");
  Write("file", "");
  EXPECT_EQ(WriteUnigraph(*tables, Path("file/x"), {}).status(),
            absl::UnavailableError(absl::StrCat(Path("file/x"), ": Not a directory")));
  EXPECT_EQ(WriteArrays(*tables, Path("file/x")).status(),
            absl::UnavailableError(absl::StrCat(Path("file/x/nodes/p"), ": Not a directory")));

  const auto refused = [&](const std::string& source) {
    return std::string(WriteArrays(*OpenSourceTables(source), Path("arrays")).status().message());
  };
  const std::string ids = "nodes/p: ids must be the numbers of the rows, from 0";
  Write("ids/nodes/p/#id.npy", Ints({2}, {0, 2}));
  EXPECT_EQ(refused(Path("ids")), ids);
  Write("p.csv", "id\n0\n");
  EXPECT_EQ(refused(Write("s.pbtxt",
                          "node_sets { key: 'p' value { metadata { filename: 'p.csv' } "
                          "} }")),
            ids);
  Write("p.csv", "id,t\n0,x\n");
  EXPECT_EQ(refused(Write("s.pbtxt",
                          "node_sets { key: 'p' value { features { key: 't' value { "
                          "dtype: DT_STRING } } metadata { filename: 'p.csv' } } }")),
            "nodes/p: column 't' is no array of numpy's types");
}

v1::SourceGraphSchema SchemaOf(const std::string& text) {
  v1::SourceGraphSchema schema;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &schema)) << text;
  return schema;
}

constexpr char kNodesOnTheWire[] = R"(
    node_sets { name: "a" id_kind: NODE_ID_KIND_TEXT
                columns { name: "t" dtype: DATA_TYPE_UINT8 ragged: true text: true }
                columns { name: "v" dtype: DATA_TYPE_FLOAT32 row_shape: 2 ragged: true } }
    node_sets { name: "b" id_kind: NODE_ID_KIND_TEXT } )";
constexpr char kEdgesOnTheWire[] = R"(
    edge_sets { name: "e" source: "a" target: "b" lookup: EDGE_LOOKUP_BY_TARGET
                columns { name: "w" dtype: DATA_TYPE_INT16 row_shape: 3 row_shape: 4 } } )";
constexpr char kReverseOnTheWire[] = R"(
    edge_sets { name: "back" source: "b" target: "a" reverse_of: "e" } )";

TEST_F(SourceTablesTest, ASchemaIsSentWithAllThatItSays) {
  Write("a.tfrecord", "");
  Write("b.csv", "id\n");
  Write("e.tfrecord", "");
  absl::StatusOr<SourceTables> tables = OpenSourceTables(Write(
      "s.pbtxt",
      "node_sets { key: 'a' value { metadata { filename: 'a.tfrecord' } features { key: 't' value "
      "{ dtype: DT_STRING } } features { key: 'v' value { dtype: DT_FLOAT shape { dim { size: -1 } "
      "dim { size: 2 } } } } } } node_sets { key: 'b' value { metadata { filename: 'b.csv' } } } "
      "edge_sets { key: 'e' value { source: 'a' target: 'b' metadata { filename: 'e.tfrecord' } "
      "features { key: 'w' value { dtype: DT_INT16 shape { dim { size: 3 } dim { size: 4 } } } } } "
      "}"));
  ASSERT_TRUE(tables.ok()) << tables.status();
  ASSERT_TRUE(AddReverses({"back=e"}, &*tables).ok());
  EXPECT_THAT(AddReverses({"e=e"}, &*tables),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"e\" is there twice")));
  const v1::SourceGraphSchema wanted =
      SchemaOf(absl::StrCat(kNodesOnTheWire, kEdgesOnTheWire, kReverseOnTheWire));
  const v1::SourceGraphSchema wire = WireSourceSchema(*tables, v1::EDGE_LOOKUP_BY_TARGET);
  EXPECT_EQ(wire.SerializeAsString(), wanted.SerializeAsString()) << wire.DebugString();
  // So is each piece, under the names of its set and of its columns.
  SourceRows rows;
  rows.columns.resize(2);
  v1::AppendSourceGraphRequest sent = WireSourceRows(tables->schema, rows);
  EXPECT_EQ(sent.nodes(0).node_set(), "a");
  EXPECT_EQ(sent.nodes(0).columns(1).name(), "v");
  rows.is_edges = true;
  rows.columns.resize(1);
  sent = WireSourceRows(tables->schema, rows);
  EXPECT_EQ(sent.edges(0).edge_set(), "e");
  EXPECT_EQ(sent.edges(0).columns(0).name(), "w");
}

TEST(SchemaDifferenceTest, IsThatOfTheFirstSet) {
  const v1::SourceGraphSchema all =
      SchemaOf(absl::StrCat(kNodesOnTheWire, kEdgesOnTheWire, kReverseOnTheWire));
  const std::string a =
      "a with texts as ids and columns (t text [], v DATA_TYPE_FLOAT32 ragged [2])";
  const std::string e = "e from a to b with columns (w DATA_TYPE_INT16 [3, 4])";
  v1::SourceGraphSchema there = all;
  // By which end edges are found is no difference of what the rows mean.
  there.mutable_edge_sets(0)->set_lookup(v1::EDGE_LOOKUP_BOTH);
  EXPECT_EQ(SchemaDifference(there, all), "");
  EXPECT_EQ(SchemaDifference(SchemaOf(absl::StrCat(kNodesOnTheWire, kEdgesOnTheWire)), all),
            "has the edge set none, the source has back from b to a reversing e with columns ()");
  EXPECT_EQ(SchemaDifference(all, SchemaOf(absl::StrCat(kNodesOnTheWire, kEdgesOnTheWire))),
            "has the edge set back from b to a reversing e with columns (), the source has none");
  there.mutable_edge_sets(0)->mutable_columns(0)->set_dtype(v1::DATA_TYPE_INT32);
  EXPECT_EQ(SchemaDifference(there, all),
            absl::StrCat("has the edge set e from a to b with columns (w DATA_TYPE_INT32 [3, 4]), "
                         "the source has ",
                         e));
  there.mutable_node_sets(0)->set_id_kind(v1::NODE_ID_KIND_INTEGER);
  EXPECT_EQ(SchemaDifference(there, all),
            absl::StrCat("has the node set a with integers as ids and columns (t text [], v "
                         "DATA_TYPE_FLOAT32 ragged [2]), the source has ",
                         a));
}

}  // namespace
}  // namespace packhouse::client
