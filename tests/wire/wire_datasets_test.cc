#include "service/server/wire/wire_datasets.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "service/server/calls/wire_sizes.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

absl::StatusOr<NewDataset> Create(const std::string& text) {
  return NewDatasetFromWire(Parse<v1::CreateDatasetRequest>(text));
}

TEST(NewDatasetFromWireTest, UnsetMeansSizesWithoutBounds) {
  PH_ASSERT_OK_AND_ASSIGN(const NewDataset created, Create("name: 'a/b-c.d_E9'"));
  EXPECT_EQ(created.name, "a/b-c.d_E9");
  EXPECT_EQ(created.schema.sizes(), SizeSchema::NodesAndEdges());
  EXPECT_THAT(created.schema.tensors(), IsEmpty());
  EXPECT_EQ(created.options.max_bytes, 0U);
  EXPECT_THAT(created.options.max_counts, IsEmpty());
  EXPECT_FALSE(created.options.grouped);
}

TEST(NewDatasetFromWireTest, BoundsAreInSchemaOrderHoweverTheyAreListed) {
  PH_ASSERT_OK_AND_ASSIGN(const NewDataset created, Create(R"(name: 'd' max_bytes: 5 grouped: true
                                    schema { components: 'a' components: 'b' components: 'c' }
                                    max_rows { component: 'c' rows: 4294967295 }
                                    max_rows { component: 'a' rows: 7 })"));
  EXPECT_EQ(created.options.max_bytes, 5U);
  EXPECT_THAT(created.options.max_counts, ElementsAre(7U, 0U, 4294967295U));
  EXPECT_TRUE(created.options.grouped);
}

TEST(NewDatasetFromWireTest, NamesWhatIsWrong) {
  const auto refused = [](const std::string& text, const std::string& message) {
    EXPECT_THAT(Create(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)))
        << text;
  };
  refused("", "name '' is not 1 to 128 characters");
  refused("name: 'a b'", "name 'a b'");
  refused("name: '" + std::string(129, 'x') + "'", "1 to 128 characters");
  refused("name: 'd' schema { components: 'graphs' }", "graphs");
  refused("name: 'd' schema { tensors { name: 'x' dtype: DATA_TYPE_INT8 component: 'nodes' } }",
          "unknown component 'nodes'");
  refused("name: 'd' max_rows { component: 'faces' rows: 1 }",
          "max_rows: unknown component 'faces'");
  refused("name: 'd' max_rows { component: 'graphs' rows: 1 }", "max_rows: 'graphs' has no bound");
  refused("name: 'd' max_rows { component: 'nodes' } max_rows { component: 'nodes' rows: 1 }",
          "max_rows: component 'nodes' is listed twice");
  refused("name: 'd' max_rows { component: 'nodes' rows: 4294967296 }",
          "max_rows: component 'nodes': 4294967296, at most 4294967295");
  refused("name: 'd' oversize_policy: OVERSIZE_POLICY_REJECT", "REJECT is not for data sets");
}

TEST(NewDatasetFromWireTest, AnErrorForWhatIsTooLargeIsTheDefault) {
  for (const std::string bounds : {"", "max_rows { component: 'nodes' rows: 7 }"}) {
    for (const std::string policy : {"", "oversize_policy: OVERSIZE_POLICY_ERROR"}) {
      PH_ASSERT_OK_AND_ASSIGN(const NewDataset created, Create("name: 'd' " + bounds + policy));
      EXPECT_THAT(created.schema.tensors(), IsEmpty());
    }
  }
}

TEST(GroupIdsFromWireTest, OneForEachGraphOrNone) {
  v1::AppendRequest request;
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<uint64_t> none, GroupIdsFromWire(request, 3));
  EXPECT_THAT(none, IsEmpty());
  request.set_group_ids(Uint64sToWire({5, UINT64_MAX}));
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<uint64_t> two, GroupIdsFromWire(request, 2));
  EXPECT_THAT(two, ElementsAre(5U, UINT64_MAX));
  for (const size_t num_graphs : {0, 1, 3}) {
    EXPECT_THAT(GroupIdsFromWire(request, num_graphs),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("group_ids: 16 bytes")));
  }
  request.set_group_ids("seven b");
  EXPECT_THAT(GroupIdsFromWire(request, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("group_ids: 7 bytes, 1 graphs take 8")));
}

