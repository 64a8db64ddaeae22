#include "service/engine/jobs/ledger_repair.h"

#include <algorithm>
#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "service/engine/jobs/event_codec.h"
#include "service/engine/jobs/job_ledger.h"
#include "service/engine/jobs/ledger_event.h"

namespace packhouse {
namespace {

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

}  // namespace

void TellLosses(const LedgerRepair& repair, const std::string& file, absl::string_view log,
                absl::string_view cost, DamageVisitor found) {
  for (const RecordLoss& loss : repair.losses) {
    found({file, absl::StrCat(log, ", record ", loss.sequence), loss.what,
           loss.is_mended ? "nothing: packhoused store repair puts it right" : std::string(cost)});
  }
}

std::string JobOfEvent(absl::string_view bytes) {
  const auto event = DecodeEvent(bytes);
  if (!event.ok()) return "";
  return std::visit(
      [](const auto& one) -> std::string {
        using Event = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<Event, EpochOpened>) {
          return one.identity.key.job;
        } else if constexpr (std::is_same_v<Event, GenerationsUsed>) {
          return "";
        } else {
          return one.epoch.job;
        }
      },
      *event);
}

LedgerRepair RepairLedger(absl::Span<const FoundRecord> records) {
  LedgerRepair repair;
  JobLedger ledger;
  uint64_t num_lost = 0;
  const auto lose = [&](const FoundRecord& record, std::string what) {
    repair.losses.push_back({record.sequence, std::move(what), false});
    repair.is_lost = true;
  };
  for (const FoundRecord& record : records) {
    const auto event = record.status.ok() ? DecodeEvent(record.bytes) : record.status;
    if (!event.ok()) {
      ++num_lost;
      lose(record, std::string(event.status().message()));
      continue;
    }
    if (record.is_mended) repair.losses.push_back({record.sequence, "one bit had flipped", true});
    repair.last_generation = std::max(repair.last_generation, GenerationOf(*event));
    // What comes after a lost record need not fit.
    if (repair.is_lost) continue;
    if (const absl::Status status = ledger.Apply(*event); !status.ok()) {
      lose(record, absl::StrCat("does not fit the records before it: ", status.message()));
    }
    repair.records.push_back(record.bytes);
  }
  if (repair.is_lost) repair.records.clear();
  // A lost record may have started a generation each.
  repair.last_generation += num_lost;
  return repair;
}

}  // namespace packhouse
