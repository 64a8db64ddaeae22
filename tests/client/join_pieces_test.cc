#include "client/cpp/join_pieces.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/little_endian.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/pieces/graph_pieces.h"
#include "service/algorithms/pieces/piece_schema.h"
#include "service/server/calls/wire_graphs.h"
#include "tests/partitioning/rich_graphs.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wire_chunk.h"

namespace packhouse::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class JoinPiecesTest : public testing::Test {
 protected:
  JoinPiecesTest() { GraphSchemaToWire(pieces_.with_pieces(), wire_schema_); }

  // A graph as it was sent, and in pieces of at most `most` rows a component.
  std::pair<v1::GraphChunk, v1::GraphChunk> Cut(uint64_t seed, uint64_t most) {
    const GraphSchema& schema = pieces_.whole();
    const GraphChunk whole = ChunkOf(schema, RandomRich(seed), 100 + seed);
    const std::vector<uint64_t> limits(schema.num_components(), most);
    const GraphChunk cut = CutOversizeGraphs(pieces_, whole, limits, [](uint64_t) {
                             return absl::OkStatus();
                           }).value();
    return {ChunkToWire(whole), ChunkToWire(cut)};
  }

  const PieceSchema pieces_ = PieceSchema::Create(RichSchema()).value();
  v1::GraphSchema wire_schema_;
};

TEST_F(JoinPiecesTest, GivesTheBytesThatWereSent) {
  std::size_t cut_graphs = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto [whole, cut] = Cut(seed, 12 + seed % 20);
    const auto [other_whole, other_cut] = Cut(seed + 1000, 16);
    cut_graphs += cut.sizes().num_graphs() > 1 ? 1 : 0;
    PH_ASSERT_OK_AND_ASSIGN(const v1::GraphChunk joined,
                            JoinPieces(wire_schema_, {cut, other_cut}));
    EXPECT_EQ(joined.sizes().num_graphs(), 2);
    EXPECT_EQ(joined.sizes().graph_ids(),
              whole.sizes().graph_ids() + other_whole.sizes().graph_ids());
    EXPECT_EQ(joined.sizes().counts(), whole.sizes().counts() + other_whole.sizes().counts());
    // Rows last: the planes of both graphs lie beside each other.
    PH_ASSERT_OK_AND_ASSIGN(const v1::GraphChunk alone, JoinPieces(wire_schema_, {cut}));
    ASSERT_EQ(alone.tensors_size(), whole.tensors_size());
    for (int t = 0; t < whole.tensors_size(); ++t) {
      EXPECT_EQ(alone.tensors(t).name(), whole.tensors(t).name());
      EXPECT_EQ(alone.tensors(t).data(), whole.tensors(t).data()) << whole.tensors(t).name();
      const v1::TensorSpec& spec = wire_schema_.tensors(t);
      const size_t planes = spec.layout() == v1::LAYOUT_ROWS_LAST ? spec.row_shape(0) : 1;
      std::string both;
      for (size_t plane = 0; plane < planes; ++plane) {
        for (const v1::GraphChunk* const each : {&whole, &other_whole}) {
          const size_t bytes = each->tensors(t).data().size() / planes;
          both.append(each->tensors(t).data(), plane * bytes, bytes);
        }
      }
      EXPECT_EQ(joined.tensors(t).data(), both) << spec.name();
    }
  }
  EXPECT_GT(cut_graphs, 60);
  PH_ASSERT_OK_AND_ASSIGN(const v1::GraphSchema whole, WholeSchema(wire_schema_));
  v1::GraphSchema sent;
  GraphSchemaToWire(pieces_.whole(), sent);
  EXPECT_EQ(whole.SerializeAsString(), sent.SerializeAsString());
}

