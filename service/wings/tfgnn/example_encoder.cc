#include "service/wings/tfgnn/example_encoder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/algorithms/graphs/index_values.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/tfgnn/example_fields.h"
#include "service/wings/tfgnn/number_lists.h"
#include "service/wings/tfgnn/row_builder.h"
#include "service/wings/tfgnn/tensor_names.h"

namespace packhouse::tfgnn {
namespace {

constexpr size_t kMaxVarintBytes = 10;
// protobuf's bound on a message.
constexpr size_t kMaxRecordBytes = std::numeric_limits<int32_t>::max();

size_t VarintBytes(uint64_t value) {
  const int bits = 64 - __builtin_clzll(value | 1);
  return static_cast<size_t>(bits + 6) / 7;
}

char* PutVarint(uint64_t value, char* to) {
  while (value >= 0x80) {
    *to++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *to++ = static_cast<char>(value);
  return to;
}

void AppendVarint(uint64_t value, GrowingBytes& to) {
  char bytes[kMaxVarintBytes];
  to.Append(absl::string_view(bytes, PutVarint(value, bytes) - bytes));
}

// Calls take(bits) with each element of an integer or bool tensor, as int64 in two's complement.
template <typename Take>
void ForEachInteger(DType dtype, absl::string_view rows, size_t begin, size_t step, Take take) {
  if (dtype == DType::kBool) {
    for (size_t i = begin; i < rows.size(); i += step) take(static_cast<uint64_t>(rows[i] != 0));
    return;
  }
  WithIndexType(dtype, [&](auto zero) {
    using T = decltype(zero);
    const size_t n = rows.size() / sizeof(T);
    for (size_t i = begin; i < n; i += step) {
      T value;
      std::memcpy(&value, rows.data() + i * sizeof(T), sizeof(T));
      take(static_cast<uint64_t>(static_cast<int64_t>(value)));
    }
  });
}

}  // namespace

class ExampleEncoder::Parts {
 public:
  Parts(const GraphSets& sets, const EncoderOptions& options);

  absl::Status Append(const GraphChunk& chunk, size_t i, std::string* out);

 private:
  // One list of every record.
  struct ListPart {
    enum class Source : uint8_t { kSize, kEnd, kNumbers, kText };

    std::string key;
    Source source = Source::kSize;
    ListKind kind = ListKind::kInt64s;
    // kSize: the component.
    size_t component = 0;
    size_t tensor = 0;
    // kEnd: 0 or 1, which of the row's elements it is.
    size_t element = 0;
    // kText: the tensor of lengths.
    size_t lengths = 0;
  };

  // Lengths that are checked before a feature is written: their sum is the count of `component`.
  struct LengthsCheck {
    size_t tensor;
    size_t component;
  };

  void PrepareSet(const RowSet& set, const std::string& prefix);
  absl::Status CheckLengths(const GraphChunk& chunk, size_t i) const;
  // The payload of a list, its message without tags: valid until the next call.
  absl::string_view PayloadOf(const ListPart& part, const GraphChunk& chunk, size_t i);
  // Graph i's rows of a tensor, row after row.
  absl::string_view RowsOf(const GraphChunk& chunk, size_t i, size_t t);
  absl::string_view Integers(const ListPart& part, const GraphChunk& chunk, size_t i);
  absl::string_view Floats(DType dtype, absl::string_view rows);
  absl::string_view Strings(const ListPart& part, const GraphChunk& chunk, size_t i);
  void AppendEntry(const ListPart& part, absl::string_view payload);

