#include "client/cpp/join_pieces.h"

#include <cstdint>
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
}

}  // namespace
}  // namespace packhouse::client
