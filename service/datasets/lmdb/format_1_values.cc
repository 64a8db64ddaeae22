#include "service/datasets/lmdb/format_1_values.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/datasets/lmdb/checked_value.h"
#include "service/datasets/lmdb/stored_keys.h"
#include "service/datasets/stored_values.h"

namespace packhouse {
namespace {

static_assert(std::endian::native == std::endian::little,
              "values are little-endian and are read by memcpy");

// Stood for "no component" where there may be one.
constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

absl::Status MalformedInFormat1(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("stored ", what, " of format 1: malformed"));
}

// Takes values from the front. Once there are too few bytes, every value is 0 and ok() is false.
class Input {
 public:
  explicit Input(absl::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Take() {
    T value = {};
    if (bytes_.size() < sizeof(T)) {
      ok_ = false;
    } else {
      std::memcpy(&value, bytes_.data(), sizeof(T));
      bytes_.remove_prefix(sizeof(T));
    }
    return value;
  }
  absl::string_view TakeString() {
    const auto length = Take<uint32_t>();
    if (bytes_.size() < length) ok_ = false;
    if (!ok_) return "";
    const absl::string_view text = bytes_.substr(0, length);
    bytes_.remove_prefix(length);
    return text;
  }
  // A count of things that follow, of at least `bytes` bytes each.
  size_t TakeCount(size_t bytes) {
    const auto count = Take<uint32_t>();
    if (count > bytes_.size() / bytes) ok_ = false;
    return ok_ ? count : 0;
  }
  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && bytes_.empty(); }

 private:
  absl::string_view bytes_;
  bool ok_ = true;
};

absl::StatusOr<GraphSchema> ReadSchema(absl::string_view bytes) {
  Input input(bytes);
  std::vector<std::string> components(input.TakeCount(sizeof(uint32_t)));
  for (std::string& component : components) component = std::string(input.TakeString());
  std::vector<TensorSpec> tensors(input.TakeCount(6 * sizeof(uint32_t)));
  for (TensorSpec& tensor : tensors) {
    tensor.name = std::string(input.TakeString());
    const absl::string_view dtype = input.TakeString();
    bool known = false;
    for (int number = 0; number <= static_cast<int>(DType::kFloat64) && !known; ++number) {
      tensor.dtype = static_cast<DType>(number);
      known = DTypeName(tensor.dtype) == dtype;
    }
    if (!known) return MalformedInFormat1("schema");
    tensor.row_shape.resize(input.TakeCount(sizeof(uint32_t)));
    for (uint32_t& extent : tensor.row_shape) extent = input.Take<uint32_t>();
    tensor.component = input.Take<uint32_t>();
    const auto index_into = input.Take<uint32_t>();
    if (index_into != kNone) tensor.index_into = index_into;
    tensor.padding_value = std::string(input.TakeString());
  }
  if (!input.AtEnd()) return MalformedInFormat1("schema");
  auto sizes = SizeSchema::Create(std::move(components));
  if (!sizes.ok()) return MalformedInFormat1("schema");
  auto schema = GraphSchema::Create(*std::move(sizes), std::move(tensors));
  if (!schema.ok()) return MalformedInFormat1("schema");
  return schema;
}

absl::StatusOr<StoredDefinition> ReadDefinition(absl::string_view payload) {
  Input input(payload);
  StoredDefinition definition;
  definition.dataset = input.Take<uint64_t>();
  definition.options.max_bytes = input.Take<uint64_t>();
  definition.options.max_counts.resize(input.TakeCount(sizeof(uint32_t)));
  for (uint32_t& count : definition.options.max_counts) count = input.Take<uint32_t>();
  definition.options.grouped = input.Take<uint8_t>() != 0;
  PH_ASSIGN_OR_RETURN(const GraphSchema schema, ReadSchema(input.TakeString()));
  definition.schema = EncodeSchema(schema);
  // Older data sets have no id of their own.
  definition.id = input.AtEnd() ? definition.dataset + 1 : input.Take<uint64_t>();
  if (!input.AtEnd()) return MalformedInFormat1("definition of a data set");
  return definition;
}

absl::StatusOr<StoredState> ReadState(absl::string_view payload) {
  Input input(payload);
  StoredState state;
  state.sealed = input.Take<uint8_t>() != 0;
  state.version = input.Take<uint64_t>();
  state.num_graphs = input.Take<uint64_t>();
  state.num_records = input.Take<uint64_t>();
  state.num_bytes = input.Take<uint64_t>();
  state.num_producers = input.Take<uint64_t>();
  state.base_run_sizes = input.Take<uint64_t>();
  state.later_run_sizes = input.Take<uint64_t>();
  state.totals.resize(input.TakeCount(sizeof(uint64_t)));
  for (uint64_t& total : state.totals) total = input.Take<uint64_t>();
  if (!input.AtEnd()) return MalformedInFormat1("state of a data set");
  return state;
}

absl::StatusOr<SizeHistogram> ReadRun(absl::string_view payload) {
  Input input(payload);
  const auto l = input.Take<uint32_t>();
  if (l > kMaxComponents) return MalformedInFormat1("histogram");
  const size_t rows = input.TakeCount(l * sizeof(uint32_t) + sizeof(uint64_t));
  SizeHistogram histogram(l);
  SizeTuple tuple(l);
  for (size_t row = 0; row < rows; ++row) {
    for (uint32_t& count : tuple) count = input.Take<uint32_t>();
    PH_RETURN_IF_ERROR(histogram.Add(tuple, input.Take<uint64_t>()));
  }
  if (!input.AtEnd()) return MalformedInFormat1("histogram");
  return histogram;
}

}  // namespace

absl::StatusOr<std::optional<std::string>> FromFormat1(absl::string_view key,
                                                       absl::string_view payload) {
  if (absl::StartsWith(key, kNamePrefix)) {
    PH_ASSIGN_OR_RETURN(const StoredDefinition definition, ReadDefinition(payload));
    return EncodeDefinition(definition);
  }
  if (absl::StartsWith(key, kStatePrefix)) {
    PH_ASSIGN_OR_RETURN(const StoredState state, ReadState(payload));
    return EncodeState(state);
  }
  if (absl::StartsWith(key, kHistogramPrefix)) {
    PH_ASSIGN_OR_RETURN(const SizeHistogram histogram, ReadRun(payload));
    return EncodeRun(histogram);
  }
  if (absl::StartsWith(key, kProducerPrefix)) {
    PH_ASSIGN_OR_RETURN(const uint64_t last_sequence, DecodeNumber(payload));
    return EncodeProducer(ProducerHistory(last_sequence, {}, 0));
  }
  if (absl::StartsWith(key, kTombstonePrefix)) return EncodeTombstone(payload);
  return std::nullopt;
}

}  // namespace packhouse
