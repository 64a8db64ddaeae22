#include "service/wings/tfgnn/example_decoder.h"

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/tfgnn/column_writing.h"
#include "service/wings/tfgnn/example_fields.h"
#include "service/wings/tfgnn/example_plan.h"

namespace packhouse::tfgnn {
namespace {

// Times the values of a row, at most GraphSchema::kMaxRowBytes, it is below 2^64.
constexpr uint64_t kMaxCount = std::numeric_limits<uint32_t>::max();

std::string ExtentsText(const std::vector<uint32_t>& row_shape) {
  return absl::StrCat("[", absl::StrJoin(row_shape, ", "), "]");
}

}  // namespace

class ExampleDecoder::Parts {
 public:
  Parts(const GraphSets& sets, DecoderOptions options)
      : schema_(sets.shared_schema()), options_(std::move(options)) {}

  absl::Status Prepare(const GraphSets& sets) {
    PH_ASSIGN_OR_RETURN(plan_, ExamplePlan::Make(sets, options_.prefix, fields_));
    return absl::OkStatus();
  }
  absl::Status Append(absl::string_view record, uint64_t record_number, RowBuilder& rows);
  void set_max_graph_bytes(size_t bytes) { options_.max_graph_bytes = bytes; }

 private:
  absl::Status AppendSizes(RowBuilder& rows);
  absl::Status AppendSize(const SetPart& set, RowBuilder& rows);
  absl::Status AppendEnds(const EdgePart& edges, RowBuilder& rows);
  absl::Status AppendFeatures(const SetPart& set, uint64_t num_rows, RowBuilder& rows);
  absl::Status AppendFeature(const SetPart& set, const FeaturePart& feature, uint64_t num_rows,
                             RowBuilder& rows);
  // Returns how many rows the next dimension has.
  absl::StatusOr<uint64_t> AppendLengths(const LengthsPart& lengths, uint64_t num_rows,
                                         bool all_empty, RowBuilder& rows);
  absl::Status AppendText(const FeaturePart& feature, absl::string_view list, uint64_t num_rows,
                          RowBuilder& rows);
  absl::Status AppendNumbers(const FeaturePart& feature, const FeatureList& list,
                             uint64_t num_values, RowBuilder& rows);

  // The list of a key; refused if it is not empty and of another kind.
  absl::StatusOr<FeatureList> ListOf(size_t key, ListKind kind);
  // `bytes` new bytes of tensor t.
  absl::StatusOr<char*> Grow(size_t key, size_t t, uint64_t bytes, RowBuilder& rows);
  // What number `at` of a list of int64s is; for messages.
  static int64_t NumberAt(absl::string_view packed, size_t at);

  template <typename... Texts>
  absl::Status Invalid(size_t key, const Texts&... texts) const {
    return absl::InvalidArgumentError(absl::StrCat("record ", record_number_, ": key ",
                                                   Quoted(fields_.key(key)), ": ", texts...));
  }

  std::shared_ptr<const GraphSchema> schema_;
  DecoderOptions options_;
  ExampleFields fields_;
  ExamplePlan plan_;
  uint64_t record_number_ = 0;
  uint64_t graph_bytes_ = 0;
};

absl::Status ExampleDecoder::Parts::Append(absl::string_view record, uint64_t record_number,
                                           RowBuilder& rows) {
  record_number_ = record_number;
  graph_bytes_ = 0;
  if (record.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()) ||
      !fields_.Find(record)) {
    return absl::InvalidArgumentError(absl::StrCat("record ", record_number, ": its ",
                                                   record.size(), " bytes are no tf.Example"));
  }
  PH_RETURN_IF_ERROR(AppendSizes(rows));
  for (const EdgePart& edges : plan_.edge_sets) PH_RETURN_IF_ERROR(AppendEnds(edges, rows));
  PH_RETURN_IF_ERROR(AppendFeatures(plan_.context, 1, rows));
  for (const SetPart& set : plan_.node_sets) {
    PH_RETURN_IF_ERROR(AppendFeatures(set, rows.counts()[set.component], rows));
  }
  for (const SetPart& set : plan_.edge_sets) {
    PH_RETURN_IF_ERROR(AppendFeatures(set, rows.counts()[set.component], rows));
  }
  return absl::OkStatus();
}

