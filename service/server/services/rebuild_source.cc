#include "service/server/services/rebuild_source.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/engine/jobs/load_event.h"
#include "service/server/calls/wire_graphs.h"
#include "service/server/wire/wire_loader.h"

namespace packhouse {
namespace {

// The number of batches, of the whole epoch or at least of those up to `number`.
absl::StatusOr<uint64_t> BatchesUpTo(uint64_t number, const LoadableEpoch& epoch,
                                     const Making& making) {
  const EpochWindows* const windows = epoch.windows();
  if (windows == nullptr) return epoch.identity().num_batches();
  for (;;) {
    const std::vector<uint32_t> counts = windows->Counts();
    const uint64_t known = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
    if (number < known || counts.size() == windows->num_windows()) return known;
    PH_RETURN_IF_ERROR(making.StillWanted());
    PH_RETURN_IF_ERROR(windows->Plan(counts.size(), making));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ResponseSource<RebuildReply>>> RebuildSource::Open(
    std::shared_ptr<const LoadableEpoch> epoch, std::vector<uint64_t> numbers,
    std::optional<uint64_t> words_of_epoch, const Making& making) {
  if (numbers.empty() || numbers.size() > kMaxRebuilt) {
    return absl::InvalidArgumentError(
        absl::StrCat("numbers: ", numbers.size(), " batches, must be 1 to ", kMaxRebuilt));
  }
  const uint64_t last = *std::max_element(numbers.begin(), numbers.end());
  PH_ASSIGN_OR_RETURN(const uint64_t num_batches, BatchesUpTo(last, *epoch, making));
  for (const uint64_t number : numbers) {
    if (number < num_batches) continue;
    return absl::OutOfRangeError(absl::StrCat("numbers: batch ", number, ": epoch ",
                                              epoch->identity().key.epoch, " has ", num_batches,
                                              " batches, numbered from 0; batches of padding alone "
                                              "come after them, and are not made again"));
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
