#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/files/field_values.h"
#include "service/wings/graphs/files/table_rows.h"

namespace packhouse::graph_files {
namespace {

absl::Status InColumn(absl::string_view column, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat("column ", Quoted(column), ": ", status.message()));
}

// The place of `name`; an id's is also that of `#name`.
absl::StatusOr<size_t> PlaceOfColumn(absl::Span<const absl::string_view> header,
                                     absl::string_view name, bool is_id) {
  const std::string marked = is_id ? absl::StrCat("#", name) : std::string(name);
  std::optional<size_t> place;
  for (size_t i = 0; i < header.size(); ++i) {
    if (header[i] != name && header[i] != marked) continue;
    if (place.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("the header has column ", Quoted(name),
                                                     " twice, in fields ", *place + 1, " and ",
                                                     i + 1));
    }
    place = i;
  }
  if (place.has_value()) return *place;
  return absl::InvalidArgumentError(absl::StrCat("the header has no column ", Quoted(name)));
}

}  // namespace

RowsSpec RowsSpecOf(const SourceGraphSchema& schema, bool is_edges, size_t set, bool is_swapped) {
  RowsSpec spec;
  spec.is_edges = is_edges;
  spec.is_swapped = is_swapped;
  spec.columns = is_edges ? schema.edge_sets()[set].columns : schema.node_sets()[set].columns;
  return spec;
}

void ClearRows(const RowsSpec& spec, SourceRows* rows) {
  const size_t set = rows->set;
  *rows = {};
  rows->set = set;
  rows->is_edges = spec.is_edges;
  rows->columns.resize(spec.columns.size());
}

absl::StatusOr<CsvRows> CsvRows::Create(RowsSpec spec, absl::Span<const absl::string_view> header) {
  CsvRows rows(std::move(spec));
  rows.num_fields_ = header.size();
  if (rows.spec_.is_edges) {
    PH_ASSIGN_OR_RETURN(rows.first_id_, PlaceOfColumn(header, "source", true));
    PH_ASSIGN_OR_RETURN(rows.second_id_, PlaceOfColumn(header, "target", true));
    if (rows.spec_.is_swapped) std::swap(rows.first_id_, rows.second_id_);
  } else {
    PH_ASSIGN_OR_RETURN(rows.first_id_, PlaceOfColumn(header, "id", true));
  }
  for (const SourceColumnSpec& column : rows.spec_.columns) {
    const bool is_scalar = column.text || (!column.ragged && column.row_shape.empty());
    if (!is_scalar) {
      return absl::InvalidArgumentError(
          absl::StrCat("column ", Quoted(column.name),
                       " is no scalar in the schema; a field of CSV has one value"));
    }
    PH_ASSIGN_OR_RETURN(const size_t place, PlaceOfColumn(header, column.name, false));
    rows.places_.push_back(place);
  }
  return rows;
}

absl::Status CsvRows::AppendColumns(absl::Span<const absl::string_view> fields,
                                    SourceRows* rows) const {
  for (size_t c = 0; c < places_.size(); ++c) {
    const SourceColumnSpec& column = spec_.columns[c];
    const absl::string_view field = fields[places_[c]];
    ColumnRows& values = rows->columns[c];
    if (column.text) {
      values.bytes.append(field.data(), field.size());
      values.lengths.push_back(field.size());
      continue;
    }
    const absl::Status status = AppendElement(field, column.dtype, &values.bytes);
    if (status.ok()) continue;
    // The columns before it.
    for (size_t done = 0; done < c; ++done) {
      ColumnRows& before = rows->columns[done];
      const bool is_text = spec_.columns[done].text;
      const size_t bytes =
          is_text ? before.lengths.back() : ElementBytes(spec_.columns[done].dtype);
      before.bytes.resize(before.bytes.size() - bytes);
      if (is_text) before.lengths.pop_back();
    }
    return InColumn(column.name, status);
  }
  return absl::OkStatus();
}

absl::Status CsvRows::Append(absl::Span<const absl::string_view> fields, SourceRows* rows) const {
  if (fields.size() != num_fields_) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", fields.size(), " fields, the header ", num_fields_));
  }
  const absl::string_view names[] = {spec_.is_edges ? "source" : "id", "target"};
  for (size_t i = 0; i < (spec_.is_edges ? 2 : 1); ++i) {
    const absl::string_view id = fields[i == 0 ? first_id_ : second_id_];
    if (!id.empty() && id.size() <= kMaxIdBytes) continue;
    return InColumn(names[spec_.is_swapped ? 1 - i : i],
                    absl::InvalidArgumentError(absl::StrCat("an id has 1 to ", kMaxIdBytes,
                                                            " bytes, this one ", id.size())));
  }
  PH_RETURN_IF_ERROR(AppendColumns(fields, rows));
  if (spec_.is_edges) {
    rows->sources.is_text = rows->targets.is_text = true;
    rows->sources.AddText(fields[first_id_]);
    rows->targets.AddText(fields[second_id_]);
  } else {
    rows->ids.is_text = true;
    rows->ids.AddText(fields[first_id_]);
  }
  ++rows->count;
  return absl::OkStatus();
}

}  // namespace packhouse::graph_files
