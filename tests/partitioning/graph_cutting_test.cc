#include "service/algorithms/pieces/graph_cutting.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/algorithms/pieces/graph_pieces.h"
#include "service/algorithms/pieces/piece_schema.h"
#include "service/base/seeded_random.h"
#include "tests/partitioning/rich_graphs.h"
#include "tests/support/fingerprint.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

template <typename T>
T ValueOf(absl::string_view rows, size_t i) {
  T value;
  std::memcpy(&value, rows.data() + i * sizeof(T), sizeof(T));
  return value;
}

// Puts the pieces of a graph of RichSchema() together again, by the tensors of pieces alone.
Built PutTogether(const PieceSchema& schema, const GraphChunk& pieces) {
  Built whole;
  whole.columns.resize(schema.whole().tensors().size());
  const size_t l = schema.whole().num_components();
  whole.counts.assign(l, 0);
  // The owner of each row: piece and place.
  std::vector<std::vector<std::pair<size_t, size_t>>> owner(l);
  for (size_t k = 0; k < l; ++k) {
    const PieceSchema::Component& component = schema.components()[k];
    if (component.lengths) continue;
    for (size_t p = 0; p < pieces.num_graphs(); ++p) {
      const absl::string_view inner = pieces.rows(p, component.inner);
      for (size_t i = 0; i < inner.size(); ++i) {
        if (inner[i] == 0) continue;
        const auto row = ValueOf<uint32_t>(pieces.rows(p, component.row), i);
        if (owner[k].size() <= row) owner[k].resize(row + 1, {SIZE_MAX, 0});
        EXPECT_EQ(owner[k][row].first, SIZE_MAX) << "row " << row << " is owned twice";
        owner[k][row] = {p, i};
      }
    }
    whole.counts[k] = static_cast<uint32_t>(owner[k].size());
    for (const auto& [p, i] : owner[k]) EXPECT_NE(p, SIZE_MAX) << "a row of nobody";
  }
  const auto fixed = [&](size_t t) {
    const TensorSpec& spec = schema.whole().tensors()[t];
    for (size_t plane = 0; plane < schema.whole().num_planes(t); ++plane) {
      for (const auto& [p, i] : owner[spec.component]) {
        const absl::string_view rows = pieces.rows(p, t, plane);
        const size_t bytes = schema.whole().plane_row_bytes(t);
        std::string row(rows.substr(i * bytes, bytes));
        for (size_t at = 0; spec.index_into && at < bytes; at += ElementBytes(spec.dtype)) {
          const size_t target = *spec.index_into;
          const absl::string_view numbers = pieces.rows(p, schema.components()[target].row);
          if (spec.dtype == DType::kInt64) {
            const int64_t number = ValueOf<uint32_t>(numbers, ValueOf<int64_t>(row.substr(at), 0));
            std::memcpy(row.data() + at, &number, sizeof(number));
          } else {
            const auto number = static_cast<int32_t>(
                ValueOf<uint32_t>(numbers, ValueOf<int32_t>(row.substr(at), 0)));
            std::memcpy(row.data() + at, &number, sizeof(number));
          }
        }
        whole.columns[t] += row;
      }
    }
  };
  for (size_t t = 0; t < 8; ++t) fixed(t);
  // The words of the nodes, and their bytes.
  for (const auto& [p, i] : owner[0]) {
    size_t word = 0;
    for (size_t before = 0; before < i; ++before) {
      word += ValueOf<int32_t>(pieces.rows(p, 7), before);
    }
    size_t byte = 0;
    for (size_t before = 0; before < word; ++before) {
      byte += ValueOf<int32_t>(pieces.rows(p, 8), before);
    }
    for (int32_t w = 0; w < ValueOf<int32_t>(pieces.rows(p, 7), i); ++w, ++word) {
      const auto length = ValueOf<int32_t>(pieces.rows(p, 8), word);
      Put(whole.columns[8], length);
      whole.columns[9] += std::string(pieces.rows(p, 9).substr(byte, length));
      byte += length;
      ++whole.counts[6];
      whole.counts[5] += length;
    }
  }
  whole.columns[10] = std::string(pieces.rows(0, 10));
  return whole;
}

