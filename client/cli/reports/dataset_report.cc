#include "client/cli/reports/dataset_report.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/cli/device_arguments.h"
#include "client/cli/reports/histogram_summary.h"
#include "service/command_line/table.h"

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

std::string DriftText(const v1::DatasetDrift& drift) {
  std::string text = absl::StrCat("sizes changed at about graph ", Grouped(drift.first_graph()),
                                  " (found at ", Grouped(drift.found_graph()), ")\n");
  for (const v1::DatasetDrift::Component& component : drift.components()) {
    absl::StrAppend(&text,
                    absl::StrFormat("- %s: %.4g in the mean, before %.4g\n", component.component(),
                                    component.mean(), component.reference_mean()));
  }
  return text;
}

Json DriftJson(const v1::DatasetDrift& drift) {
  Json components = Json::object();
  for (const v1::DatasetDrift::Component& component : drift.components()) {
    components[component.component()] = {{"reference_mean", component.reference_mean()},
                                         {"mean", component.mean()}};
  }
  return {{"first_graph", drift.first_graph()},
          {"found_graph", drift.found_graph()},
          {"num_changes", drift.num_changes()},
          {"components", std::move(components)}};
}

}  // namespace

std::string TensorText(const v1::TensorSpec& spec) {
  std::string text = absl::StrCat(spec.name(), ": ", DataTypeText(spec.dtype()));
  if (spec.row_shape_size() > 0) {
    absl::StrAppend(&text, " [", absl::StrJoin(spec.row_shape(), ", "), "]");
  }
  absl::StrAppend(&text, " of ", spec.component());
  if (!spec.index_into().empty()) absl::StrAppend(&text, ", into ", spec.index_into());
  if (spec.layout() == v1::LAYOUT_ROWS_LAST) absl::StrAppend(&text, ", rows last");
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
    // A damaged data set has only a name.
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
  if (response.has_drift()) absl::StrAppend(&text, "\n", DriftText(response.drift()));
  return text;
}

Json DatasetJson(const v1::Dataset& dataset) {
  Json components = Json::array();
  for (const std::string& component : dataset.schema().components()) {
    components.push_back(component);
  }
  Json tensors = Json::array();
  for (const v1::TensorSpec& spec : dataset.schema().tensors()) {
    Json row_shape = Json::array();
    for (const uint32_t extent : spec.row_shape()) row_shape.push_back(extent);
    Json tensor = {{"name", spec.name()},
                   {"dtype", DataTypeText(spec.dtype())},
                   {"row_shape", std::move(row_shape)},
                   {"component", spec.component()}};
    if (!spec.index_into().empty()) tensor["index_into"] = spec.index_into();
    if (spec.layout() == v1::LAYOUT_ROWS_LAST) tensor["layout"] = "rows_last";
    if (!spec.padding_value().empty()) {
      tensor["padding_value_hex"] = absl::BytesToHexString(spec.padding_value());
    }
    tensors.push_back(std::move(tensor));
  }
  Json max_rows = Json::object();
  for (const v1::Capacity& capacity : dataset.max_rows()) {
    max_rows[capacity.component()] = capacity.rows();
  }
  return {{"name", dataset.name()},           {"state", StateText(dataset.state())},
          {"version", VersionText(dataset)},  {"graphs", dataset.num_graphs()},
          {"records", dataset.num_records()}, {"bytes", dataset.num_bytes()},
          {"max_bytes", dataset.max_bytes()}, {"max_rows", std::move(max_rows)},
          {"grouped", dataset.grouped()},     {"components", std::move(components)},
          {"tensors", std::move(tensors)}};
}

Json DatasetJson(const v1::GetDatasetResponse& response) {
  Json json = DatasetJson(response.dataset());
  if (response.has_drift()) json["drift"] = DriftJson(response.drift());
  if (!response.has_histogram()) return json;
  const v1::Histogram& histogram = response.histogram();
  Json totals = Json::object();
  Json maxima = Json::object();
  for (int k = 0; k < histogram.components_size(); ++k) {
    if (k < histogram.component_totals_size()) {
      totals[histogram.components(k)] = histogram.component_totals(k);
    }
    if (k < histogram.component_maxima_size()) {
      maxima[histogram.components(k)] = histogram.component_maxima(k);
    }
  }
  json["distinct_sizes"] = histogram.counts().size() / sizeof(uint64_t);
  json["totals"] = std::move(totals);
  json["maxima"] = std::move(maxima);
  return json;
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

Json VerifyJson(const std::string& name, const v1::VerifyDatasetResponse& response) {
  Json damaged = Json::array();
  for (const v1::DamagedRecord& record : response.damaged()) {
    damaged.push_back({{"record", record.record()},
                       {"first_graph", record.first_graph()},
                       {"graphs", record.num_graphs()},
                       {"message", record.message()}});
  }
  Json disagreements = Json::array();
  for (const std::string& text : response.disagreements()) disagreements.push_back(text);
  return {{"name", name},
          {"undamaged", IsUndamaged(response)},
          {"records", response.num_records()},
          {"bytes", response.num_bytes()},
          {"damaged_records", response.num_damaged()},
          {"damaged", std::move(damaged)},
          {"disagreements", std::move(disagreements)}};
}

}  // namespace packhouse::client
