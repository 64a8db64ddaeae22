#include "client/graph/files/graph_sizes.h"

#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "client/cpp/little_endian.h"
#include "client/graph/files/file_kinds.h"
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

// Of a pickle, XML and UTF-16 Python has more to say.
TEST(FileKindsTest, AFileIsNamedByItsFirstBytes) {
  const KindAdvice advice = {"list of sizes", "of arrays", "of objects"};
  const std::string arrays = ", no list of sizes: of arrays";
  const std::string objects = ", no list of sizes: of objects";
  const std::string wide = "is in UTF-16: save it as UTF-8 ('CSV UTF-8' in a spreadsheet program)";
  const std::string binary = "is no text, and so no list of sizes";
  const std::pair<std::string, std::string> kinds[] = {
      {"\x89HDF\r\n", "is an HDF5 file" + arrays},
      {std::string("SQLite format 3\0more", 20), "is an SQLite database" + arrays},
      {"\x93NUMPY\x01", "is one array of numpy" + arrays},
      {"{}", "is JSON" + arrays},
      {"PAR1", "is a Parquet file: name it .parquet, which `packhouse` reads"},
      {"ARROW1", "is an Arrow file: name it .arrow, which `packhouse` reads"},
      {"<?xml version", "is an XML file, as GraphML is one" + objects},
      {"<graphml>", "is a GraphML file" + objects},
      {"graph [ ]", "is a GML file" + objects},
      {"\x80\x02", "is a pickle" + objects},
      {"\x80\x05", "is a pickle" + objects},
      {"\xFF\xFE"
       "a",
       wide},
      {"\xFE\xFF"
       "a",
       wide},
      {std::string("a\0", 2), wide},
      {std::string("a\0b\0", 4), wide},
      {std::string("\0a\0b", 4), wide},
      {std::string("\0", 1), binary},
      {std::string("\0\0", 2), binary},
      {std::string("ab\0", 3), binary},
      // Texts.
      {"", ""},
      {"a", ""},
      {"\x80\x06", ""},
      {"SQLite format 3", ""},
      {"num_nodes,num_edges\n", ""}};
  const TemporaryFolder folder;
  for (const auto& [bytes, what] : kinds) {
    const std::string path = folder.path() + "/file";
    std::ofstream(path, std::ios::binary) << bytes;
    const absl::Status wanted =
        what.empty() ? absl::OkStatus() : absl::InvalidArgumentError(path + ": " + what);
    EXPECT_EQ(CheckIsText(path, bytes, advice), wanted) << what;
    EXPECT_EQ(CheckIsTextFile(path, advice), wanted) << what;
    // Only its begin tells.
    std::ofstream(path, std::ios::binary) << std::string(kKindBytes, 'a') << bytes;
    EXPECT_EQ(CheckIsTextFile(path, advice), absl::OkStatus()) << what;
  }
  EXPECT_EQ(CheckIsTextFile(folder.path() + "/none", advice), absl::OkStatus());
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
  EXPECT_THAT(ListOf<uint64_t>(MakeHistogram(Histogram({5, 6}, {~uint64_t{1}, 1}))->counts()),
              ElementsAre(~uint64_t{1}, 1));
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
  EXPECT_EQ(WriteHistogramFile("/nonexistent/file", sizes),
            absl::UnavailableError("/nonexistent/file: cannot write: No such file or directory"));
}

}  // namespace
}  // namespace packhouse::client
