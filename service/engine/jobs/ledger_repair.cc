#include "service/engine/jobs/ledger_repair.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "packhouse/internal/stored.pb.h"
#include "service/base/quoted.h"
#include "service/engine/jobs/event_codec.h"
#include "service/engine/jobs/job_ledger.h"
#include "service/engine/jobs/kept_plan.h"
#include "service/engine/jobs/ledger_event.h"

namespace packhouse {
namespace {

const std::string& JobOf(const LedgerEvent& event) {
  return std::visit(
      [](const auto& one) -> const std::string& {
        using Event = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<Event, EpochOpened>) {
          return one.identity.key.job;
        } else if constexpr (std::is_same_v<Event, GenerationsUsed>) {
          return one.job;
        } else {
          return one.epoch.job;
        }
      },
      event);
}

uint64_t GenerationOf(const LedgerEvent& event) {
  return std::visit(
      [](const auto& one) -> uint64_t {
        if constexpr (requires { one.generation; }) {
          return one.generation;
        } else if constexpr (requires { one.last; }) {
          return one.last;
        } else {
          return 0;
        }
      },
      event);
}

// What can be read of bytes that need not be an event.
struct Traces {
  std::string job;
  uint64_t generation = 0;
};

template <typename Stored>
Traces TracesOf(const Stored& stored) {
  Traces traces;
  if constexpr (requires { stored.identity(); }) {
    traces.job = stored.identity().key().job();
  } else if constexpr (requires { stored.key(); }) {
    traces.job = stored.key().job();
  }
  if constexpr (requires { stored.generation(); }) traces.generation = stored.generation();
  return traces;
}

Traces ReadTraces(const std::string& bytes) {
  internal::LedgerEvent stored;
  if (bytes.size() > kMaxEventBytes) return {};
  // What was read before an error counts, too.
  (void)stored.ParsePartialFromArray(bytes.data(), static_cast<int>(bytes.size()));
  switch (stored.event_case()) {
    case internal::LedgerEvent::kEpochOpened:
      return TracesOf(stored.epoch_opened());
    case internal::LedgerEvent::kGenerationStarted:
      return TracesOf(stored.generation_started());
    case internal::LedgerEvent::kWorkerJoined:
      return TracesOf(stored.worker_joined());
    case internal::LedgerEvent::kBatchesAcknowledged:
      return TracesOf(stored.batches_acknowledged());
    case internal::LedgerEvent::kEpochForgotten:
      return TracesOf(stored.epoch_forgotten());
    case internal::LedgerEvent::kEpochOwned:
      return TracesOf(stored.epoch_owned());
    case internal::LedgerEvent::kEpochUsed:
      return TracesOf(stored.epoch_used());
    case internal::LedgerEvent::kEpochExpired:
      return TracesOf(stored.epoch_expired());
    case internal::LedgerEvent::kEpochPlanned:
      return TracesOf(stored.epoch_planned());
    case internal::LedgerEvent::kWindowsCounted:
      return TracesOf(stored.windows_counted());
    case internal::LedgerEvent::kEpochWorded:
      return TracesOf(stored.epoch_worded());
    case internal::LedgerEvent::kGenerationsUsed:
    case internal::LedgerEvent::EVENT_NOT_SET:
      return {};
  }
  return {};
}

class Repair {
 public:
  explicit Repair(absl::Span<const FoundRecord> records) {
    for (const FoundRecord& record : records) {
      absl::Status status = record.status;
      if (status.ok()) {
        auto event = DecodeEvent(record.bytes);
        if (event.ok()) {
          if (record.is_mended) {
            result_.losses.push_back({record.sequence, "one bit had flipped", {}, true});
          }
          Know(*event);
          events_.push_back({record.sequence, *std::move(event)});
          continue;
        }
        status = event.status();
      }
      damaged_.push_back({&record, std::move(status)});
    }
  }

  LedgerRepair Run() && {
    for (const auto& [record, status] : damaged_) Attribute(*record, status);
    if (result_.loses_all) lost_.insert(jobs_.begin(), jobs_.end());
    JobLedger ledger;
    while (!Replay(ledger)) {
    }
    // A lost record may have started a generation each.
    last_generation_ = std::max(last_generation_ + damaged_.size(), ledger.last_generation());
    for (const auto& [job, part] : std::move(ledger).SplitByJob()) {
      for (std::string& record : part.EpochRecords()) result_.records.push_back(std::move(record));
    }
    if (last_generation_ != 0) {
      result_.records.push_back(EncodeEvent(GenerationsUsed{"", last_generation_}));
    }
    result_.lost_jobs.assign(lost_.begin(), lost_.end());
    std::stable_sort(result_.losses.begin(), result_.losses.end(),
                     [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
    return std::move(result_);
  }

 private:
  struct Event {
    uint64_t sequence;
    LedgerEvent event;
  };

  void Know(const LedgerEvent& event) {
    const std::string& job = JobOf(event);
    const uint64_t generation = GenerationOf(event);
    last_generation_ = std::max(last_generation_, generation);
    if (std::holds_alternative<GenerationsUsed>(event)) return;
    jobs_.insert(job);
    if (generation != 0) jobs_of_generation_[generation].insert(job);
    if (const auto* const planned = std::get_if<EpochPlanned>(&event)) {
      if (planned->plan != nullptr) plans_[planned->digest] = planned->plan;
    }
  }

  void Attribute(const FoundRecord& record, const absl::Status& status) {
    RecordLoss loss = {record.sequence, std::string(status.message()), {}, false};
    const Traces traces = ReadTraces(record.bytes);
    std::set<std::string> jobs;
    if (jobs_.contains(traces.job)) jobs.insert(traces.job);
    if (const auto found = jobs_of_generation_.find(traces.generation);
        found != jobs_of_generation_.end()) {
      jobs.insert(found->second.begin(), found->second.end());
    }
    loss.jobs.assign(jobs.begin(), jobs.end());
    lost_.insert(jobs.begin(), jobs.end());
    if (jobs.empty()) result_.loses_all = true;
    result_.losses.push_back(std::move(loss));
  }

  // The ledger of all jobs that are not lost. False if the records of another job do not fit
  // together: it is lost now.
  bool Replay(JobLedger& ledger) {
    ledger = JobLedger();
    for (const auto& [sequence, event] : events_) {
      const std::string& job = JobOf(event);
      if (lost_.contains(job) && !std::holds_alternative<GenerationsUsed>(event)) continue;
      LedgerEvent applied = event;
      // The plan may have been written with a record of a job that is lost.
      if (auto* const planned = std::get_if<EpochPlanned>(&applied)) {
        if (const auto plan = plans_.find(planned->digest); plan != plans_.end()) {
          planned->plan = plan->second;
        }
      }
      const absl::Status status = ledger.Apply(applied);
      if (status.ok()) continue;
      result_.losses.push_back(
          {sequence,
           absl::StrCat("does not fit the records before it: ", status.message()),
           {job},
           false});
      lost_.insert(job);
      return false;
    }
    return true;
  }

  std::vector<Event> events_;
  std::vector<std::pair<const FoundRecord*, absl::Status>> damaged_;
  std::set<std::string> jobs_;
  std::map<uint64_t, std::set<std::string>> jobs_of_generation_;
  std::map<std::string, std::shared_ptr<const KeptPlan>> plans_;
  uint64_t last_generation_ = 0;
  std::set<std::string> lost_;
  LedgerRepair result_;
};

}  // namespace

LedgerRepair RepairLedger(absl::Span<const FoundRecord> records) { return Repair(records).Run(); }

}  // namespace packhouse