absl::StatusOr<FeatureList> ExampleDecoder::Parts::ListOf(size_t key, ListKind kind) {
  FeatureList list;
  if (!fields_.ListOf(key, &list)) return Invalid(key, "its Feature is malformed");
  if (list.kind == kind || list.kind == ListKind::kNone) return list;
  bool is_empty = list.values.empty();
  if (!is_empty && list.kind == ListKind::kBytes) {
    is_empty = true;
    ForEachString(list.values, [&](absl::string_view) { is_empty = false; });
  }
  if (is_empty) return FeatureList{};
  return Invalid(key, "a list of ", ListKindName(list.kind), "; the schema wants ",
                 ListKindName(kind));
}

absl::StatusOr<char*> ExampleDecoder::Parts::Grow(size_t key, size_t t, uint64_t bytes,
                                                  RowBuilder& rows) {
  graph_bytes_ += bytes;
  if (graph_bytes_ > options_.max_graph_bytes) {
    return Invalid(key, "the graph's rows would take more than ", options_.max_graph_bytes,
                   " bytes");
  }
  return rows.column(t).Grow(bytes);
}

absl::Status ExampleDecoder::Parts::AppendSizes(RowBuilder& rows) {
  for (const SetPart& set : plan_.node_sets) PH_RETURN_IF_ERROR(AppendSize(set, rows));
  for (const SetPart& set : plan_.edge_sets) PH_RETURN_IF_ERROR(AppendSize(set, rows));
  return absl::OkStatus();
}

absl::Status ExampleDecoder::Parts::AppendSize(const SetPart& set, RowBuilder& rows) {
  PH_ASSIGN_OR_RETURN(const FeatureList list, ListOf(*set.size_key, ListKind::kInt64s));
  if (list.kind == ListKind::kNone) return absl::OkStatus();
  const size_t count = CountVarints(list.values);
  if (count != 1) {
    return Invalid(*set.size_key, count,
                   " values; a record has one graph, so a size has one value");
  }
  int64_t size = 0;
  if (!ForEachVarint(list.values, [&](uint64_t value) { size = static_cast<int64_t>(value); })) {
    return Invalid(*set.size_key, "a varint of more than ten bytes");
  }
  if (size < 0 || size > static_cast<int64_t>(kMaxCount)) {
    return Invalid(*set.size_key, "value ", size, " is not in [0, ", kMaxCount, "]");
  }
  rows.counts()[set.component] = static_cast<uint32_t>(size);
  return absl::OkStatus();
}

absl::Status ExampleDecoder::Parts::AppendEnds(const EdgePart& edges, RowBuilder& rows) {
  const uint64_t num_edges = rows.counts()[edges.component];
  for (const EndPart& end : edges.ends) {
    PH_ASSIGN_OR_RETURN(const FeatureList list, ListOf(end.key, ListKind::kInt64s));
    const size_t count = CountVarints(list.values);
    if (count != num_edges) {
      return Invalid(end.key, count, " values; the size of ", edges.text, " is ", num_edges);
    }
    const SetPart& nodes = plan_.node_sets[end.node_set];
    const uint64_t num_nodes = rows.counts()[nodes.component];
    PH_ASSIGN_OR_RETURN(char* const to, Grow(end.key, end.tensor, count * sizeof(int32_t), rows));
    // An index has to fit int32, too.
    const uint64_t bound = std::min<uint64_t>(num_nodes, uint64_t{1} << 31);
    const WriteResult result = WriteIndices(list.values, bound, to);
    if (result.is_malformed) return Invalid(end.key, "a varint of more than ten bytes");
    if (result.bad) {
      return Invalid(end.key, "value ", NumberAt(list.values, *result.bad), " at position ",
                     *result.bad, " is not in [0, ", bound, "), the rows of ", nodes.text);
    }
  }
  return absl::OkStatus();
}

