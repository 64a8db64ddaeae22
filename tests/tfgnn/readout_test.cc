#include "service/wings/tfgnn/readout.h"

#include <map>
#include <string>
#include <utility>
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

using ::testing::ElementsAre;
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
    // Which the edges lead to.
    const bool is_last = form == std::string("planes");
    tensors.push_back({"_readout.h", DType::kInt32, {2}, 0, {}, ""});
    if (is_last) tensors.back().layout = Layout::kRowsLast;
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
      put(target, columns[columns.size() - 2]);
    }
    for (const int32_t value : is_last ? std::vector<int32_t>{10, 11, 12, 20, 21, 22}
                                       : std::vector<int32_t>{10, 20, 11, 21, 12, 22}) {
      put(value, columns.back());
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
    std::string expected;
    for (const int32_t value : {12, 22, 10, 20, 11, 21}) put(value, expected);
    PH_ASSERT_OK_AND_ASSIGN(const ReadoutValues values,
                            StructuredReadout(sets, chunk, 0, "k", "h"));
    EXPECT_EQ(values.rows, expected);
    EXPECT_EQ(values.dtype, DType::kInt32);
    EXPECT_THAT(values.row_shape, ElementsAre(2));
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

TEST(FindReadoutTest, GivesTheSourcesOfEachKeyInOrder) {
  const SetNames sets = {{"b", "a", "_readout", "_readout:t", "_shadow/e"},
                         {{"_readout/z/2", "b", "_readout"},
                          {"e", "a", "b"},
                          {"_readout/a", "_shadow/e", "_readout"},
                          {"_readout/z", "a", "_readout"},
                          {"_readout:t/k/1/2", "b", "_readout:t"},
                          {"_readouts/k", "a", "b"}}};
  PH_ASSERT_OK_AND_ASSIGN(const ReadoutStructure found, FindReadout(sets));
  EXPECT_EQ(found.node_set, 2U);
  EXPECT_THAT(found.keys,
              ElementsAre(std::pair(std::string("a"), std::vector<ReadoutSource>{{2, true, 1}}),
                          std::pair(std::string("z"),
                                    std::vector<ReadoutSource>{{0, false, 0}, {3, false, 1}})));
  PH_ASSERT_OK_AND_ASSIGN(const ReadoutStructure tagged, FindReadout(sets, "_readout:t"));
  EXPECT_EQ(tagged.node_set, 3U);
  EXPECT_THAT(tagged.keys,
              ElementsAre(std::pair(std::string("k"), std::vector<ReadoutSource>{{4, false, 0}})));
}

TEST(FindReadoutTest, NamesWhatIsMalformed) {
  const auto refused = [](const std::string& set, const std::string& why) {
    return StatusIs(absl::StatusCode::kInvalidArgument,
                    absl::StrCat("read-out '", set, "': ", why));
  };
  const std::vector<std::string> node_sets = {"a", "b", "_readout", "_shadow/e"};
  const auto no_name = [](const std::string& name) {
    return absl::StrCat("the name of edge set '", name,
                        "' is neither _readout/KEY nor _readout/KEY/SUFFIX");
  };
  for (const auto& [edges, why] :
       std::vector<std::pair<std::vector<SetNames::EdgeSet>, std::string>>{
           {{{"e", "a", "b"}}, "there is no edge set _readout/KEY"},
           {{{"_readout", "a", "_readout"}}, no_name("_readout")},
           {{{"_readout/", "a", "_readout"}}, no_name("_readout/")},
           {{{"_readout/k/", "a", "_readout"}}, no_name("_readout/k/")},
           {{{"_readout/k-1", "a", "_readout"}}, no_name("_readout/k-1")},
           {{{"_readout/k", "a", "b"}}, "edge set '_readout/k' has the target 'b'"},
           {{{"_readout/k/1", "a", "_readout"}, {"_readout/k/2", "a", "_readout"}},
            "edge set '_readout/k/2' is the second of key 'k' from node set 'a'"},
           {{{"_readout/k", "c", "_readout"}},
            "edge set '_readout/k' reads from the node set 'c', which is not there"},
           {{{"_readout/k", "_shadow/e", "_readout"}},
            "edge set '_readout/k' reads from the edge set 'e', which is not there"}}) {
    EXPECT_THAT(FindReadout({node_sets, edges}), refused("_readout", why));
  }
  for (const std::string name : {"", "a", "_readout:", "_readout:a-b", "_readouts"}) {
    EXPECT_THAT(FindReadout({{name}, {}}, name),
                refused(name, "its name is neither _readout nor _readout:TAG"));
  }
  EXPECT_THAT(FindReadout({node_sets, {}}, "_readout:a_B9"),
              refused("_readout:a_B9", "there is no node set of this name"));
}

// One graph of these counts and columns.
GraphChunk GraphOf(const GraphSets& sets, const std::map<std::string, uint32_t>& counts,
                   const std::map<std::string, std::vector<int32_t>>& columns) {
  RowBuilder rows(sets.shared_schema());
  for (const auto& [name, count] : counts) {
    rows.counts()[*sets.schema().sizes().IndexOf(name)] = count;
  }
  for (const auto& [name, values] : columns) {
    rows.column(*sets.schema().TensorIndex(name))
        .Append(absl::string_view(reinterpret_cast<const char*>(values.data()),
                                  values.size() * sizeof(int32_t)));
  }
  rows.EndGraph();
  return rows.Build(5).value();
}

TEST(ReadoutRowsTest, EachPredictionHasOneEdge) {
  PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets, GraphSets::FromTfgnnFile(kReadoutSchema));
  PH_ASSERT_OK_AND_ASSIGN(const ReadoutStructure structure, FindReadout(NamesOf(sets)));
  // Edges of `two` from rows 1, 0, ... of u and of v to these, of three predictions.
  const auto rows_of = [&](const std::vector<int32_t>& of_u, const std::vector<int32_t>& of_v) {
    const std::vector<int32_t> sources = {1, 0};
    const auto first = [&](size_t n) {
      return std::vector<int32_t>(sources.begin(), sources.begin() + static_cast<int>(n));
    };
    return ReadoutRows(sets, structure, 1,
                       GraphOf(sets,
                               {{"u", 2},
                                {"v", 2},
                                {"_readout", 3},
                                {"_readout/two/1", static_cast<uint32_t>(of_u.size())},
                                {"_readout/two/2", static_cast<uint32_t>(of_v.size())}},
                               {{"u.h", {7, 8}},
                                {"v.h", {9, 10}},
                                {"_readout/two/1.source", first(of_u.size())},
                                {"_readout/two/1.target", of_u},
                                {"_readout/two/2.source", first(of_v.size())},
                                {"_readout/two/2.target", of_v}}),
                       0);
  };
  const auto refused = [](const std::string& why) {
    return StatusIs(absl::StatusCode::kInvalidArgument, absl::StrCat("graph 5: ", why));
  };
  EXPECT_THAT(rows_of({0, 2}, {1}), IsOkAndHolds(std::vector<ReadoutRow>{{0, 1}, {1, 1}, {0, 0}}));
  EXPECT_THAT(rows_of({2, 0}, {1}),
              refused("edge set '_readout/two/1': target 0 at position 1 is not above 2, the one "
                      "before: targets rise strictly"));
  EXPECT_THAT(rows_of({0, 0}, {1}),
              refused("edge set '_readout/two/1': target 0 at position 1 is not above 0, the one "
                      "before: targets rise strictly"));
  EXPECT_THAT(rows_of({0, 2}, {2}), refused("edge set '_readout/two/2': target 2 at position 0 has "
                                            "an edge in another edge set of its key"));
  EXPECT_THAT(rows_of({0}, {1}), refused("key 'two': prediction 2 of 3 has no edge"));
  // A shadow has as many rows as what it stands for.
  for (const uint32_t shadows : {1, 2}) {
    const auto rows = ReadoutRows(sets, structure, 0,
                                  GraphOf(sets,
                                          {{"u", 1},
                                           {"v", 1},
                                           {"e", 1},
                                           {"_shadow/e", shadows},
                                           {"_readout", 1},
                                           {"_readout/link", 1}},
                                          {{"u.h", {7}},
                                           {"v.h", {8}},
                                           {"e.h", {9}},
                                           {"e.source", {0}},
                                           {"e.target", {0}},
                                           {"_readout/link.source", {0}},
                                           {"_readout/link.target", {0}}}),
                                  0);
    if (shadows == 1) {
      EXPECT_THAT(rows, IsOkAndHolds(std::vector<ReadoutRow>(1)));
    } else {
      EXPECT_THAT(rows, refused("edge set '_readout/link': its source has 2 rows, the edge set "
                                "that it stands for 1"));
    }
  }
}

