#include "service/wings/cluster/jobs/job_keys.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "service/base/quoted.h"

namespace packhouse {

JobKeys::JobKeys(absl::string_view job) {
  const std::string folder =
      absl::StrCat(kJobs, absl::StrReplaceAll(job, {{"%", "%25"}, {"/", "%2F"}}), "/");
  owner_ = absl::StrCat(folder, "owner");
  place_ = absl::StrCat(folder, "place");
  log_ = {absl::StrCat(folder, "head"), absl::StrCat(folder, "log/")};
}

std::string JobKeys::JobIn(absl::string_view part) {
  return absl::StrReplaceAll(part, {{"%2F", "/"}, {"%25", "%"}});
}

std::string OwnerValue::Encode() const { return absl::StrCat(address, " ", attempt); }

absl::StatusOr<OwnerValue> OwnerValue::Decode(absl::string_view text) {
  std::vector<std::string> words = absl::StrSplit(text, ' ');
  if (words.size() != 2 || words[0].empty()) {
    return absl::DataLossError(absl::StrCat("the owner's key is damaged: ", Quoted(text)));
  }
  return OwnerValue{std::move(words[0]), std::move(words[1])};
}

}  // namespace packhouse