TEST(GraphCuttingTest, PiecesFitAndAreTheWholeTogether) {
  const GraphSchema whole = RichSchema();
  PH_ASSERT_OK_AND_ASSIGN(const PieceSchema schema, PieceSchema::Create(whole));
  size_t cut = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Built built = RandomRich(seed);
    const GraphChunk chunk = ChunkOf(whole, built, 7);
    SeededRandom random(seed + 1000);
    const std::vector<uint64_t> limits = {
        8 + random.Below(20), 6 + random.Below(10),   8 + random.Below(40), 8 + random.Below(20),
        6 + random.Below(20), 60 + random.Below(100), 20 + random.Below(20)};
    const auto pieces = CutGraph(schema, chunk, 0, limits);
    ASSERT_THAT(pieces.status(), IsOk());
    cut += pieces->size() > 1 ? 1 : 0;
    GraphPieces gathered(&schema);
    uint32_t crossing = 0;
    for (size_t p = 0; p < pieces->size(); ++p) {
      for (size_t k = 0; k < limits.size(); ++k) EXPECT_LE((*pieces)[p].tuple[k], limits[k]);
      crossing += (*pieces)[p].num_cut_edges;
      gathered.AddPiece(chunk, 0, (*pieces)[p], static_cast<uint32_t>(p),
                        static_cast<uint32_t>(pieces->size()));
    }
    EXPECT_EQ(gathered.num_graphs(), pieces->size());
    const uint64_t num_bytes = gathered.num_bytes();
    PH_ASSERT_OK_AND_ASSIGN(const GraphChunk made, gathered.Finish());
    EXPECT_EQ(num_bytes, made.num_bytes());
    EXPECT_EQ(gathered.num_graphs() + gathered.num_bytes(), 0);
    // Lengths, sums and indices are right: a check that trusts nothing.
    std::vector<absl::string_view> columns;
    for (size_t t = 0; t < made.num_columns(); ++t) columns.push_back(made.column(t));
    std::vector<uint32_t> counts(made.sizes().counts().begin(), made.sizes().counts().end());
    PH_ASSERT_OK_AND_ASSIGN(
        SizeTable sizes,
        SizeTable::WithConsecutiveIds(made.num_graphs(), limits.size(), std::move(counts), 0));
    EXPECT_THAT(
        GraphChunk::Create(&schema.with_pieces(), std::move(sizes), columns, nullptr).status(),
        IsOk());
    const Built again = PutTogether(schema, made);
    EXPECT_EQ(again.counts, built.counts);
    EXPECT_EQ(again.columns, built.columns);
    if (pieces->size() == 1) {
      EXPECT_EQ(crossing, 0);
    }
    // Whether it is cut or fits.
    for (const auto& most : {limits, std::vector<uint64_t>(limits.size(), UINT32_MAX)}) {
      PH_ASSERT_OK_AND_ASSIGN(
          const GraphChunk left,
          CutOversizeGraphs(schema, chunk, most, [](uint64_t) { return absl::OkStatus(); }));
      ASSERT_GE(left.num_graphs(), 1);
      EXPECT_EQ(PutTogether(schema, left).columns, built.columns);
    }
    // The same again.
    const auto same = CutGraph(schema, chunk, 0, limits);
    ASSERT_THAT(same.status(), IsOk());
    ASSERT_EQ(same->size(), pieces->size());
    for (size_t p = 0; p < pieces->size(); ++p) {
      EXPECT_EQ((*same)[p].tuple, (*pieces)[p].tuple);
      EXPECT_EQ((*same)[p].components[0].numbers, (*pieces)[p].components[0].numbers);
    }
  }
  EXPECT_GT(cut, 100);
}

// Nodes, and edges with a source and a target.
GraphSchema PlainSchema() {
  return GraphSchema::Create(
             SizeSchema::Create({"nodes", "edges"}).value(),
             {Tensor("source", DType::kInt32, 1, 0), Tensor("target", DType::kInt32, 1, 0)})
      .value();
}

