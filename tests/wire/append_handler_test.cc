#include "service/wire/append_handler.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/datasets/memory_dataset_store.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AppendHandlerTest : public ::testing::Test {
 protected:
  static constexpr char kOneGraph[] =
      R"(graphs { sizes { num_graphs: 1 counts: "\1\0\0\0\2\0\0\0" } })";
  static constexpr char kTwoGraphs[] =
      R"(graphs { sizes { num_graphs: 2 counts: "\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0" } })";

  void Create(const std::string& name, bool grouped = false) {
    DatasetOptions options;
    options.grouped = grouped;
    const GraphSchema schema = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
    ASSERT_THAT(store_.Create(name, schema, options), IsOk());
  }

  // The answer to a request in text format.
  static absl::StatusOr<v1::AppendResponse> Append(AppendHandler& handler,
                                                   const std::string& text) {
    auto request = std::make_unique<v1::AppendRequest>();
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, request.get())) << text;
    if (const absl::Status status = handler.Accept(std::move(request)); !status.ok()) return status;
    auto response = handler.Next();
    EXPECT_THAT(response, IsOk());
    EXPECT_EQ(*handler.Next(), std::nullopt);
    return **std::move(response);
  }
  absl::StatusOr<v1::AppendResponse> Append(const std::string& text) {
    return Append(handler_, text);
  }

  std::vector<uint64_t> StoredIds(const std::string& name) {
    const auto reader = store_.OpenReader(name).value();
    return {reader->graph_ids().begin(), reader->graph_ids().end()};
  }

  MemoryDatasetStore store_{1 << 20};
  AppendHandler handler_{&store_};
};

TEST_F(AppendHandlerTest, TheFirstRequestNamesTheDataSetForAll) {
  EXPECT_THAT(Append(kOneGraph), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("must be named in the first request")));
  EXPECT_THAT(Append(std::string("dataset: 'd'") + kOneGraph),
              StatusIs(absl::StatusCode::kNotFound, _));
  Create("d");
  ASSERT_THAT(Append(std::string("dataset: 'd'") + kOneGraph), IsOk());
  ASSERT_THAT(Append(kOneGraph), IsOk());
  ASSERT_THAT(Append(std::string("dataset: 'd'") + kOneGraph), IsOk());
  EXPECT_THAT(Append(std::string("dataset: 'e'") + kOneGraph),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the stream appends to 'd'")));
  EXPECT_EQ(store_.Get("d")->num_graphs, 3U);
}

// A request that comes late stores nothing in a data set that was made anew under the name.
TEST_F(AppendHandlerTest, AnIdIsOfOneDataSet) {
  Create("d");
  const std::string late =
      absl::StrCat("dataset: 'd' dataset_id: ", store_.Get("d")->id,
                   " producer_sequence { producer: 'p' sequence: 5 }", kOneGraph);
  ASSERT_THAT(Append(late), IsOk());
  ASSERT_THAT(Append(late), IsOk());
  EXPECT_THAT(Append(std::string("dataset_id: 1234 ") + kOneGraph),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dataset_id: 1234")));
  ASSERT_THAT(store_.Delete("d"), IsOk());
  Create("d");
  AppendHandler other(&store_);
  EXPECT_THAT(Append(other, late), StatusIs(absl::StatusCode::kNotFound, HasSubstr("its id is")));
  AppendHandler right(&store_);
  PH_ASSERT_OK_AND_ASSIGN(
      const v1::AppendResponse first,
      Append(right, absl::StrCat("dataset: 'd' dataset_id: ", store_.Get("d")->id,
                                 " producer_sequence { producer: 'p' sequence: 1 }", kOneGraph)));
  EXPECT_EQ(first.num_appended(), 1U);
}

TEST_F(AppendHandlerTest, OnlyTheFirstRequestMayComeWithoutGraphsAndStoresNothing) {
  Create("d");
  PH_ASSERT_OK_AND_ASSIGN(const v1::AppendResponse response,
                          Append("dataset: 'd' producer_sequence { producer: 'p' sequence: 9 }"));
  EXPECT_EQ(response.producer_sequence().sequence(), 9U);
  EXPECT_EQ(response.num_appended(), 0U);
  EXPECT_FALSE(response.is_repetition());
  EXPECT_THAT(Append(""), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("graphs: unset")));
  // The sequence was not taken.
  PH_ASSERT_OK_AND_ASSIGN(
      const v1::AppendResponse first,
      Append(std::string("producer_sequence { producer: 'p' sequence: 1 }") + kOneGraph));
  EXPECT_EQ(first.num_appended(), 1U);
}

