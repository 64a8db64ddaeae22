#include "service/wings/cluster/datasets/object_sweeper.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/wings/cluster/datasets/object_manifest.h"
#include "service/wings/cluster/datasets/object_values.h"
#include "service/wings/cluster/datasets/store_identity.h"

namespace packhouse {

struct ObjectSweeper::Found {
  std::string name;
  uint64_t object = 0;
  uint64_t num_bytes = 0;
};

namespace {

struct LivingState {
  ObjectDatasetState state;
  Revision revision = 0;
};

// Nobody may delete anything now.
absl::Status ASnapshotIsTaken() { return absl::AbortedError("a snapshot is being taken"); }

// nullopt: there is no such data set, and no snapshot has one. ABORTED: one may have.
absl::StatusOr<std::optional<LivingState>> ReadLivingState(const ObjectEngines& engines,
                                                           uint64_t id) {
  PH_ASSIGN_OR_RETURN(const auto read, ReadRanges(engines, {KeyRange::Of(DatasetStateKey(id)),
                                                            KeyRange::Of(kSnapshotKey)}));
  if (read[0].values.empty()) {
    if (!read[1].values.empty()) return ASnapshotIsTaken();
    return std::nullopt;
  }
  LivingState living;
  PH_ASSIGN_OR_RETURN(living.state, DecodeObjectState(read[0].values[0].value));
  living.revision = read[0].values[0].mod_revision;
  return living;
}

// The numbers of all objects that the data set has. ABORTED if its state has changed meanwhile.
absl::StatusOr<std::set<uint64_t>> ReadOwnObjects(const ObjectEngines& engines, uint64_t id,
                                                  const LivingState& living) {
  DatasetHead head;
  head.name = absl::StrCat("with id ", id);
  head.definition.id = id;
  head.state = living.state;
  head.state_revision = living.revision;
  PH_ASSIGN_OR_RETURN(const ObjectManifest manifest,
                      ReadManifest(engines, head, /*with_pages=*/true));
  if (head.state_revision != living.revision) {
    return absl::AbortedError(absl::StrCat("data set ", head.name, ": it has changed"));
  }
  std::set<uint64_t> own;
  for (const ObjectPage& page : manifest.pages) own.insert(page.object);
  for (const ObjectChunk& chunk : manifest.chunks) own.insert(chunk.object);
  return own;
}

}  // namespace

absl::StatusOr<bool> ObjectSweeper::Delete(const std::vector<Found>& objects, Step& step) {
  for (const Found& found : objects) {
    if (step.num_deleted >= options_.max_deleted) return false;
    if (!options_.only_counts) {
      PH_RETURN_IF_ERROR(engines_.objects->Delete(found.name, engines_.Deadline()));
    }
    ++step.num_deleted;
    step.num_bytes += found.num_bytes;
  }
  return true;
}

absl::StatusOr<bool> ObjectSweeper::SweepDataset(uint64_t id, const std::vector<Found>& objects,
                                                 Step& step) {
  if (step.num_deleted >= options_.max_deleted) return false;
  auto read = ReadLivingState(engines_, id);
  if (options_.only_counts && absl::IsDataLoss(read.status())) return true;
  if (absl::IsAborted(read.status())) return true;
  PH_ASSIGN_OR_RETURN(std::optional<LivingState> living, std::move(read));
  // Ids are never used again, and a data set is there before its first object.
  if (!living) return Delete(objects, step);
  const auto unknown = [&](const std::set<uint64_t>& own) {
    std::vector<Found> others;
    for (const Found& found : objects) {
      if (!own.contains(found.object)) others.push_back(found);
    }
    return others;
  };
  auto own = ReadOwnObjects(engines_, id, *living);
  // What has just changed, the next round looks at.
  if (absl::IsAborted(own.status())) return true;
  if (options_.only_counts && absl::IsDataLoss(own.status())) return true;
  if (!own.ok()) return own.status();
  if (unknown(*own).empty()) return true;
  if (options_.only_counts) return Delete(unknown(*own), step);
  // From now on nobody commits an object that was put before.
  ++living->state.sweeps;
  Transaction transaction;
  transaction.compares.push_back(Compare::ModRevision(DatasetStateKey(id), living->revision));
  transaction.then.push_back(Operation::Put(DatasetStateKey(id), EncodeObjectState(living->state)));
  PH_ASSIGN_OR_RETURN(const TransactionResult result, engines_.keys->Commit(transaction));
  if (!result.succeeded) return true;
  // The compare says that the manifest is still the one that was read.
  return Delete(unknown(*own), step);
}

absl::StatusOr<bool> ObjectSweeper::SweepOrphans(uint64_t id, const std::vector<Found>& objects,
                                                 Step& step) {
  const uint64_t before = step.num_deleted;
  auto may_go_on = SweepDataset(id, objects, step);
  step.num_orphans += step.num_deleted - before;
  return may_go_on;
}

absl::Status ObjectSweeper::SweepGone(Step& step) {
  PH_ASSIGN_OR_RETURN(const auto gone, ReadRanges(engines_, {KeyRange::Prefix(kGoneDatasets),
                                                             KeyRange::Of(kSnapshotKey)}));
  if (!gone[1].values.empty()) return absl::OkStatus();
  for (const KeyValue& value : gone[0].values) {
    uint64_t id = 0;
    if (!absl::SimpleHexAtoi(value.key.substr(kGoneDatasets.size()), &id)) continue;
    const auto living = ReadLivingState(engines_, id);
    // It was nobody's before a snapshot that is taken by now.
    if (!absl::IsAborted(living.status())) {
      PH_RETURN_IF_ERROR(living.status());
      if (*living) continue;  // The key is not ours.
    }
    while (true) {
      PH_ASSIGN_OR_RETURN(const ObjectList list,
                          engines_.objects->List(DatasetObjects(id), "", 0, engines_.Deadline()));
      std::vector<Found> objects;
      for (const ObjectInfo& info : list.objects) objects.push_back({info.key, 0, info.num_bytes});
      PH_ASSIGN_OR_RETURN(const bool may_go_on, Delete(objects, step));
      if (!may_go_on) return absl::OkStatus();
      if (!list.has_more) break;
    }
    // An append that was under way may still put an object: the round through all objects finds it.
    Transaction transaction;
    transaction.then.push_back(Operation::Delete(KeyRange::Of(value.key)));
    PH_RETURN_IF_ERROR(engines_.keys->Commit(transaction).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<ObjectSweeper::Step> ObjectSweeper::Run() {
  PH_RETURN_IF_ERROR(CheckStoresAreBound(engines_));
  Step step;
  if (!options_.only_counts) PH_RETURN_IF_ERROR(SweepGone(step));
  const absl::Time young = engines_.clock->Now() - options_.min_age;
  // Objects come in the order of their data sets; those of one are looked at together.
  std::vector<Found> objects;
  uint64_t of = 0;
  std::string last;
  while (step.num_listed < options_.max_listed) {
    PH_ASSIGN_OR_RETURN(const ObjectList list,
                        engines_.objects->List(kAllDatasetObjects, last.empty() ? after_ : last, 0,
                                               engines_.Deadline()));
    step.num_listed += list.objects.size();
    for (const ObjectInfo& info : list.objects) {
      uint64_t id = 0;
      Found found = {info.key, 0, info.num_bytes};
      if (!ParseDatasetObject(info.key, id, found.object)) continue;
      if (id != of && !objects.empty()) {
        PH_ASSIGN_OR_RETURN(const bool may_go_on, SweepOrphans(of, objects, step));
        if (!may_go_on) return step;
        after_ = objects.back().name;
        objects.clear();
      }
      of = id;
      if (info.modified < young) objects.push_back(std::move(found));
    }
    if (!list.objects.empty()) last = list.objects.back().key;
    if (!list.has_more) {
      step.is_round_over = true;
      break;
    }
  }
  if (!objects.empty()) {
    PH_ASSIGN_OR_RETURN(const bool may_go_on, SweepOrphans(of, objects, step));
    if (!may_go_on) {
      step.is_round_over = false;
      return step;
    }
  }
  after_ = step.is_round_over ? "" : last;
  return step;
}

}  // namespace packhouse
