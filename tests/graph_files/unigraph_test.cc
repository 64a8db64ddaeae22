#include "service/wings/graphs/files/unigraph.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace packhouse::graph_files {
namespace {

constexpr char kNodes[] =
    "node_sets { key: 'b' value { } } node_sets { key: 'a' value { "
    "features { key: 'x' value { dtype: DT_FLOAT shape { dim { size: -1 } dim { size: 3 } } } } "
    "features { key: 't' value { dtype: DT_STRING } } "
    "features { key: '#id' value { dtype: DT_STRING } } "
    "metadata { filename: 'nodes-a.tfrecords@2' } } } "
    "node_sets { key: '_aux' value { } } ";

std::string Edge(const std::string& name, const std::string& ends, const std::string& file,
                 bool is_reversed = false) {
  return "edge_sets { key: '" + name + "' value { " + ends + " metadata { filename: '" + file +
         "' " + (is_reversed ? "extra { key: 'edge_type' value: 'reversed' }" : "") + " } } } ";
}

TEST(ParseUnigraphTest, SetsColumnsAndTablesAreInTheOrderOfTheirNames) {
  const auto unigraph =
      ParseUnigraph(std::string(kNodes) + Edge("z", "source: 'a' target: 'b'", "z.csv") +
                    Edge("r", "source: 'b' target: 'a'", "z.csv", true) +
                    Edge("alone", "source: 'b' target: 'a'", "edges/x-?.tfr", true));
  ASSERT_TRUE(unigraph.ok()) << unigraph.status();
  const SourceGraphSchema& schema = unigraph->schema;
  ASSERT_EQ(schema.node_sets().size(), 2);
  EXPECT_EQ(schema.node_sets()[0].name, "a");
  const std::vector<SourceColumnSpec>& columns = schema.node_sets()[0].columns;
  ASSERT_EQ(columns.size(), 2);
  EXPECT_EQ(columns[0].name, "t");
  EXPECT_TRUE(columns[0].text);
  EXPECT_EQ(columns[1].name, "x");
  EXPECT_TRUE(columns[1].ragged);
  EXPECT_EQ(columns[1].row_shape, std::vector<uint32_t>{3});
  ASSERT_EQ(schema.edge_sets().size(), 3);
  EXPECT_EQ(schema.edge_sets()[0].name, "alone");
  EXPECT_FALSE(schema.edge_sets()[0].reverse_of.has_value());
  EXPECT_EQ(schema.edge_sets()[1].reverse_of, 2);

  ASSERT_EQ(unigraph->tables.size(), 3);
  EXPECT_EQ(unigraph->tables[0].filename, "nodes-a.tfrecords@2");
  EXPECT_EQ(unigraph->tables[0].format, TableFormat::kTfrecord);
  EXPECT_EQ(unigraph->tables[1].set, 0);
  EXPECT_TRUE(unigraph->tables[1].is_swapped);
  EXPECT_EQ(unigraph->tables[2].set, 2);
  EXPECT_FALSE(unigraph->tables[2].is_swapped);
  EXPECT_EQ(unigraph->tables[2].format, TableFormat::kCsv);
}

// Only what is there in the file already, the other way round.
TEST(ParseUnigraphTest, AReversedSetThatIsNoOtherHasItsOwnTable) {
  const auto reverse_of = [](const std::string& ends, const std::string& file) {
    const auto unigraph =
        ParseUnigraph(std::string(kNodes) + Edge("e", "source: 'a' target: 'b'", "e.csv") +
                      Edge("r", ends, file, true));
    EXPECT_TRUE(unigraph.ok()) << unigraph.status();
    const std::optional<size_t> set = unigraph->schema.edge_sets()[1].reverse_of;
    EXPECT_EQ(unigraph->tables.size(), set.has_value() ? 2 : 3);
    EXPECT_TRUE(set.has_value() || unigraph->tables[2].is_swapped);
    return set;
  };
  EXPECT_EQ(reverse_of("source: 'b' target: 'a'", "e.csv"), 0);
  EXPECT_EQ(reverse_of("source: 'b' target: 'a'", "r.csv"), std::nullopt);
  EXPECT_EQ(reverse_of("source: 'a' target: 'b'", "e.csv"), std::nullopt);
  EXPECT_EQ(reverse_of("source: 'a' target: 'a'", "e.csv"), std::nullopt);
  EXPECT_EQ(reverse_of("source: 'b' target: 'b'", "e.csv"), std::nullopt);
  // Other words are no reversal, and an id is no column.
  const auto plain = ParseUnigraph(
      std::string(kNodes) +
      "node_sets { key: 'c' value { features { key: '#source' value { dtype: "
      "DT_STRING } } features { key: '#target' value { dtype: DT_STRING } } metadata { filename: "
      "'c.csv' } } } " +
      Edge("e", "source: 'a' target: 'b'", "e.csv") +
      "edge_sets { key: 'f' value { source: 'b' target: 'a' metadata { filename: 'e.csv' extra { "
      "key: 'edge_type' value: 'forward' } extra { key: 'type' value: 'reversed' } } features { "
      "key: '#id' value { dtype: DT_STRING } } features { key: 'w' value { dtype: DT_FLOAT } } } "
      "}");
  ASSERT_TRUE(plain.ok()) << plain.status();
  const SourceEdgeSetSpec& set = plain->schema.edge_sets()[1];
  EXPECT_FALSE(set.reverse_of.has_value());
  ASSERT_EQ(set.columns.size(), 1);
  EXPECT_EQ(set.columns[0].name, "w");
  EXPECT_FALSE(plain->tables[3].is_swapped);
  EXPECT_TRUE(plain->tables[3].is_edges);
  EXPECT_FALSE(plain->tables[1].is_edges);
  EXPECT_TRUE(plain->schema.node_sets()[2].columns.empty());
}

TEST(ParseUnigraphTest, WhatHasNoMeaningIsRefused) {
  const std::string nodes = kNodes;
  const auto feature = [](const std::string& type) {
    return "node_sets { key: 'c' value { features { key: 'f' value { " + type +
           " } } metadata { filename: 'c.csv' } } } ";
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {nodes + Edge("e", "source: 'a' target: 'b'", ""),
       "graph schema: edge set 'e': has no table (metadata.filename)"},
      {nodes + Edge("e", "source: 'a' target: 'b'", "e.parquet"),
       "graph schema: edge set 'e': the table 'e.parquet' is neither CSV nor TFRecord by its name "
       "(.csv, .tfrecord)"},
      {nodes + Edge("e", "source: 'a' target: '_aux'", "e.csv"),
       "graph schema: edge set 'e': its nodes are the auxiliary set '_aux'"},
      {"node_sets { key: 'c' value { features { key: 'f' value { dtype: DT_FLOAT } } } }",
       "graph schema: node set 'c': has features, but no table (metadata.filename)"},
      {feature("dtype: DT_STRING shape { dim { size: 1 } }"),
       "graph schema: node set 'c': feature 'f': strings are one a row here, the shape has 1 "
       "dimensions"},
      {feature("dtype: DT_FLOAT shape { dim { size: 2 } dim { size: -1 } }"),
       "graph schema: node set 'c': feature 'f': dimension 1 is -1; it must be at least 1, or -1 "
       "for the first"},
      {nodes + "edge_sets { key: 'e' value { source: 'a' target: 'b' metadata { filename: 'e.csv' "
               "} features { key: 'f' value { dtype: DT_STRING shape { dim { size: 1 } } } } } }",
       "graph schema: edge set 'e': feature 'f': strings are one a row here, the shape has 1 "
       "dimensions"},
  };
  for (const auto& [text, message] : cases) {
    SCOPED_TRACE(text);
    const absl::Status status = ParseUnigraph(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), message);
  }
}

