#include "service/ledger/etcd/etcd_job_directory.h"

#include <algorithm>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr absl::string_view kJobs = "jobs/";

std::string ListedKey(absl::string_view job) {
  return absl::StrCat(kJobs, absl::StrReplaceAll(job, {{"%", "%25"}, {"/", "%2F"}}));
}

std::optional<ListedJob> ListedJobOf(const KeyValue& value) {
  const std::vector<std::string> words = absl::StrSplit(value.value, ' ');
  ListedJob job;
  job.name = absl::StrReplaceAll(value.key.substr(kJobs.size()), {{"%2F", "/"}, {"%25", "%"}});
  if (words.size() != 4 || words[0] != "1" || !absl::SimpleAtoi(words[1], &job.num_epochs) ||
      !absl::SimpleAtoi(words[2], &job.oldest_use) ||
      !absl::SimpleAtoi(words[3], &job.latest_use)) {
    return std::nullopt;
  }
  return job;
}

}  // namespace

absl::Status EtcdJobDirectory::Put(const ListedJob& job) {
  const std::string value =
      absl::StrCat("1 ", job.num_epochs, " ", job.oldest_use, " ", job.latest_use);
  return store_->Commit({{}, {Operation::Put(ListedKey(job.name), value)}, {}}).status();
}

absl::Status EtcdJobDirectory::Remove(const std::string& job) {
  return store_->Commit({{}, {Operation::Delete(KeyRange::Of(ListedKey(job)))}, {}}).status();
}

absl::StatusOr<std::vector<ListedJob>> EtcdJobDirectory::List(const std::string& after,
                                                              size_t limit) {
  KeyRange range = KeyRange::Prefix(kJobs);
  // A key that begins with this one comes after it.
  if (!after.empty()) range.begin = ListedKey(after) + '\0';
  PH_ASSIGN_OR_RETURN(const RangeResult read, store_->Range(range, limit));
  std::vector<ListedJob> jobs;
  for (const KeyValue& value : read.values) {
    if (auto job = ListedJobOf(value)) jobs.push_back(*std::move(job));
  }
  return jobs;
}

}  // namespace packhouse