absl::Status ExampleDecoder::Parts::AppendFeatures(const SetPart& set, uint64_t num_rows,
                                                   RowBuilder& rows) {
  for (const FeaturePart& feature : set.features) {
    PH_RETURN_IF_ERROR(AppendFeature(set, feature, num_rows, rows));
  }
  return absl::OkStatus();
}

absl::Status ExampleDecoder::Parts::AppendFeature(const SetPart& set, const FeaturePart& feature,
                                                  uint64_t num_rows, RowBuilder& rows) {
  PH_ASSIGN_OR_RETURN(const FeatureList list, ListOf(feature.key, feature.kind));
  uint64_t num_items = num_rows;
  if (!feature.lengths.empty() && feature.lengths[0].key) {
    // A ragged feature of which nothing is there has empty rows.
    bool all_empty = list.values.empty();
    for (const LengthsPart& lengths : feature.lengths) {
      if (!lengths.key || !all_empty) continue;
      PH_ASSIGN_OR_RETURN(const FeatureList each, ListOf(*lengths.key, ListKind::kInt64s));
      all_empty = each.values.empty();
    }
    for (const LengthsPart& lengths : feature.lengths) {
      if (!lengths.key) continue;
      PH_ASSIGN_OR_RETURN(num_items, AppendLengths(lengths, num_items, all_empty, rows));
    }
  }
  if (feature.is_text) return AppendText(feature, list.values, num_items, rows);
  const size_t num_values = feature.kind == ListKind::kInt64s ? CountVarints(list.values)
                                                              : list.values.size() / sizeof(float);
  const uint64_t needed = num_items * feature.per_row;
  if (num_values != needed) {
    return Invalid(
        feature.key, num_values, " values; ", needed, " are needed: ", num_items, " rows of ",
        ExtentsText(schema_->tensors()[feature.tensor].row_shape),
        feature.lengths.empty()
            ? absl::StrCat(", the size of ", set.text)
            : absl::StrCat(", the sum of ", Quoted(fields_.key(*feature.lengths.back().key))));
  }
  return AppendNumbers(feature, list, num_values, rows);
}

absl::StatusOr<uint64_t> ExampleDecoder::Parts::AppendLengths(const LengthsPart& lengths,
                                                              uint64_t num_rows, bool all_empty,
                                                              RowBuilder& rows) {
  const size_t key = *lengths.key;
  PH_ASSIGN_OR_RETURN(const FeatureList list, ListOf(key, ListKind::kInt64s));
  const uint64_t needed = num_rows * lengths.per_row;
  const size_t count = CountVarints(list.values);
  if (count != needed && !all_empty) {
    return Invalid(key, count, " lengths; ", needed, " are needed");
  }
  // Checked before the multiplication by their width wraps around.
  if (needed > options_.max_graph_bytes) {
    return Invalid(key, needed, " lengths take more than ", options_.max_graph_bytes, " bytes");
  }
  PH_ASSIGN_OR_RETURN(char* const to, Grow(key, lengths.tensor, needed * sizeof(int32_t), rows));
  if (all_empty) {
    if (needed != 0) std::memset(to, 0, needed * sizeof(int32_t));
    return uint64_t{0};
  }
  constexpr uint64_t kMaxLength = std::numeric_limits<int32_t>::max();
  const WriteResult result = WriteIndices(list.values, kMaxLength + 1, to);
  if (result.is_malformed) return Invalid(key, "a varint of more than ten bytes");
  if (result.bad) {
    return Invalid(key, "value ", NumberAt(list.values, *result.bad), " at position ", *result.bad,
                   " is not in [0, ", kMaxLength, "]");
  }
  // At most 2^31 lengths of below 2^31: no overflow.
  uint64_t sum = 0;
  for (size_t i = 0; i < count; ++i) {
    int32_t length;
    std::memcpy(&length, to + i * sizeof(length), sizeof(length));
    sum += static_cast<uint64_t>(length);
  }
  if (sum > kMaxCount) return Invalid(key, "the sum ", sum, " is above ", kMaxCount);
  rows.counts()[lengths.component] = static_cast<uint32_t>(sum);
  return sum;
}

