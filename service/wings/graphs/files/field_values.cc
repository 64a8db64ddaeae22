#include "service/wings/graphs/files/field_values.h"

#include <charconv>
#include <cstring>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/wings/tfgnn/number_lists.h"

namespace packhouse::graph_files {
namespace {

template <typename T>
void AppendValue(T value, std::string* bytes) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  bytes->append(raw, sizeof(T));
}

template <typename T>
bool AppendIfValue(uint64_t value, std::string* bytes) {
  if (!tfgnn::IsValueOf<T>(value)) return false;
  AppendValue(static_cast<T>(value), bytes);
  return true;
}

template <typename T>
bool ParseWhole(absl::string_view text, T* value) {
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, *value);
  return !text.empty() && result.ec == std::errc() && result.ptr == end;
}

bool ParseBool(absl::string_view text, uint64_t* value) {
  if (text == "0" || absl::EqualsIgnoreCase(text, "false")) return (*value = 0, true);
  if (text == "1" || absl::EqualsIgnoreCase(text, "true")) return (*value = 1, true);
  return false;
}

// The nearest float32 for every float dtype but float64: rounding twice, by way of float64, would
// be another number now and then.
bool AppendFloatText(absl::string_view text, DType dtype, std::string* bytes) {
  // A sign that from_chars does not take.
  absl::string_view number = text;
  if (number.size() > 1 && number.front() == '+' && number[1] != '-') number.remove_prefix(1);
  if (dtype == DType::kFloat64) {
    double value = 0;
    if (!ParseWhole(number, &value)) return false;
    AppendValue(value, bytes);
    return true;
  }
  float value = 0;
  if (!ParseWhole(number, &value)) return false;
  AppendFloat(value, dtype, bytes);
  return true;
}

}  // namespace

void AppendFloat(double value, DType dtype, std::string* bytes) {
  switch (dtype) {
    case DType::kFloat16:
      return AppendValue(tfgnn::Float16Of(static_cast<float>(value)), bytes);
    case DType::kBfloat16:
      return AppendValue(tfgnn::Bfloat16Of(static_cast<float>(value)), bytes);
    case DType::kFloat64:
      return AppendValue(value, bytes);
    default:
      return AppendValue(static_cast<float>(value), bytes);
  }
}

bool AppendInteger(uint64_t bits, DType dtype, std::string* bytes) {
  switch (dtype) {
    case DType::kBool:
      if (bits > 1) return false;
      AppendValue(static_cast<uint8_t>(bits), bytes);
      return true;
    case DType::kInt8:
      return AppendIfValue<int8_t>(bits, bytes);
    case DType::kInt16:
      return AppendIfValue<int16_t>(bits, bytes);
    case DType::kInt32:
      return AppendIfValue<int32_t>(bits, bytes);
    case DType::kUint8:
      return AppendIfValue<uint8_t>(bits, bytes);
    case DType::kUint16:
      return AppendIfValue<uint16_t>(bits, bytes);
    case DType::kUint32:
      return AppendIfValue<uint32_t>(bits, bytes);
    default:
      AppendValue(bits, bytes);
      return true;
  }
}

absl::Status ParseInt64(absl::string_view text, int64_t* value) {
  if (ParseWhole(text, value)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(Quoted(text), " is no int64"));
}

absl::Status AppendElement(absl::string_view text, DType dtype, std::string* bytes) {
  bool is_taken = false;
  if (dtype == DType::kBool) {
    uint64_t value = 0;
    is_taken = ParseBool(text, &value) && AppendInteger(value, dtype, bytes);
  } else if (dtype == DType::kUint64) {
    uint64_t value = 0;
    is_taken = ParseWhole(text, &value);
    if (is_taken) AppendValue(value, bytes);
  } else if (IsInteger(dtype)) {
    int64_t value = 0;
    is_taken =
        ParseWhole(text, &value) && AppendInteger(static_cast<uint64_t>(value), dtype, bytes);
  } else {
    is_taken = AppendFloatText(text, dtype, bytes);
  }
  if (is_taken) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(Quoted(text), " is no ", DTypeName(dtype)));
}

}  // namespace packhouse::graph_files
