#include "service/stores/datasets/stored_values.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <utility>

#include "packhouse/internal/stored.pb.h"
#include "service/base/status_macros.h"
#include "service/stores/datasets/stored_message.h"

namespace packhouse {
namespace {

static_assert(std::endian::native == std::endian::little,
              "sizes and counts are little-endian and are copied as they are");

template <typename T>
T NumberAt(absl::string_view bytes, size_t i) {
  T number;
  std::memcpy(&number, bytes.data() + i * sizeof(number), sizeof(number));
  return number;
}

bool ReadDType(absl::string_view name, DType& dtype) {
  for (int number = 0; number <= static_cast<int>(DType::kFloat64); ++number) {
    dtype = static_cast<DType>(number);
    if (DTypeName(dtype) == name) return true;
  }
  return false;
}

}  // namespace

std::string EncodeSchema(const GraphSchema& schema) {
  internal::GraphSchema stored;
  for (const std::string& component : schema.sizes().components()) stored.add_components(component);
  for (const TensorSpec& tensor : schema.tensors()) {
    internal::TensorSpec& spec = *stored.add_tensors();
    spec.set_name(tensor.name);
    const absl::string_view dtype = DTypeName(tensor.dtype);
    spec.set_dtype(dtype.data(), dtype.size());
    spec.mutable_row_shape()->Add(tensor.row_shape.begin(), tensor.row_shape.end());
    spec.set_component(static_cast<uint32_t>(tensor.component));
    if (tensor.index_into) spec.set_index_into(static_cast<uint32_t>(*tensor.index_into));
    spec.set_padding_value(tensor.padding_value);
    spec.set_rows_last(tensor.layout == Layout::kRowsLast);
  }
  return stored.SerializeAsString();
}

absl::StatusOr<GraphSchema> DecodeSchema(absl::string_view bytes) {
  internal::GraphSchema stored;
  if (!ParseStored(bytes, stored)) return MalformedValue("schema");
  std::vector<std::string> components(stored.components().begin(), stored.components().end());
  std::vector<TensorSpec> tensors;
  for (const internal::TensorSpec& spec : stored.tensors()) {
    TensorSpec& tensor = tensors.emplace_back();
    tensor.name = spec.name();
    if (!ReadDType(spec.dtype(), tensor.dtype)) return MalformedValue("schema");
    tensor.row_shape.assign(spec.row_shape().begin(), spec.row_shape().end());
    tensor.component = spec.component();
    if (spec.has_index_into()) tensor.index_into = spec.index_into();
    tensor.padding_value = spec.padding_value();
    if (spec.rows_last()) tensor.layout = Layout::kRowsLast;
  }
  auto sizes = SizeSchema::Create(std::move(components));
  if (!sizes.ok()) return MalformedValue("schema");
  auto schema = GraphSchema::Create(*std::move(sizes), std::move(tensors));
  if (!schema.ok()) return MalformedValue("schema");
  const std::string encoded = EncodeSchema(*schema);
  return IfExact(*std::move(schema), encoded, bytes, "schema");
}

std::string EncodeDefinition(const StoredDefinition& definition) {
  internal::DatasetDefinition stored;
  stored.set_dataset(definition.dataset);
  stored.set_id(definition.id);
  stored.set_max_bytes(definition.options.max_bytes);
  stored.mutable_max_counts()->Add(definition.options.max_counts.begin(),
                                   definition.options.max_counts.end());
  stored.set_grouped(definition.options.grouped);
  stored.set_schema(definition.schema);
  return stored.SerializeAsString();
}

absl::StatusOr<StoredDefinition> DecodeDefinition(absl::string_view payload) {
  internal::DatasetDefinition stored;
  if (!ParseStored(payload, stored)) return MalformedValue("definition of a data set");
  StoredDefinition definition;
  definition.dataset = stored.dataset();
  definition.id = stored.id();
  definition.options.max_bytes = stored.max_bytes();
  definition.options.max_counts.assign(stored.max_counts().begin(), stored.max_counts().end());
  definition.options.grouped = stored.grouped();
  definition.schema = std::move(*stored.mutable_schema());
  const std::string encoded = EncodeDefinition(definition);
  return IfExact(std::move(definition), encoded, payload, "definition of a data set");
}

std::string EncodeState(const StoredState& state) {
  internal::DatasetState stored;
  SetCommonState(state, stored);
  stored.set_base_run_sizes(state.base_run_sizes);
  stored.set_later_run_sizes(state.later_run_sizes);
  stored.set_num_made_up(state.num_made_up);
  stored.set_sweep_made_up_at(state.sweep_made_up_at);
  return stored.SerializeAsString();
}

absl::StatusOr<StoredState> DecodeState(absl::string_view payload) {
  internal::DatasetState stored;
  if (!ParseStored(payload, stored)) return MalformedValue("state of a data set");
  StoredState state;
  ReadCommonState(stored, state);
  state.base_run_sizes = stored.base_run_sizes();
  state.later_run_sizes = stored.later_run_sizes();
  state.num_made_up = stored.num_made_up();
  state.sweep_made_up_at = stored.sweep_made_up_at();
  const std::string encoded = EncodeState(state);
  return IfExact(std::move(state), encoded, payload, "state of a data set");
}

std::string EncodeRun(const SizeHistogram& histogram) {
  internal::HistogramRun stored;
  stored.set_num_components(static_cast<uint32_t>(histogram.num_components()));
  std::string& tuples = *stored.mutable_tuples();
  std::string& counts = *stored.mutable_counts();
  tuples.reserve(histogram.num_distinct() * histogram.num_components() * sizeof(uint32_t));
  counts.reserve(histogram.num_distinct() * sizeof(uint64_t));
  for (const uint32_t row : histogram.SortedRows()) {
    const auto tuple = histogram.tuple(row);
    tuples.append(reinterpret_cast<const char*>(tuple.data()), tuple.size() * sizeof(uint32_t));
    const uint64_t count = histogram.count(row);
    counts.append(reinterpret_cast<const char*>(&count), sizeof(count));
  }
  return stored.SerializeAsString();
}

absl::Status AddRun(absl::string_view payload, SizeHistogram& histogram) {
  internal::HistogramRun stored;
  if (!ParseStored(payload, stored) || stored.SerializeAsString() != payload) {
    return MalformedValue("histogram");
  }
  const size_t l = histogram.num_components();
  const bool has_l = stored.num_components() == l;
  const std::string tuples = std::move(*stored.mutable_tuples());
  const std::string counts = std::move(*stored.mutable_counts());
  // If there are still fields, they are fields that this release does not know.
  stored.clear_num_components();
  stored.clear_tuples();
  stored.clear_counts();
  const size_t rows = counts.size() / sizeof(uint64_t);
  if (!has_l || stored.ByteSizeLong() != 0 || counts.size() % sizeof(uint64_t) != 0 ||
      tuples.size() != rows * l * sizeof(uint32_t)) {
    return MalformedValue("histogram");
  }
  SizeTuple tuple(l);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t k = 0; k < l; ++k) tuple[k] = NumberAt<uint32_t>(tuples, row * l + k);
    PH_RETURN_IF_ERROR(histogram.Add(tuple, NumberAt<uint64_t>(counts, row)));
  }
  return absl::OkStatus();
}

std::string EncodeProducer(const ProducerHistory& history) {
  internal::Producer stored;
  stored.set_last_sequence(history.last());
  stored.mutable_digests()->Add(history.digests().begin(), history.digests().end());
  stored.set_forget_seconds(history.forget_seconds());
  return stored.SerializeAsString();
}

absl::StatusOr<ProducerHistory> DecodeProducer(absl::string_view payload) {
  internal::Producer stored;
  if (!ParseStored(payload, stored)) return MalformedValue("producer");
  if (static_cast<uint64_t>(stored.digests_size()) > stored.last_sequence()) {
    return MalformedValue("producer");
  }
  const ProducerHistory history(stored.last_sequence(),
                                {stored.digests().begin(), stored.digests().end()},
                                stored.forget_seconds());
  return IfExact(history, EncodeProducer(history), payload, "producer");
}

std::string EncodeTombstone(absl::string_view name) {
  internal::Tombstone stored;
  stored.set_name(name.data(), name.size());
  return stored.SerializeAsString();
}

}  // namespace packhouse