TEST_F(AppendHandlerTest, TheFirstRequestIsCheckedEvenWithoutGraphs) {
  Create("d");
  EXPECT_THAT(Append("dataset: 'd' group_ids: '12345678'"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("group_ids: 8 bytes")));
  AppendHandler other(&store_);
  EXPECT_THAT(Append(other, "dataset: 'd' producer_sequence { producer: 'p' }"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sequence 0")));
}

TEST_F(AppendHandlerTest, GraphsWithoutIdsAreNumberedWithinTheStream) {
  Create("d");
  ASSERT_THAT(Append(std::string("dataset: 'd'") + kTwoGraphs), IsOk());
  ASSERT_THAT(
      Append(R"(graphs { sizes { num_graphs: 1 first_id: 77 counts: "\1\0\0\0\1\0\0\0" } })"),
      IsOk());
  ASSERT_THAT(Append(kTwoGraphs), IsOk());
  EXPECT_THAT(StoredIds("d"), ElementsAre(0U, 1U, 77U, 3U, 4U));
  // Another stream begins anew.
  AppendHandler other(&store_);
  ASSERT_THAT(Append(other, std::string("dataset: 'd'") + kOneGraph), IsOk());
  EXPECT_EQ(StoredIds("d").back(), 0U);
}

// A stream that is sent again from its start gives every graph the number that it had.
TEST_F(AppendHandlerTest, ARepetitionIsAnsweredNotStoredAndKeepsTheNumbering) {
  Create("d");
  const std::string first =
      std::string("dataset: 'd' producer_sequence { producer: 'p' sequence: 1 }") + kTwoGraphs;
  const std::string second =
      std::string("producer_sequence { producer: 'p' sequence: 2 }") + kOneGraph;
  ASSERT_THAT(Append(first), IsOk());
  AppendHandler again(&store_);
  PH_ASSERT_OK_AND_ASSIGN(const v1::AppendResponse repetition, Append(again, first));
  EXPECT_TRUE(repetition.is_repetition());
  EXPECT_EQ(repetition.num_appended(), 0U);
  EXPECT_EQ(repetition.num_graphs(), 2U);
  EXPECT_EQ(repetition.producer_sequence().sequence(), 1U);
  PH_ASSERT_OK_AND_ASSIGN(const v1::AppendResponse stored, Append(again, second));
  EXPECT_FALSE(stored.is_repetition());
  EXPECT_EQ(stored.num_appended(), 1U);
  EXPECT_EQ(stored.num_graphs(), 3U);
  EXPECT_THAT(StoredIds("d"), ElementsAre(0U, 1U, 2U));
}

TEST_F(AppendHandlerTest, ASealedDataSetTakesRepetitionsOnly) {
  Create("d");
  const std::string request =
      std::string("dataset: 'd' producer_sequence { producer: 'p' sequence: 1 }") + kOneGraph;
  ASSERT_THAT(Append(request), IsOk());
  ASSERT_THAT(store_.Seal("d"), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const v1::AppendResponse repetition, Append(request));
  EXPECT_TRUE(repetition.is_repetition());
  EXPECT_THAT(Append(kOneGraph), StatusIs(absl::StatusCode::kFailedPrecondition, _));
}

TEST_F(AppendHandlerTest, GroupIdsAreStored) {
  Create("g", /*grouped=*/true);
  ASSERT_THAT(Append(std::string("dataset: 'g' group_ids: '\\5\\0\\0\\0\\0\\0\\0\\0'") + kOneGraph),
              IsOk());
  EXPECT_THAT(store_.OpenReader("g").value()->group_ids(), ElementsAre(5U));
  EXPECT_THAT(Append(std::string("group_ids: '\\5\\0\\0\\0\\0\\0\\0\\0'") + kTwoGraphs),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("group_ids: 8 bytes, 2 graphs take 16")));
  EXPECT_THAT(Append(kOneGraph), StatusIs(absl::StatusCode::kInvalidArgument, _));
}

TEST_F(AppendHandlerTest, AMalformedChunkIsRefusedWhole) {
  Create("d");
  ASSERT_THAT(Append("dataset: 'd'"), IsOk());
  EXPECT_THAT(Append("graphs { sizes { num_graphs: 2 counts: 'abcd' } }"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sizes.counts: 4 bytes")));
  EXPECT_THAT(Append(std::string("graphs { tensors { name: 'x' } }")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'x' is not in the schema")));
  EXPECT_EQ(store_.Get("d")->num_graphs, 0U);
}

TEST_F(AppendHandlerTest, WithoutAFolderForDataTheStreamEndsBeforeItsFirstRequest) {
  AppendHandler handler(nullptr);
  EXPECT_THAT(handler.Next(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                       HasSubstr("without a folder for data (--data-dir)")));
}

}  // namespace
}  // namespace packhouse
