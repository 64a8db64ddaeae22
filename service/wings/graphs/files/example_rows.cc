#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/files/field_values.h"
#include "service/wings/graphs/files/table_rows.h"
#include "service/wings/tfgnn/number_lists.h"
#include "service/wings/tfgnn/wire_cursor.h"

namespace packhouse::graph_files {
namespace {

using tfgnn::FeatureList;
using tfgnn::ListKind;

bool IsFloat(DType dtype) { return dtype != DType::kBool && !IsInteger(dtype); }

ListKind KindOf(const SourceColumnSpec& column) {
  if (column.text) return ListKind::kBytes;
  return IsFloat(column.dtype) ? ListKind::kFloats : ListKind::kInt64s;
}

template <typename... Parts>
absl::Status InFeature(absl::string_view key, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("feature ", Quoted(key), ": ", parts...));
}

uint64_t StepElements(const SourceColumnSpec& column) {
  uint64_t elements = 1;
  for (const uint32_t extent : column.row_shape) elements *= extent;
  return elements;
}

std::string ShapeText(const SourceColumnSpec& column) {
  std::string text = column.ragged ? "[-1" : "[";
  for (size_t i = 0; i < column.row_shape.size(); ++i) {
    absl::StrAppend(&text, i > 0 || column.ragged ? ", " : "", column.row_shape[i]);
  }
  return text + "]";
}

// Appends the elements of a list; the number of them, or the value that the dtype does not have.
absl::StatusOr<uint64_t> AppendNumbers(absl::string_view key, const SourceColumnSpec& column,
                                       const FeatureList& list, std::string* bytes) {
  if (list.kind == ListKind::kFloats) {
    const uint64_t count = list.values.size() / sizeof(float);
    if (column.dtype == DType::kFloat32) {
      bytes->append(list.values.data(), list.values.size());
      return count;
    }
    for (uint64_t i = 0; i < count; ++i) {
      float value;
      std::memcpy(&value, list.values.data() + i * sizeof(float), sizeof(float));
      AppendFloat(value, column.dtype, bytes);
    }
    return count;
  }
  uint64_t count = 0;
  absl::Status status;
  const bool is_whole = tfgnn::ForEachVarint(list.values, [&](uint64_t bits) {
    if (!AppendInteger(bits, column.dtype, bytes) && status.ok()) {
      status = InFeature(key, static_cast<int64_t>(bits), " is no ", DTypeName(column.dtype));
    }
    ++count;
  });
  if (!status.ok()) return status;
  if (!is_whole) return InFeature(key, "malformed");
  return count;
}

void AppendVarint(uint64_t value, std::string* out) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

void AppendLengthed(uint32_t field, absl::string_view bytes, std::string* out) {
  AppendVarint(tfgnn::TagOf(field, tfgnn::kBytes), out);
  AppendVarint(bytes.size(), out);
  out->append(bytes.data(), bytes.size());
}

// `list`: the BytesList, FloatList or Int64List.
void AppendFeature(absl::string_view key, ListKind kind, absl::string_view list,
                   std::string* features) {
  std::string feature;
  AppendLengthed(static_cast<uint32_t>(kind), list, &feature);
  std::string entry;
  AppendLengthed(1, key, &entry);
  AppendLengthed(2, feature, &entry);
  AppendLengthed(1, entry, features);
}

double FloatOf(const char* at, DType dtype) {
  uint16_t half;
  float single;
  double wide;
  switch (dtype) {
    case DType::kFloat16:
      std::memcpy(&half, at, sizeof(half));
      return static_cast<double>(tfgnn::FloatOfFloat16(half));
    case DType::kBfloat16:
      std::memcpy(&half, at, sizeof(half));
      return static_cast<double>(tfgnn::FloatOfBfloat16(half));
    case DType::kFloat64:
      std::memcpy(&wide, at, sizeof(wide));
      return wide;
    default:
      std::memcpy(&single, at, sizeof(single));
      return static_cast<double>(single);
  }
}

uint64_t IntegerOf(const char* at, DType dtype) {
  uint64_t bits = 0;
  const size_t bytes = ElementBytes(dtype);
  std::memcpy(&bits, at, bytes);
  const bool is_signed = dtype == DType::kInt8 || dtype == DType::kInt16 || dtype == DType::kInt32;
  if (is_signed && (bits >> (8 * bytes - 1) & 1) != 0) bits |= ~uint64_t{0} << (8 * bytes);
  return bits;
}

// The FloatList or Int64List of `count` elements at `at`.
void AppendNumberList(const char* at, uint64_t count, DType dtype, std::string* list) {
  std::string packed;
  if (dtype == DType::kFloat32) {
    packed.assign(at, count * sizeof(float));
    count = 0;
  }
  for (uint64_t i = 0; i < count; ++i, at += ElementBytes(dtype)) {
    if (IsFloat(dtype)) {
      AppendFloat(FloatOf(at, dtype), DType::kFloat32, &packed);
    } else {
      AppendVarint(IntegerOf(at, dtype), &packed);
    }
  }
  AppendLengthed(1, packed, list);
}

}  // namespace

