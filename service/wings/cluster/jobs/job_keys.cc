#include "service/wings/cluster/jobs/job_keys.h"

#include <array>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "service/base/quoted.h"

namespace packhouse {
namespace {

constexpr absl::string_view kHeadVersion = "1";

}  // namespace

JobKeys::JobKeys(absl::string_view job) {
  const std::string folder =
      absl::StrCat(kJobs, absl::StrReplaceAll(job, {{"%", "%25"}, {"/", "%2F"}}), "/");
  owner_ = absl::StrCat(folder, "owner");
  place_ = absl::StrCat(folder, "place");
  head_ = absl::StrCat(folder, "head");
  log_ = absl::StrCat(folder, "log/");
  log_end_ = KeyRange::Prefix(log_).end;
}

std::string JobKeys::JobIn(absl::string_view part) {
  return absl::StrReplaceAll(part, {{"%2F", "/"}, {"%25", "%"}});
}

std::string JobKeys::Entry(uint64_t number) const {
  return absl::StrCat(log_, absl::Hex(number, absl::kZeroPad16));
}

absl::StatusOr<uint64_t> JobKeys::NumberOf(absl::string_view key) const {
  uint64_t number = 0;
  if (key.size() != log_.size() + 16 || key.substr(0, log_.size()) != log_ ||
      !absl::SimpleHexAtoi(key.substr(log_.size()), &number)) {
    return absl::DataLossError(absl::StrCat("key ", Quoted(key), " is no entry of the log"));
  }
  return number;
}

std::string LogHead::Encode() const {
  return absl::StrCat(kHeadVersion, " ", owner, " ", serial, " ", begin, " ", end, " ", num_records,
                      " ", num_bytes);
}

absl::StatusOr<LogHead> LogHead::Decode(absl::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  if (words.front() != kHeadVersion && !words.front().empty() &&
      absl::ascii_isdigit(static_cast<unsigned char>(words.front().front()))) {
    return absl::FailedPreconditionError(
        absl::StrCat("the log's head has format ", Quoted(words.front()), ", not ", kHeadVersion));
  }
  LogHead head;
  const std::array<uint64_t*, 6> numbers = {&head.owner, &head.serial,      &head.begin,
                                            &head.end,   &head.num_records, &head.num_bytes};
  bool is_good = words.front() == kHeadVersion && words.size() == numbers.size() + 1;
  for (size_t i = 0; is_good && i < numbers.size(); ++i) {
    is_good = absl::SimpleAtoi(words[i + 1], numbers[i]);
  }
  if (!is_good || head.begin > head.end) {
    return absl::DataLossError(absl::StrCat("the log's head is damaged: ", Quoted(text)));
  }
  return head;
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
