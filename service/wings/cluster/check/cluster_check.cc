#include "service/wings/cluster/check/cluster_check.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/engine/feedback/feedback_store.h"
#include "service/engine/jobs/ledger_repair.h"
#include "service/stores/datasets/stored_values.h"
#include "service/wings/cluster/datasets/object_manifest.h"
#include "service/wings/cluster/datasets/object_sweeper.h"
#include "service/wings/cluster/datasets/object_values.h"
#include "service/wings/cluster/datasets/store_identity.h"
#include "service/wings/cluster/graphs/graph_sweeper.h"
#include "service/wings/cluster/graphs/shared_graph_values.h"
#include "service/wings/cluster/histograms/shared_histogram_format.h"
#include "service/wings/cluster/histograms/shared_histogram_store.h"
#include "service/wings/cluster/jobs/etcd_job_directory.h"
#include "service/wings/cluster/jobs/etcd_record_log.h"
#include "service/wings/graphs/stored/source_graph_check.h"

namespace packhouse {
namespace {

std::string NamedGraph(absl::string_view name) {
  return absl::StrCat("source graph ", Quoted(name));
}
std::string NamedPartition(absl::string_view key) {
  return absl::StrCat("partition ", Quoted(NameInCompanionKey(key)), " of a source graph");
}
// Who has objects (kSourceGraphIds).
std::string NamedOwner(absl::string_view owner) {
  return absl::StartsWith(owner, kCompanions) ? NamedPartition(owner) : NamedGraph(owner);
}
std::string NamedJob(absl::string_view job) { return absl::StrCat("job ", Quoted(job)); }
std::string NamedHistogram(absl::string_view name) {
  return absl::StrCat("histogram ", Quoted(name));
}

class ClusterCheck {
 public:
  ClusterCheck(const CheckedCluster& cluster, DamageVisitor found, StoredCounts& counts)
      : cluster_(cluster),
        engines_(cluster_.engines),
        keys_(*engines_.keys),
        found_(found),
        counts_(counts) {}

  absl::Status Run() {
    // What a server is about to write, or to delete, is another thing, or whole, some time later.
    PH_RETURN_IF_ERROR(FindStrays());
    const std::map<std::string, StoredDamage> first = std::exchange(strays_, {});
    PH_RETURN_IF_ERROR(CheckJobs());
    PH_RETURN_IF_ERROR(CheckHistograms());
    PH_RETURN_IF_ERROR(
        FeedbackStore::Check(keys_, [&](absl::string_view key, const absl::Status& what) {
          Found(std::string(key), what,
                absl::EndsWith(key, "/count") ? "the bound --max-measured-models"
                                              : "that measured model");
        }));
    // Last: what does not fit this machine, or cannot be fetched, ends the check.
    if (engines_.objects != nullptr) {
      PH_ASSIGN_OR_RETURN(const bool is_bound, CheckIdentity());
      PH_RETURN_IF_ERROR(CheckDatasets());
      PH_RETURN_IF_ERROR(CheckGraphs());
      PH_RETURN_IF_ERROR(CheckCompanions());
      if (is_bound) PH_RETURN_IF_ERROR(CountUnnamed());
    }
    if (first.empty()) return absl::OkStatus();
    PH_RETURN_IF_ERROR(FindStrays());
    for (const auto& [place, damage] : strays_) {
      if (first.contains(place)) found_(damage);
    }
    return absl::OkStatus();
  }

 private:
  void Found(std::string place, const absl::Status& what, std::string cost) {
    found_({cluster_.keys_name, std::move(place), std::string(what.message()), std::move(cost)});
  }
  void Stray(std::string place, std::string what, std::string cost) {
    StoredDamage damage = {cluster_.keys_name, place, std::move(what), std::move(cost)};
    strays_.emplace(std::move(place), std::move(damage));
  }