ExampleRows::ExampleRows(RowsSpec spec) : spec_(std::move(spec)) {
  std::vector<std::string> names = {"id"};
  if (spec_.is_edges) names = {"source", "target"};
  if (spec_.is_swapped) names = {"target", "source"};
  for (const std::string& name : names) {
    id_keys_.push_back(fields_.AddKey(absl::StrCat("#", name)));
    id_keys_.push_back(fields_.AddKey(name));
  }
  for (const SourceColumnSpec& column : spec_.columns) {
    column_keys_.push_back(fields_.AddKey(column.name));
    length_keys_.push_back(fields_.AddKey(absl::StrCat(column.name, ".d1")));
  }
}

absl::Status ExampleRows::AppendId(size_t key, size_t other_key, IdRows* ids) {
  FeatureList list;
  if (!fields_.ListOf(key, &list)) return InFeature(fields_.key(key), "malformed");
  if (list.kind == ListKind::kNone) {
    key = other_key;
    if (!fields_.ListOf(key, &list)) return InFeature(fields_.key(key), "malformed");
  }
  if (list.kind == ListKind::kNone) {
    return absl::InvalidArgumentError(
        absl::StrCat("has no feature ", Quoted(fields_.key(other_key))));
  }
  if (list.kind != ListKind::kBytes) {
    return InFeature(fields_.key(key), "an id is a string, this is a list of ",
                     tfgnn::ListKindName(list.kind));
  }
  bool is_first = true;
  absl::string_view id;
  tfgnn::ForEachString(list.values, [&](absl::string_view text) {
    if (is_first) id = text;
    is_first = false;
  });
  if (is_first) return InFeature(fields_.key(key), "an id is a string, this list is empty");
  if (id.empty() || id.size() > kMaxIdBytes) {
    return InFeature(fields_.key(key), "an id has 1 to ", kMaxIdBytes, " bytes, this one ",
                     id.size());
  }
  ids->is_text = true;
  ids->AddText(id);
  return absl::OkStatus();
}

absl::Status ExampleRows::AppendColumn(size_t column, ColumnRows* rows) {
  const SourceColumnSpec& spec = spec_.columns[column];
  FeatureList list;
  if (!fields_.ListOf(column_keys_[column], &list)) return InFeature(spec.name, "malformed");
  if (list.kind == ListKind::kNone && (!spec.ragged || spec.text)) {
    return absl::InvalidArgumentError(absl::StrCat("has no feature ", Quoted(spec.name)));
  }
  if (list.kind != ListKind::kNone && list.kind != KindOf(spec)) {
    return InFeature(spec.name, "a list of ", tfgnn::ListKindName(list.kind), ", ",
                     tfgnn::ListKindName(KindOf(spec)), " are needed for ",
                     spec.text ? "text" : DTypeName(spec.dtype));
  }
  if (spec.text) {
    uint64_t count = 0;
    absl::string_view first;
    tfgnn::ForEachString(list.values, [&](absl::string_view text) {
      if (count++ == 0) first = text;
    });
    if (count != 1) return InFeature(spec.name, count, " strings, 1 is needed");
    rows->bytes.append(first.data(), first.size());
    rows->lengths.push_back(first.size());
    return absl::OkStatus();
  }
  uint64_t count = 0;
  if (list.kind != ListKind::kNone) {
    PH_ASSIGN_OR_RETURN(count, AppendNumbers(spec.name, spec, list, &rows->bytes));
  }
  const uint64_t step = StepElements(spec);
  if (!spec.ragged) {
    if (count == step) return absl::OkStatus();
    return InFeature(spec.name, count, " values, the shape ", ShapeText(spec), " needs ", step);
  }
  if (count % step != 0) {
    return InFeature(spec.name, count, " values, the shape ", ShapeText(spec),
                     " needs a multiple of ", step);
  }
  FeatureList length;
  if (!fields_.ListOf(length_keys_[column], &length)) return InFeature(spec.name, "malformed");
  if (length.kind == ListKind::kInt64s) {
    uint64_t lengths = 0;
    uint64_t said = 0;
    tfgnn::ForEachVarint(length.values, [&](uint64_t bits) { said = bits, ++lengths; });
    if (lengths != 1 || said != count / step) {
      return InFeature(fields_.key(length_keys_[column]), lengths, " lengths, the last ",
                       static_cast<int64_t>(said), "; the row has one, ", count / step);
    }
  }
  rows->lengths.push_back(count / step);
  return absl::OkStatus();
}

