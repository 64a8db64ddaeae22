#include "client/graph/files/sizes_file.h"

#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "client/cpp/little_endian.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace packhouse::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SizesFileTest : public testing::Test {
 protected:
  std::string Write(const std::string& text) const {
    std::ofstream(path_) << text;
    return path_;
  }
  ~SizesFileTest() override { std::filesystem::remove(path_); }

  const std::string path_ =
      testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name() + ".csv";
};

TEST_F(SizesFileTest, OneGraphARow) {
  const absl::StatusOr<GraphSizes> sizes =
      ReadSizesFile(Write("num_nodes,num_edges\n3,4\n4294967295,0\n"));
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  EXPECT_THAT(sizes->components, ElementsAre("nodes", "edges"));
  EXPECT_EQ(sizes->num_rows, 2);
  EXPECT_THAT(sizes->Row(1), ElementsAre(4294967295, 0));
  EXPECT_FALSE(sizes->is_histogram());
}

TEST_F(SizesFileTest, ACountColumnMakesAHistogramWhereverItStands) {
  const absl::StatusOr<GraphSizes> sizes =
      ReadSizesFile(Write("count,tokens\n18446744073709551615,4\n2,5\n"));
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  EXPECT_THAT(sizes->components, ElementsAre("tokens"));
  EXPECT_THAT(sizes->counts, ElementsAre(~uint64_t{0}, 2));
  EXPECT_THAT(sizes->values, ElementsAre(4, 5));
}

TEST_F(SizesFileTest, LineEndsOfOtherSystemsAreAccepted) {
  const absl::StatusOr<GraphSizes> sizes =
      ReadSizesFile(Write("\xEF\xBB\xBFnum_nodes,num_edges\r\n 1, 2\r\n3,4\r\n\r\n"));
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  EXPECT_THAT(sizes->values, ElementsAre(1, 2, 3, 4));
  // The last line needs no end.
  EXPECT_EQ(ReadSizesFile(Write("n\n1\n2"))->num_rows, 2);
}