  absl::StatusOr<std::vector<KeyValue>> All(absl::string_view prefix) const {
    return ReadWholeRange(engines_, KeyRange::Prefix(prefix), 0);
  }
  absl::StatusOr<std::vector<KeyValue>> First(const KeyRange& range) const {
    PH_ASSIGN_OR_RETURN(auto read, ReadRanges(engines_, {range}));
    return std::move(read[0].values);
  }

  // What keys have between `prefix` and the next '/', each once.
  absl::StatusOr<std::vector<std::string>> FoldersIn(absl::string_view prefix) const {
    std::vector<std::string> folders;
    KeyRange rest = KeyRange::Prefix(prefix);
    while (true) {
      PH_ASSIGN_OR_RETURN(const RangeResult next, ReadOne(rest));
      if (next.values.empty()) return folders;
      const absl::string_view name = absl::string_view(next.values[0].key).substr(prefix.size());
      folders.emplace_back(name.substr(0, name.find('/')));
      rest.begin = KeyRange::Prefix(absl::StrCat(prefix, folders.back(), "/")).end;
    }
  }
  absl::StatusOr<RangeResult> ReadOne(const KeyRange& range) const {
    for (int failures = 0;; ++failures) {
      auto read = keys_.Range(range, 1);
      if (!absl::IsUnavailable(read.status()) || failures >= engines_.max_attempts) return read;
      engines_.BackOff(failures);
    }
  }

  // --- What belongs to nothing, or misses something that goes with it.

  absl::Status FindStrays() {
    if (engines_.objects != nullptr) {
      PH_RETURN_IF_ERROR(FindStraysOfDatasets());
      PH_RETURN_IF_ERROR(FindStraysOfGraphs());
      PH_RETURN_IF_ERROR(CompareTotals());
    }
    PH_RETURN_IF_ERROR(FindStraysOfJobs());
    return FindStraysOfHistograms();
  }

  absl::Status FindStraysOfDatasets() {
    PH_ASSIGN_OR_RETURN(const std::vector<std::string> numbers, FoldersIn(kDatasetIds));
    PH_ASSIGN_OR_RETURN(const std::vector<KeyValue> names, All(kDatasetNames));
    std::set<uint64_t> named;
    for (const KeyValue& value : names) {
      const auto definition = DecodeDefinition(value.value);
      if (definition.ok()) named.insert(definition->id);
    }
    for (const std::string& number : numbers) {
      uint64_t id = 0;
      if (ParseDatasetNumber(number, id) && named.contains(id)) continue;
      Stray(absl::StrCat(kDatasetIds, number), "belongs to no data set that has a name",
            "the data set whose name or key was lost");
    }
    return absl::OkStatus();
  }

  absl::Status FindStraysOfGraphs() {
    PH_ASSIGN_OR_RETURN(const std::vector<KeyValue> numbers, All(kSourceGraphIds));
    PH_ASSIGN_OR_RETURN(const std::vector<KeyValue> names, All(kSourceGraphNames));
    PH_ASSIGN_OR_RETURN(const std::vector<KeyValue> companions, All(kCompanions));
    // By key, whose the objects are.
    std::map<std::string, std::string> expected;
    for (const KeyValue& value : names) {
      const std::string name = value.key.substr(kSourceGraphNames.size());
      const auto graph = DecodeSharedGraph(name, value.value);
      if (graph.ok() && graph->is_sealed())
        expected[SourceGraphObjectsKey(graph->object.objects)] = name;
    }
    for (const KeyValue& value : companions) {
      const auto stored = DecodeCompanion(value);
      if (!stored.ok() || !stored->companion.is_whole) continue;
      expected[SourceGraphObjectsKey(stored->object.objects)] = value.key;
    }
    for (const KeyValue& value : numbers) {
      if (const auto at = expected.find(value.key); at != expected.end()) {
        if (at->second == value.value) expected.erase(at);
        continue;
      }
      Stray(value.key, absl::StrCat("the name of ", NamedOwner(value.value), " is lost"),
            NamedOwner(value.value));
    }
    for (const auto& [key, owner] : expected) {
      Stray(key, absl::StrCat("does not say that it is of ", NamedOwner(owner)),
            absl::StrCat(NamedOwner(owner), ", whose objects a sweep will delete"));
    }
    return absl::OkStatus();
  }