Built PlainGraph(uint32_t nodes, const std::vector<std::pair<int32_t, int32_t>>& edges) {
  Built built;
  built.columns.resize(2);
  for (const auto& [source, target] : edges) {
    Put(built.columns[0], source);
    Put(built.columns[1], target);
  }
  built.counts = {nodes, static_cast<uint32_t>(edges.size())};
  return built;
}

// Cliques are found: each piece is made of whole ones, and nothing is cut but what joins them.
TEST(GraphCuttingTest, CutsFewEdgesIntoFewPieces) {
  constexpr int32_t kCliques = 40;
  constexpr int32_t kSize = 10;
  std::vector<std::pair<int32_t, int32_t>> edges;
  for (int32_t c = 0; c < kCliques; ++c) {
    // Neighbouring rows are of different cliques.
    const auto node = [c](int32_t i) { return i * kCliques + c; };
    for (int32_t i = 0; i < kSize; ++i) {
      for (int32_t j = 0; j < kSize; ++j) {
        if (i != j) edges.emplace_back(node(i), node(j));
      }
    }
    edges.emplace_back(node(0), (c + 1) % kCliques);
  }
  const GraphSchema whole = PlainSchema();
  PH_ASSERT_OK_AND_ASSIGN(const PieceSchema schema, PieceSchema::Create(whole));
  const GraphChunk chunk = ChunkOf(whole, PlainGraph(kCliques * kSize, edges), 0);
  // Four cliques and what leads to them.
  PH_ASSERT_OK_AND_ASSIGN(const auto pieces, CutGraph(schema, chunk, 0, {44, 400}));
  EXPECT_LE(pieces.size(), 13);
  uint32_t crossing = 0;
  for (const GraphPiece& piece : pieces) crossing += piece.num_cut_edges;
  EXPECT_LE(crossing, 200);
}

// A node with more edges than a piece takes is owned once, and copied to where its edges are.
TEST(GraphCuttingTest, SpreadsTheEdgesOfAHub) {
  std::vector<std::pair<int32_t, int32_t>> edges;
  for (int32_t i = 1; i <= 1000; ++i) edges.emplace_back(i, 0);
  const GraphSchema whole = PlainSchema();
  PH_ASSERT_OK_AND_ASSIGN(const PieceSchema schema, PieceSchema::Create(whole));
  const GraphChunk chunk = ChunkOf(whole, PlainGraph(1001, edges), 0);
  PH_ASSERT_OK_AND_ASSIGN(const auto pieces, CutGraph(schema, chunk, 0, {101, 100}));
  EXPECT_LE(pieces.size(), 22);
  size_t edges_owned = 0;
  size_t hubs = 0;
  for (const GraphPiece& piece : pieces) {
    EXPECT_LE(piece.tuple[0], 101);
    EXPECT_LE(piece.tuple[1], 100);
    edges_owned += piece.components[1].num_inner;
    const GraphPiece::Rows& nodes = piece.components[0];
    hubs += std::count(nodes.numbers.begin(), nodes.numbers.begin() + nodes.num_inner, 0U);
  }
  EXPECT_EQ(edges_owned, 1000);
  EXPECT_EQ(hubs, 1);
}

// Epochs go on with pieces that other servers, and other releases, cut by the same rules: who
// changes what these are changes kCuttingRules, too.
TEST(GraphCuttingTest, TheRulesGiveThesePieces) {
  EXPECT_STREQ(kCuttingRules, "cut-v1");
  Fingerprint fingerprint;
  const auto cut = [&fingerprint](const GraphSchema& whole, const Built& built,
                                  const std::vector<uint64_t>& limits) {
    PH_ASSERT_OK_AND_ASSIGN(const PieceSchema schema, PieceSchema::Create(whole));
    PH_ASSERT_OK_AND_ASSIGN(const auto pieces,
                            CutGraph(schema, ChunkOf(whole, built, 7), 0, limits));
    fingerprint.Add(pieces.size());
    for (const GraphPiece& piece : pieces) {
      for (const GraphPiece::Rows& rows : piece.components) {
        fingerprint.AddAll(rows.numbers);
        fingerprint.Add(rows.num_inner);
      }
      fingerprint.AddAll(piece.tuple);
      fingerprint.Add(piece.num_cut_edges);
    }
  };
  for (uint64_t seed = 0; seed < 100; ++seed) {
    cut(RichSchema(), RandomRich(seed), {15, 10, 25, 15, 15, 100, 30});
  }
  // Hubs, of which one owns more than a piece takes, and many rows that do not fit.
  SeededRandom random(1);
  std::vector<std::pair<int32_t, int32_t>> edges;
  for (int32_t i = 0; i < 9000; ++i) {
    const auto source = static_cast<int32_t>(random.Below(3000));
    edges.emplace_back(source, static_cast<int32_t>(random.Below(1 + random.Below(3000))));
  }
  for (int32_t i = 1; i < 900; ++i) edges.emplace_back(i, 0);
  cut(PlainSchema(), PlainGraph(3000, edges), {300, 400});
  EXPECT_EQ(fingerprint.value(), 5441174924875741785U);
}

