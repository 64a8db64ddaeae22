#include "service/datasets/lmdb/stored_values.h"

#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/base/checksum.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

static_assert(std::endian::native == std::endian::little,
              "values are little-endian and are read by memcpy");

// Stands for "no component" where one may be.
constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

template <typename T>
void Put(T value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void PutString(absl::string_view text, std::string& out) {
  Put<uint32_t>(text.size(), out);
  out.append(text.data(), text.size());
}

void PutBigEndian(uint64_t value, std::string& out) {
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

// Takes values from the front; once there are too few bytes, everything is 0 and ok() is false.
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
  // A number of things of at least `bytes` bytes each that are still to come.
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

absl::Status Malformed(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("stored ", what, ": malformed"));
}

std::string NumberedKey(char kind, uint64_t number) {
  std::string key(1, kind);
  PutBigEndian(number, key);
  return key;
}

}  // namespace

std::string FormatKey() { return "f"; }
std::string NameKey(absl::string_view name) { return absl::StrCat(kNamePrefix, name); }
std::string StateKey(uint64_t dataset) { return NumberedKey('s', dataset); }
std::string TombstoneKey(uint64_t dataset) { return NumberedKey('x', dataset); }
std::string RecordPrefix(uint64_t dataset) { return NumberedKey('r', dataset); }
std::string HistogramPrefix(uint64_t dataset) { return NumberedKey('h', dataset); }
std::string ProducerPrefix(uint64_t dataset) { return NumberedKey('p', dataset); }
std::string RecordKey(uint64_t dataset, uint64_t first_graph) {
  std::string key = RecordPrefix(dataset);
  PutBigEndian(first_graph, key);
  return key;
}
std::string HistogramKeyOf(uint64_t dataset, uint64_t first_graph) {
  std::string key = HistogramPrefix(dataset);
  PutBigEndian(first_graph, key);
  return key;
}
std::string ProducerKey(uint64_t dataset, absl::string_view producer) {
  return absl::StrCat(ProducerPrefix(dataset), producer);
}
std::string LogFormatKey() { return "l"; }
std::string LogBeginKey() { return "b"; }
std::string LogRecordKey(uint64_t sequence) { return NumberedKey('r', sequence); }

std::optional<uint64_t> NumberAtEnd(absl::string_view key) {
  if (key.size() != 1 + sizeof(uint64_t) && key.size() != 1 + 2 * sizeof(uint64_t)) {
    return std::nullopt;
  }
  uint64_t number = 0;
  for (const char byte : key.substr(key.size() - sizeof(number))) {
    number = number << 8 | static_cast<unsigned char>(byte);
  }
  return number;
}

std::string WithChecksum(absl::string_view key, std::string payload) {
  Put<uint32_t>(Crc32c(payload, Crc32c(key)), payload);
  return payload;
}

absl::StatusOr<absl::string_view> CheckedPayload(absl::string_view key, absl::string_view value) {
  if (value.size() >= kChecksumBytes) {
    const absl::string_view payload = value.substr(0, value.size() - kChecksumBytes);
    uint32_t stored;
    std::memcpy(&stored, value.data() + payload.size(), sizeof(stored));
    if (Crc32c(payload, Crc32c(key)) == stored) return payload;
  }
  return absl::DataLossError(
      absl::StrCat("stored value '", absl::CHexEscape(key), "' fails its checksum"));
}

std::string EncodeSchema(const GraphSchema& schema) {
  std::string out;
  Put<uint32_t>(schema.num_components(), out);
  for (const std::string& component : schema.sizes().components()) PutString(component, out);
  Put<uint32_t>(schema.tensors().size(), out);
  for (const TensorSpec& tensor : schema.tensors()) {
    PutString(tensor.name, out);
    // By name: the numbers of an enum are nobody's promise.
    PutString(DTypeName(tensor.dtype), out);
    Put<uint32_t>(tensor.row_shape.size(), out);
    for (const uint32_t extent : tensor.row_shape) Put(extent, out);
    Put<uint32_t>(tensor.component, out);
    Put<uint32_t>(tensor.index_into ? *tensor.index_into : kNone, out);
    PutString(tensor.padding_value, out);
  }
  return out;
}

