#include "service/ledger/etcd/etcd_job_directory.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/status_macros.h"
#include "service/ledger/etcd/job_keys.h"

namespace packhouse {
namespace {

constexpr absl::string_view kJobs = "jobs/";

std::string ListedKey(absl::string_view job) { return absl::StrCat(kJobs, job); }

std::string NameOf(const KeyValue& value) { return value.key.substr(kJobs.size()); }

std::optional<ListedJob> ListedJobOf(const KeyValue& value) {
  const std::vector<std::string> words = absl::StrSplit(value.value, ' ');
  ListedJob job;
  job.name = NameOf(value);
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

absl::StatusOr<bool> EtcdJobDirectory::RemoveUnowned(const std::string& job) {
  PH_ASSIGN_OR_RETURN(const TransactionResult done,
                      store_->Commit({{Compare::Absent(JobKeys(job).owner())},
                                      {Operation::Delete(KeyRange::Of(ListedKey(job)))},
                                      {}}));
  return done.succeeded;
}

absl::StatusOr<JobPage> EtcdJobDirectory::List(const std::string& after, size_t limit) {
  KeyRange range = KeyRange::Prefix(kJobs);
  // A key that begins with this one comes after it.
  if (!after.empty()) range.begin = ListedKey(after) + '\0';
  PH_ASSIGN_OR_RETURN(const RangeResult read, store_->Range(range, limit));
  JobPage page;
  for (const KeyValue& value : read.values) {
    if (auto job = ListedJobOf(value)) page.jobs.push_back(*std::move(job));
  }
  if (read.has_more && !read.values.empty()) page.next = NameOf(read.values.back());
  return page;
}

}  // namespace packhouse
