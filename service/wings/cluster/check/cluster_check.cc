#include "service/wings/cluster/check/cluster_check.h"

#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/wings/cluster/check/key_damages.h"
#include "service/wings/cluster/datasets/object_sweeper.h"
#include "service/wings/cluster/datasets/object_values.h"
#include "service/wings/cluster/datasets/store_identity.h"
#include "service/wings/cluster/graphs/graph_sweeper.h"
#include "service/wings/cluster/graphs/shared_graph_values.h"
#include "service/wings/graphs/stored/source_graph_check.h"

namespace packhouse {
namespace {

class ClusterCheck {
 public:
  ClusterCheck(const CheckedCluster& cluster, DamageVisitor found, StoredCounts& counts)
      : cluster_(cluster),
        engines_(cluster_.engines),
        keys_(engines_, cluster_.keys_name, counts),
        found_(found),
        counts_(counts) {}

  absl::Status Run() {
    PH_RETURN_IF_ERROR(keys_.FindStrays());
    const KeyDamages::Found first = keys_.Take();
    PH_RETURN_IF_ERROR(keys_.FindUnreadable());
    for (const auto& [place, damage] : keys_.Take()) found_(damage.damage);
    // Last: what does not fit this machine, or cannot be fetched, ends the check.
    if (engines_.objects != nullptr) {
      PH_ASSIGN_OR_RETURN(const bool is_bound, CheckIdentity());
      PH_RETURN_IF_ERROR(CheckDatasets());
      PH_RETURN_IF_ERROR(CheckGraphs());
      PH_RETURN_IF_ERROR(CheckCompanions());
      if (is_bound) PH_RETURN_IF_ERROR(CountUnnamed());
    }
    if (first.empty()) return absl::OkStatus();
    PH_RETURN_IF_ERROR(keys_.FindStrays());
    for (const auto& [place, damage] : keys_.Take()) {
      if (first.contains(place)) found_(damage.damage);
    }
    return absl::OkStatus();
  }

 private:
  void Found(std::string place, const absl::Status& what, std::string cost) {
    found_({cluster_.keys_name, std::move(place), std::string(what.message()), std::move(cost)});
  }

  // Whether objects may be told from those that nothing names.
  absl::StatusOr<bool> CheckIdentity() {
    PH_ASSIGN_OR_RETURN(const auto key, keys_.First(KeyRange::Of(kStoreIdentityKey)));
    const absl::Status object =
        ReadObject(*engines_.objects, kStoreIdentityObject, {}, 64, engines_.Deadline()).status();
    if (!object.ok() && !absl::IsNotFound(object)) return AsUnavailable(object);
    if (key.empty() && !object.ok()) {
      return absl::NotFoundError(
          absl::StrCat("no server has used ", cluster_.objects_name, " with ", cluster_.keys_name));
    }
    const std::string cost = "nothing that is there, but no server starts";
    if (key.empty()) {
      Found(std::string(kStoreIdentityKey), absl::DataLossError("is missing"), cost);
    } else if (!object.ok()) {
      found_({cluster_.objects_name, absl::StrCat("object '", kStoreIdentityObject, "'"),
              "is missing", cost});
    } else {
      PH_RETURN_IF_ERROR(CheckStoresAreBound(engines_));
    }
    return !key.empty() && object.ok();
  }

  absl::Status CheckDatasets() {
    PH_ASSIGN_OR_RETURN(const std::vector<KeyValue> names, keys_.All(kDatasetNames));
    for (const KeyValue& value : names) {
      const std::string name = value.key.substr(kDatasetNames.size());
      const auto report =
          cluster_.datasets->Verify(name, [](const VerifyProgress&) { return true; });
      if (CheckDatasetName(name).ok() && absl::IsNotFound(report.status())) continue;  // Deleted.
      ++counts_.num_datasets;
      if (absl::IsDataLoss(report.status()) || absl::IsNotFound(report.status())) {
        found_({cluster_.objects_name, NamedDataset(name), std::string(report.status().message()),
                NamedDataset(name)});
      } else {
        PH_RETURN_IF_ERROR(report.status());
        TellDamage(cluster_.objects_name, name, *report, found_);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckGraphs() {
    PH_ASSIGN_OR_RETURN(const std::vector<KeyValue> names, keys_.All(kSourceGraphNames));
    for (const KeyValue& value : names) {
      const std::string name = value.key.substr(kSourceGraphNames.size());
      const auto graph = DecodeSharedGraph(name, value.value);
      ++counts_.num_source_graphs;
      if (absl::IsDataLoss(graph.status())) {
        Found(value.key, graph.status(), NamedGraph(name));
        continue;
      }
      PH_RETURN_IF_ERROR(graph.status());
      if (!graph->is_sealed()) continue;
      const auto report =
          cluster_.source_graphs->Verify(name, [](const SourceGraphProgress&) { return true; });
      // Deleted, and perhaps made anew.
      if (absl::IsNotFound(report.status()) || absl::IsFailedPrecondition(report.status())) {
        continue;
      }
      PH_RETURN_IF_ERROR(report.status());
      TellDamage(cluster_.objects_name, NamedGraph(name), *report, found_);
    }
    return absl::OkStatus();
  }

  absl::Status CheckCompanions() {
    PH_ASSIGN_OR_RETURN(const std::vector<KeyValue> keys, keys_.All(kCompanions));
    for (const KeyValue& value : keys) {
      const auto stored = DecodeCompanion(value);
      if (absl::IsDataLoss(stored.status())) {
        Found(value.key, stored.status(), NamedPartition(value.key));
        continue;
      }
      PH_RETURN_IF_ERROR(stored.status());
      if (!stored->companion.is_whole) continue;
      const absl::Status read = cluster_.companions->Verify(*stored);
      if (absl::IsDataLoss(read)) {
        found_({cluster_.objects_name, NamedPartition(value.key), std::string(read.message()),
                NamedPartition(value.key)});
      } else if (!absl::IsNotFound(read)) {
        PH_RETURN_IF_ERROR(read);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CountUnnamed() {
    ObjectSweeper::Options options;
    options.only_counts = true;
    options.max_listed = options.max_deleted = std::numeric_limits<size_t>::max();
    PH_ASSIGN_OR_RETURN(const auto of_datasets, ObjectSweeper(engines_, options).Run());
    PH_ASSIGN_OR_RETURN(const auto of_graphs, SourceGraphSweeper(engines_, options).Run());
    for (const ObjectSweeper::Step& step : {of_datasets, of_graphs}) {
      counts_.num_unnamed_objects += step.num_deleted;
      counts_.num_unnamed_bytes += step.num_bytes;
    }
    return absl::OkStatus();
  }

  const CheckedCluster cluster_;
  const ObjectEngines& engines_;
  KeyDamages keys_;
  const DamageVisitor found_;
  StoredCounts& counts_;
};

}  // namespace

absl::Status CheckCluster(const CheckedCluster& cluster, DamageVisitor found,
                          StoredCounts& counts) {
  return ClusterCheck(cluster, found, counts).Run();
}

}  // namespace packhouse