absl::StatusOr<GraphSchema> DecodeSchema(absl::string_view bytes) {
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
    if (!known) return Malformed("schema");
    tensor.row_shape.resize(input.TakeCount(sizeof(uint32_t)));
    for (uint32_t& extent : tensor.row_shape) extent = input.Take<uint32_t>();
    tensor.component = input.Take<uint32_t>();
    const auto index_into = input.Take<uint32_t>();
    if (index_into != kNone) tensor.index_into = index_into;
    tensor.padding_value = std::string(input.TakeString());
  }
  if (!input.AtEnd()) return Malformed("schema");
  auto sizes = SizeSchema::Create(std::move(components));
  if (!sizes.ok()) return Malformed("schema");
  auto schema = GraphSchema::Create(*std::move(sizes), std::move(tensors));
  if (!schema.ok()) return Malformed("schema");
  return schema;
}

std::string EncodeDefinition(const StoredDefinition& definition) {
  std::string out;
  Put(definition.dataset, out);
  Put(definition.options.max_bytes, out);
  Put<uint32_t>(definition.options.max_counts.size(), out);
  for (const uint32_t count : definition.options.max_counts) Put(count, out);
  Put<uint8_t>(definition.options.grouped ? 1 : 0, out);
  PutString(definition.schema, out);
  Put(definition.id, out);
  return out;
}

absl::StatusOr<StoredDefinition> DecodeDefinition(absl::string_view payload) {
  Input input(payload);
  StoredDefinition definition;
  definition.dataset = input.Take<uint64_t>();
  definition.options.max_bytes = input.Take<uint64_t>();
  definition.options.max_counts.resize(input.TakeCount(sizeof(uint32_t)));
  for (uint32_t& count : definition.options.max_counts) count = input.Take<uint32_t>();
  definition.options.grouped = input.Take<uint8_t>() != 0;
  definition.schema = std::string(input.TakeString());
  // Data sets of before have no id of their own.
  definition.id = input.AtEnd() ? definition.dataset + 1 : input.Take<uint64_t>();
  if (!input.AtEnd()) return Malformed("definition of a data set");
  return definition;
}

std::string EncodeState(const StoredState& state) {
  std::string out;
  Put<uint8_t>(state.sealed ? 1 : 0, out);
  Put(state.version, out);
  Put(state.num_graphs, out);
  Put(state.num_records, out);
  Put(state.num_bytes, out);
  Put(state.num_producers, out);
  Put(state.base_run_sizes, out);
  Put(state.later_run_sizes, out);
  Put<uint32_t>(state.totals.size(), out);
  for (const uint64_t total : state.totals) Put(total, out);
  return out;
}

absl::StatusOr<StoredState> DecodeState(absl::string_view payload) {
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
  if (!input.AtEnd()) return Malformed("state of a data set");
  return state;
}

std::string EncodeRun(const SizeHistogram& histogram) {
  std::string out;
  const size_t l = histogram.num_components();
  out.reserve(2 * sizeof(uint32_t) +
              histogram.num_distinct() * (l * sizeof(uint32_t) + sizeof(uint64_t)));
  Put<uint32_t>(l, out);
  Put<uint32_t>(histogram.num_distinct(), out);
  for (const uint32_t row : histogram.SortedRows()) {
    for (const uint32_t count : histogram.tuple(row)) Put(count, out);
    Put(histogram.count(row), out);
  }
  return out;
}

absl::Status AddRun(absl::string_view payload, SizeHistogram& histogram) {
  Input input(payload);
  const size_t l = histogram.num_components();
  if (input.Take<uint32_t>() != l) return Malformed("histogram");
  const size_t rows = input.TakeCount(l * sizeof(uint32_t) + sizeof(uint64_t));
  SizeTuple tuple(l);
  for (size_t row = 0; row < rows; ++row) {
    for (uint32_t& count : tuple) count = input.Take<uint32_t>();
    PH_RETURN_IF_ERROR(histogram.Add(tuple, input.Take<uint64_t>()));
  }
  return input.AtEnd() ? absl::OkStatus() : Malformed("histogram");
}

std::string EncodeNumber(uint64_t number) {
  std::string out;
  Put(number, out);
  return out;
}

absl::StatusOr<uint64_t> DecodeNumber(absl::string_view payload) {
  Input input(payload);
  const auto number = input.Take<uint64_t>();
  if (!input.AtEnd()) return Malformed("number");
  return number;
}

}  // namespace packhouse
