#include "service/epochs/epoch_identity.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/checked_arithmetic.h"
#include "service/planning/limits.h"

namespace packhouse {
namespace {

constexpr size_t kMaxProfiles = 16;

// "(222, 502, -) of 3 ranks, 40 batches; ...".
std::string ProfilesText(const EpochIdentity& identity) {
  return absl::StrJoin(identity.profiles, "; ",
                       [](std::string* out, const IdentityProfile& profile) {
                         absl::StrAppend(out, "(",
                                         absl::StrJoin(profile.capacities, ", ",
                                                       [](std::string* text, uint64_t capacity) {
                                                         if (capacity == kUnlimited) {
                                                           absl::StrAppend(text, "-");
                                                         } else {
                                                           absl::StrAppend(text, capacity);
                                                         }
                                                       }),
                                         ")");
                         if (profile.planned_ranks != 0)
                           absl::StrAppend(out, " of ", profile.planned_ranks, " ranks");
                         absl::StrAppend(out, ", ", profile.num_batches, " batches");
                       });
}

}  // namespace

uint64_t EpochIdentity::num_batches() const {
  uint64_t sum = 0;
  for (const IdentityProfile& profile : profiles) sum += profile.num_batches;
  return sum;
}

std::vector<uint64_t> EpochIdentity::first_batches() const {
  std::vector<uint64_t> first = {0};
  for (const IdentityProfile& profile : profiles) {
    first.push_back(first.back() + profile.num_batches);
  }
  return first;
}

absl::Status CheckSameEpoch(const EpochIdentity& epoch, const EpochIdentity& other,
                            absl::string_view what) {
  const auto compare = [what](absl::string_view field, const auto& of_other, const auto& of_epoch) {
    if (of_other == of_epoch) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(what, ": is of ", field, " ", of_other,
                                                      ", the epoch has ", field, " ", of_epoch));
  };
  absl::Status status = compare("job", other.key.job, epoch.key.job);
  status.Update(compare("epoch", other.key.epoch, epoch.key.epoch));
  status.Update(compare("dataset", other.dataset, epoch.dataset));
  status.Update(compare("dataset version", other.dataset_version, epoch.dataset_version));
  status.Update(compare("seed", other.seed, epoch.seed));
  status.Update(compare("limits", ProfilesText(other), ProfilesText(epoch)));
  status.Update(compare("options", other.options, epoch.options));
  return status;
}

absl::Status CheckIdentity(const EpochIdentity& identity) {
  if (identity.key.job.empty()) return absl::InvalidArgumentError("epoch: without a job name");
  return CheckBatchCounts(identity);
}

absl::Status CheckBatchCounts(const EpochIdentity& identity) {
  if (identity.profiles.empty() || identity.profiles.size() > kMaxProfiles) {
    return absl::InvalidArgumentError(absl::StrCat("epoch: ", identity.profiles.size(),
                                                   " profiles, must be 1 to ", kMaxProfiles));
  }
  uint64_t sum = 0;
  for (const IdentityProfile& profile : identity.profiles) {
    const auto next = CheckedAdd(sum, profile.num_batches);
    if (!next || *next > std::numeric_limits<uint32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat("epoch: ", sum, " and ", profile.num_batches, " batches, at most 2^32 - 1"));
    }
    sum = *next;
  }
  return absl::OkStatus();
}

void WriteIdentity(const EpochIdentity& identity, RecordWriter& writer) {
  writer.Text(identity.key.job);
  writer.Number(identity.key.epoch);
  writer.Text(identity.dataset);
  writer.Number(identity.dataset_version);
  writer.Number(identity.seed);
  writer.Number(identity.profiles.size());
  for (const IdentityProfile& profile : identity.profiles) {
    writer.Number(profile.capacities.size());
    for (const uint64_t capacity : profile.capacities) writer.Number(capacity);
    writer.Number(profile.planned_ranks);
    writer.Number(profile.num_batches);
  }
  writer.Text(identity.options);
}

EpochIdentity ReadIdentity(RecordReader& reader) {
  EpochIdentity identity;
  identity.key.job = reader.Text();
  identity.key.epoch = reader.Number();
  identity.dataset = reader.Text();
  identity.dataset_version = reader.Number();
  identity.seed = reader.Number();
  for (size_t left = reader.Count(); left != 0; --left) {
    IdentityProfile profile;
    for (size_t k = reader.Count(); k != 0; --k) profile.capacities.push_back(reader.Number());
    profile.planned_ranks = reader.Number();
    profile.num_batches = reader.Number();
    identity.profiles.push_back(std::move(profile));
  }
  identity.options = reader.Text();
  return identity;
}

}  // namespace packhouse
