#include "service/stores/objects/retrying_object_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/caller.h"
#include "service/base/status_macros.h"

namespace packhouse {

absl::Duration RetryingObjectStore::Delay(int failures) {
  absl::Duration delay = options_.first_delay;
  for (int i = 1; i < failures && delay < options_.longest_delay; ++i) delay *= 2;
  delay = std::min(delay, options_.longest_delay);
  absl::MutexLock lock(&mutex_);
  ++num_retries_;
  const auto half = static_cast<uint64_t>(absl::ToInt64Microseconds(delay)) / 2;
  // Many that failed together do not come again together.
  return delay - absl::Microseconds(static_cast<int64_t>(random_.Below(half + 1)));
}

uint64_t RetryingObjectStore::num_retries() const {
  absl::MutexLock lock(&mutex_);
  return num_retries_;
}

absl::Status RetryingObjectStore::Try(uint64_t num_bytes, absl::Time deadline,
                                      absl::FunctionRef<absl::Status(absl::Time)> attempt) {
  const absl::Duration longest =
      options_.attempt + absl::Seconds(static_cast<int64_t>(num_bytes / options_.slowest));
  for (int failures = 1;; ++failures) {
    PH_RETURN_IF_ERROR(BeginWait());
    const absl::Time now = clock_->Now();
    if (now >= deadline) {
      return absl::DeadlineExceededError("object store: the time is over");
    }
    absl::Status status = attempt(std::min(deadline, now + longest));
    if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) return status;
    if (failures >= options_.max_attempts) {
      return absl::Status(status.code(),
                          absl::StrCat(status.message(), " (tried ", failures, " times)"));
    }
    const absl::Duration delay = Delay(failures);
    // Waiting would not leave time for another attempt.
    if (clock_->Now() + delay >= deadline) return status;
    sleep_(delay);
  }
}

absl::Status RetryingObjectStore::Put(absl::string_view key, absl::string_view bytes,
                                      absl::Time deadline) {
  return Try(bytes.size(), deadline,
             [&](absl::Time until) { return store_->Put(key, bytes, until); });
}

absl::Status RetryingObjectStore::Get(absl::string_view key, const ByteRange& range,
                                      ObjectSink sink, absl::Time deadline) {
  ByteRange rest = range;
  absl::Status refused;  // What the sink said: no attempt changes that.
  const auto count = [&](absl::string_view piece) -> absl::Status {
    refused = sink(piece);
    if (refused.ok()) rest.begin += piece.size();
    return refused;
  };
  // Of an object of unknown length, as much as one has that was coalesced.
  constexpr uint64_t kAbout = uint64_t{64} << 20;
  const uint64_t about =
      range.end == ByteRange().end ? kAbout : range.end - std::min(range.begin, range.end);
  const absl::Status status = Try(about, deadline, [&](absl::Time until) -> absl::Status {
    if (!refused.ok() || (rest.begin >= rest.end && rest.begin != 0)) return absl::OkStatus();
    return store_->Get(key, rest, count, until);
  });
  return refused.ok() ? status : refused;
}

absl::StatusOr<ObjectList> RetryingObjectStore::List(absl::string_view prefix,
                                                     absl::string_view after, size_t limit,
                                                     absl::Time deadline) {
  absl::StatusOr<ObjectList> list;
  const absl::Status status = Try(0, deadline, [&](absl::Time until) {
    list = store_->List(prefix, after, limit, until);
    return list.status();
  });
  if (!status.ok()) return status;
  return list;
}

absl::Status RetryingObjectStore::Delete(absl::string_view key, absl::Time deadline) {
  return Try(0, deadline, [&](absl::Time until) { return store_->Delete(key, until); });
}

}  // namespace packhouse