  GraphSets sets_;
  // In the order of keys.
  std::vector<ListPart> lists_;
  // Whether no key is there twice.
  absl::Status keys_status_;
  std::vector<LengthsCheck> checks_;
  GrowingBytes payload_;
  GrowingBytes transposed_;
  // The entries of the map.
  GrowingBytes entries_;
};

ExampleEncoder::Parts::Parts(const GraphSets& sets, const EncoderOptions& options) : sets_(sets) {
  PrepareSet(sets_.context(), options.prefix + "context/");
  const auto add_size = [&](const RowSet& set, const std::string& prefix) {
    ListPart size;
    size.key = prefix + "#size";
    size.component = set.component;
    lists_.push_back(std::move(size));
  };
  for (const RowSet& set : sets_.node_sets()) {
    const std::string prefix = absl::StrCat(options.prefix, "nodes/", set.name, ".");
    add_size(set, prefix);
    PrepareSet(set, prefix);
  }
  for (const EdgeSet& set : sets_.edge_sets()) {
    const std::string prefix = absl::StrCat(options.prefix, "edges/", set.name, ".");
    add_size(set, prefix);
    PrepareSet(set, prefix);
    ListPart end;
    end.source = ListPart::Source::kEnd;
    end.key = prefix + "#source";
    end.tensor = set.source;
    lists_.push_back(end);
    end.key = prefix + "#target";
    end.tensor = set.target;
    end.element = set.source == set.target ? 1 : 0;
    lists_.push_back(std::move(end));
  }
  std::sort(lists_.begin(), lists_.end(),
            [](const ListPart& a, const ListPart& b) { return a.key < b.key; });
  const auto twice =
      std::adjacent_find(lists_.begin(), lists_.end(),
                         [](const ListPart& a, const ListPart& b) { return a.key == b.key; });
  if (twice != lists_.end()) {
    keys_status_ = absl::FailedPreconditionError(
        absl::StrCat("two parts of the schema have the key ", Quoted(twice->key),
                     " in a tf.Example, which holds one"));
  }
}

void ExampleEncoder::Parts::PrepareSet(const RowSet& set, const std::string& prefix) {
  const absl::Span<const TensorSpec> tensors = sets_.schema().tensors();
  for (const Feature& feature : set.features) {
    ListPart values;
    values.key = prefix + feature.name;
    values.source = feature.is_text ? ListPart::Source::kText : ListPart::Source::kNumbers;
    values.kind = feature.is_text                                             ? ListKind::kBytes
                  : IsInteger(feature.dtype) || feature.dtype == DType::kBool ? ListKind::kInt64s
                                                                              : ListKind::kFloats;
    values.tensor = feature.values;
    for (size_t i = 0; i < feature.ragged.size(); ++i) {
      const RaggedDimension& ragged = feature.ragged[i];
      const bool is_last = i + 1 == feature.ragged.size();
      checks_.push_back(
          {ragged.lengths,
           tensors[is_last ? feature.values : feature.ragged[i + 1].lengths].component});
      if (is_last && feature.is_text) {
        values.lengths = ragged.lengths;
        continue;
      }
      ListPart lengths;
      lengths.key = LengthsName(values.key, ragged.number);
      lengths.source = ListPart::Source::kNumbers;
      lengths.tensor = ragged.lengths;
      lists_.push_back(std::move(lengths));
    }
    lists_.push_back(std::move(values));
  }
}

absl::Status ExampleEncoder::Parts::CheckLengths(const GraphChunk& chunk, size_t i) const {
  for (const LengthsCheck& check : checks_) {
    const TensorSpec& tensor = sets_.schema().tensors()[check.tensor];
    const uint64_t count = chunk.count(i, check.component);
    uint64_t sum = 0;
    bool is_good = true;
    ForEachInteger(tensor.dtype, chunk.rows(i, check.tensor), 0, 1, [&](uint64_t length) {
      // Below 2^32 each, or it ends here; a negative one is huge.
      is_good = is_good && length <= count - sum;
      if (is_good) sum += length;
    });
    if (is_good && sum == count) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("graph ", chunk.sizes().graph_id(i), ": tensor ", Quoted(tensor.name),
                     ": its lengths are not the ", count, " rows of ",
                     Quoted(sets_.schema().sizes().name(check.component))));
  }
  return absl::OkStatus();
}

absl::string_view ExampleEncoder::Parts::RowsOf(const GraphChunk& chunk, size_t i, size_t t) {
  const size_t planes = chunk.schema().num_planes(t);
  if (planes == 1) return chunk.rows(i, t);
  const size_t bytes = chunk.schema().plane_row_bytes(t);
  const size_t rows = chunk.rows(i, t).size() / bytes;
  transposed_.Truncate(0);
  char* const to = transposed_.Grow(rows * planes * bytes);
  for (size_t plane = 0; plane < planes; ++plane) {
    const absl::string_view from = chunk.rows(i, t, plane);
    for (size_t row = 0; row < rows; ++row) {
      std::memcpy(to + (row * planes + plane) * bytes, from.data() + row * bytes, bytes);
    }
  }
  return transposed_.view();
}

absl::string_view ExampleEncoder::Parts::Integers(const ListPart& part, const GraphChunk& chunk,
                                                  size_t i) {
  const TensorSpec& tensor = sets_.schema().tensors()[part.tensor];
  absl::string_view rows = RowsOf(chunk, i, part.tensor);
  const size_t step =
      part.source == ListPart::Source::kEnd && !tensor.row_shape.empty() ? tensor.row_shape[0] : 1;
  payload_.Truncate(0);
  char* const begin = payload_.Grow(rows.size() / ElementBytes(tensor.dtype) * kMaxVarintBytes);
  char* to = begin;
  ForEachInteger(tensor.dtype, rows, part.element, step,
                 [&to](uint64_t value) { to = PutVarint(value, to); });
  payload_.Truncate(to - begin);
  return payload_.view();
}

absl::string_view ExampleEncoder::Parts::Floats(DType dtype, absl::string_view rows) {
  if (dtype == DType::kFloat32) return rows;
  payload_.Truncate(0);
  char* to = payload_.Grow(rows.size() / ElementBytes(dtype) * sizeof(float));
  const auto write_each = [&](auto zero, auto convert) {
    for (size_t i = 0; i < rows.size(); i += sizeof(zero)) {
      std::memcpy(&zero, rows.data() + i, sizeof(zero));
      const float value = convert(zero);
      std::memcpy(to, &value, sizeof(value));
      to += sizeof(value);
    }
  };
  if (dtype == DType::kFloat64) {
    // Beyond float32 it is infinite.
    write_each(double{}, [](double value) { return static_cast<float>(value); });
  } else if (dtype == DType::kFloat16) {
    write_each(uint16_t{}, FloatOfFloat16);
  } else {
    write_each(uint16_t{}, FloatOfBfloat16);
  }
  return payload_.view();
}

absl::string_view ExampleEncoder::Parts::Strings(const ListPart& part, const GraphChunk& chunk,
                                                 size_t i) {
  payload_.Truncate(0);
  absl::string_view text = chunk.rows(i, part.tensor);
  ForEachInteger(sets_.schema().tensors()[part.lengths].dtype, chunk.rows(i, part.lengths), 0, 1,
                 [&](uint64_t length) {
                   char* to = payload_.Grow(1);
                   *to = static_cast<char>(TagOf(1, kBytes));
                   AppendVarint(length, payload_);
                   payload_.Append(text.substr(0, length));
                   text.remove_prefix(length);
                 });
  return payload_.view();
}

absl::string_view ExampleEncoder::Parts::PayloadOf(const ListPart& part, const GraphChunk& chunk,
                                                   size_t i) {
  switch (part.source) {
    case ListPart::Source::kSize:
      payload_.Truncate(0);
      AppendVarint(chunk.count(i, part.component), payload_);
      return payload_.view();
    case ListPart::Source::kText:
      return Strings(part, chunk, i);
    case ListPart::Source::kEnd:
      return Integers(part, chunk, i);
    case ListPart::Source::kNumbers:
      break;
  }
  if (part.kind == ListKind::kInt64s) return Integers(part, chunk, i);
  return Floats(sets_.schema().tensors()[part.tensor].dtype, RowsOf(chunk, i, part.tensor));
}

void ExampleEncoder::Parts::AppendEntry(const ListPart& part, absl::string_view payload) {
  // entry { 1: key, 2: feature { kind: list { 1: packed values } } }; strings have tags already.
  const bool is_packed = part.kind != ListKind::kBytes && !payload.empty();
  const size_t list = payload.size() + (is_packed ? 1 + VarintBytes(payload.size()) : 0);
  const size_t feature = 1 + VarintBytes(list) + list;
  const size_t entry =
      1 + VarintBytes(part.key.size()) + part.key.size() + 1 + VarintBytes(feature) + feature;
  constexpr size_t kMaxHeader = 5 * (1 + kMaxVarintBytes);
  const size_t before = entries_.size();
  char* const begin = entries_.Grow(kMaxHeader + part.key.size());
  char* to = begin;
  const auto put = [&to](uint32_t field, size_t length) {
    *to++ = static_cast<char>(TagOf(field, kBytes));
    to = PutVarint(length, to);
  };
  put(1, entry);
  put(1, part.key.size());
  std::memcpy(to, part.key.data(), part.key.size());
  to += part.key.size();
  put(2, feature);
  put(static_cast<uint32_t>(part.kind), list);
  if (is_packed) put(1, payload.size());
  entries_.Truncate(before + (to - begin));
  entries_.Append(payload);
}

absl::Status ExampleEncoder::Parts::Append(const GraphChunk& chunk, size_t i, std::string* out) {
  PH_RETURN_IF_ERROR(keys_status_);
  PH_RETURN_IF_ERROR(CheckLengths(chunk, i));
  entries_.Truncate(0);
  for (const ListPart& part : lists_) {
    AppendEntry(part, PayloadOf(part, chunk, i));
    if (entries_.size() > kMaxRecordBytes - kMaxVarintBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "graph ", chunk.sizes().graph_id(i), ": key ", Quoted(part.key),
          ": the record would take more than ", kMaxRecordBytes, " bytes, a tf.Example's bound"));
    }
  }
  char header[1 + kMaxVarintBytes];
  header[0] = static_cast<char>(TagOf(1, kBytes));
  const size_t header_bytes = PutVarint(entries_.size(), header + 1) - header;
  out->reserve(out->size() + header_bytes + entries_.size());
  out->append(header, header_bytes);
  out->append(entries_.view().data(), entries_.size());
  return absl::OkStatus();
}

ExampleEncoder::ExampleEncoder(const GraphSets& sets, EncoderOptions options)
    : parts_(std::make_unique<Parts>(sets, options)) {}
ExampleEncoder::ExampleEncoder(ExampleEncoder&&) noexcept = default;
ExampleEncoder& ExampleEncoder::operator=(ExampleEncoder&&) noexcept = default;
ExampleEncoder::~ExampleEncoder() = default;

absl::Status ExampleEncoder::Append(const GraphChunk& chunk, size_t i, std::string* out) {
  return parts_->Append(chunk, i, out);
}

}  // namespace packhouse::tfgnn