// Pieces that repeat rows too often, and hubs that are tried again and again, are given up.
TEST(GraphCuttingTest, AHostileGraphIsGivenUpWithinItsBounds) {
  const GraphSchema whole = PlainSchema();
  PH_ASSERT_OK_AND_ASSIGN(const PieceSchema schema, PieceSchema::Create(whole));
  // Each edge is a piece with two nodes: twice as many copies as there are edges.
  std::vector<std::pair<int32_t, int32_t>> star;
  for (int32_t i = 1; i < 60'000; ++i) star.emplace_back(i, 0);
  const GraphChunk chunk = ChunkOf(whole, PlainGraph(60'000, star), 5);
  EXPECT_EQ(CutGraph(schema, chunk, 0, {2, 1}).status(),
            absl::OutOfRangeError("the graph has 119999 rows and 119998 indices; cutting it takes "
                                  "too many steps"));
}

// Rows that all point at the same ones, of which no piece has more than one.
TEST(GraphCuttingTest, PiecesRepeatNoMoreThanTheirBound) {
  constexpr int32_t kNodes = 50;
  constexpr int32_t kEdges = 1500;
  const GraphSchema whole = GraphSchema::Create(SizeSchema::Create({"nodes", "edges"}).value(),
                                                {Tensor("all", DType::kInt32, 1, 0, {kNodes})})
                                .value();
  PH_ASSERT_OK_AND_ASSIGN(const PieceSchema schema, PieceSchema::Create(whole));
  Built built;
  built.counts = {kNodes, kEdges};
  built.columns.resize(1);
  for (int32_t i = 0; i < kNodes * kEdges; ++i) Put(built.columns[0], i % kNodes);
  EXPECT_EQ(CutGraph(schema, ChunkOf(whole, built, 5), 0, {kNodes, 1}).status(),
            absl::OutOfRangeError("the graph has 1550 rows and 75000 indices; its pieces would "
                                  "repeat its rows too often"));
}

// Several lengths a row: their steps lie one after the other.
TEST(GraphCuttingTest, StepsGoWithTheRowsThatTheyAreOf) {
  const GraphSchema whole =
      GraphSchema::Create(
          SizeSchema::Create({"a", "f"}).value(),
          {Tensor("f.d1", DType::kInt32, 0, std::nullopt, {2}), Tensor("f", DType::kUint8, 1)})
          .value();
  PH_ASSERT_OK_AND_ASSIGN(const PieceSchema schema, PieceSchema::Create(whole));
  Built built;
  built.counts = {3, 6};
  built.columns.resize(2);
  for (const int32_t length : {1, 0, 2, 1, 0, 2}) Put(built.columns[0], length);
  built.columns[1] = "abcdef";
  const GraphChunk chunk = ChunkOf(whole, built, 5);
  PH_ASSERT_OK_AND_ASSIGN(
      const GraphChunk pieces,
      CutOversizeGraphs(schema, chunk, {1, 6}, [](uint64_t) { return absl::OkStatus(); }));
  ASSERT_EQ(pieces.num_graphs(), 3);
  for (size_t p = 0; p < 3; ++p) {
    EXPECT_EQ(pieces.rows(p, 0), built.columns[0].substr(8 * p, 8));
    EXPECT_EQ(pieces.rows(p, 1), std::vector<std::string>({"a", "bcd", "ef"})[p]);
  }
  EXPECT_EQ(CutGraph(schema, chunk, 0, {1, 2}).status(),
            absl::OutOfRangeError("row 1 of 'a' needs 3 of 'f', at most 2"));
}

// What pieces take beyond the chunk is asked for before it is taken.
TEST(GraphCuttingTest, PiecesAreHeldBeforeTheyAreMade) {
  const GraphSchema whole = PlainSchema();
  PH_ASSERT_OK_AND_ASSIGN(const PieceSchema schema, PieceSchema::Create(whole));
  const GraphChunk chunk = ChunkOf(whole, PlainGraph(3, {{0, 1}, {1, 2}}), 5);
  uint64_t asked = 0;
  const auto refuse = [&asked](uint64_t bytes) {
    asked += bytes;
    return absl::ResourceExhaustedError("no room");
  };
  EXPECT_THAT(CutOversizeGraphs(schema, chunk, {2, 1}, refuse).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("no room")));
  // Two pieces of two nodes and an edge, in columns that may grow to twice their bytes.
  EXPECT_EQ(asked, 2 * 2 * (12 + 2 * 5 + 13));
  EXPECT_EQ(CuttingBytes(chunk), 4 * 16 + 128 * 5);
}

// Planes are there once more while the largest column that has some is put together.
TEST(GraphCuttingTest, TheBytesOfColumnsAreKnownBefore) {
  const GraphSchema whole =
      GraphSchema::Create(SizeSchema::Create({"a"}).value(),
                          {Tensor("x", DType::kFloat32, 0, std::nullopt, {2}),
                           Tensor("y", DType::kInt16, 0, std::nullopt, {3}, Layout::kRowsLast),
                           Tensor("z", DType::kInt8, 0, std::nullopt, {2}, Layout::kRowsLast)})
          .value();
  PH_ASSERT_OK_AND_ASSIGN(const PieceSchema schema, PieceSchema::Create(whole));
  EXPECT_EQ(GraphPieces::ColumnBytes(schema.with_pieces(), {10, 2}),
            10 * (8 + 6 + 2 + 4 + 1) + 2 * 12 + 10 * 6);
}

// Lengths are read where they are not known to be right.
TEST(GraphCuttingTest, LengthsThatAreNoneAreRefused) {
  const GraphSchema whole =
      GraphSchema::Create(SizeSchema::Create({"a", "f"}).value(),
                          {Tensor("f.d1", DType::kInt32, 0), Tensor("f", DType::kUint8, 1)})
          .value();
  PH_ASSERT_OK_AND_ASSIGN(const PieceSchema schema, PieceSchema::Create(whole));
  for (const auto& [first, why] : std::vector<std::pair<int32_t, std::string>>{
           {-1, "graph 5: f.d1 has -1, with the others more than its 4 steps"},
           {4, "graph 5: f.d1 has 1, with the others more than its 4 steps"},
           {2, "graph 5: f.d1 add up to 3, there are 4 steps"}}) {
    Built built;
    built.counts = {2, 4};
    built.columns.resize(2);
    Put(built.columns[0], first);
    Put(built.columns[0], int32_t{1});
    built.columns[1] = "abcd";
    const GraphChunk chunk = ChunkOf(whole, built, 5);
    EXPECT_THAT(CutGraph(schema, chunk, 0, {1, 4}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, why));
    // Such a graph stays whole.
    PH_ASSERT_OK_AND_ASSIGN(
        const GraphChunk left,
        CutOversizeGraphs(schema, chunk, {1, 4}, [](uint64_t) { return absl::OkStatus(); }));
    EXPECT_EQ(left.num_graphs(), 1);
    EXPECT_EQ(left.column(1), "abcd");
  }
}

TEST(GraphCuttingTest, NamesWhatDoesNotFit) {
  const GraphSchema whole = PlainSchema();
  PH_ASSERT_OK_AND_ASSIGN(const PieceSchema schema, PieceSchema::Create(whole));
  const GraphChunk chunk = ChunkOf(whole, PlainGraph(3, {{0, 0}, {0, 1}, {1, 2}}), 5);
  // An edge needs both of its ends.
  EXPECT_EQ(CutGraph(schema, chunk, 0, {1, 1}).status(),
            absl::OutOfRangeError("row 1 of 'edges' needs 2 of 'nodes', at most 1"));
  EXPECT_EQ(CutGraph(schema, chunk, 0, {2, 0}).status(),
            absl::OutOfRangeError("row 0 of 'edges' needs 1 of 'edges', at most 0"));
  PH_ASSERT_OK_AND_ASSIGN(
      const GraphChunk left,
      CutOversizeGraphs(schema, chunk, {1, 1}, [](uint64_t) { return absl::OkStatus(); }));
  EXPECT_EQ(left.num_graphs(), 1);
  EXPECT_EQ(left.count(0, 0), 3);
}

TEST(PieceSchemaTest, IsFoundAgainAndRefusesWhatCannotBeCut) {
  const GraphSchema whole = RichSchema();
  PH_ASSERT_OK_AND_ASSIGN(const PieceSchema schema, PieceSchema::Create(whole));
  const auto found = PieceSchema::Of(schema.with_pieces());
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->whole().tensors().size(), whole.tensors().size());
  EXPECT_FALSE(PieceSchema::Of(whole).has_value());
  EXPECT_THAT(PieceSchema::Create(schema.with_pieces()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("#piece")));
  const auto of = [](std::vector<std::string> components, std::vector<TensorSpec> tensors) {
    return PieceSchema::Create(
               GraphSchema::Create(SizeSchema::Create(std::move(components)).value(),
                                   std::move(tensors))
                   .value())
        .status();
  };
  EXPECT_THAT(of({"a", "b"}, {Tensor("x", DType::kInt32, 0, 1), Tensor("y", DType::kInt32, 1, 0)}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("circle")));
  EXPECT_THAT(of({"a"}, {Tensor("x", DType::kInt32, 1, 0)}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'x'")));
  EXPECT_THAT(of({"a"}, {Tensor("x", DType::kInt32, 0, 1)}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'x' is about graphs")));
  EXPECT_THAT(of({"f"}, {Tensor("f", DType::kUint8, 0), Tensor("f.d1", DType::kInt64, 1)}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'f' is one of graphs")));
  // No lengths, or none that are: of another type, or numbers of rows.
  for (const TensorSpec& lengths :
       {Tensor("f.e1", DType::kInt32, 0), Tensor("f.d1", DType::kInt16, 0),
        Tensor("f.d1", DType::kInt32, 0, 0), Tensor("f.dx", DType::kInt32, 0)}) {
    const SizeSchema sizes = SizeSchema::Create({"a", "f"}).value();
    EXPECT_THAT(PieceSchema::Create(
                    GraphSchema::Create(sizes, {Tensor("f", DType::kUint8, 1), lengths}).value())
                    .status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'f' has no lengths")))
        << lengths.name;
  }
  EXPECT_THAT(of({"a", "f"}, {Tensor("f", DType::kUint8, 1)}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'f' has no lengths")));
  // One tensor of another kind: these are no pieces.
  for (size_t t = whole.tensors().size(); t < schema.with_pieces().tensors().size(); ++t) {
    std::vector<TensorSpec> tensors(schema.with_pieces().tensors().begin(),
                                    schema.with_pieces().tensors().end());
    const auto is_found = [&](const std::function<void(TensorSpec&)>& change) {
      std::vector<TensorSpec> changed = tensors;
      change(changed[t]);
      return PieceSchema::Of(GraphSchema::Create(whole.sizes(), std::move(changed)).value())
          .has_value();
    };
    EXPECT_TRUE(is_found([](TensorSpec&) {})) << t;
    EXPECT_FALSE(is_found([](TensorSpec& tensor) { tensor.name += "x"; })) << t;
    EXPECT_FALSE(is_found([](TensorSpec& tensor) { tensor.dtype = DType::kUint16; })) << t;
    EXPECT_FALSE(is_found([](TensorSpec& tensor) { tensor.row_shape = {1}; })) << t;
    EXPECT_FALSE(is_found([](TensorSpec& tensor) {
      tensor.component = tensor.component == 0 ? 1 : 0;
    })) << t;
  }
}

}  // namespace
}  // namespace packhouse
