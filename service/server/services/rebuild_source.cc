#include "service/server/services/rebuild_source.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/engine/jobs/job_ledger.h"
#include "service/engine/jobs/load_event.h"
#include "service/server/calls/wire_graphs.h"
#include "service/server/wire/wire_loader.h"

namespace packhouse {
namespace {

// The first number that no batch has; nullopt if all have one. Plans windows until that is known.
absl::StatusOr<std::optional<uint64_t>> FirstBeyond(absl::Span<const uint64_t> numbers,
                                                    const LoadableEpoch& epoch,
                                                    const Making& making) {
  const EpochIdentity& identity = epoch.identity();
  const std::vector<uint64_t> first = identity.first_batches();
  const EpochWindows* const windows = epoch.windows();
  for (;;) {
    const std::vector<uint32_t> counts =
        windows == nullptr ? std::vector<uint32_t>() : windows->Counts();
    const std::vector<uint64_t> known = KnownBatches(identity, counts);
    const auto beyond = std::find_if(numbers.begin(), numbers.end(), [&](uint64_t number) {
      size_t j = 0;
      while (j < known.size() && number >= first[j + 1]) ++j;
      return j == known.size() || number - first[j] >= known[j];
    });
    if (beyond == numbers.end()) return std::nullopt;
    if (counts.size() == identity.num_counts()) return *beyond;
    PH_RETURN_IF_ERROR(making.StillWanted());
    PH_RETURN_IF_ERROR(windows->Plan(counts.size() / known.size(), making));
  }
}

// In words, once all windows are known. Rank groups leave room where windows have fewer batches
// than they might.
std::string NumbersOf(const LoadableEpoch& epoch) {
  const EpochWindows* const windows = epoch.windows();
  const std::vector<uint64_t> known = KnownBatches(
      epoch.identity(), windows == nullptr ? std::vector<uint32_t>() : windows->Counts());
  if (known.size() == 1) return absl::StrCat(known[0], " batches, numbered from 0");
  const std::vector<uint64_t> first = epoch.identity().first_batches();
  std::string words;
  for (size_t j = 0; j < known.size(); ++j) {
    absl::StrAppend(&words, j == 0 ? "" : ", ", known[j], " batches of rank group ", j,
                    ", numbered from ", first[j]);
  }
  return words;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ResponseSource<RebuildReply>>> RebuildSource::Open(
    std::shared_ptr<const LoadableEpoch> epoch, std::vector<uint64_t> numbers,
    std::optional<uint64_t> words_of_epoch, const Making& making) {
  if (numbers.empty() || numbers.size() > kMaxRebuilt) {
    return absl::InvalidArgumentError(
        absl::StrCat("numbers: ", numbers.size(), " batches, must be 1 to ", kMaxRebuilt));
  }
  PH_ASSIGN_OR_RETURN(const std::optional<uint64_t> beyond, FirstBeyond(numbers, *epoch, making));
  if (beyond) {
    return absl::OutOfRangeError(absl::StrCat(
        "numbers: batch ", *beyond, ": epoch ", epoch->identity().key.epoch, " has ",
        NumbersOf(*epoch), "; batches of padding alone come after them, and are not made again"));
  }
  return std::unique_ptr<ResponseSource<RebuildReply>>(
      new RebuildSource(std::move(epoch), std::move(numbers), words_of_epoch));
}

absl::StatusOr<std::optional<RebuildReply>> RebuildSource::Next() {
  RebuildReply reply;
  if (!is_opened_) {
    is_opened_ = true;
    v1::LoadOpened& opened = *reply.message.mutable_opened();
    EpochToWire(*epoch_, EpochProgress(), *opened.mutable_epoch());
    GraphSchemaToWire(epoch_->schema(), *opened.mutable_schema());
    if (words_of_epoch_) reply.message.set_words_of_epoch(*words_of_epoch_);
    return reply;
  }
  if (next_ == numbers_.size()) return std::nullopt;
  LoadEvent event;
  event.number = numbers_[next_++];
  PH_RETURN_IF_ERROR(BuildContents(*epoch_, event));
  LoadedBatchToWire(event, epoch_->identity().key.epoch, *reply.message.mutable_batch());
  reply.TakeTensors(std::move(event.built.batch));
  return reply;
}

}  // namespace packhouse
