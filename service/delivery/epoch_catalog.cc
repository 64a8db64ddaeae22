#include "service/delivery/epoch_catalog.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/sizes/status_macros.h"

namespace packhouse {
namespace {

// Keys begin with the data set's name, which has no line breaks.
constexpr char kSeparator = '\n';

std::string PrefixOf(absl::string_view dataset) {
  return absl::StrCat(dataset, std::string(1, kSeparator));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PreparedEpoch>> EpochCatalog::Prepare(
    const EpochRequest& request) {
  PH_ASSIGN_OR_RETURN(const DatasetInfo info, store_->Get(request.dataset));
  if (info.state != DatasetState::kSealed) {
    return absl::FailedPreconditionError(
        absl::StrCat("data set '", info.name, "' is not sealed: seal it to load epochs from it"));
  }
  const std::string reader_key =
      absl::StrCat(PrefixOf(request.dataset), info.version, std::string(1, kSeparator));
  std::string plan_key =
      absl::StrCat(reader_key, request.Words(), request.oversize_is_error ? " or fail" : "");
  if (request.profiles.size() > 1) {
    for (const ProfileRequest& profile : request.profiles) {
      absl::StrAppend(&plan_key, " ", profile.num_ranks);
    }
  }
  const std::string epoch_words =
      absl::StrCat(" epoch ", request.key.epoch, " seed ", request.seed);
  if (request.sampling) absl::StrAppend(&plan_key, epoch_words);
  const std::string epoch_key =
      absl::StrCat(plan_key, epoch_words, std::string(1, kSeparator), request.key.job);

  const auto open_reader = [&]() -> absl::StatusOr<std::shared_ptr<const DatasetReader>> {
    PH_ASSIGN_OR_RETURN(std::shared_ptr<const DatasetReader> reader,
                        store_->OpenReader(request.dataset));
    if (reader->info().version == info.version) return reader;
    return absl::UnavailableError(absl::StrCat("data set '", request.dataset,
                                               "' was replaced while it was opened; try again"));
  };
  const auto make_plan = [&]() -> absl::StatusOr<std::shared_ptr<const EpochPlan>> {
    PH_ASSIGN_OR_RETURN(auto reader, readers_.Get(reader_key, open_reader));
    return EpochPlan::Make(std::move(reader), request, bounds_);
  };
  return epochs_.Get(epoch_key, [&]() -> absl::StatusOr<std::shared_ptr<const PreparedEpoch>> {
    PH_ASSIGN_OR_RETURN(auto plan, plans_.Get(plan_key, make_plan));
    return PreparedEpoch::Prepare(std::move(plan), request, bounds_);
  });
}

void EpochCatalog::Forget(absl::string_view dataset) {
  // In this order: an epoch in the making has its slot before its plan, and its plan before it gets
  // its reader. Who has got the reader by now is found by the next two; who has not opens it anew,
  // which fails.
  readers_.Drop(PrefixOf(dataset));
  plans_.Drop(PrefixOf(dataset));
  epochs_.Drop(PrefixOf(dataset));
}

}  // namespace packhouse
