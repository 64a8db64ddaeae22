#include "service/wings/cluster/check/key_damages.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/engine/feedback/feedback_store.h"
#include "service/engine/jobs/ledger_repair.h"
#include "service/stores/datasets/stored_values.h"
#include "service/wings/cluster/datasets/object_manifest.h"
#include "service/wings/cluster/datasets/object_values.h"
#include "service/wings/cluster/graphs/shared_graph_values.h"
#include "service/wings/cluster/histograms/shared_histogram_format.h"
#include "service/wings/cluster/histograms/shared_histogram_store.h"
#include "service/wings/cluster/jobs/etcd_job_directory.h"
#include "service/wings/cluster/jobs/etcd_record_log.h"
#include "service/wings/cluster/jobs/job_keys.h"

namespace packhouse {
namespace {

// Who has objects (kSourceGraphIds).
std::string NamedOwner(absl::string_view owner) {
  return absl::StartsWith(owner, kCompanions) ? NamedPartition(owner) : NamedGraph(owner);
}
std::string NamedJob(absl::string_view job) { return absl::StrCat("job ", Quoted(job)); }

Transaction Deleting(KeyRange range) { return {{}, {Operation::Delete(std::move(range))}, {}}; }
Transaction Putting(absl::string_view key, absl::string_view value) {
  return {{}, {Operation::Put(key, value)}, {}};
}
// As long as it is what was read.
Transaction DeletingThis(const KeyValue& value) {
  return {{Compare::ModRevision(value.key, value.mod_revision)},
          {Operation::Delete(KeyRange::Of(value.key))},
          {}};
}
// Of what KeyDamages::FoldersIn() has found.
KeyRange Folder(absl::string_view prefix, absl::string_view part) {
  return KeyRange::Prefix(absl::StrCat(prefix, part, "/"));
}

}  // namespace

std::string NamedGraph(absl::string_view name) {
  return absl::StrCat("source graph ", Quoted(name));
}
std::string NamedHistogram(absl::string_view name) {
  return absl::StrCat("histogram ", Quoted(name));
}
std::string NamedPartition(absl::string_view key) {
  return absl::StrCat("partition ", Quoted(NameInCompanionKey(key)), " of a source graph");
}

std::vector<Operation> JobGivenUp(const std::string& job, uint64_t mark) {
  const JobKeys keys(job);
  return {Operation::Delete(KeyRange::Of(keys.log().head)),
          Operation::Delete(keys.log().EntriesFrom(0)),
          Operation::Delete(KeyRange::Of(EtcdJobDirectory::KeyOf(job))),
          Operation::Put(JobKeys::kMark, absl::StrCat(mark))};
}

void KeyDamages::Add(std::string place, std::string what, std::string cost, Transaction mend,
                     bool is_free) {
  StoredDamage damage = {file_, place, std::move(what), std::move(cost)};
  found_.emplace(std::move(place), KeyDamage{std::move(damage), std::move(mend), is_free, ""});
}

void KeyDamages::AddJob(std::string place, std::string what, const std::string& job) {
  StoredDamage damage = {file_, place, std::move(what), NamedJob(job)};
  found_.emplace(std::move(place), KeyDamage{std::move(damage), {}, false, job});
}

absl::StatusOr<std::vector<KeyValue>> KeyDamages::All(absl::string_view prefix) const {
  return ReadWholeRange(engines_, KeyRange::Prefix(prefix), 0);
}
absl::StatusOr<std::vector<KeyValue>> KeyDamages::First(const KeyRange& range) const {
  PH_ASSIGN_OR_RETURN(auto read, ReadRanges(engines_, {range}));
  return std::move(read[0].values);
}

// What keys have between `prefix` and the next '/', each once.
absl::StatusOr<std::vector<std::string>> KeyDamages::FoldersIn(absl::string_view prefix) const {
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
absl::StatusOr<RangeResult> KeyDamages::ReadOne(const KeyRange& range) const {
  for (int failures = 0;; ++failures) {
    auto read = keys_.Range(range, 1);
    if (!absl::IsUnavailable(read.status()) || failures >= engines_.max_attempts) return read;
    engines_.BackOff(failures);
  }
}

// --- What belongs to nothing, or misses something that goes with it.

absl::Status KeyDamages::FindStrays() {
  if (engines_.objects != nullptr) {
    PH_RETURN_IF_ERROR(FindStraysOfDatasets());
    PH_RETURN_IF_ERROR(FindStraysOfGraphs());
    PH_RETURN_IF_ERROR(CompareTotals());
  }
  PH_RETURN_IF_ERROR(FindStraysOfJobs());
  return FindStraysOfHistograms();
}

absl::Status KeyDamages::FindStraysOfDatasets() {
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
    Add(absl::StrCat(kDatasetIds, number), "belongs to no data set that has a name",
        "the data set whose name or key was lost", Deleting(Folder(kDatasetIds, number)));
  }
  return absl::OkStatus();
}

absl::Status KeyDamages::FindStraysOfGraphs() {
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
    Add(value.key, absl::StrCat("the name of ", NamedOwner(value.value), " is lost"),
        NamedOwner(value.value), DeletingThis(value));
  }
  for (const auto& [key, owner] : expected) {
    Add(key, absl::StrCat("does not say that it is of ", NamedOwner(owner)),
        absl::StrCat(NamedOwner(owner), ", whose objects a sweep will delete"), Putting(key, owner),
        /*is_free=*/true);
  }
  return absl::OkStatus();
}