TEST_F(JoinPiecesTest, NamesWhatIsWrong) {
  uint64_t seed = 0;
  v1::GraphChunk cut;
  while (cut.sizes().num_graphs() < 3) cut = Cut(seed++, 20).second;
  const std::string id = std::to_string(99 + seed);
  const uint64_t n = cut.sizes().num_graphs();
  const auto wrong = [](const std::string& graph, const std::string& what) {
    return StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(graph), HasSubstr(what)));
  };
  const auto of_graph = [&id](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat("graph ", id, ": ", what...));
  };
  EXPECT_EQ(JoinPieces(wire_schema_, {cut, cut}).status(), of_graph("piece 0 is there twice"));
  const auto tensor = [&](const std::string& name) {
    for (v1::TensorData& each : *cut.mutable_tensors()) {
      if (each.name() == name) return each.mutable_data();
    }
    ADD_FAILURE() << name;
    return cut.mutable_tensors(0)->mutable_data();
  };
  const v1::GraphChunk intact = cut;
  // Piece 0 says it is the one behind the last.
  (*tensor("#piece"))[0] = static_cast<char>(n);
  EXPECT_EQ(JoinPieces(wire_schema_, {cut}).status(), of_graph("piece 0 of ", n, " is missing"));
  cut = intact;
  (*tensor("#pieces"))[0] = 1;
  EXPECT_EQ(JoinPieces(wire_schema_, {cut}).status(), of_graph("has 1 pieces, and ", n));
  cut = intact;
  (*tensor("a.#inner"))[0] = 0;
  EXPECT_EQ(JoinPieces(wire_schema_, {cut}).status(), of_graph("its pieces lack rows of 'a'"));
  cut = intact;
  (*tensor("aa.edge_index"))[7] = 1;
  EXPECT_THAT(JoinPieces(wire_schema_, {cut}).status(), wrong(id, "holds the index"));
  cut = intact;
  tensor("aa.edge_index")->replace(0, 8, 8, '\xff');
  EXPECT_THAT(JoinPieces(wire_schema_, {cut}).status(), wrong(id, "holds the index -1 into"));
  cut = intact;
  tensor("a.x")->pop_back();
  EXPECT_THAT(JoinPieces(wire_schema_, {cut}).status(), wrong("a.x", "bytes for"));
  v1::GraphSchema sent;
  GraphSchemaToWire(pieces_.whole(), sent);
  EXPECT_THAT(JoinPieces(sent, {cut}).status(), wrong("#piece", "not cut"));

  // The chunk's own lengths.
  for (const auto& harm : std::vector<std::function<void(v1::GraphChunk&)>>{
           [](auto& c) { c.mutable_sizes()->mutable_graph_ids()->resize(8); },
           [](auto& c) { c.mutable_sizes()->mutable_graph_ids()->pop_back(); },
           [](auto& c) { c.mutable_sizes()->mutable_graph_ids()->push_back('x'); },
           [](auto& c) { c.mutable_sizes()->mutable_counts()->resize(4); },
           [](auto& c) { c.mutable_sizes()->mutable_counts()->append("more"); },
           [](auto& c) { c.mutable_sizes()->set_num_graphs(c.sizes().num_graphs() + 1); }}) {
    cut = intact;
    harm(cut);
    EXPECT_THAT(JoinPieces(wire_schema_, {cut}).status(), wrong("ids and counts", "not those of"));
  }
  cut = intact;
  cut.mutable_tensors()->RemoveLast();
  EXPECT_THAT(JoinPieces(wire_schema_, {cut}).status(), wrong("chunk: has ", "tensors"));
  cut = intact;
  tensor("a.x")->append(8, 'x');
  EXPECT_THAT(JoinPieces(wire_schema_, {cut}).status(), wrong("a.x", "bytes for"));
  // Pieces and rows of which one is missing, or there twice.
  cut = intact;
  (*tensor("#piece"))[4 * (n - 1)] = 99;
  EXPECT_EQ(JoinPieces(wire_schema_, {cut}).status(),
            of_graph("piece ", n - 1, " of ", n, " is missing"));
  // As many as all, and one more.
  for (uint64_t piece = 0; piece < n; ++piece) {
    (*tensor("#pieces"))[4 * piece] = static_cast<char>(n - 1);
  }
  EXPECT_EQ(JoinPieces(wire_schema_, {cut}).status(),
            of_graph("piece ", n - 1, " of ", n - 1, " is missing"));
  cut = intact;
  tensor("a.#row")->assign(tensor("a.#row")->size(), '\0');
  EXPECT_EQ(JoinPieces(wire_schema_, {cut}).status(), of_graph("its pieces lack rows of 'a'"));
  // Lengths of steps, of which there are others.
  cut = intact;
  std::string& lengths = *tensor("a.words.bytes.d1");
  lengths[0] = 127;
  EXPECT_THAT(JoinPieces(wire_schema_, {cut}).status(), wrong("a.words.bytes.d1", "more steps"));
  lengths.assign(lengths.size(), '\0');
  EXPECT_THAT(JoinPieces(wire_schema_, {cut}).status(),
              wrong("'a.words.bytes.d1' has 0 steps", ""));
}

