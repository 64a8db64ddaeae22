#include "service/wings/cluster/jobs/etcd_job_directory.h"

#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/status_macros.h"
#include "service/wings/cluster/jobs/job_keys.h"

namespace packhouse {
namespace {

constexpr absl::string_view kJobs = "jobs/";

// Reads of a transaction: etcd takes 128 by default.
constexpr size_t kReadTogether = 100;

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

std::string EtcdJobDirectory::KeyOf(absl::string_view job) { return absl::StrCat(kJobs, job); }

absl::Status EtcdJobDirectory::Put(const ListedJob& job) {
  const std::string value =
      absl::StrCat("1 ", job.num_epochs, " ", job.oldest_use, " ", job.latest_use);
  return store_->Commit({{}, {Operation::Put(KeyOf(job.name), value)}, {}}).status();
}

absl::Status EtcdJobDirectory::Remove(const std::string& job) {
  return store_->Commit({{}, {Operation::Delete(KeyRange::Of(KeyOf(job)))}, {}}).status();
}

absl::StatusOr<bool> EtcdJobDirectory::RemoveUnowned(const std::string& job) {
  PH_ASSIGN_OR_RETURN(const TransactionResult done,
                      store_->Commit({{Compare::Absent(JobKeys(job).owner())},
                                      {Operation::Delete(KeyRange::Of(KeyOf(job)))},
                                      {}}));
  return done.succeeded;
}

absl::StatusOr<JobPage> EtcdJobDirectory::List(const std::string& after, size_t limit) {
  KeyRange range = KeyRange::Prefix(kJobs);
  // A key that begins with this one comes after it.
  if (!after.empty()) range.begin = KeyOf(after) + '\0';
  PH_ASSIGN_OR_RETURN(const RangeResult read, store_->Range(range, limit));
  JobPage page;
  for (const KeyValue& value : read.values) {
    if (auto job = ListedJobOf(value)) page.jobs.push_back(*std::move(job));
  }
  if (read.has_more && !read.values.empty()) page.next = NameOf(read.values.back());
  return page;
}

absl::StatusOr<std::vector<std::string>> EtcdJobDirectory::Owners(
    absl::Span<const std::string> jobs) {
  std::vector<std::string> owners;
  for (size_t begin = 0; begin < jobs.size(); begin += kReadTogether) {
    Transaction read;
    for (const std::string& job : jobs.subspan(begin, kReadTogether)) {
      read.then.push_back(Operation::Read(KeyRange::Of(JobKeys(job).owner())));
    }
    PH_ASSIGN_OR_RETURN(const TransactionResult done, store_->Commit(read));
    for (const RangeResult& owner : done.reads) {
      owners.emplace_back();
      if (owner.values.empty()) continue;
      PH_ASSIGN_OR_RETURN(OwnerValue value, OwnerValue::Decode(owner.values[0].value));
      owners.back() = std::move(value.address);
    }
  }
  return owners;
}

}  // namespace packhouse
