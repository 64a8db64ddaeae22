#include "service/wings/graphs/files/field_values.h"

#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

namespace packhouse::graph_files {
namespace {

template <typename T>
std::string BytesOf(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

TEST(AppendElementTest, TakesTheValuesOfADtype) {
  const std::vector<std::tuple<std::string, DType, std::string>> cases = {
      {"-128", DType::kInt8, BytesOf(int8_t{-128})},
      {"65535", DType::kUint16, BytesOf(uint16_t{65535})},
      {"-9223372036854775808", DType::kInt64, BytesOf(std::numeric_limits<int64_t>::min())},
      {"18446744073709551615", DType::kUint64, BytesOf(~uint64_t{0})},
      {"0.1", DType::kFloat32, BytesOf(0.1F)},
      {"+1e-3", DType::kFloat64, BytesOf(1e-3)},
      {"1.5", DType::kFloat16, BytesOf(uint16_t{0x3e00})},
      {"1.5", DType::kBfloat16, BytesOf(uint16_t{0x3fc0})},
      {"inf", DType::kFloat32, BytesOf(std::numeric_limits<float>::infinity())},
      {"True", DType::kBool, "\1"},
      {"0", DType::kBool, std::string(1, '\0')},
  };
  for (const auto& [text, dtype, bytes] : cases) {
    SCOPED_TRACE(text);
    std::string out;
    EXPECT_TRUE(AppendElement(text, dtype, &out).ok());
    EXPECT_EQ(out, bytes);
  }
}

template <typename T>
void ExpectTakesAllOf(DType dtype) {
  SCOPED_TRACE(DTypeName(dtype));
  constexpr T kLeast = std::numeric_limits<T>::min();
  constexpr T kMost = std::numeric_limits<T>::max();
  std::string out;
  EXPECT_TRUE(AppendElement(std::to_string(kLeast), dtype, &out).ok());
  EXPECT_TRUE(AppendElement(std::to_string(kMost), dtype, &out).ok());
  EXPECT_EQ(out, BytesOf(kLeast) + BytesOf(kMost));
  if (sizeof(T) < sizeof(int64_t)) {
    EXPECT_FALSE(AppendElement(std::to_string(static_cast<int64_t>(kLeast) - 1), dtype, &out).ok());
    EXPECT_FALSE(AppendElement(std::to_string(static_cast<int64_t>(kMost) + 1), dtype, &out).ok());
  }
  EXPECT_EQ(out.size(), 2 * sizeof(T));
}

TEST(AppendElementTest, AnIntegerHasAllItsValuesAndNoOther) {
  ExpectTakesAllOf<int8_t>(DType::kInt8);
  ExpectTakesAllOf<int16_t>(DType::kInt16);
  ExpectTakesAllOf<int32_t>(DType::kInt32);
  ExpectTakesAllOf<int64_t>(DType::kInt64);
  ExpectTakesAllOf<uint8_t>(DType::kUint8);
  ExpectTakesAllOf<uint16_t>(DType::kUint16);
  ExpectTakesAllOf<uint32_t>(DType::kUint32);
  ExpectTakesAllOf<uint64_t>(DType::kUint64);
}

TEST(AppendElementTest, NamesWhatIsNoValue) {
  const std::vector<std::tuple<std::string, DType, std::string>> cases = {
      {"128", DType::kInt8, "'128' is no int8"},
      {"-1", DType::kUint64, "'-1' is no uint64"},
      {"-1", DType::kUint32, "'-1' is no uint32"},
      {"1.5", DType::kInt64, "'1.5' is no int64"},
      {"", DType::kInt64, "'' is no int64"},
      {"", DType::kFloat32, "'' is no float32"},
      {" 1", DType::kFloat32, "' 1' is no float32"},
      {"1x", DType::kFloat64, "'1x' is no float64"},
      {"+-1", DType::kFloat64, "'+-1' is no float64"},
      {"2", DType::kBool, "'2' is no bool"},
  };
  for (const auto& [text, dtype, message] : cases) {
    SCOPED_TRACE(text);
    std::string out = "x";
    const absl::Status status = AppendElement(text, dtype, &out);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), message);
    EXPECT_EQ(out, "x");
  }
}

}  // namespace
}  // namespace packhouse::graph_files
