#include "service/engine/jobs/measured_limits.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/planning/limits.h"
#include "service/engine/epochs/planner_result.h"
#include "service/engine/jobs/held_plan.h"

namespace packhouse {
namespace {

using Shapes = std::vector<std::vector<uint64_t>>;

bool IsMeasured(const RankGroupRequest& rank_group) {
  return rank_group.device && !rank_group.device->measured_as.empty();
}

// The shapes of a rank group of an epoch. Without its plan only the largest is known.
Shapes ShapesOf(const EpochIdentity& identity, const PlannerResult* plan, size_t rank_group) {
  return plan != nullptr && rank_group < plan->shapes.size()
             ? plan->shapes[rank_group]
             : Shapes{identity.rank_groups[rank_group].capacities};
}

// The shapes of measured devices before: those of an epoch with as many rank groups.
void SetPresent(const EpochIdentity& identity, const PlannerResult* plan, EpochRequest& request) {
  if (identity.rank_groups.size() != request.rank_groups.size()) return;
  for (size_t i = 0; i < request.rank_groups.size(); ++i) {
    RankGroupRequest& rank_group = request.rank_groups[i];
    if (IsMeasured(rank_group)) rank_group.present = ShapesOf(identity, plan, i);
  }
}

}  // namespace

bool HasMeasuredDevice(const EpochRequest& request) {
  return std::any_of(request.rank_groups.begin(), request.rank_groups.end(), IsMeasured);
}

void KeepLimits(const EpochIdentity& identity, const PlannerResult* plan, EpochRequest& request) {
  if (identity.rank_groups.size() != request.rank_groups.size()) return;
  SetPresent(identity, plan, request);
  // An epoch's limits never change.
  for (RankGroupRequest& rank_group : request.rank_groups) {
    if (IsMeasured(rank_group)) rank_group.measured = std::nullopt;
  }
}

void LogLimits(LimitedLog* log, const EpochRequest& request, const LoadableEpoch& epoch) {
  const std::string why = epoch.why_shapes();
  const auto planned = epoch.planned();
  if (log == nullptr || why.empty() || planned == nullptr) return;
  const auto text = [](const std::vector<uint64_t>& capacities) {
    return absl::StrJoin(capacities, " ", [](std::string* out, uint64_t capacity) {
      absl::StrAppend(out, capacity == kUnlimited ? "-" : absl::StrCat(capacity));
    });
  };
  std::string before;
  std::string now;
  for (size_t i = 0; i < request.rank_groups.size(); ++i) {
    if (request.rank_groups[i].present.empty()) continue;
    const absl::string_view between = before.empty() ? "" : "; ";
    absl::StrAppend(&before, between, text(request.rank_groups[i].present[0]));
    absl::StrAppend(&now, between, text(epoch.shapes(i)[0].capacities));
  }
  const absl::string_view event = before == now ? "limits stay" : "limits move";
  const std::string key = absl::StrCat(event, request.key.job, request.key.epoch);
  log->Log(key, LogLevel::kInfo, event,
           {{"job", request.key.job},
            {"epoch", request.key.epoch},
            {"from", before},
            {"to", now},
            {"receipt", planned->receipt},
            LogField::Message(why)});
}

std::shared_ptr<const MeasuredLimits::Measured> MeasuredLimits::Fix(const Job* job,
                                                                    MemoryBudget* memory,
                                                                    EpochRequest& request) {
  if (request.key.job.empty() || !HasMeasuredDevice(request)) return nullptr;
  std::optional<Job::Opened> opened;
  bool is_open = false;
  if (job != nullptr) {
    opened = job->OpenedAs(request.key.epoch);
    is_open = opened.has_value();
    if (const auto epochs = job->Epochs(); !opened && !epochs.empty()) {
      opened = job->OpenedAs(epochs.front().progress.key.epoch);
    }
  }
  if (opened) {
    std::shared_ptr<const PlannerResult> kept;
    if (opened->plan != nullptr) {
      if (auto read = ReadHeldPlan(*opened->plan, memory); read.ok()) kept = *std::move(read);
    }
    (is_open ? KeepLimits : SetPresent)(opened->identity, kept.get(), request);
  }
  if (is_open) return nullptr;
  std::string words = absl::StrCat(request.dataset, "; ", request.Words());
  absl::MutexLock lock(&mutex_);
  std::erase_if(opening_, [](const auto& each) { return each.second.expired(); });
  std::weak_ptr<const Measured>& place = opening_[{request.key, std::move(words)}];
  std::shared_ptr<const Measured> fixed = place.lock();
  if (fixed == nullptr || fixed->size() != request.rank_groups.size()) {
    fixed = std::make_shared<const Measured>(request.rank_groups);
    place = fixed;
    return fixed;
  }
  for (size_t i = 0; i < request.rank_groups.size(); ++i) {
    request.rank_groups[i].measured = (*fixed)[i].measured;
    request.rank_groups[i].present = (*fixed)[i].present;
  }
  return fixed;
}

}  // namespace packhouse
