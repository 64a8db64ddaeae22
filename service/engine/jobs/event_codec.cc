#include "service/engine/jobs/event_codec.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "packhouse/internal/stored.pb.h"
#include "service/base/status_macros.h"
#include "service/engine/jobs/stored_epoch.h"

namespace packhouse {
namespace {

// Ranks of one rank group are usually next to each other: runs of (rank group, number of ranks).
void WriteSharing(const Sharing& sharing, internal::GenerationStarted& stored) {
  stored.set_drops_last_steps(sharing.last_steps == LastSteps::kDropped);
  auto& runs = *stored.mutable_ranks();
  for (const uint32_t group : sharing.rank_group_of_rank) {
    if (runs.empty() || runs.Get(runs.size() - 2) != group) {
      runs.Add(group);
      runs.Add(0);
    }
    ++*runs.Mutable(runs.size() - 1);
  }
}

std::optional<Sharing> ReadSharing(const internal::GenerationStarted& stored) {
  Sharing sharing;
  sharing.last_steps = stored.drops_last_steps() ? LastSteps::kDropped : LastSteps::kPadded;
  if (stored.ranks_size() % 2 != 0) return std::nullopt;
  std::vector<uint32_t>& ranks = sharing.rank_group_of_rank;
  for (int i = 0; i < stored.ranks_size(); i += 2) {
    if (stored.ranks(i + 1) > Sharing::kMaxRanks - ranks.size()) return std::nullopt;
    ranks.insert(ranks.end(), stored.ranks(i + 1), static_cast<uint32_t>(stored.ranks(i)));
  }
  return sharing;
}

struct Writer {
  internal::LedgerEvent& stored;