// Before any value is read.
TEST_F(JoinPiecesTest, ASchemaWhoseTensorsAreNotThoseOfPiecesIsRefused) {
  uint64_t seed = 0;
  v1::GraphChunk cut;
  while (cut.sizes().num_graphs() < 3) cut = Cut(seed++, 20).second;
  for (const v1::TensorSpec& of_pieces : wire_schema_.tensors()) {
    if (of_pieces.name().find('#') == std::string::npos) continue;
    SCOPED_TRACE(of_pieces.name());
    for (const auto& harm : std::vector<std::function<void(v1::TensorSpec&)>>{
             [](auto& t) { t.set_dtype(v1::DATA_TYPE_UINT16); },
             [](auto& t) { t.add_row_shape(2); },
             [](auto& t) { t.set_component(t.component() == "ab" ? "aa" : "ab"); }}) {
      v1::GraphSchema schema = wire_schema_;
      for (v1::TensorSpec& each : *schema.mutable_tensors()) {
        if (each.name() == of_pieces.name()) harm(each);
      }
      EXPECT_THAT(JoinPieces(schema, {cut}).status(),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is not that of pieces")));
    }
  }
  const auto without = [&](const std::vector<std::string>& names) {
    v1::GraphSchema schema = wire_schema_;
    v1::GraphChunk chunk = cut;
    for (int t = schema.tensors_size(); t-- > 0;) {
      if (std::find(names.begin(), names.end(), schema.tensors(t).name()) == names.end()) continue;
      schema.mutable_tensors()->DeleteSubrange(t, 1);
      chunk.mutable_tensors()->DeleteSubrange(t, 1);
    }
    return JoinPieces(schema, {chunk}).status();
  };
  for (const auto& [names, why] : std::map<std::vector<std::string>, std::string>{
           {{"b.#inner"}, "no tensor 'b.#inner'"},
           {{"b.#row", "b.#inner"}, "the ragged feature 'b' has no lengths"},
           {{"a.words.bytes.d1"}, "the ragged feature 'a.words.bytes.d2' has no lengths"},
           {{"#pieces"}, "no tensor '#pieces'"}}) {
    EXPECT_THAT(without(names), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  }
}

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  std::string bytes;
  AppendLittleEndian(absl::MakeConstSpan(values), bytes);
  return bytes;
}

v1::TensorSpec& AddTensor(v1::GraphSchema& schema, const std::string& name, v1::DataType dtype,
                          const std::string& component) {
  v1::TensorSpec& tensor = *schema.add_tensors();
  tensor.set_name(name);
  tensor.set_dtype(dtype);
  tensor.set_component(component);
  return tensor;
}

void AddTensorsOfPieces(v1::GraphSchema& schema) {
  for (const char* const name : {"#piece", "#pieces", "#cut_edges"}) {
    AddTensor(schema, name, v1::DATA_TYPE_UINT32, "graphs");
  }
}

// Two nodes in two pieces, each of which has the other one's as a copy: each node points at the
// other, and has as many steps as its number plus one.
template <typename Index, typename Length>
absl::StatusOr<v1::GraphChunk> JoinTwo(v1::DataType index, v1::DataType length) {
  v1::GraphSchema schema;
  schema.add_components("n");
  schema.add_components("n.t");
  AddTensor(schema, "n.i", index, "n").set_index_into("n");
  AddTensor(schema, "n.t.d1", length, "n");
  AddTensor(schema, "n.t", v1::DATA_TYPE_INT8, "n.t");
  AddTensorsOfPieces(schema);
  AddTensor(schema, "n.#row", v1::DATA_TYPE_UINT32, "n");
  AddTensor(schema, "n.#inner", v1::DATA_TYPE_BOOL, "n");
  v1::GraphChunk chunk;
  chunk.mutable_sizes()->set_num_graphs(2);
  chunk.mutable_sizes()->set_graph_ids(Bytes<uint64_t>({7, 7}));
  chunk.mutable_sizes()->set_counts(Bytes<uint32_t>({2, 3, 2, 3}));
  // The first piece has node 1, then its copy of 0; the second node 0, then its copy of 1.
  const std::vector<std::string> data = {
      Bytes<Index>({1, 0, 1, 0}),    Bytes<Length>({2, 1, 1, 2}), "bcaabc",
      Bytes<uint32_t>({0, 1}),       Bytes<uint32_t>({2, 2}),     Bytes<uint32_t>({0, 0}),
      Bytes<uint32_t>({1, 0, 0, 1}), std::string("\1\0\1\0", 4)};
  for (const std::string& each : data) chunk.add_tensors()->set_data(each);
  return JoinPieces(schema, {chunk});
}

template <typename Index>
void ExpectJoined(v1::DataType index) {
  SCOPED_TRACE(v1::DataType_Name(index));
  PH_ASSERT_OK_AND_ASSIGN(const v1::GraphChunk joined,
                          (JoinTwo<Index, int64_t>(index, v1::DATA_TYPE_INT64)));
  EXPECT_EQ(joined.sizes().counts(), Bytes<uint32_t>({2, 3}));
  ASSERT_EQ(joined.tensors_size(), 3);
  EXPECT_EQ(joined.tensors(0).data(), Bytes<Index>({1, 0}));
  EXPECT_EQ(joined.tensors(1).data(), Bytes<int64_t>({1, 2}));
  EXPECT_EQ(joined.tensors(2).data(), "abc");
}

TEST(JoinTwoPiecesTest, IndicesMayBeOfAnyTypeAndLengthsOfTwo) {
  ExpectJoined<int8_t>(v1::DATA_TYPE_INT8);
  ExpectJoined<int16_t>(v1::DATA_TYPE_INT16);
  ExpectJoined<int32_t>(v1::DATA_TYPE_INT32);
  ExpectJoined<int64_t>(v1::DATA_TYPE_INT64);
  ExpectJoined<uint8_t>(v1::DATA_TYPE_UINT8);
  ExpectJoined<uint16_t>(v1::DATA_TYPE_UINT16);
  ExpectJoined<uint32_t>(v1::DATA_TYPE_UINT32);
  ExpectJoined<uint64_t>(v1::DATA_TYPE_UINT64);
  EXPECT_THAT((JoinTwo<int8_t, int32_t>(v1::DATA_TYPE_INT8, v1::DATA_TYPE_INT32)), IsOk());
  EXPECT_EQ((JoinTwo<int8_t, uint32_t>(v1::DATA_TYPE_INT8, v1::DATA_TYPE_UINT32)).status(),
            absl::InvalidArgumentError("the ragged feature 'n.t' has no lengths"));
}

TEST(JoinTwoPiecesTest, LengthsThatDependOnThemselvesAreRefused) {
  v1::GraphSchema schema;
  for (const char* const component : {"f", "g"}) schema.add_components(component);
  AddTensor(schema, "f.d1", v1::DATA_TYPE_INT32, "g");
  AddTensor(schema, "g.d1", v1::DATA_TYPE_INT32, "f");
  AddTensorsOfPieces(schema);
  v1::GraphChunk chunk;
  chunk.mutable_sizes()->set_num_graphs(1);
  chunk.mutable_sizes()->set_graph_ids(Bytes<uint64_t>({7}));
  chunk.mutable_sizes()->set_counts(Bytes<uint32_t>({0, 0}));
  for (const uint32_t value : {0U, 0U, 0U, 1U, 0U}) {
    chunk.add_tensors()->set_data(chunk.tensors_size() <= 2 ? "" : Bytes<uint32_t>({value}));
  }
  EXPECT_EQ(JoinPieces(schema, {chunk}).status(),
            absl::InvalidArgumentError("the lengths of 'g' depend on themselves"));
}

}  // namespace
}  // namespace packhouse::client
