#include "service/wings/cluster/graphs/graph_sweeper.h"

#include <utility>

#include "service/base/status_macros.h"
#include "service/wings/cluster/datasets/object_values.h"
#include "service/wings/cluster/datasets/store_identity.h"
#include "service/wings/cluster/graphs/shared_graph_values.h"

namespace packhouse {
namespace {

absl::StatusOr<bool> IsThere(const ObjectEngines& engines, uint64_t objects) {
  PH_ASSIGN_OR_RETURN(const auto read,
                      ReadRanges(engines, {KeyRange::Of(SourceGraphObjectsKey(objects))}));
  return !read[0].values.empty();
}

}  // namespace

absl::StatusOr<bool> SourceGraphSweeper::Delete(const std::vector<ObjectInfo>& infos, Step& step) {
  for (const ObjectInfo& info : infos) {
    if (step.num_deleted >= options_.max_deleted) return false;
    if (!options_.only_counts) {
      PH_RETURN_IF_ERROR(engines_.objects->Delete(info.key, engines_.Deadline()));
    }
    ++step.num_deleted;
    step.num_bytes += info.num_bytes;
  }
  return true;
}

absl::Status SourceGraphSweeper::SweepGone(Step& step) {
  PH_ASSIGN_OR_RETURN(const auto gone, ReadRanges(engines_, {KeyRange::Prefix(kGoneSourceGraphs),
                                                             KeyRange::Of(kSnapshotKey)}));
  if (!gone[1].values.empty()) return absl::OkStatus();
  for (const KeyValue& value : gone[0].values) {
    uint64_t objects = 0;
    if (!ParseSourceGraphKey(value.key, kGoneSourceGraphs, objects)) continue;
    PH_ASSIGN_OR_RETURN(const bool is_there, IsThere(engines_, objects));
    if (is_there) continue;  // The key is not ours.
    while (true) {
      PH_ASSIGN_OR_RETURN(
          const ObjectList list,
          engines_.objects->List(SourceGraphObjects(objects), "", 0, engines_.Deadline()));
      PH_ASSIGN_OR_RETURN(const bool may_go_on, Delete(list.objects, step));
      if (!may_go_on) return absl::OkStatus();
      if (!list.has_more) break;
    }
    Transaction transaction;
    transaction.then.push_back(Operation::Delete(KeyRange::Of(value.key)));
    PH_RETURN_IF_ERROR(engines_.keys->Commit(transaction).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> SourceGraphSweeper::SweepObjects(uint64_t objects,
                                                      const std::vector<ObjectInfo>& infos,
                                                      Step& step) {
  if (step.num_deleted >= options_.max_deleted) return false;
  const absl::Time young = engines_.clock->Now() - options_.min_age;
  for (const ObjectInfo& info : infos) {
    if (info.modified >= young) return true;
  }
  PH_ASSIGN_OR_RETURN(const bool is_there, IsThere(engines_, objects));
  if (is_there) return true;
  if (options_.only_counts) return Delete(infos, step);
  // From now on nobody makes a graph of them.
  Transaction transaction;
  transaction.compares.push_back(Compare::Absent(SourceGraphObjectsKey(objects)));
  transaction.compares.push_back(Compare::Absent(kSnapshotKey));
  transaction.then.push_back(Operation::Delete(KeyRange::Of(SourceGraphUploadKey(objects))));
  PH_ASSIGN_OR_RETURN(const TransactionResult result, engines_.keys->Commit(transaction));
  if (!result.succeeded) return true;
  const uint64_t before = step.num_deleted;
  auto may_go_on = Delete(infos, step);
  step.num_orphans += step.num_deleted - before;
  return may_go_on;
}

absl::StatusOr<SourceGraphSweeper::Step> SourceGraphSweeper::Run() {
  PH_RETURN_IF_ERROR(CheckStoresAreBound(engines_));
  Step step;
  if (!options_.only_counts) PH_RETURN_IF_ERROR(SweepGone(step));
  // Objects come in the order of their numbers; those of one are looked at together.
  std::vector<ObjectInfo> infos;
  uint64_t of = 0;
  std::string last = after_;
  const auto sweep = [&]() -> absl::StatusOr<bool> {
    if (infos.empty()) return true;
    PH_ASSIGN_OR_RETURN(const bool may_go_on, SweepObjects(of, infos, step));
    if (!may_go_on) return false;
    after_ = infos.back().key;
    infos.clear();
    return step.num_listed < options_.max_listed;
  };
  while (true) {
    PH_ASSIGN_OR_RETURN(ObjectList list, engines_.objects->List(kAllSourceGraphObjects, last, 0,
                                                                engines_.Deadline()));
    step.num_listed += list.objects.size();
    if (!list.objects.empty()) last = list.objects.back().key;
    for (ObjectInfo& info : list.objects) {
      uint64_t objects = 0;
      if (!ParseSourceGraphObject(info.key, objects)) continue;
      if (objects != of) {
        PH_ASSIGN_OR_RETURN(const bool may_go_on, sweep());
        if (!may_go_on) return step;
      }
      of = objects;
      infos.push_back(std::move(info));
    }
    if (!list.has_more) break;
  }
  PH_ASSIGN_OR_RETURN(const bool may_go_on, sweep());
  if (!may_go_on && !infos.empty()) return step;
  step.is_round_over = true;
  after_.clear();
  return step;
}

}  // namespace packhouse
