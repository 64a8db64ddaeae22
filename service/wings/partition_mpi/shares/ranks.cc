#include "service/wings/partition_mpi/shares/ranks.h"

#include "absl/strings/str_cat.h"

namespace packhouse {

absl::Status Agree(Ranks& ranks, const absl::Status& status) {
  if (!AnyRank(ranks, !status.ok())) return absl::OkStatus();
  std::string told;
  if (!status.ok()) {
    told = absl::StrCat(std::string(1, static_cast<char>(status.code())), status.message());
  }
  const std::vector<std::string> all = ranks.Gather(told);
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].empty()) continue;
    const absl::string_view message = absl::string_view(all[r]).substr(1);
    return absl::Status(static_cast<absl::StatusCode>(all[r][0]),
                        all.size() > 1 ? absl::StrCat("rank ", r, ": ", message) : message);
  }
  return absl::InternalError("a rank failed without saying why");
}

bool AnyRank(Ranks& ranks, bool value) { return MaxOfRanks(ranks, value ? 1 : 0) != 0; }

uint64_t SumOfRanks(Ranks& ranks, uint64_t value) {
  ranks.Sum({&value, 1});
  return value;
}

uint64_t MaxOfRanks(Ranks& ranks, uint64_t value) {
  ranks.Max({&value, 1});
  return value;
}

}  // namespace packhouse
