#include "client/cli/reports/epoch_report.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/arguments.h"
#include "client/cli/reports/plan_report.h"
#include "service/command_line/table.h"

namespace packhouse::client {
namespace {

std::string SegmentsText(const v1::EpochSegments& segments, bool has_bound) {
  return absl::StrCat(Grouped(segments.num_segments()), " of at most ",
                      Grouped(segments.max_graphs()), " graphs, in ", segments.num_tracks(),
                      segments.num_tracks() == 1 ? " track" : " tracks",
                      has_bound ? absl::StrCat("; segmentation loses at most ",
                                               SmallPercent(segments.loss()), " of the batches")
                                : "");
}

}  // namespace

std::string EpochText(const v1::Epoch& epoch) {
  std::string text = absl::StrCat(epoch.dataset(), ": ", Grouped(epoch.num_graphs()), " graphs in ",
                                  Grouped(epoch.num_batches()), " batches");
  if (epoch.lower_bound() != 0) {
    absl::StrAppend(&text, "; at least ", Grouped(epoch.lower_bound()), " are needed");
  }
  absl::StrAppend(&text, "\n");
  if (epoch.num_rejected() != 0) {
    absl::StrAppend(&text, "left out     ", Grouped(epoch.num_rejected()),
                    " graphs beyond the limits\n");
  }
  for (const v1::EpochRankGroup& group : epoch.rank_groups()) {
    for (const v1::EpochShape& shape : group.shapes()) {
      std::vector<std::string> efficiencies;
      for (const v1::ComponentEfficiency& component : shape.components()) {
        if (component.capacity() == 0) continue;
        efficiencies.push_back(
            absl::StrCat(component.component(), " ", Percent(component.efficiency()), " %"));
      }
      absl::StrAppend(&text, "limits       ", Describe(shape.limits()), "\nefficiency   ",
                      absl::StrJoin(efficiencies, ", "), "\n");
    }
  }
  if (epoch.has_segments()) {
    absl::StrAppend(&text, "segments     ",
                    SegmentsText(epoch.segments(), epoch.lower_bound() != 0), "\n");
  }
  if (!epoch.receipt().empty()) absl::StrAppend(&text, "receipt      ", epoch.receipt(), "\n");
  return text;
}

Json EpochJson(const v1::Epoch& epoch) {
  Json shapes = Json::array();
  for (const v1::EpochRankGroup& group : epoch.rank_groups()) {
    for (const v1::EpochShape& shape : group.shapes()) {
      shapes.push_back({{"limits", Describe(shape.limits())},
                        {"batches", shape.num_batches()},
                        {"components", EfficienciesJson(shape.components())}});
    }
  }
  Json segments;
  if (epoch.has_segments()) {
    segments = {{"segments", epoch.segments().num_segments()},
                {"tracks", epoch.segments().num_tracks()},
                {"max_graphs", epoch.segments().max_graphs()},
                {"loss", epoch.segments().loss()}};
  }
  return {{"dataset", epoch.dataset()},
          {"graphs", epoch.num_graphs()},
          {"left_out", epoch.num_rejected()},
          {"batches", epoch.num_batches()},
          {"lower_bound", epoch.lower_bound() == 0 ? Json() : Json(epoch.lower_bound())},
          {"shapes", std::move(shapes)},
          {"segments", std::move(segments)},
          {"receipt", epoch.receipt()}};
}

}  // namespace packhouse::client
