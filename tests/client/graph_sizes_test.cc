#include "client/graph/files/graph_sizes.h"

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "client/cpp/little_endian.h"
#include "client/graph/files/input_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::client {
namespace {

using ::testing::ElementsAre;

template <typename T>
std::vector<T> ListOf(const std::string& bytes) {
  const LittleEndianView<T> view(bytes);
  std::vector<T> list;
  for (std::size_t i = 0; i < view.size(); ++i) list.push_back(view[i]);
  return list;
}

GraphSizes Histogram(const std::vector<uint32_t>& values, const std::vector<uint64_t>& counts) {
  const std::size_t rows = counts.size();
  return {.components = {"nodes"}, .values = values, .counts = counts, .num_rows = rows};
}

TEST(ReadInputFileTest, AFileThatCannotBeReadToItsEndIsAnError) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/file";
  std::ofstream(path) << "all of it";
  EXPECT_EQ(ReadInputFile(path).value(), "all of it");
  EXPECT_EQ(ReadInputFile(path + "2").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadInputFile(folder.path()).status().code(), absl::StatusCode::kInvalidArgument);
  // It can be opened, and nothing is mapped at its begin.
  EXPECT_EQ(ReadInputFile("/proc/self/mem").status(),
            absl::UnavailableError("/proc/self/mem: cannot be read"));
}

TEST(MakeHistogramTest, CountsEqualRowsInAscendingOrder) {
  const absl::StatusOr<v1::Histogram> histogram = MakeHistogram(
      {.components = {"a", "b"}, .values = {2, 1, 1, 9, 2, 1}, .counts = {}, .num_rows = 3});
  ASSERT_TRUE(histogram.ok()) << histogram.status();
  EXPECT_THAT(histogram->components(), ElementsAre("a", "b"));
  EXPECT_THAT(ListOf<uint32_t>(histogram->tuples()), ElementsAre(1, 9, 2, 1));
  EXPECT_THAT(ListOf<uint64_t>(histogram->counts()), ElementsAre(1, 2));
}

TEST(MakeHistogramTest, RowsWithCountsAreAddedAndOverflowIsRefused) {
  EXPECT_THAT(ListOf<uint64_t>(MakeHistogram(Histogram({5, 5, 6}, {2, 3, 0}))->counts()),
              ElementsAre(5));
  EXPECT_EQ(MakeHistogram(Histogram({5, 6}, {~uint64_t{0}, 1})).status().code(),
            absl::StatusCode::kOutOfRange);
}

TEST(WriteHistogramFileTest, HasAColumnOfCounts) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/sizes.csv";
  const GraphSizes sizes = {
      .components = {"nodes", "edges"}, .values = {1, 2, 4, 5}, .counts = {3, 6}, .num_rows = 2};
  ASSERT_TRUE(WriteHistogramFile(path, sizes).ok());
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}),
            "num_nodes,num_edges,count\n1,2,3\n4,5,6\n");
  EXPECT_EQ(WriteHistogramFile("/nonexistent/file", sizes).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace packhouse::client