// Without them, or as long as nothing has a bound, there are none.
absl::Status KeyDamages::CompareTotals() {
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
  Transaction mend = Putting(kStoreTotalsKey, EncodeObjectTotals(there));
  mend.compares = {Compare::ModRevision(kStoreTotalsKey, before[0].mod_revision)};
  Add(std::string(kStoreTotalsKey),
      absl::StrCat("does not say that there are ", there.num_datasets, " data sets, and ",
                   there.num_bytes, " bytes"),
      "the bound --max-store-bytes", std::move(mend), /*is_free=*/true);
  return absl::OkStatus();
}

absl::Status KeyDamages::FindStraysOfJobs() {
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
    AddJob(keys.log().head, "is missing", job);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::set<std::string>> KeyDamages::ListedJobs() const {
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

absl::Status KeyDamages::FindStraysOfHistograms() {
  const absl::string_view prefix = shared_histogram::kEntries;
  PH_ASSIGN_OR_RETURN(const std::vector<std::string> parts, FoldersIn(prefix));
  for (const std::string& part : parts) {
    const std::string head = absl::StrCat(shared_histogram::kHeads, part);
    PH_ASSIGN_OR_RETURN(const auto found, First(KeyRange::Of(head)));
    if (!found.empty()) continue;
    Add(absl::StrCat(prefix, part), "belongs to a histogram without a head",
        NamedHistogram(shared_histogram::FromKey(part)), Deleting(Folder(prefix, part)));
  }
  return absl::OkStatus();
}

absl::Status KeyDamages::FindUnreadable() {
  PH_RETURN_IF_ERROR(FindUnreadableJobs());
  PH_RETURN_IF_ERROR(FindUnreadableHistograms());
  return FeedbackStore::Check(keys_, [&](absl::string_view key, const absl::Status& what,
                                         const std::optional<std::string>& right) {
    Add(std::string(key), std::string(what.message()),
        right ? "the bound --max-measured-models" : "that measured model",
        right ? Putting(key, *right) : Deleting(KeyRange::Of(key)), right.has_value());
  });
}

absl::Status KeyDamages::FindUnreadableJobs() {
  for (const std::string& job : jobs_) {
    const auto read = EtcdRecordLog::Read(keys_, job);
    if (absl::IsDataLoss(read.status())) {
      AddJob(NamedJob(job), std::string(read.status().message()), job);
      continue;
    }
    PH_RETURN_IF_ERROR(read.status());
    std::vector<FoundRecord> records;
    for (const std::string& record : *read) {
      records.push_back({records.size() + 1, record, absl::OkStatus(), false});
    }
    counts_.num_ledger_records += records.size();
    const LedgerRepair ledger = RepairLedger(records);
    last_generation_ = std::max(last_generation_, ledger.last_generation);
    TellLosses(ledger, file_, NamedJob(job), NamedJob(job), [&](StoredDamage damage) {
      AddJob(std::move(damage.place), std::move(damage.what), job);
    });
  }
  // Last: the generations of all jobs that can be read are known.
  PH_ASSIGN_OR_RETURN(const auto mark, First(KeyRange::Of(JobKeys::kMark)));
  if (uint64_t number = 0; !mark.empty() && !absl::SimpleAtoi(mark[0].value, &number)) {
    Transaction mend = Putting(JobKeys::kMark, absl::StrCat(last_generation_ + kLostGenerations));
    mend.compares = {Compare::ModRevision(JobKeys::kMark, mark[0].mod_revision)};
    Add(std::string(JobKeys::kMark), "is no number",
        "nothing that is there, but no server takes a job", std::move(mend), /*is_free=*/true);
  }
  return absl::OkStatus();
}

absl::Status KeyDamages::FindUnreadableHistograms() {
  const absl::string_view prefix = shared_histogram::kHeads;
  PH_ASSIGN_OR_RETURN(const std::vector<KeyValue> heads, All(prefix));
  for (const KeyValue& head : heads) {
    const absl::string_view part = absl::string_view(head.key).substr(prefix.size());
    const std::string name = shared_histogram::FromKey(part);
    // One at a time is in memory.
    const SharedHistogramStore histograms(&keys_, {"check", {}, nullptr}, nullptr);
    const absl::Status read = histograms.SchemaOf(name).status();
    if (shared_histogram::IsName(name) && absl::IsNotFound(read)) continue;  // Deleted.
    ++counts_.num_histograms;
    if (absl::IsDataLoss(read) || absl::IsNotFound(read)) {
      Transaction mend = DeletingThis(head);
      mend.then.push_back(Operation::Delete(Folder(shared_histogram::kEntries, part)));
      Add(head.key, std::string(read.message()), NamedHistogram(name), std::move(mend));
    } else {
      PH_RETURN_IF_ERROR(read);
    }
  }
  return absl::OkStatus();
}

absl::Status KeyDamages::FindUnreadableNames() {
  PH_ASSIGN_OR_RETURN(const std::vector<KeyValue> datasets, All(kDatasetNames));
  for (const KeyValue& value : datasets) {
    const std::string name = value.key.substr(kDatasetNames.size());
    absl::Status read = CheckDatasetName(name);
    if (read.ok()) read = ReadHead(engines_, name).status();
    if (read.ok() || absl::IsNotFound(read)) continue;
    if (!absl::IsDataLoss(read) && !absl::IsInvalidArgument(read)) return read;
    Add(value.key, std::string(read.message()), NamedDataset(name), DeletingThis(value));
  }
  PH_ASSIGN_OR_RETURN(const std::vector<KeyValue> graphs, All(kSourceGraphNames));
  for (const KeyValue& value : graphs) {
    const std::string name = value.key.substr(kSourceGraphNames.size());
    const absl::Status read = DecodeSharedGraph(name, value.value).status();
    if (!read.ok()) {
      Add(value.key, std::string(read.message()), NamedGraph(name), DeletingThis(value));
    }
  }
  PH_ASSIGN_OR_RETURN(const std::vector<KeyValue> companions, All(kCompanions));
  for (const KeyValue& value : companions) {
    const absl::Status read = DecodeCompanion(value).status();
    if (!read.ok()) {
      Add(value.key, std::string(read.message()), NamedPartition(value.key), DeletingThis(value));
    }
  }
  return absl::OkStatus();
}

}  // namespace packhouse