  // Without them, or as long as nothing has a bound, there are none.
  absl::Status CompareTotals() {
    PH_ASSIGN_OR_RETURN(const auto before, First(KeyRange::Of(kStoreTotalsKey)));
    if (before.empty()) return absl::OkStatus();
    ObjectStoreTotals there;
    PH_ASSIGN_OR_RETURN(const std::vector<KeyValue> names, All(kDatasetNames));
    for (const KeyValue& value : names) {
      ++there.num_datasets;
      const auto definition = DecodeDefinition(value.value);
      if (!definition.ok()) return absl::OkStatus();  // That is told.
      PH_ASSIGN_OR_RETURN(const auto read, First(KeyRange::Of(DatasetStateKey(definition->id))));
      if (read.empty()) return absl::OkStatus();
      const auto state = DecodeObjectState(read[0].value);
      if (!state.ok()) return absl::OkStatus();
      there.num_bytes += state->num_bytes;
    }
    PH_ASSIGN_OR_RETURN(const std::vector<KeyValue> graphs, All(kSourceGraphNames));
    for (const KeyValue& value : graphs) {
      const auto graph = DecodeSharedGraph(value.key.substr(kSourceGraphNames.size()), value.value);
      if (!graph.ok()) return absl::OkStatus();
      there.num_bytes += graph->num_bytes;
    }
    PH_ASSIGN_OR_RETURN(const std::vector<KeyValue> companions, All(kCompanions));
    for (const KeyValue& value : companions) {
      const auto stored = DecodeCompanion(value);
      if (!stored.ok()) return absl::OkStatus();
      there.num_bytes += stored->companion.num_bytes;
    }
    PH_ASSIGN_OR_RETURN(const auto after, First(KeyRange::Of(kStoreTotalsKey)));
    // Every change of one of them changes it.
    if (after != before || before[0].value == EncodeObjectTotals(there)) return absl::OkStatus();
    Stray(std::string(kStoreTotalsKey),
          absl::StrCat("does not say that there are ", there.num_datasets, " data sets, and ",
                       there.num_bytes, " bytes"),
          "the bound --max-store-bytes");
    return absl::OkStatus();
  }

