#include "client/cpp/join_pieces.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

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
      EXPECT_EQ(joined.tensors(t).data().size(),
                whole.tensors(t).data().size() + other_whole.tensors(t).data().size());
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
  const auto wrong = [](const std::string& graph, const std::string& what) {
    return StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(graph), HasSubstr(what)));
  };
  EXPECT_THAT(JoinPieces(wire_schema_, {cut, cut}).status(), wrong(id, "is there twice"));
  const auto tensor = [&](const std::string& name) {
    for (v1::TensorData& each : *cut.mutable_tensors()) {
      if (each.name() == name) return each.mutable_data();
    }
    ADD_FAILURE() << name;
    return cut.mutable_tensors(0)->mutable_data();
  };
  const v1::GraphChunk intact = cut;
  // Piece 0 says it is the one behind the last.
  (*tensor("#piece"))[0] = static_cast<char>(cut.sizes().num_graphs());
  EXPECT_THAT(JoinPieces(wire_schema_, {cut}).status(), wrong(id, "piece 0 of "));
  cut = intact;
  (*tensor("#pieces"))[0] = 1;
  EXPECT_THAT(JoinPieces(wire_schema_, {cut}).status(), wrong(id, "has 1 pieces, and "));
  cut = intact;
  (*tensor("a.#inner"))[0] = 0;
  EXPECT_THAT(JoinPieces(wire_schema_, {cut}).status(), wrong(id, ""));
  cut = intact;
  (*tensor("aa.edge_index"))[7] = 1;
  EXPECT_THAT(JoinPieces(wire_schema_, {cut}).status(), wrong(id, "holds the index"));
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
  (*tensor("#piece"))[4 * (cut.sizes().num_graphs() - 1)] = 99;
  EXPECT_THAT(JoinPieces(wire_schema_, {cut}).status(), wrong(id, "is missing"));
  cut = intact;
  tensor("a.#row")->assign(tensor("a.#row")->size(), '\0');
  EXPECT_THAT(JoinPieces(wire_schema_, {cut}).status(), wrong(id, "lack rows of 'a'"));
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

}  // namespace
}  // namespace packhouse::client
