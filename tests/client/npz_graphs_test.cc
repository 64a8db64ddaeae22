#include "client/bench/npz_graphs.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/cpp/little_endian.h"
#include "client/graph/files/npz_archive.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/npz_writer.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::client {
namespace {

// `x: int16 [9] of nodes`, `senders: int32 of edges, into nodes`.
std::string TensorText(const v1::TensorSpec& spec) {
  const std::string type = v1::DataType_Name(spec.dtype());
  std::string text =
      absl::StrCat(spec.name(), ": ", absl::AsciiStrToLower(absl::StripPrefix(type, "DATA_TYPE_")));
  if (spec.row_shape_size() > 0) {
    absl::StrAppend(&text, " [", absl::StrJoin(spec.row_shape(), ", "), "]");
  }
  absl::StrAppend(&text, " of ", spec.component());
  if (!spec.index_into().empty()) absl::StrAppend(&text, ", into ", spec.index_into());
  return text;
}

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <typename T>
std::vector<T> Values(const std::string& bytes) {
  const LittleEndianView<T> view(bytes);
  std::vector<T> values;
  for (std::size_t i = 0; i < view.size(); ++i) values.push_back(view[i]);
  return values;
}

// Three graphs: 2 nodes and 2 edges, 1 node and none, 2 nodes and 1 edge.
NpzEntries ThreeGraphs() {
  return {
      {"node_offsets.npy", NpyFile<int64_t>("<i8", "(4,)", {0, 2, 3, 5})},
      {"edge_offsets.npy", NpyFile<int64_t>("<i8", "(4,)", {0, 2, 2, 3})},
      {"x.npy", NpyFile<int16_t>("<i2", "(5, 2)", {1, -2, 3, -4, 5, -6, 7, -8, 9, -10})},
      {"edge_index.npy", NpyFile<int16_t>("<i2", "(2, 3)", {0, 1, 1, 1, 0, 0})},
      {"edge_attr.npy", NpyFile<int8_t>("|i1", "(3,)", {4, 5, 6})},
      {"y.npy", NpyFile<float>("<f4", "(3,)", {0.5f, 1.5f, 2.5f})},
  };
}

class NpzGraphsTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<GraphSource>> Open(const NpzEntries& entries,
                                                    const std::string& groups = "") {
    WriteNpz(path_, entries);
    return NpzGraphs::Open(path_, groups);
  }
  // ThreeGraphs with one entry in place of the one of its name, or behind all.
  absl::StatusOr<std::unique_ptr<GraphSource>> OpenWith(const std::string& name,
                                                        const std::string& content,
                                                        const std::string& groups = "") {
    NpzEntries entries = ThreeGraphs();
    bool replaced = false;
    for (auto& [entry, bytes] : entries) {
      if (entry != name) continue;
      bytes = content;
      replaced = true;
    }
    if (!replaced) entries.emplace_back(name, content);
    return Open(entries, groups);
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/graphs.npz";
};

TEST_F(NpzGraphsTest, TheSchemaIsThatOfThePythonPackage) {
  PH_ASSERT_OK_AND_ASSIGN(const auto source, Open(ThreeGraphs()));
  EXPECT_THAT(source->schema().components(), ElementsAre("nodes", "edges"));
  std::vector<std::string> tensors;
  for (const v1::TensorSpec& spec : source->schema().tensors()) tensors.push_back(TensorText(spec));
  EXPECT_THAT(tensors, ElementsAre("x: int16 [2] of nodes", "senders: int32 of edges, into nodes",
                                   "receivers: int32 of edges, into nodes",
                                   "edge_attr: int8 of edges", "y: float32 of graphs"));
  EXPECT_EQ(source->num_graphs(), 3);
  EXPECT_FALSE(source->is_grouped());
}

TEST_F(NpzGraphsTest, RowsAreThoseOfTheGraphs) {
  PH_ASSERT_OK_AND_ASSIGN(const auto source, Open(ThreeGraphs()));
  PH_ASSERT_OK_AND_ASSIGN(const SourceChunk first, source->Next(1));
  PH_ASSERT_OK_AND_ASSIGN(const SourceChunk rest, source->Next(2));
  EXPECT_EQ(first.graphs.sizes().first_id(), 0);
  EXPECT_EQ(rest.graphs.sizes().first_id(), 1);
  EXPECT_EQ(rest.graphs.sizes().num_graphs(), 2);
  EXPECT_THAT(Values<uint32_t>(first.graphs.sizes().counts()), ElementsAre(2, 2));
  EXPECT_THAT(Values<uint32_t>(rest.graphs.sizes().counts()), ElementsAre(1, 0, 2, 1));
  EXPECT_EQ(rest.graphs.tensors(0).name(), "x");
  EXPECT_THAT(Values<int16_t>(first.graphs.tensors(0).data()), ElementsAre(1, -2, 3, -4));
  EXPECT_THAT(Values<int16_t>(rest.graphs.tensors(0).data()), ElementsAre(5, -6, 7, -8, 9, -10));
  EXPECT_THAT(Values<int32_t>(first.graphs.tensors(1).data()), ElementsAre(0, 1));
  EXPECT_THAT(Values<int32_t>(first.graphs.tensors(2).data()), ElementsAre(1, 0));
  EXPECT_THAT(Values<int32_t>(rest.graphs.tensors(1).data()), ElementsAre(1));
  EXPECT_THAT(Values<int32_t>(rest.graphs.tensors(2).data()), ElementsAre(0));
  EXPECT_THAT(Values<float>(rest.graphs.tensors(4).data()), ElementsAre(1.5f, 2.5f));
  EXPECT_THAT(first.group_ids, IsEmpty());
}

TEST_F(NpzGraphsTest, GraphBytesAreThoseOfTheChunk) {
  PH_ASSERT_OK_AND_ASSIGN(
      const auto source,
      OpenWith("query.npy", NpyFile<uint8_t>("|u1", "(3,)", {9, 9, 200}), "query"));
  for (uint64_t graph = 0; graph < source->num_graphs(); ++graph) {
    PH_ASSERT_OK_AND_ASSIGN(const SourceChunk chunk, source->Next(1));
    uint64_t bytes = chunk.graphs.sizes().counts().size() + chunk.group_ids.size();
    for (const v1::TensorData& tensor : chunk.graphs.tensors()) bytes += tensor.data().size();
    EXPECT_EQ(source->GraphBytes(graph), bytes);
  }
}

TEST_F(NpzGraphsTest, GroupsAreIdsAndNoTensor) {
  PH_ASSERT_OK_AND_ASSIGN(
      const auto source,
      OpenWith("query.npy", NpyFile<uint8_t>("|u1", "(3,)", {9, 9, 200}), "query"));
  EXPECT_TRUE(source->is_grouped());
  EXPECT_EQ(source->schema().tensors_size(), 5);
  PH_ASSERT_OK_AND_ASSIGN(const SourceChunk chunk, source->Next(3));
  EXPECT_THAT(Values<uint64_t>(chunk.group_ids), ElementsAre(9, 9, 200));
}

TEST_F(NpzGraphsTest, OtherArraysGrowAlongWhatTheyFit) {
  const std::string two = NpyFile<double>("<f8", "(2,)", {1, 2});
  const std::string three = NpyFile<uint8_t>("|b1", "(3,)", {0, 1, 1});
  const std::string five = NpyFile<uint8_t>("|u1", "(5, 1)", {1, 2, 3, 4, 5});
  PH_ASSERT_OK_AND_ASSIGN(auto source, OpenWith("colour.npy", five));
  EXPECT_EQ(TensorText(source->schema().tensors(5)), "colour: uint8 [1] of nodes");
  // There are as many edges as graphs.
  EXPECT_THAT(OpenWith("mask.npy", three),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("array 'mask': has the shape [3]; there are 5 nodes, 3 edges and "
                                 "3 graphs: say which by a name")));
  PH_ASSERT_OK_AND_ASSIGN(source, OpenWith("edge_mask.npy", three));
  EXPECT_EQ(TensorText(source->schema().tensors(5)), "edge_mask: bool of edges");
  PH_ASSERT_OK_AND_ASSIGN(source, OpenWith("graph_mask.npy", three));
  EXPECT_EQ(TensorText(source->schema().tensors(5)), "graph_mask: bool of graphs");
  EXPECT_THAT(OpenWith("colour.npy", two),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has the shape [2]")));
}

TEST_F(NpzGraphsTest, OnlyOffsetsAreNeeded) {
  PH_ASSERT_OK_AND_ASSIGN(const auto source,
                          Open({{"node_offsets.npy", NpyFile<uint32_t>("<u4", "(2,)", {0, 7})},
                                {"edge_offsets.npy", NpyFile<int32_t>("<i4", "(2,)", {0, 9})}}));
  PH_ASSERT_OK_AND_ASSIGN(const SourceChunk chunk, source->Next(1));
  EXPECT_THAT(Values<uint32_t>(chunk.graphs.sizes().counts()), ElementsAre(7, 9));
  EXPECT_EQ(source->schema().tensors_size(), 0);
}

TEST_F(NpzGraphsTest, NoGraphsAreNoGraphs) {
  PH_ASSERT_OK_AND_ASSIGN(const auto source,
                          Open({{"node_offsets.npy", NpyFile<int64_t>("<i8", "(1,)", {0})},
                                {"edge_offsets.npy", NpyFile<int64_t>("<i8", "(1,)", {0})},
                                {"edge_index.npy", NpyFile<int64_t>("<i8", "(2, 0)", {})},
                                {"x.npy", NpyFile<float>("<f4", "(0, 3)", {})}}));
  EXPECT_EQ(source->num_graphs(), 0);
}

TEST_F(NpzGraphsTest, BadArraysAreRefusedNamingFileArrayAndValue) {
  struct Case {
    std::string name;
    std::string content;
    std::string says;
    absl::StatusCode code = absl::StatusCode::kInvalidArgument;
  };
  const std::vector<Case> cases = {
      {"node_offsets.npy", NpyFile<int64_t>("<i8", "(4,)", {1, 2, 3, 5}),
       "array 'node_offsets': begins with 1"},
      {"node_offsets.npy", NpyFile<int64_t>("<i8", "(4,)", {0, 3, 2, 5}),
       "array 'node_offsets': element 2 is 2, less than 3"},
      {"node_offsets.npy", NpyFile<int64_t>("<i8", "(4,)", {0, -3, 2, 5}),
       "array 'node_offsets': element 1 is -3"},
      {"node_offsets.npy", NpyFile<int64_t>("<i8", "(4,)", {0, 1, 2, 5'000'000'000}),
       "array 'node_offsets': graph 2 has 4999999998 rows"},
      {"node_offsets.npy", NpyFile<int64_t>("<i8", "(5,)", {0, 2, 3, 5, 5}),
       "node_offsets has 5 elements, edge_offsets 4"},
      {"node_offsets.npy", NpyFile<int64_t>("<i8", "(0,)", {}), "array 'node_offsets': is empty"},
      {"node_offsets.npy", NpyFile<double>("<f8", "(4,)", {0, 2, 3, 5}),
       "array 'node_offsets': has the shape [4]; must be one row of whole numbers"},
      {"edge_offsets.npy", NpyFile<int64_t>("<i8", "(2, 2)", {0, 2, 2, 3}),
       "array 'edge_offsets': has the shape [2, 2]"},
      {"x.npy", NpyFile<int8_t>("|i1", "(4,)", {1, 2, 3, 4}),
       "array 'x': has the shape [4]; must have one row for each of the 5 nodes"},
      {"y.npy", NpyFile<int8_t>("|i1", "()", {1}), "array 'y': has the shape [], a single value"},
      {"x.npy", NpyFile<int8_t>("|i1", "(5, 0)", {}), "tensor 'x' has an extent of 0"},
      {"x.npy", NpyFile<int8_t>("<i2", "(5,)", {1, 2, 3, 4, 5}),
       "array 'x': has 5 bytes of elements, its header says 10"},
      {"x.npy", NpyHeaderOf("{'descr': '<i2', 'fortran_order': True, 'shape': (5, 1)}"),
       "array 'x': is in Fortran order"},
      {"x.npy", NpyFile<int16_t>(">i2", "(5,)", {1, 2, 3, 4, 5}), "array 'x': dtype '>i2' is big"},
      {"x.npy", "no array", "array 'x': is no .npy file"},
      {"x.npy", NpyHeaderOf("{}").substr(0, 40), "array 'x': has a header of 64 bytes, the file"},
      {"edge_index.npy", NpyFile<int16_t>("<i2", "(3, 2)", {0, 1, 1, 1, 0, 0}),
       "array 'edge_index': has the shape [3, 2]; must be whole numbers [2, 3]"},
      {"edge_index.npy", NpyFile<float>("<f4", "(2, 3)", {0, 1, 1, 1, 0, 0}),
       "array 'edge_index': has the shape [2, 3]; must be whole numbers"},
      {"edge_index.npy", NpyFile<int16_t>("<i2", "(2, 3)", {0, 1, 2, 1, 0, 0}),
       "array 'edge_index': edge 0 of graph 2 has the end 2, the graph has 2 nodes",
       absl::StatusCode::kOutOfRange},
      {"edge_index.npy", NpyFile<int64_t>("<i8", "(2, 3)", {0, 1, 1, 1, -1, 0}),
       "array 'edge_index': edge 1 of graph 0 has the end -1", absl::StatusCode::kOutOfRange},
      {"notes.txt", "hello", "entry 'notes.txt' is no .npy file"},
      {"senders.npy", NpyFile<int8_t>("|i1", "(5,)", {1, 2, 3, 4, 5}),
       "tensor 'senders' is listed twice"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.says);
    EXPECT_THAT(OpenWith(c.name, c.content), StatusIs(c.code, HasSubstr(path_)));
    EXPECT_THAT(OpenWith(c.name, c.content), StatusIs(c.code, HasSubstr(c.says)));
  }
}

TEST_F(NpzGraphsTest, BadGroupsAreRefused) {
  const std::string five = NpyFile<uint8_t>("|u1", "(5,)", {1, 2, 3, 4, 5});
  const std::string negative = NpyFile<int8_t>("|i1", "(3,)", {1, -2, 3});
  const auto says = [](const std::string& text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
  };
  EXPECT_THAT(OpenWith("query.npy", five, "query"), says("has 5 group ids for 3 graphs"));
  EXPECT_THAT(OpenWith("query.npy", negative, "query"), says("element 1 is -2"));
  EXPECT_THAT(OpenWith("query.npy", five, "y"), says("array 'y'"));
  EXPECT_THAT(OpenWith("query.npy", five, "none"), says("no array 'none' for --groups"));
}

TEST_F(NpzGraphsTest, OffsetsMustBeThere) {
  NpzEntries entries = ThreeGraphs();
  entries.erase(entries.begin() + 1);
  EXPECT_THAT(Open(entries), StatusIs(absl::StatusCode::kInvalidArgument,
                                      HasSubstr("has no array 'edge_offsets'")));
}

TEST_F(NpzGraphsTest, FilesThatAreNoArchives) {
  EXPECT_THAT(NpzGraphs::Open(path_ + ".none", ""),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(path_)));
  std::ofstream(path_) << "PK\x03\x04 but nothing else";
  EXPECT_TRUE(IsZipArchive(path_));
  EXPECT_THAT(NpzGraphs::Open(path_, ""),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(path_)));
  std::ofstream(path_) << "num_nodes\n3\n";
  EXPECT_FALSE(IsZipArchive(path_));
  EXPECT_FALSE(IsZipArchive(path_ + ".none"));
}

// Two graphs of papers and authors: 2 papers, 1 author, 2 writings; 1 paper, 2 authors, 1 writing.
NpzEntries AuthorsAndPapers() {
  return {
      {"paper.offsets.npy", NpyFile<int64_t>("<i8", "(3,)", {0, 2, 3})},
      {"author.offsets.npy", NpyFile<int32_t>("<i4", "(3,)", {0, 1, 3})},
      {"author.writes.paper.offsets.npy", NpyFile<int64_t>("<i8", "(3,)", {0, 2, 3})},
      {"author.writes.paper.edge_index.npy", NpyFile<int64_t>("<i8", "(2, 3)", {0, 0, 1, 1, 0, 0})},
      {"author.writes.paper.year.npy", NpyFile<int16_t>("<i2", "(3,)", {1999, 2001, 2003})},
      {"paper.x.npy", NpyFile<float>("<f4", "(3, 1)", {1.5f, 2.5f, 3.5f})},
      {"y.npy", NpyFile<int8_t>("|i1", "(2,)", {7, 8})},
  };
}

TEST_F(NpzGraphsTest, SeveralKindsOfNodesAndEdges) {
  PH_ASSERT_OK_AND_ASSIGN(const auto source, Open(AuthorsAndPapers()));
  EXPECT_THAT(source->schema().components(), ElementsAre("paper", "author", "author.writes.paper"));
  std::vector<std::string> tensors;
  for (const v1::TensorSpec& spec : source->schema().tensors()) tensors.push_back(TensorText(spec));
  EXPECT_THAT(tensors,
              ElementsAre("author.writes.paper.source: int32 of author.writes.paper, into author",
                          "author.writes.paper.target: int32 of author.writes.paper, into paper",
                          "author.writes.paper.year: int16 of author.writes.paper",
                          "paper.x: float32 [1] of paper", "y: int8 of graphs"));
  PH_ASSERT_OK_AND_ASSIGN(const SourceChunk first, source->Next(1));
  PH_ASSERT_OK_AND_ASSIGN(const SourceChunk second, source->Next(1));
  EXPECT_THAT(Values<uint32_t>(first.graphs.sizes().counts()), ElementsAre(2, 1, 2));
  EXPECT_THAT(Values<uint32_t>(second.graphs.sizes().counts()), ElementsAre(1, 2, 1));
  EXPECT_THAT(Values<int32_t>(first.graphs.tensors(0).data()), ElementsAre(0, 0));
  EXPECT_THAT(Values<int32_t>(first.graphs.tensors(1).data()), ElementsAre(1, 0));
  EXPECT_THAT(Values<int32_t>(second.graphs.tensors(0).data()), ElementsAre(1));
  EXPECT_THAT(Values<int32_t>(second.graphs.tensors(1).data()), ElementsAre(0));
  EXPECT_THAT(Values<int16_t>(first.graphs.tensors(2).data()), ElementsAre(1999, 2001));
  EXPECT_THAT(Values<float>(second.graphs.tensors(3).data()), ElementsAre(3.5f));
  EXPECT_THAT(Values<int8_t>(second.graphs.tensors(4).data()), ElementsAre(8));
  uint64_t bytes = second.graphs.sizes().counts().size();
  for (const v1::TensorData& tensor : second.graphs.tensors()) bytes += tensor.data().size();
  EXPECT_EQ(source->GraphBytes(1), bytes);
}

TEST_F(NpzGraphsTest, EdgesMayEndWhereTheyBegin) {
  PH_ASSERT_OK_AND_ASSIGN(
      const auto source,
      Open({{"a.offsets.npy", NpyFile<int64_t>("<i8", "(2,)", {0, 2})},
            {"a.b.offsets.npy", NpyFile<int64_t>("<i8", "(2,)", {0, 3})},
            {"a.b.to.a.b.offsets.npy", NpyFile<int64_t>("<i8", "(2,)", {0, 1})},
            {"a.b.to.a.b.edge_index.npy", NpyFile<int64_t>("<i8", "(2, 1)", {2, 0})}}));
  EXPECT_EQ(TensorText(source->schema().tensors(0)),
            "a.b.to.a.b.source: int32 of a.b.to.a.b, into a.b");
  EXPECT_EQ(TensorText(source->schema().tensors(1)),
            "a.b.to.a.b.target: int32 of a.b.to.a.b, into a.b");
}

TEST_F(NpzGraphsTest, BadArraysOfSeveralKindsAreRefused) {
  struct Case {
    std::string name;
    std::string content;
    std::string says;
    absl::StatusCode code = absl::StatusCode::kInvalidArgument;
  };
  const std::vector<Case> cases = {
      {"author.offsets.npy", NpyFile<int32_t>("<i4", "(2,)", {0, 3}),
       "paper.offsets has 3 elements, author.offsets 2"},
      {"paper.x.npy", NpyFile<float>("<f4", "(2,)", {1, 2}),
       "array 'paper.x': has the shape [2]; must have one row for each of the 3 paper"},
      {"y.npy", NpyFile<int8_t>("|i1", "(3,)", {7, 8, 9}),
       "array 'y': has the shape [3]; must have one row for each of the 2 graphs"},
      {"y.npy", NpyFile<int8_t>("|i1", "()", {7}), "array 'y': has the shape [], a single value"},
      {"author.writes.paper.edge_index.npy", NpyFile<int64_t>("<i8", "(2, 3)", {0, 0, 1, 2, 0, 0}),
       "edge 0 of graph 0 has the end 2, the graph has 2 paper", absl::StatusCode::kOutOfRange},
      {"paper.edge_index.npy", NpyFile<int64_t>("<i8", "(2, 3)", {0, 0, 0, 0, 0, 0}),
       "array 'paper.edge_index': 'paper' must be SOURCE.RELATION.TARGET"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.says);
    NpzEntries entries = AuthorsAndPapers();
    std::erase_if(entries, [&](const auto& entry) { return entry.first == c.name; });
    entries.emplace_back(c.name, c.content);
    EXPECT_THAT(Open(entries), StatusIs(c.code, HasSubstr(path_)));
    EXPECT_THAT(Open(entries), StatusIs(c.code, HasSubstr(c.says)));
  }
}

// The rows of all graphs, whatever the names.
std::string AllRows(GraphSource& source) {
  const absl::StatusOr<SourceChunk> chunk = source.Next(source.num_graphs());
  EXPECT_TRUE(chunk.ok()) << chunk.status();
  if (!chunk.ok()) return "";
  std::string rows = chunk->graphs.sizes().counts();
  for (const v1::TensorData& tensor : chunk->graphs.tensors()) rows += tensor.data();
  return rows;
}

// A file that is opened is whole: a byte that changed is found before anything is sent, or it was
// none of the graphs'.
TEST_F(NpzGraphsTest, ChangedBytesAreFoundOrDoNotMatter) {
  PH_ASSERT_OK_AND_ASSIGN(const auto source, Open(ThreeGraphs()));
  const std::string rows = AllRows(*source);
  std::string file;
  {
    std::ifstream stream(path_, std::ios::binary);
    file.assign(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  Random random(1);
  int refused = 0;
  for (std::size_t i = 0; i < file.size(); ++i) {
    SCOPED_TRACE(i);
    std::string changed = file;
    changed[i] = static_cast<char>(changed[i] ^ static_cast<char>(random.Between(1, 255)));
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << changed;
    const auto opened = NpzGraphs::Open(path_, "");
    if (!opened.ok()) {
      ++refused;
      continue;
    }
    // The name of an array may have changed into one that fits too, or its order.
    std::string all = AllRows(**opened);
    std::string expected = rows;
    std::sort(all.begin(), all.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(all, expected);
  }
  EXPECT_GT(refused, static_cast<int>(file.size()) / 2);
}

TEST_F(NpzGraphsTest, NoPrefixOfAFileIsOne) {
  PH_ASSERT_OK_AND_ASSIGN(const auto source, Open(ThreeGraphs()));
  for (auto size = std::filesystem::file_size(path_); size-- > 0;) {
    std::filesystem::resize_file(path_, size);
    ASSERT_THAT(NpzGraphs::Open(path_, ""),
                StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_))
        << size;
  }
}

TEST_F(NpzGraphsTest, TheFingerprintIsOfTheContent) {
  PH_ASSERT_OK_AND_ASSIGN(const auto source, Open(ThreeGraphs()));
  const std::string elsewhere = folder_.path() + "/copy.npz";
  WriteNpz(elsewhere, ThreeGraphs());
  PH_ASSERT_OK_AND_ASSIGN(const auto copy, NpzGraphs::Open(elsewhere, ""));
  EXPECT_EQ(source->fingerprint(), copy->fingerprint());
  PH_ASSERT_OK_AND_ASSIGN(const auto other,
                          OpenWith("edge_attr.npy", NpyFile<int8_t>("|i1", "(3,)", {4, 5, 7})));
  EXPECT_NE(source->fingerprint(), other->fingerprint());
}

}  // namespace
}  // namespace packhouse::client