TEST_F(SizesFileTest, FilesLargerThanTheBufferAreReadWhole) {
  std::string text = "a,b\n";
  for (int i = 0; i < 200'000; ++i) text += std::to_string(i) + ",7\n";
  const absl::StatusOr<GraphSizes> sizes = ReadSizesFile(Write(text));
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  ASSERT_EQ(sizes->num_rows, 200'000);
  for (uint32_t i = 0; i < 200'000; ++i) ASSERT_THAT(sizes->Row(i), ElementsAre(i, 7));
}

TEST_F(SizesFileTest, BadFilesAreRefusedNamingFileLineAndValue) {
  struct Case {
    std::string text;
    std::string says;
  };
  std::string many_names = "c0";
  for (int i = 1; i < 65; ++i) many_names += ",c" + std::to_string(i);
  many_names += "\n";
  const std::vector<Case> cases = {
      {"", ": is empty"},
      {"num_nodes\n", ": has a header but no sizes"},
      {"count\n1\n", ":1: no column names a component"},
      {"20,44\n1,2\n", ":1: column '20' is a number"},
      {"num_nodes,\n1,2\n", ":1: column '' is no component name"},
      {"no des\n1\n", ":1: column 'no des' is no component name"},
      {"num_nodes,nodes\n1,2\n", ":1: column 'nodes' is there twice"},
      {"m,count,count\n1,2,3\n", ":1: column 'count' is there twice"},
      {"num_graphs\n1\n", ":1: column 'num_graphs' is reserved"},
      {many_names, ":1: 65 components"},
      {"num_nodes,num_edges\n1,2\n3\n", ":3: '3' has 1 values, the header has 2"},
      {"num_nodes,num_edges\n1,2,3\n", ":2: '1,2,3' has 3 values"},
      {"num_nodes,num_edges\n1,x\n", ":2: num_edges is 'x', not a whole number"},
      {"num_nodes,num_edges\n1,\n", ":2: num_edges is ''"},
      {"num_nodes\n-1\n", ":2: num_nodes is '-1', not a whole number from 0 to 4294967295"},
      {"num_nodes\n1.5\n", ":2: num_nodes is '1.5'"},
      {"num_nodes\n4294967296\n", ":2: num_nodes is '4294967296'"},
      {"num_nodes\n99999999999999999999999\n", ":2: num_nodes is '99999999999999999999999'"},
      {"num_nodes\n1\n\n2\n", ":3: is empty"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const absl::Status status = ReadSizesFile(Write(c.text)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_ + c.says));
  }
}

TEST_F(SizesFileTest, AFileThatIsNotThereIsNotFound) {
  EXPECT_EQ(ReadSizesFile(path_ + ".none").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(SizesFileTest, GzippedFilesAreReadAndBrokenOnesRefused) {
  const gzFile file = gzopen(path_.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  gzputs(file, "num_nodes\n");
  for (int i = 0; i < 50'000; ++i) gzprintf(file, "%d\n", i * 7919 % 4099);
  gzclose(file);
  EXPECT_EQ(ReadSizesFile(path_)->num_rows, 50'000);

  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) / 2);
  EXPECT_EQ(ReadSizesFile(path_).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(SizesFileTest, WhatIsWrittenIsReadBack) {
  const absl::StatusOr<GraphSizes> sizes =
      ReadSizesFile(Write("num_nodes,num_edges,count\n1,2,3\n4,5,6\n"));
  ASSERT_TRUE(sizes.ok());
  ASSERT_TRUE(WriteHistogramFile(path_, *sizes).ok());
  const absl::StatusOr<GraphSizes> again = ReadSizesFile(path_);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->components, sizes->components);
  EXPECT_EQ(again->values, sizes->values);
  EXPECT_EQ(again->counts, sizes->counts);
  EXPECT_EQ(WriteHistogramFile("/nonexistent/file", *sizes).code(), absl::StatusCode::kUnavailable);
}

GraphSizes Histogram(const std::vector<uint32_t>& values, const std::vector<uint64_t>& counts) {
  const std::size_t rows = counts.size();
  return {.components = {"nodes"}, .values = values, .counts = counts, .num_rows = rows};
}

TEST(ExpandHistogramTest, GivesEachGraphARow) {
  const absl::StatusOr<GraphSizes> sizes = ExpandHistogram(Histogram({5, 6, 7}, {2, 0, 1}), 3);
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  EXPECT_THAT(sizes->values, ElementsAre(5, 5, 7));
  EXPECT_EQ(sizes->num_rows, 3);
  EXPECT_THAT(sizes->counts, IsEmpty());
}

TEST(ExpandHistogramTest, TooManyGraphsAreRefusedBeforeMemoryIsTaken) {
  EXPECT_EQ(ExpandHistogram(Histogram({5, 6}, {2, 2}), 3).status().code(),
            absl::StatusCode::kOutOfRange);
  const uint64_t huge = ~uint64_t{0};
  EXPECT_EQ(ExpandHistogram(Histogram({5, 6}, {1, huge}), 3).status().code(),
            absl::StatusCode::kOutOfRange);
}

TEST(ShuffleRowsTest, PermutesRowsAndTellsHow) {
  GraphSizes sizes{.components = {"a", "b"}, .values = {}, .counts = {}, .num_rows = 100};
  for (uint32_t i = 0; i < 100; ++i) sizes.values.insert(sizes.values.end(), {i, 1000 + i});
  GraphSizes twin = sizes;
  std::vector<uint64_t> order = ShuffleRows(7, sizes);
  EXPECT_EQ(ShuffleRows(7, twin), order);
  for (std::size_t row = 0; row < 100; ++row) {
    EXPECT_THAT(sizes.Row(row), ElementsAre(order[row], 1000 + order[row]));
  }
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(MakeHistogramTest, CountsEqualRowsInAscendingOrder) {
  const absl::StatusOr<v1::Histogram> histogram = MakeHistogram(
      {.components = {"a", "b"}, .values = {2, 1, 1, 9, 2, 1}, .counts = {}, .num_rows = 3});
  ASSERT_TRUE(histogram.ok()) << histogram.status();
  const absl::StatusOr<GraphSizes> sizes = SizesOf(*histogram);
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  EXPECT_THAT(sizes->values, ElementsAre(1, 9, 2, 1));
  EXPECT_THAT(sizes->counts, ElementsAre(1, 2));
}

TEST(MakeHistogramTest, RowsWithCountsAreAddedAndOverflowIsRefused) {
  EXPECT_THAT(SizesOf(*MakeHistogram(Histogram({5, 5, 6}, {2, 3, 0})))->counts, ElementsAre(5));
  EXPECT_EQ(MakeHistogram(Histogram({5, 6}, {~uint64_t{0}, 1})).status().code(),
            absl::StatusCode::kOutOfRange);
}

TEST(SizesOfTest, LengthsThatDisagreeAreRefused) {
  v1::Histogram histogram;
  histogram.add_components("nodes");
  histogram.set_tuples("1234");
  histogram.set_counts("1234567");
  EXPECT_EQ(SizesOf(histogram).status().code(), absl::StatusCode::kInvalidArgument);
  histogram.set_counts("1234567812345678");
  EXPECT_EQ(SizesOf(histogram).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace packhouse::client
