// Any records, after a first byte without meaning, as a ledger's log. Whatever comes in: no crash,
// memory by what is there, and a ledger that its snapshot gives again.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "service/engine/jobs/event_codec.h"
#include "service/engine/jobs/job_ledger.h"
#include "service/engine/jobs/kept_plan.h"
#include "tests/fuzz/message_stream.h"
#include "tests/fuzz/sealed_record.h"

namespace {

using packhouse::JobLedger;

void Require(bool holds) {
  if (!holds) std::abort();
}

// A ledger is copied to see that a refused event changes nothing only as long as it is small.
constexpr size_t kMaxCopiedEpochs = 3;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  packhouse::MessageStream messages(data + 1, size - 1);
  JobLedger ledger;
  std::vector<std::string> records;
  std::vector<std::string> accepted;
  while (auto record = messages.Next()) {
    records.push_back(*record);
    const auto event = packhouse::DecodeEvent(*record);
    if (!event.ok()) {
      Require(event.status().code() == absl::StatusCode::kInvalidArgument);
      continue;
    }
    Require(packhouse::EncodeEvent(*event) == *record);
    if (const auto* const planned = std::get_if<packhouse::EpochPlanned>(&*event);
        planned != nullptr && planned->plan != nullptr) {
      // At most 24 times the bytes for the message, and 240 a rank group for what its lists become.
      uint64_t reserved = 0;
      const auto plan = packhouse::ReadPlan(*planned->plan, [&](uint64_t bytes) {
        reserved += bytes;
        return absl::OkStatus();
      });
      Require(plan.ok() || plan.status().code() == absl::StatusCode::kDataLoss);
      Require(reserved <= 4096 + 264 * record->size());
    }

    const bool is_small = ledger.num_epochs() <= kMaxCopiedEpochs;
    const JobLedger before = is_small ? ledger : JobLedger();
    const absl::Status status = ledger.Apply(*event);
    if (status.ok()) {
      accepted.push_back(*std::move(record));
    } else {
      Require(status.code() == absl::StatusCode::kFailedPrecondition ||
              status.code() == absl::StatusCode::kInvalidArgument);
      Require(!is_small || ledger == before);
    }
  }

  size_t num_values = 0;
  for (const packhouse::EpochKey& key : ledger.Epochs()) {
    const packhouse::EpochState& epoch = *ledger.Find(key);
    num_values += epoch.base.num_runs() + epoch.done.num_runs() + epoch.workers.size();
    Require(epoch.sharing.rank_group_of_rank.size() <= packhouse::Sharing::kMaxRanks);
  }
  // As a message a run may take a byte less.
  Require(num_values <= 2 * size);

  const auto all = JobLedger::Replay(records);
  Require(all.ok() == (accepted.size() == records.size()));
  Require(all.ok() || all.status().code() == absl::StatusCode::kDataLoss);
  const auto replayed = JobLedger::Replay(accepted);
  Require(replayed.ok() && *replayed == ledger);
  const std::vector<std::string> snapshot = ledger.Snapshot();
  const auto restored = JobLedger::Replay(snapshot);
  Require(restored.ok() && *restored == ledger && restored->Snapshot() == snapshot);
  return 0;
}