TEST(DatasetToWireTest, TellsWhatItWasCreatedWith) {
  const std::string text = R"(name: 'd' max_bytes: 5 grouped: true
      schema { components: 'a' components: 'b'
               tensors { name: 'x' dtype: DATA_TYPE_FLOAT32 row_shape: 3 component: 'a' } }
      max_rows { component: 'b' rows: 7 })";
  PH_ASSERT_OK_AND_ASSIGN(NewDataset created, Create(text));
  DatasetInfo info;
  info.name = created.name;
  info.schema = std::make_shared<const GraphSchema>(std::move(created.schema));
  info.options = std::move(created.options);
  info.state = DatasetState::kSealed;
  info.num_graphs = 11;
  info.num_records = 12;
  info.num_bytes = 13;
  info.version = 14;
  info.id = 15;
  v1::Dataset wire;
  DatasetToWire(info, wire);
  const auto expected = Parse<v1::Dataset>(
      text +
      "state: DATASET_STATE_SEALED id: 15 version: 14 num_graphs: 11 num_records: 12 "
      "num_bytes: 13");
  EXPECT_EQ(wire.DebugString(), expected.DebugString());
}

TEST(DatasetToWireTest, AnOpenOneWithoutBoundsSaysLittle) {
  DatasetInfo info;
  info.name = "d";
  info.schema = std::make_shared<const GraphSchema>(
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value());
  info.options.max_counts = {0, 3};
  info.state = DatasetState::kOpen;
  v1::Dataset wire;
  DatasetToWire(info, wire);
  EXPECT_EQ(wire.ShortDebugString(),
            "name: \"d\" schema { components: \"nodes\" components: \"edges\" } state: "
            "DATASET_STATE_OPEN max_rows { component: \"edges\" rows: 3 }");
}

TEST(DatasetListToWireTest, OfADamagedDataSetOnlyTheNameIsKnown) {
  DatasetList list;
  DatasetInfo& info = list.datasets.emplace_back();
  info.name = "d";
  info.state = DatasetState::kDamaged;
  list.next_page_token = "d";
  v1::ListDatasetsResponse wire;
  DatasetListToWire(list, wire);
  EXPECT_EQ(wire.DebugString(),
            Parse<v1::ListDatasetsResponse>(
                "datasets { name: 'd' state: DATASET_STATE_DAMAGED } next_page_token: 'd'")
                .DebugString());
}

TEST(AppendResultToWireTest, TheSequenceComesBack) {
  AppendResult result;
  result.num_appended = 3;
  result.num_graphs = 9;
  v1::AppendResponse wire;
  AppendResultToWire(result, v1::AppendRequest(), wire);
  EXPECT_EQ(wire.DebugString(),
            Parse<v1::AppendResponse>("num_appended: 3 num_graphs: 9").DebugString());
  const std::string sequence = "producer_sequence { producer: 'p' sequence: 4 }";
  result.num_appended = 0;
  result.is_repetition = true;
  AppendResultToWire(result, Parse<v1::AppendRequest>(sequence), wire);
  EXPECT_EQ(
      wire.DebugString(),
      Parse<v1::AppendResponse>(sequence + "is_repetition: true num_graphs: 9").DebugString());
}

TEST(VerifyReportToWireTest, TheLastResponseCarriesTheFindings) {
  const VerifyProgress progress = {4, 5, 60, 70};
  v1::VerifyDatasetResponse wire;
  VerifyProgressToWire(progress, wire);
  const std::string counts =
      "num_records: 4 num_records_total: 5 num_bytes: 60 num_bytes_total: 70 ";
  EXPECT_EQ(wire.DebugString(), Parse<v1::VerifyDatasetResponse>(counts).DebugString());
  VerifyReport report;
  report.num_damaged = 2;
  report.damaged.push_back({1, 10, 11, absl::DataLossError("torn")});
  report.disagreements.push_back(absl::DataLossError("one too few"));
  VerifyReportToWire(report, progress, wire);
  EXPECT_EQ(wire.DebugString(),
            Parse<v1::VerifyDatasetResponse>(counts + R"(finished: true num_damaged: 2
                            damaged { record: 1 first_graph: 10 num_graphs: 11 message: 'torn' }
                            disagreements: 'one too few')")
                .DebugString());
}

}  // namespace
}  // namespace packhouse