  void operator()(const EpochOpened& event) const {
    WriteIdentity(event.identity, *stored.mutable_epoch_opened()->mutable_identity());
  }
  void operator()(const EpochPlanned& event) const {
    internal::EpochPlanned& to = *stored.mutable_epoch_planned();
    WriteEpochKey(event.epoch, *to.mutable_key());
    to.set_digest(event.digest);
    if (event.plan == nullptr) return;
    to.set_receipt(event.plan->receipt);
    to.set_plan(event.plan->bytes);
  }
  void operator()(const GenerationStarted& event) const {
    internal::GenerationStarted& to = *stored.mutable_generation_started();
    WriteEpochKey(event.epoch, *to.mutable_key());
    to.set_generation(event.generation);
    to.set_attempt(event.attempt);
    WriteSharing(event.sharing, to);
    WriteBatches(event.base, *to.mutable_base());
  }
  void operator()(const WorkerJoined& event) const {
    internal::WorkerJoined& to = *stored.mutable_worker_joined();
    WriteEpochKey(event.epoch, *to.mutable_key());
    to.set_generation(event.generation);
    to.set_worker(event.worker);
  }
  void operator()(const BatchesAcknowledged& event) const {
    internal::BatchesAcknowledged& to = *stored.mutable_batches_acknowledged();
    WriteEpochKey(event.epoch, *to.mutable_key());
    to.set_generation(event.generation);
    WriteBatches(event.batches, *to.mutable_batches());
  }
  void operator()(const EpochForgotten& event) const {
    WriteEpochKey(event.epoch, *stored.mutable_epoch_forgotten()->mutable_key());
  }
  void operator()(const GenerationsUsed& event) const {
    stored.mutable_generations_used()->set_last(event.last);
  }
  void operator()(const EpochOwned& event) const {
    WriteEpochKey(event.epoch, *stored.mutable_epoch_owned()->mutable_key());
    stored.mutable_epoch_owned()->set_client(event.client);
  }
  void operator()(const EpochUsed& event) const {
    WriteEpochKey(event.epoch, *stored.mutable_epoch_used()->mutable_key());
    stored.mutable_epoch_used()->set_seconds(event.seconds);
  }
  void operator()(const EpochExpired& event) const {
    internal::EpochExpired& to = *stored.mutable_epoch_expired();
    WriteEpochKey(event.epoch, *to.mutable_key());
    to.set_generation(event.generation);
    to.set_seconds(event.seconds);
  }
  void operator()(const WindowsCounted& event) const {
    internal::WindowsCounted& to = *stored.mutable_windows_counted();
    WriteEpochKey(event.epoch, *to.mutable_key());
    to.set_first_window(event.first_window);
    to.mutable_num_batches()->Add(event.num_batches.begin(), event.num_batches.end());
  }
  void operator()(const EpochWorded& event) const {
    WriteEpochKey(event.epoch, *stored.mutable_epoch_worded()->mutable_key());
    stored.mutable_epoch_worded()->set_words(event.words);
  }
};

std::optional<LedgerEvent> ReadPlanned(const internal::EpochPlanned& from) {
  EpochPlanned event = {ReadEpochKey(from.key()), from.digest(), nullptr};
  if (from.plan().empty()) return event;
  if (from.plan().size() > kMaxPlanBytes || DigestOfPlan(from.plan()) != from.digest()) {
    return std::nullopt;
  }
  event.plan =
      std::make_shared<const KeptPlan>(KeptPlan{from.receipt(), from.digest(), from.plan()});
  return event;
}

// nullopt if it is no event, or has lists that do not fit each other.
std::optional<LedgerEvent> ReadEvent(const internal::LedgerEvent& stored) {
  switch (stored.event_case()) {
    case internal::LedgerEvent::kEpochOpened: {
      auto identity = ReadIdentity(stored.epoch_opened().identity());
      if (!identity) return std::nullopt;
      return EpochOpened{*std::move(identity)};
    }
    case internal::LedgerEvent::kEpochPlanned:
      return ReadPlanned(stored.epoch_planned());
    case internal::LedgerEvent::kGenerationStarted: {
      const internal::GenerationStarted& from = stored.generation_started();
      auto sharing = ReadSharing(from);
      auto base = ReadBatches(from.base());
      if (!sharing || !base) return std::nullopt;
      return GenerationStarted{ReadEpochKey(from.key()), from.generation(), from.attempt(),
                               *std::move(sharing), *std::move(base)};
    }
    case internal::LedgerEvent::kWorkerJoined: {
      const internal::WorkerJoined& from = stored.worker_joined();
      return WorkerJoined{ReadEpochKey(from.key()), from.generation(), from.worker()};
    }
    case internal::LedgerEvent::kBatchesAcknowledged: {
      const internal::BatchesAcknowledged& from = stored.batches_acknowledged();
      auto batches = ReadBatches(from.batches());
      if (!batches) return std::nullopt;
      return BatchesAcknowledged{ReadEpochKey(from.key()), from.generation(), *std::move(batches)};
    }
    case internal::LedgerEvent::kEpochForgotten:
      return EpochForgotten{ReadEpochKey(stored.epoch_forgotten().key())};
    case internal::LedgerEvent::kGenerationsUsed:
      return GenerationsUsed{stored.generations_used().last()};
    case internal::LedgerEvent::kEpochOwned:
      return EpochOwned{ReadEpochKey(stored.epoch_owned().key()), stored.epoch_owned().client()};
    case internal::LedgerEvent::kEpochUsed:
      return EpochUsed{ReadEpochKey(stored.epoch_used().key()), stored.epoch_used().seconds()};
    case internal::LedgerEvent::kEpochExpired: {
      const internal::EpochExpired& from = stored.epoch_expired();
      return EpochExpired{ReadEpochKey(from.key()), from.generation(), from.seconds()};
    }
    case internal::LedgerEvent::kWindowsCounted: {
      const internal::WindowsCounted& from = stored.windows_counted();
      return WindowsCounted{ReadEpochKey(from.key()),
                            from.first_window(),
                            {from.num_batches().begin(), from.num_batches().end()}};
    }
    case internal::LedgerEvent::kEpochWorded: {
      const internal::EpochWorded& from = stored.epoch_worded();
      if (from.words().size() > kMaxWordsBytes) return std::nullopt;
      return EpochWorded{ReadEpochKey(from.key()), from.words()};
    }
    case internal::LedgerEvent::EVENT_NOT_SET:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::string EncodeEvent(const LedgerEvent& event) {
  internal::LedgerEvent stored;
  std::visit(Writer{stored}, event);
  return stored.SerializeAsString();
}

absl::StatusOr<LedgerEvent> DecodeEvent(absl::string_view record) {
  if (record.size() > kMaxEventBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("event: ", record.size(), " bytes, at most ", kMaxEventBytes));
  }
  internal::LedgerEvent stored;
  if (!stored.ParseFromArray(record.data(), static_cast<int>(record.size()))) {
    return absl::InvalidArgumentError("event: is no message of the ledger");
  }
  std::optional<LedgerEvent> event = ReadEvent(stored);
  // Unknown fields of later releases are not written again, so the bytes differ.
  if (!event || EncodeEvent(*event) != record) {
    return absl::InvalidArgumentError(
        "event: malformed, or written by a later release of packhoused");
  }
  if (const auto* const opened = std::get_if<EpochOpened>(&*event)) {
    PH_RETURN_IF_ERROR(CheckIdentity(opened->identity));
  }
  return *std::move(event);
}

}  // namespace packhouse
