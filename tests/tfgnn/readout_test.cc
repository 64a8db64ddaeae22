#include "service/wings/tfgnn/readout.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wings/tfgnn/example_decoder.h"
#include "service/wings/tfgnn/example_encoder.h"
#include "service/wings/tfgnn/random_graphs.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"

namespace packhouse::tfgnn {
namespace {

using ::testing::HasSubstr;

constexpr char kReadoutSchema[] = R"(
  node_sets { key: "u" value { features { key: "h" value { dtype: DT_INT32 } } } }
  node_sets { key: "v" value { features { key: "h" value { dtype: DT_INT32 } } } }
  node_sets { key: "_readout" value { } }
  node_sets { key: "_shadow/e" value { } }
  edge_sets { key: "e" value { source: "u" target: "v"
      features { key: "h" value { dtype: DT_INT32 } } } }
  edge_sets { key: "_readout/two/1" value { source: "u" target: "_readout" } }
  edge_sets { key: "_readout/two/2" value { source: "v" target: "_readout" } }
  edge_sets { key: "_readout/link" value { source: "_shadow/e" target: "_readout" } }
)";

// Every prediction of every random graph is read from one row, and its feature is that row's. One
// that is malformed has no rows.
TEST(ReadoutTest, RandomGraphsHaveReadOutsThatCanBeRead) {
  PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets,
                          GraphSets::FromTfgnnFile(absl::StrCat(kReadoutSchema, R"(
        node_sets { key: "_readout:bad" value { } }
        edge_sets { key: "_readout:bad/k/1" value { source: "u" target: "_readout:bad" } }
        edge_sets { key: "_readout:bad/k/2" value { source: "u" target: "_readout:bad" } })")));
  EXPECT_FALSE(FindReadout(NamesOf(sets), "_readout:bad").ok());
  PH_ASSERT_OK_AND_ASSIGN(const ReadoutStructure structure, FindReadout(NamesOf(sets)));
  ASSERT_EQ(structure.keys.size(), 2U);
  EXPECT_EQ(structure.keys[0].first, "link");
  EXPECT_TRUE(structure.keys[0].second[0].is_edge_set);
  EXPECT_EQ(structure.keys[1].second.size(), 2U);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SeededRandom random(seed);
    RowBuilder rows(sets.shared_schema());
    RandomGraphOptions options;
    options.min_rows = seed % 2 == 0 ? 0 : 2;
    ASSERT_THAT(AppendRandomGraph(sets, options, random, rows), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(const GraphChunk chunk, rows.Build(0));
    for (size_t key = 0; key < structure.keys.size(); ++key) {
      PH_ASSERT_OK_AND_ASSIGN(const std::vector<ReadoutRow> found,
                              ReadoutRows(sets, structure, key, chunk, 0));
      PH_ASSERT_OK_AND_ASSIGN(const ReadoutValues values,
                              StructuredReadout(sets, chunk, 0, structure.keys[key].first, "h"));
      ASSERT_EQ(values.rows.size(), found.size() * sizeof(int32_t));
      for (size_t p = 0; p < found.size(); ++p) {
        const char* const tensor = key == 0 ? "e.h" : found[p].source == 0 ? "u.h" : "v.h";
        EXPECT_EQ(absl::string_view(values.rows).substr(4 * p, 4),
                  chunk.rows(0, *sets.schema().TensorIndex(tensor)).substr(4 * found[p].row, 4));
      }
    }
  }
}

// Whether their ends are two tensors, or one in either layout.
TEST(ReadoutTest, EdgesMayBeOneTensor) {
  const std::vector<int32_t> sources = {2, 0, 1};
  for (const char* const form : {"two", "rows", "planes"}) {
    SCOPED_TRACE(form);
    const TensorSpec end = {"_readout/k.source", DType::kInt32, {}, 1, 0, {}};
    std::vector<TensorSpec> tensors = {end, end};
    tensors[1].name = "_readout/k.target";
    if (form != std::string("two")) {
      tensors = {{"_readout/k.edge_index", DType::kInt32, {2}, 1, 0, {}}};
      if (form == std::string("planes")) tensors[0].layout = Layout::kRowsLast;
    }
    PH_ASSERT_OK_AND_ASSIGN(
        GraphSchema schema,
        GraphSchema::Create(SizeSchema::Create({"_readout", "_readout/k"}).value(), tensors));
    PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets, GraphSets::FromSchema(std::move(schema)));
    PH_ASSERT_OK_AND_ASSIGN(const ReadoutStructure structure, FindReadout(NamesOf(sets)));
    std::vector<std::string> columns(tensors.size());
    const auto put = [](int32_t value, std::string& column) {
      column.append(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    for (int32_t target = 0; target < 3; ++target) put(sources[target], columns[0]);
    if (form == std::string("rows")) columns[0].clear();
    for (int32_t target = 0; target < 3; ++target) {
      if (form == std::string("rows")) put(sources[target], columns[0]);
      put(target, columns.back());
    }
    PH_ASSERT_OK_AND_ASSIGN(
        const GraphChunk chunk,
        GraphChunk::Create(sets.shared_schema().get(),
                           SizeTable::WithConsecutiveIds(1, 2, {3, 3}, 0).value(),
                           {columns.begin(), columns.end()}, nullptr));
    PH_ASSERT_OK_AND_ASSIGN(const std::vector<ReadoutRow> found,
                            ReadoutRows(sets, structure, 0, chunk, 0));
    ASSERT_EQ(found.size(), 3U);
    for (size_t p = 0; p < 3; ++p) EXPECT_EQ(found[p].row, static_cast<uint64_t>(sources[p]));
  }
}

TEST(ReadoutTest, NamesWhatIsMissing) {
  PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets, GraphSets::FromTfgnnFile(kReadoutSchema));
  SeededRandom random(1);
  RowBuilder rows(sets.shared_schema());
  ASSERT_THAT(AppendRandomGraph(sets, {}, random, rows), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const GraphChunk chunk, rows.Build(0));
  EXPECT_THAT(StructuredReadout(sets, chunk, 0, "none", "h"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'none'")));
  EXPECT_THAT(StructuredReadout(sets, chunk, 0, "two", "g"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'g'")));
  EXPECT_THAT(StructuredReadout(sets, chunk, 0, "two", "h", "_readout:x"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'_readout:x'")));
}

TEST(FirstNodeReadoutTest, AddsOneEdgeAndOnePredictionToEachGraph) {
  PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets, GraphSets::FromTfgnnFile(R"(
      node_sets { key: "a" value { features { key: "h" value { dtype: DT_INT32 } } } }
      node_sets { key: "z" value { } }
      edge_sets { key: "e" value { source: "a" target: "z" } })"));
  PH_ASSERT_OK_AND_ASSIGN(const FirstNodeReadout readout,
                          FirstNodeReadout::Create(sets, "seed", "a"));
  SeededRandom random(3);
  RowBuilder rows(sets.shared_schema());
  for (int i = 0; i < 5; ++i) ASSERT_THAT(AppendRandomGraph(sets, {}, random, rows), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(GraphChunk chunk, rows.Build(40));
  const GraphChunk before = chunk;
  PH_ASSERT_OK_AND_ASSIGN(const GraphChunk with, readout.Add(std::move(chunk)));
  // The result is valid by itself: what it writes is read again.
  ExampleEncoder encoder(readout.sets());
  PH_ASSERT_OK_AND_ASSIGN(ExampleDecoder decoder, ExampleDecoder::Create(readout.sets()));
  RowBuilder again(readout.sets().shared_schema());
  for (size_t i = 0; i < with.num_graphs(); ++i) {
    EXPECT_EQ(with.sizes().graph_id(i), 40 + i);
    PH_ASSERT_OK_AND_ASSIGN(const ReadoutValues values,
                            StructuredReadout(readout.sets(), with, i, "seed", "h"));
    EXPECT_EQ(values.rows, before.rows(i, *sets.schema().TensorIndex("a.h")).substr(0, 4));
    std::string record;
    ASSERT_THAT(encoder.Append(with, i, &record), IsOk());
    ASSERT_THAT(decoder.Append(record, i, again), IsOk());
  }
  EXPECT_THAT(FirstNodeReadout::Create(readout.sets(), "seed", "a").status(),
              StatusIs(absl::StatusCode::kAlreadyExists, testing::_));
  EXPECT_THAT(FirstNodeReadout::Create(sets, "seed", "q").status(),
              StatusIs(absl::StatusCode::kNotFound, testing::_));
  EXPECT_THAT(FirstNodeReadout::Create(sets, "a-b", "a").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::_));
  RandomGraphOptions none;
  none.min_rows = none.max_rows = 0;
  ASSERT_THAT(AppendRandomGraph(sets, none, random, rows), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(GraphChunk empty, rows.Build(7));
  EXPECT_THAT(readout.Add(std::move(empty)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("graph 7: there is no node")));
  // It is the set's own nodes that count, whichever set it is.
  for (const char* const name : {"a", "z"}) {
    PH_ASSERT_OK_AND_ASSIGN(const FirstNodeReadout of_set,
                            FirstNodeReadout::Create(sets, "seed", name));
    for (const char* const filled : {"a", "z"}) {
      std::vector<uint32_t> counts(sets.schema().num_components());
      counts[*sets.schema().sizes().IndexOf(filled)] = 1;
      PH_ASSERT_OK_AND_ASSIGN(SizeTable sizes, SizeTable::WithIds(1, counts.size(), counts, {7}));
      const std::string h = filled[0] == 'a' ? std::string(4, '\0') : std::string();
      std::vector<absl::string_view> columns(sets.schema().tensors().size());
      columns[*sets.schema().TensorIndex("a.h")] = h;
      PH_ASSERT_OK_AND_ASSIGN(
          GraphChunk one, GraphChunk::Create(&sets.schema(), std::move(sizes), columns, nullptr));
      const absl::Status status = of_set.Add(std::move(one)).status();
      EXPECT_EQ(status.ok(), name[0] == filled[0]) << name << " " << filled << " " << status;
    }
  }
}

}  // namespace
}  // namespace packhouse::tfgnn