TEST(StructuredReadoutTest, AFeatureIsDenseAndTheSameInAllSources) {
  PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets, GraphSets::FromTfgnnFile(R"(
      node_sets { key: "u" value {
        features { key: "d" value { dtype: DT_INT32 } }
        features { key: "w" value { dtype: DT_INT32 shape { dim { size: 2 } } } }
        features { key: "s" value { dtype: DT_STRING } }
        features { key: "r" value { dtype: DT_INT32 shape { dim { size: -1 } } } } } }
      node_sets { key: "v" value {
        features { key: "d" value { dtype: DT_FLOAT } }
        features { key: "w" value { dtype: DT_INT32 } } } }
      node_sets { key: "_readout" value { } }
      edge_sets { key: "_readout/k/1" value { source: "u" target: "_readout" } }
      edge_sets { key: "_readout/k/2" value { source: "v" target: "_readout" } })"));
  const GraphChunk chunk = GraphOf(sets, {}, {});
  for (const std::string name : {"d", "w"}) {
    EXPECT_THAT(StructuredReadout(sets, chunk, 0, "k", name),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("read-out '_readout': feature '", name,
                                      "' of set 'v' has another type or shape than in the other "
                                      "sources of its key")));
  }
  for (const std::string name : {"s", "r"}) {
    EXPECT_THAT(StructuredReadout(sets, chunk, 0, "k", name),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("set 'u': feature '", name,
                                      "' is ragged or of strings: it cannot be read out")));
  }
  PH_ASSERT_OK_AND_ASSIGN(const GraphSets plain, GraphSets::FromTfgnnFile(R"(
      node_sets { key: "u" value { features { key: "d" value { dtype: DT_INT32 } } } }
      node_sets { key: "_readout" value { } }
      edge_sets { key: "_readout/k" value { source: "u" target: "_readout" } })"));
  EXPECT_THAT(StructuredReadout(plain, GraphOf(plain, {{"_readout", 1}}, {}), 0, "k", "d"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "graph 5: key 'k': prediction 0 of 1 has no edge"));
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
  const std::vector<uint32_t> twice_counts(2 * sets.schema().num_components(), 1);
  const std::string twice_rows(8, '\0');
  PH_ASSERT_OK_AND_ASSIGN(
      GraphChunk twice,
      GraphChunk::Create(
          &sets.schema(),
          SizeTable::WithAnyIds(2, sets.schema().num_components(), twice_counts, {7, 7}).value(),
          std::vector<absl::string_view>(sets.schema().tensors().size(), twice_rows), nullptr));
  EXPECT_EQ(readout.Add(std::move(twice)).status(),
            SizeTable::WithIds(2, 1, {1, 1}, {7, 7}).status());
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