TEST(ParseUnigraphTest, EveryElementTypeOfTensorFlowThatThereIs) {
  const std::vector<std::pair<std::string, DType>> types = {
      {"BOOL", DType::kBool},         {"INT8", DType::kInt8},     {"INT16", DType::kInt16},
      {"INT32", DType::kInt32},       {"INT64", DType::kInt64},   {"UINT8", DType::kUint8},
      {"UINT16", DType::kUint16},     {"UINT32", DType::kUint32}, {"UINT64", DType::kUint64},
      {"HALF", DType::kFloat16},      {"FLOAT", DType::kFloat32}, {"DOUBLE", DType::kFloat64},
      {"BFLOAT16", DType::kBfloat16},
  };
  const auto parse = [](const std::string& type, const std::string& extent) {
    return ParseUnigraph("node_sets { key: 'c' value { features { key: 'f' value { dtype: DT_" +
                         type + " shape { dim { size: " + extent +
                         " } } } } metadata { filename: 'c.csv' } } } ");
  };
  for (const auto& [type, dtype] : types) {
    SCOPED_TRACE(type);
    const auto unigraph = parse(type, "1");
    ASSERT_TRUE(unigraph.ok()) << unigraph.status();
    const SourceColumnSpec& column = unigraph->schema.node_sets()[0].columns[0];
    EXPECT_EQ(column.dtype, dtype);
    EXPECT_EQ(column.row_shape, std::vector<uint32_t>{1});
    EXPECT_FALSE(column.ragged);
    EXPECT_FALSE(column.text);
  }
  EXPECT_FALSE(parse("COMPLEX64", "1").ok());
  for (const std::string extent : {"0", "4294967296"}) {
    EXPECT_EQ(parse("FLOAT", extent).status().message(),
              "graph schema: node set 'c': feature 'f': dimension 0 is " + extent +
                  "; it must be at least 1, or -1 for the first");
  }
}

// Sets of TF-GNN's own are none of the graph.
TEST(ParseUnigraphTest, AuxiliarySetsAreLeftOut) {
  const auto unigraph =
      ParseUnigraph(std::string(kNodes) + Edge("e", "source: 'a' target: 'b'", "e.csv") +
                    "edge_sets { key: '_aux_edges' value { source: 'a' target: 'b' } } ");
  ASSERT_TRUE(unigraph.ok()) << unigraph.status();
  ASSERT_EQ(unigraph->schema.edge_sets().size(), 1);
  EXPECT_EQ(unigraph->tables.size(), 2);
}

TEST(TableFormatOfTest, GoesByTheName) {
  for (const char* name : {"x.tfrecord", "x.tfrecords@5", "x-tfrecord-00000-of-00001", "x.tfr",
                           "tfr", "a_tfrecords", "xtfrx.tfr", "mytfrecord.tfrecord"}) {
    EXPECT_EQ(*TableFormatOf(name), TableFormat::kTfrecord) << name;
  }
  for (const char* name : {"x.csv", "x.csv@2", "x-csv-*", "x.csv.gz", "mycsv.csv"}) {
    EXPECT_EQ(*TableFormatOf(name), TableFormat::kCsv) << name;
  }
  for (const char* name :
       {"", "csv", "x.parquet", "xtfrx", "x_tfr", "tfr_x", "tfrs", "x.sstable"}) {
    EXPECT_EQ(TableFormatOf(name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

}  // namespace
}  // namespace packhouse::graph_files