  absl::Status FindStraysOfJobs() {
    PH_ASSIGN_OR_RETURN(const std::vector<std::string> parts, FoldersIn(JobKeys::kJobs));
    PH_ASSIGN_OR_RETURN(const std::set<std::string> listed, ListedJobs());
    jobs_.clear();
    for (const std::string& part : parts) {
      const std::string job = JobKeys::JobIn(part);
      const JobKeys keys(job);
      PH_ASSIGN_OR_RETURN(const auto head, First(KeyRange::Of(keys.log().head)));
      if (!head.empty()) {
        jobs_.push_back(job);
        continue;
      }
      PH_ASSIGN_OR_RETURN(const RangeResult entry, ReadOne(keys.log().EntriesFrom(0)));
      if (entry.values.empty()) continue;
      // The first change of a log writes its entries before its head. A server that ended
      // meanwhile has left them, and no list of jobs has the job.
      if (entry.values[0].key == keys.log().Entry(0) && !listed.contains(job)) continue;
      Stray(keys.log().head, "is missing", NamedJob(job));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::set<std::string>> ListedJobs() const {
    EtcdJobDirectory directory(engines_.keys);
    std::set<std::string> listed;
    std::string after;
    do {
      PH_ASSIGN_OR_RETURN(const JobPage page, directory.List(after, 1000));
      for (const ListedJob& job : page.jobs) listed.insert(job.name);
      after = page.next;
    } while (!after.empty());
    return listed;
  }

  absl::Status FindStraysOfHistograms() {
    const absl::string_view prefix = shared_histogram::kEntries;
    PH_ASSIGN_OR_RETURN(const std::vector<std::string> parts, FoldersIn(prefix));
    for (const std::string& part : parts) {
      const std::string head = absl::StrCat(shared_histogram::kHeads, part);
      PH_ASSIGN_OR_RETURN(const auto found, First(KeyRange::Of(head)));
      if (!found.empty()) continue;
      Stray(absl::StrCat(prefix, part), "belongs to a histogram without a head",
            NamedHistogram(shared_histogram::FromKey(part)));
    }
    return absl::OkStatus();
  }

  // --- What has a name.

  // Whether objects may be told from those that nothing names.
  absl::StatusOr<bool> CheckIdentity() {
    PH_ASSIGN_OR_RETURN(const auto key, First(KeyRange::Of(kStoreIdentityKey)));
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
    PH_ASSIGN_OR_RETURN(const std::vector<KeyValue> names, All(kDatasetNames));
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
    PH_ASSIGN_OR_RETURN(const std::vector<KeyValue> names, All(kSourceGraphNames));
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
    PH_ASSIGN_OR_RETURN(const std::vector<KeyValue> keys, All(kCompanions));
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

  absl::Status CheckJobs() {
    PH_ASSIGN_OR_RETURN(const auto mark, First(KeyRange::Of(JobKeys::kMark)));
    if (uint64_t number = 0; !mark.empty() && !absl::SimpleAtoi(mark[0].value, &number)) {
      Found(std::string(JobKeys::kMark), absl::DataLossError("is no number"),
            "nothing that is there, but no server takes a job");
    }
    for (const std::string& job : jobs_) {
      const auto read = EtcdRecordLog::Read(*engines_.keys, job);
      if (absl::IsDataLoss(read.status())) {
        Found(NamedJob(job), read.status(), NamedJob(job));
        continue;
      }
      PH_RETURN_IF_ERROR(read.status());
      std::vector<FoundRecord> records;
      for (const std::string& record : *read) {
        records.push_back({records.size() + 1, record, absl::OkStatus(), false});
      }
      counts_.num_ledger_records += records.size();
      TellLosses(RepairLedger(records), cluster_.keys_name, NamedJob(job), NamedJob(job), found_);
    }
    return absl::OkStatus();
  }

  absl::Status CheckHistograms() {
    PH_ASSIGN_OR_RETURN(const std::vector<KeyValue> heads, All(shared_histogram::kHeads));
    for (const KeyValue& head : heads) {
      const std::string name =
          shared_histogram::FromKey(head.key.substr(shared_histogram::kHeads.size()));
      // One at a time is in memory.
      const SharedHistogramStore histograms(engines_.keys, {"check", {}, nullptr}, nullptr);
      const absl::Status read = histograms.SchemaOf(name).status();
      if (shared_histogram::IsName(name) && absl::IsNotFound(read)) continue;  // Deleted.
      ++counts_.num_histograms;
      if (absl::IsDataLoss(read) || absl::IsNotFound(read)) {
        Found(head.key, read, NamedHistogram(name));
      } else {
        PH_RETURN_IF_ERROR(read);
      }
    }
    return absl::OkStatus();
  }

  const CheckedCluster cluster_;
  const ObjectEngines& engines_;
  KeyStore& keys_;
  const DamageVisitor found_;
  StoredCounts& counts_;
  // By place.
  std::map<std::string, StoredDamage> strays_;
  // With a head.
  std::vector<std::string> jobs_;
};

}  // namespace

absl::Status CheckCluster(const CheckedCluster& cluster, DamageVisitor found,
                          StoredCounts& counts) {
  return ClusterCheck(cluster, found, counts).Run();
}

}  // namespace packhouse
