#include "service/algorithms/collation/fake_indices.h"

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "service/algorithms/graphs/index_values.h"
#include "tests/support/shared_data.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

std::vector<int64_t> FakeIndices(DType dtype, uint64_t first, uint64_t num_fake,
                                 size_t row_elements, uint64_t count) {
  std::string data(count * row_elements * ElementBytes(dtype), '\x55');
  WriteFakeIndices(dtype, first, num_fake, row_elements, count, data.data());
  std::vector<int64_t> values;
  for (size_t i = 0; i < count * row_elements; ++i) values.push_back(IndexValueAt(dtype, data, i));
  return values;
}

// The example of the reference: 3 of 7 nodes are real, 6 fake edges.
TEST(FakeIndicesTest, SpreadOverTheFakeRows) {
  EXPECT_THAT(FakeIndices(DType::kInt32, 3, 4, 1, 6), ElementsAre(3, 3, 4, 5, 6, 6));
  EXPECT_THAT(FakeIndices(DType::kInt32, 3, 4, 1, 1), ElementsAre(3));
  EXPECT_THAT(FakeIndices(DType::kInt32, 3, 4, 1, 2), ElementsAre(3, 6));
  EXPECT_THAT(FakeIndices(DType::kInt32, 3, 1, 1, 4), ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(FakeIndices(DType::kInt32, 0, 5, 1, 0), ElementsAre());
}

TEST(FakeIndicesTest, AreTheSameInEveryTypeAndInAllElementsOfARow) {
  const std::vector<int64_t> expected = FakeIndices(DType::kInt64, 90, 30, 1, 25);
  for (const DType dtype : {DType::kInt8, DType::kUint8, DType::kInt16, DType::kUint16,
                            DType::kInt32, DType::kUint32, DType::kUint64}) {
    EXPECT_THAT(FakeIndices(dtype, 90, 30, 1, 25), ElementsAreArray(expected)) << DTypeName(dtype);
  }
  EXPECT_THAT(FakeIndices(DType::kInt32, 3, 4, 2, 3), ElementsAre(3, 3, 5, 5, 6, 6));
}

// All values of rows that padding may have are numbers of fake rows, also where float32 rounds.
TEST(FakeIndicesTest, StayWithinTheFakeRows) {
  constexpr uint64_t kMost = (uint64_t{1} << 31) - 1;
  for (const uint64_t first :
       {uint64_t{0}, uint64_t{1} << 24, (uint64_t{1} << 24) + 1, kMost - 7}) {
    for (const uint64_t num_fake : {1, 2, 3, 7}) {
      for (const uint64_t count : {1, 2, 3, 100}) {
        for (const int64_t value : FakeIndices(DType::kInt32, first, num_fake, 1, count)) {
          EXPECT_GE(value, static_cast<int64_t>(first));
          EXPECT_LT(value, static_cast<int64_t>(first + num_fake));
        }
      }
    }
  }
}

// zlib's CRC-32, of which the goldens of large cases have the value.
uint32_t Crc32(const std::string& data) {
  uint32_t crc = 0xffffffff;
  for (const char c : data) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320 : 0);
  }
  return ~crc;
}

// What the library itself wrote down.
TEST(FakeIndicesTest, EqualTheLibrarysOwn) {
  std::ifstream file(SharedData() + "/tfgnn/padding/fake_edges.json");
  if (!file) GTEST_SKIP() << "no tfgnn/padding/fake_edges.json in " << SharedData();
  const nlohmann::json goldens = nlohmann::json::parse(file);
  size_t num_cases = 0;
  for (const nlohmann::json& golden : goldens["cases"]) {
    const uint64_t first = golden["first"];
    const uint64_t last = golden["last"];
    EXPECT_THAT(FakeIndices(DType::kInt32, first, last - first + 1, 1, golden["count"]),
                ElementsAreArray(golden["index"].get<std::vector<int64_t>>()))
        << golden.dump();
    ++num_cases;
  }
  EXPECT_GE(num_cases, 60U);
  for (const nlohmann::json& golden : goldens["large"]) {
    const uint64_t first = golden["first"];
    const uint64_t last = golden["last"];
    const uint64_t count = golden["count"];
    std::string data(count * sizeof(int32_t), '\0');
    WriteFakeIndices(DType::kInt32, first, last - first + 1, 1, count, data.data());
    EXPECT_EQ(Crc32(data), golden["crc32_of_int32_le"].get<uint32_t>()) << first << " " << last;
  }
}

}  // namespace
}  // namespace packhouse