absl::Status ExampleRows::Append(absl::string_view record, SourceRows* rows) {
  if (!fields_.Find(record)) return absl::InvalidArgumentError("is no tf.Example");
  std::vector<size_t> bytes_before;
  absl::Status status;
  size_t done = 0;
  for (; done < spec_.columns.size(); ++done) {
    bytes_before.push_back(rows->columns[done].bytes.size());
    status = AppendColumn(done, &rows->columns[done]);
    if (!status.ok()) break;
  }
  if (status.ok()) {
    if (spec_.is_edges) {
      status = AppendId(id_keys_[0], id_keys_[1], &rows->sources);
      if (status.ok()) {
        status = AppendId(id_keys_[2], id_keys_[3], &rows->targets);
        if (!status.ok()) {
          rows->sources.ends.pop_back();
          rows->sources.bytes.resize(rows->sources.ends.empty() ? 0 : rows->sources.ends.back());
        }
      }
    } else {
      status = AppendId(id_keys_[0], id_keys_[1], &rows->ids);
    }
  }
  if (status.ok()) {
    ++rows->count;
    return status;
  }
  for (size_t c = 0; c < bytes_before.size(); ++c) {
    rows->columns[c].bytes.resize(bytes_before[c]);
    if (spec_.columns[c].ragged) rows->columns[c].lengths.resize(rows->count);
  }
  return status;
}

absl::Status ForEachExample(const RowsSpec& spec, const SourceRows& rows,
                            absl::FunctionRef<absl::Status(absl::string_view record)> take) {
  std::string features;
  std::string list;
  const auto add_id = [&](absl::string_view key, const IdRows& ids, size_t row) {
    list.clear();
    AppendLengthed(
        1, ids.is_text ? ids.text(row) : absl::string_view(absl::StrCat(ids.numbers[row])), &list);
    AppendFeature(key, ListKind::kBytes, list, &features);
  };
  // Where the row begins in each column.
  std::vector<uint64_t> begins(spec.columns.size(), 0);
  std::string record;
  for (size_t row = 0; row < rows.count; ++row) {
    features.clear();
    record.clear();
    if (spec.is_edges) {
      add_id("#source", spec.is_swapped ? rows.targets : rows.sources, row);
      add_id("#target", spec.is_swapped ? rows.sources : rows.targets, row);
    } else {
      add_id("#id", rows.ids, row);
    }
    for (size_t c = 0; c < spec.columns.size(); ++c) {
      const SourceColumnSpec& column = spec.columns[c];
      const uint64_t steps = column.ragged ? rows.columns[c].lengths[row] : 1;
      const uint64_t elements = steps * StepElements(column);
      const char* const at = rows.columns[c].bytes.data() + begins[c];
      begins[c] += elements * ElementBytes(column.dtype);
      list.clear();
      if (column.text) {
        AppendLengthed(1, absl::string_view(at, steps), &list);
      } else {
        AppendNumberList(at, elements, column.dtype, &list);
      }
      AppendFeature(column.name, KindOf(column), list, &features);
    }
    AppendLengthed(1, features, &record);
    PH_RETURN_IF_ERROR(take(record));
  }
  return absl::OkStatus();
}

}  // namespace packhouse::graph_files
