#include "client/cli/reports/dataset_report.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/cli/device_arguments.h"
#include "client/cli/json.h"
#include "client/cli/reports/histogram_summary.h"
#include "client/cli/reports/table.h"

namespace packhouse::client {
namespace {

std::string DataTypeText(v1::DataType dtype) {
  const std::string name = v1::DataType_Name(dtype);
  if (name.empty()) return absl::StrCat("dtype ", static_cast<int>(dtype));
  return absl::AsciiStrToLower(absl::StripPrefix(name, "DATA_TYPE_"));
}

std::string VersionText(const v1::Dataset& dataset) {
  return dataset.version() == 0 ? "" : absl::StrFormat("%016x", dataset.version());
}

std::string BoundsText(const v1::Dataset& dataset) {
  std::vector<std::string> bounds;
  if (dataset.max_bytes() != 0) bounds.push_back(BytesText(dataset.max_bytes()));
  for (const v1::Capacity& capacity : dataset.max_rows()) {
    if (capacity.rows() != 0) {
      bounds.push_back(
          absl::StrCat(Grouped(capacity.rows()), " ", capacity.component(), " of a graph"));
    }
  }
  return bounds.empty() ? "none of its own" : absl::StrCat("at most ", absl::StrJoin(bounds, ", "));
}

JsonObject DatasetFields(const v1::Dataset& dataset) {
  std::vector<std::string> components;
  for (const std::string& component : dataset.schema().components()) {
    components.push_back(JsonString(component));
  }
  std::vector<std::string> tensors;
  for (const v1::TensorSpec& spec : dataset.schema().tensors()) {
    JsonObject tensor;
    tensor.Add("name", spec.name()).Add("dtype", DataTypeText(spec.dtype()));
    std::vector<std::string> extents;
    for (const uint32_t extent : spec.row_shape()) extents.push_back(absl::StrCat(extent));
    tensor.AddJson("row_shape", JsonArray(extents)).Add("component", spec.component());
    if (!spec.index_into().empty()) tensor.Add("index_into", spec.index_into());
    if (!spec.padding_value().empty()) {
      tensor.Add("padding_value_hex", absl::BytesToHexString(spec.padding_value()));
    }
    tensors.push_back(tensor.Render());
  }
  JsonObject max_rows;
  for (const v1::Capacity& capacity : dataset.max_rows()) {
    max_rows.Add(capacity.component(), uint64_t{capacity.rows()});
  }
  JsonObject fields;
  fields.Add("name", dataset.name())
      .Add("state", StateText(dataset.state()))
      .Add("version", VersionText(dataset))
      .Add("graphs", uint64_t{dataset.num_graphs()})
      .Add("records", uint64_t{dataset.num_records()})
      .Add("bytes", uint64_t{dataset.num_bytes()})
      .Add("max_bytes", uint64_t{dataset.max_bytes()})
      .AddJson("max_rows", max_rows.Render())
      .Add("grouped", dataset.grouped())
      .AddJson("components", JsonArray(components))
      .AddJson("tensors", JsonArray(tensors));
  return fields;
}

}  // namespace

std::string TensorText(const v1::TensorSpec& spec) {
  std::string text = absl::StrCat(spec.name(), ": ", DataTypeText(spec.dtype()));
  if (spec.row_shape_size() > 0) {
    absl::StrAppend(&text, " [", absl::StrJoin(spec.row_shape(), ", "), "]");
  }
  absl::StrAppend(&text, " of ", spec.component());
  if (!spec.index_into().empty()) absl::StrAppend(&text, ", into ", spec.index_into());
  if (!spec.padding_value().empty()) {
    absl::StrAppend(&text, ", padded with the bytes ",
                    absl::BytesToHexString(spec.padding_value()));
  }
  return text;
}

std::string StateText(v1::DatasetState state) {
  switch (state) {
    case v1::DATASET_STATE_OPEN:
      return "open";
    case v1::DATASET_STATE_SEALED:
      return "sealed";
    case v1::DATASET_STATE_DAMAGED:
      return "damaged";
    default:
      return absl::StrCat("state ", static_cast<int>(state));
  }
}

std::string DatasetTable(const std::vector<v1::Dataset>& datasets) {
  TextTable table({{"name", ""}, {"state", ""}, {"graphs", ""}, {"size", ""}, {"version", ""}});
  for (const v1::Dataset& dataset : datasets) {
    std::vector<std::string> cells = {dataset.name(), StateText(dataset.state())};
    // Of a damaged one there is only the name.
    if (dataset.state() != v1::DATASET_STATE_DAMAGED) {
      cells.insert(cells.end(), {Grouped(dataset.num_graphs()), BytesText(dataset.num_bytes()),
                                 VersionText(dataset)});
    }
    table.AddRow(std::move(cells));
  }
  return table.Render();
}

absl::StatusOr<std::string> DatasetText(const v1::GetDatasetResponse& response) {
  const v1::Dataset& dataset = response.dataset();
  std::string text = absl::StrFormat(
      "%s: %s, %s graphs in %s records, %s\n\nversion     %s\nbounds      %s\ngroups      %s\n"
      "components  %s\n",
      dataset.name(), StateText(dataset.state()), Grouped(dataset.num_graphs()),
      Grouped(dataset.num_records()), BytesText(dataset.num_bytes()), VersionText(dataset),
      BoundsText(dataset), dataset.grouped() ? "each graph has a group id" : "none",
      absl::StrJoin(dataset.schema().components(), ", "));
  absl::string_view heading = "tensors     ";
  for (const v1::TensorSpec& spec : dataset.schema().tensors()) {
    absl::StrAppend(&text, heading, TensorText(spec), "\n");
    heading = "            ";
  }
  if (dataset.schema().tensors().empty()) absl::StrAppend(&text, heading, "none: sizes only\n");
  if (response.has_histogram()) {
    absl::StatusOr<std::string> summary = HistogramSummary(response.histogram());
    if (!summary.ok()) return summary.status();
    absl::StrAppend(&text, "sizes       ",
                    Grouped(response.histogram().counts().size() / sizeof(uint64_t)),
                    " distinct\n\n", *summary);
  }
  return text;
}

std::string DatasetJson(const v1::Dataset& dataset) { return DatasetFields(dataset).Render(); }

std::string DatasetJson(const v1::GetDatasetResponse& response) {
  JsonObject fields = DatasetFields(response.dataset());
  if (response.has_histogram()) {
    const v1::Histogram& histogram = response.histogram();
    fields.Add("distinct_sizes", uint64_t{histogram.counts().size() / sizeof(uint64_t)});
    JsonObject totals;
    JsonObject maxima;
    for (int k = 0; k < histogram.components_size(); ++k) {
      if (k < histogram.component_totals_size()) {
        totals.Add(histogram.components(k), uint64_t{histogram.component_totals(k)});
      }
      if (k < histogram.component_maxima_size()) {
        maxima.Add(histogram.components(k), uint64_t{histogram.component_maxima(k)});
      }
    }
    fields.AddJson("totals", totals.Render()).AddJson("maxima", maxima.Render());
  }
  return fields.Render();
}

std::string VerifyProgressLine(const v1::VerifyDatasetResponse& response) {
  return absl::StrCat(
      Grouped(response.num_records()), " of ", Grouped(response.num_records_total()), " records, ",
      BytesText(response.num_bytes()), " of ", BytesText(response.num_bytes_total()));
}

bool IsUndamaged(const v1::VerifyDatasetResponse& response) {
  return response.num_damaged() == 0 && response.disagreements().empty();
}

std::string VerifyText(const std::string& name, const v1::VerifyDatasetResponse& response) {
  std::string text;
  uint64_t lost = 0;
  for (const v1::DamagedRecord& damaged : response.damaged()) {
    lost += damaged.num_graphs();
    const uint64_t end = damaged.first_graph() + damaged.num_graphs();
    absl::StrAppend(&text, "record ", damaged.record(), ", graphs ", damaged.first_graph(), " to ",
                    end == 0 ? 0 : end - 1, ": ", damaged.message(), "\n");
  }
  const auto listed = static_cast<uint64_t>(response.damaged_size());
  if (response.num_damaged() > listed) {
    absl::StrAppend(&text, "and ", Grouped(response.num_damaged() - listed),
                    " more damaged records\n");
  }
  for (const std::string& disagreement : response.disagreements()) {
    absl::StrAppend(&text, disagreement, "\n");
  }
  absl::StrAppend(&text, name, ": ", Grouped(response.num_records()), " records, ",
                  BytesText(response.num_bytes()), " read: ");
  if (IsUndamaged(response)) {
    absl::StrAppend(&text, "no damage\n");
  } else {
    absl::StrAppend(&text, Grouped(response.num_damaged()), " damaged records with ",
                    response.num_damaged() > listed ? "more than " : "", Grouped(lost), " graphs, ",
                    response.disagreements_size(), " disagreements\n");
  }
  return text;
}

std::string VerifyJson(const std::string& name, const v1::VerifyDatasetResponse& response) {
  std::vector<std::string> damaged;
  for (const v1::DamagedRecord& record : response.damaged()) {
    damaged.push_back(JsonObject()
                          .Add("record", uint64_t{record.record()})
                          .Add("first_graph", uint64_t{record.first_graph()})
                          .Add("graphs", uint64_t{record.num_graphs()})
                          .Add("message", record.message())
                          .Render());
  }
  std::vector<std::string> disagreements;
  for (const std::string& text : response.disagreements()) {
    disagreements.push_back(JsonString(text));
  }
  return JsonObject()
      .Add("name", name)
      .Add("undamaged", IsUndamaged(response))
      .Add("records", uint64_t{response.num_records()})
      .Add("bytes", uint64_t{response.num_bytes()})
      .Add("damaged_records", uint64_t{response.num_damaged()})
      .AddJson("damaged", JsonArray(damaged))
      .AddJson("disagreements", JsonArray(disagreements))
      .Render();
}

}  // namespace packhouse::client