absl::Status ExampleDecoder::Parts::AppendText(const FeaturePart& feature, absl::string_view list,
                                               uint64_t num_rows, RowBuilder& rows) {
  const LengthsPart& lengths = feature.lengths.back();
  const uint64_t needed = num_rows * lengths.per_row;
  uint64_t count = 0;
  uint64_t bytes = 0;
  ForEachString(list, [&](absl::string_view text) {
    ++count;
    bytes += text.size();
  });
  if (count != needed) {
    return Invalid(feature.key, count, " strings; ", needed, " are needed");
  }
  // A record is below 2^31 bytes, and so are its strings together.
  PH_ASSIGN_OR_RETURN(char* to_lengths,
                      Grow(feature.key, lengths.tensor, count * sizeof(int32_t), rows));
  PH_ASSIGN_OR_RETURN(char* to, Grow(feature.key, feature.tensor, bytes, rows));
  ForEachString(list, [&](absl::string_view text) {
    const auto length = static_cast<int32_t>(text.size());
    std::memcpy(to_lengths, &length, sizeof(length));
    to_lengths += sizeof(length);
    if (!text.empty()) std::memcpy(to, text.data(), text.size());
    to += text.size();
  });
  rows.counts()[lengths.component] = static_cast<uint32_t>(bytes);
  return absl::OkStatus();
}

absl::Status ExampleDecoder::Parts::AppendNumbers(const FeaturePart& feature,
                                                  const FeatureList& list, uint64_t num_values,
                                                  RowBuilder& rows) {
  PH_ASSIGN_OR_RETURN(char* const to, Grow(feature.key, feature.tensor,
                                           num_values * ElementBytes(feature.dtype), rows));
  if (num_values == 0) return absl::OkStatus();
  if (list.kind == ListKind::kFloats) {
    WriteFloats(list.values, feature.dtype, to);
    return absl::OkStatus();
  }
  const WriteResult result = WriteIntegers(list.values, feature.dtype, to);
  if (result.is_malformed) return Invalid(feature.key, "a varint of more than ten bytes");
  if (!result.bad) return absl::OkStatus();
  return Invalid(feature.key, "value ", NumberAt(list.values, *result.bad), " at position ",
                 *result.bad, " is not in ", RangeText(feature.dtype), ", the range of ",
                 DTypeName(feature.dtype));
}

int64_t ExampleDecoder::Parts::NumberAt(absl::string_view packed, size_t at) {
  uint64_t number = 0;
  size_t position = 0;
  ForEachVarint(packed, [&](uint64_t value) {
    if (position++ == at) number = value;
  });
  return static_cast<int64_t>(number);
}

ExampleDecoder::ExampleDecoder(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
ExampleDecoder::ExampleDecoder(ExampleDecoder&&) noexcept = default;
ExampleDecoder& ExampleDecoder::operator=(ExampleDecoder&&) noexcept = default;
ExampleDecoder::~ExampleDecoder() = default;

absl::StatusOr<ExampleDecoder> ExampleDecoder::Create(const GraphSets& sets,
                                                      DecoderOptions options) {
  auto parts = std::make_unique<Parts>(sets, std::move(options));
  PH_RETURN_IF_ERROR(parts->Prepare(sets));
  return ExampleDecoder(std::move(parts));
}

absl::Status ExampleDecoder::Append(absl::string_view record, uint64_t record_number,
                                    RowBuilder& rows) {
  const absl::Status status = parts_->Append(record, record_number, rows);
  if (status.ok()) {
    rows.EndGraph();
  } else {
    rows.DropGraph();
  }
  return status;
}

void ExampleDecoder::set_max_graph_bytes(size_t bytes) { parts_->set_max_graph_bytes(bytes); }

}  // namespace packhouse::tfgnn
