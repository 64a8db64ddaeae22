#include "client/cli/reports/dataset_report.h"

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "client/cpp/little_endian.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse::client {
namespace {

using ::testing::HasSubstr;

v1::GetDatasetResponse Molecules() {
  v1::GetDatasetResponse response;
  v1::Dataset& dataset = *response.mutable_dataset();
  dataset.set_name("molhiv");
  dataset.set_state(v1::DATASET_STATE_SEALED);
  dataset.set_version(0xabc);
  dataset.set_num_graphs(41127);
  dataset.set_num_records(30);
  dataset.set_num_bytes(3 << 20);
  dataset.set_max_bytes(1 << 30);
  v1::Capacity& bound = *dataset.add_max_rows();
  bound.set_component("nodes");
  bound.set_rows(1000);
  dataset.mutable_schema()->add_components("nodes");
  dataset.mutable_schema()->add_components("edges");
  v1::TensorSpec& x = *dataset.mutable_schema()->add_tensors();
  x.set_name("x");
  x.set_dtype(v1::DATA_TYPE_INT16);
  x.add_row_shape(9);
  x.set_component("nodes");
  x.set_padding_value(std::string("\xff\xff", 2));
  v1::TensorSpec& edge_index = *dataset.mutable_schema()->add_tensors();
  edge_index.set_name("edges/edge_index");
  edge_index.set_dtype(v1::DATA_TYPE_INT32);
  edge_index.add_row_shape(2);
  edge_index.set_component("edges");
  edge_index.set_index_into("nodes");
  edge_index.set_layout(v1::LAYOUT_ROWS_LAST);
  v1::Histogram& histogram = *response.mutable_histogram();
  histogram.add_components("nodes");
  histogram.add_components("edges");
  const uint64_t counts[] = {41126, 1};
  AppendLittleEndian(absl::MakeConstSpan(counts), *histogram.mutable_counts());
  histogram.set_num_graphs(41127);
  for (const uint64_t total : {82254, 41127}) histogram.add_component_totals(total);
  for (const uint32_t maximum : {222, 502}) histogram.add_component_maxima(maximum);
  return response;
}

TEST(DatasetTableTest, OneRowEach) {
  v1::Dataset damaged;
  damaged.set_name("torn");
  damaged.set_state(v1::DATASET_STATE_DAMAGED);
  EXPECT_EQ(DatasetTable({Molecules().dataset(), damaged}),
            "name      state  graphs     size           version\n"
            "molhiv   sealed  41,127  3.0 MiB  0000000000000abc\n"
            "torn    damaged\n");
}

TEST(DatasetTextTest, SaysAllThereIs) {
  PH_ASSERT_OK_AND_ASSIGN(const std::string text, DatasetText(Molecules()));
  EXPECT_EQ(text,
            "molhiv: sealed, 41,127 graphs in 30 records, 3.0 MiB\n"
            "\n"
            "version     0000000000000abc\n"
            "bounds      at most 1.0 GiB, 1,000 nodes of a graph\n"
            "groups      none\n"
            "components  nodes, edges\n"
            "tensors     x: int16 [9] of nodes, padded with the bytes ffff\n"
            "            edges/edge_index: int32 [2] of edges, into nodes, rows last\n"
            "sizes       2 distinct\n"
            "\n"
            "component  total  mean  max\n"
            "nodes      82254  2.00  222\n"
            "edges      41127  1.00  502\n");
  v1::GetDatasetResponse lacking = Molecules();
  lacking.mutable_histogram()->clear_component_totals();
  EXPECT_EQ(DatasetText(lacking).status().code(), absl::StatusCode::kInternal);
}

TEST(DatasetTextTest, TellsThatSizesHaveChanged) {
  v1::GetDatasetResponse response = Molecules();
  response.clear_histogram();
  v1::DatasetDrift& drift = *response.mutable_drift();
  drift.set_first_graph(7582);
  drift.set_found_graph(8104);
  drift.set_num_changes(1);
  v1::DatasetDrift::Component& nodes = *drift.add_components();
  nodes.set_component("nodes");
  nodes.set_reference_mean(24.25);
  nodes.set_mean(49.5);
  PH_ASSERT_OK_AND_ASSIGN(const std::string text, DatasetText(response));
  EXPECT_TRUE(absl::EndsWith(text,
                             "\nsizes changed at about graph 7,582 (found at 8,104)\n"
                             "- nodes: 49.5 in the mean, before 24.25\n"))
      << text;
  EXPECT_EQ(DatasetJson(response)["drift"],
            Json::parse(R"({"first_graph": 7582, "found_graph": 8104, "num_changes": 1, )"
                        R"("components": {"nodes": {"reference_mean": 24.25, "mean": 49.5}}})"));
}

TEST(DatasetJsonTest, HasTheSame) {
  EXPECT_EQ(
      DatasetJson(Molecules()),
      Json::parse(
          R"({"name": "molhiv", "state": "sealed", "version": "0000000000000abc", )"
          R"("graphs": 41127, "records": 30, "bytes": 3145728, "max_bytes": 1073741824, )"
          R"("max_rows": {"nodes": 1000}, "grouped": false, "components": ["nodes", "edges"], )"
          R"("tensors": [{"name": "x", "dtype": "int16", "row_shape": [9], )"
          R"("component": "nodes", "padding_value_hex": "ffff"}, {"name": "edges/edge_index", )"
          R"("dtype": "int32", "row_shape": [2], "component": "edges", )"
          R"("index_into": "nodes", "layout": "rows_last"}], "distinct_sizes": 2, )"
          R"("totals": {"nodes": 82254, "edges": 41127}, )"
          R"("maxima": {"nodes": 222, "edges": 502}})"));
}

TEST(VerifyTextTest, NoDamage) {
  v1::VerifyDatasetResponse response;
  response.set_num_records(30);
  response.set_num_bytes(2048);
  EXPECT_TRUE(IsUndamaged(response));
  EXPECT_EQ(VerifyText("d", response), "d: 30 records, 2.0 KiB read: no damage\n");
  EXPECT_EQ(VerifyJson("d", response)["undamaged"], true);
}

TEST(VerifyTextTest, DamageIsListed) {
  v1::VerifyDatasetResponse response;
  response.set_num_records(30);
  response.set_num_damaged(2);
  v1::DamagedRecord& record = *response.add_damaged();
  record.set_record(7);
  record.set_first_graph(100);
  record.set_num_graphs(20);
  record.set_message("the columns fail their checksum");
  response.add_disagreements("the histogram counts 9 graphs, the records 10");
  EXPECT_FALSE(IsUndamaged(response));
  EXPECT_EQ(VerifyText("d", response),
            "record 7, graphs 100 to 119: the columns fail their checksum\n"
            "and 1 more damaged records\n"
            "the histogram counts 9 graphs, the records 10\n"
            "d: 30 records, 0 B read: 2 damaged records with more than 20 graphs, "
            "1 disagreements\n");
  EXPECT_EQ(VerifyJson("d", response)["damaged"][0]["first_graph"], 100);
  response.clear_damaged();
  response.set_num_damaged(0);
  EXPECT_FALSE(IsUndamaged(response));
}

}  // namespace
}  // namespace packhouse::client
