// Stores of keys and of objects that refuse one of their requests.
#ifndef PACKHOUSE_TESTS_SUPPORT_REFUSALS_H_
#define PACKHOUSE_TESTS_SUPPORT_REFUSALS_H_

#include <atomic>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/base/status_macros.h"
#include "service/stores/keys/key_value_store.h"
#include "service/stores/objects/object_store.h"

namespace packhouse {

inline constexpr absl::string_view kWhy = "no such luck";

// One request of those that come once it begins. Thread-safe.
class Refusals {
 public:
  explicit Refusals(absl::StatusCode code) : code_(code) {}

  // `step`: the one that is refused, from 0 on; -1: none.
  void Begin(int step) {
    left_ = step;
    num_requests_ = 0;
  }
  absl::Status Next() {
    ++num_requests_;
    return left_-- == 0 ? absl::Status(code_, kWhy) : absl::OkStatus();
  }
  int num_requests() const { return num_requests_.load(); }
  absl::StatusCode code() const { return code_; }

 private:
  const absl::StatusCode code_;
  std::atomic<int> left_ = -1;
  std::atomic<int> num_requests_ = 0;
};

class RefusingKeys final : public KeyValueStore {
 public:
  RefusingKeys(KeyValueStore* store, Refusals* refusals) : store_(store), refusals_(refusals) {}

  absl::StatusOr<RangeResult> Range(const KeyRange& range, size_t limit,
                                    Revision revision) override {
    PH_RETURN_IF_ERROR(refusals_->Next());
    return store_->Range(range, limit, revision);
  }
  absl::StatusOr<TransactionResult> Commit(const Transaction& transaction) override {
    PH_RETURN_IF_ERROR(refusals_->Next());
    return store_->Commit(transaction);
  }
  absl::StatusOr<StoreLease> GrantLease(absl::Duration length) override {
    PH_RETURN_IF_ERROR(refusals_->Next());
    return store_->GrantLease(length);
  }
  absl::StatusOr<absl::Duration> KeepAlive(LeaseId lease) override {
    PH_RETURN_IF_ERROR(refusals_->Next());
    return store_->KeepAlive(lease);
  }
  absl::Status RevokeLease(LeaseId lease) override {
    PH_RETURN_IF_ERROR(refusals_->Next());
    return store_->RevokeLease(lease);
  }

 private:
  KeyValueStore* const store_;
  Refusals* const refusals_;
};

class RefusingObjects final : public ObjectStore {
 public:
  RefusingObjects(ObjectStore* store, Refusals* refusals) : store_(store), refusals_(refusals) {}

  absl::Status Put(absl::string_view key, absl::string_view bytes, absl::Time deadline) override {
    PH_RETURN_IF_ERROR(refusals_->Next());
    return store_->Put(key, bytes, deadline);
  }
  absl::Status Get(absl::string_view key, const ByteRange& range, ObjectSink sink,
                   absl::Time deadline) override {
    PH_RETURN_IF_ERROR(refusals_->Next());
    return store_->Get(key, range, sink, deadline);
  }
  absl::StatusOr<ObjectList> List(absl::string_view prefix, absl::string_view after, size_t limit,
                                  absl::Time deadline) override {
    PH_RETURN_IF_ERROR(refusals_->Next());
    return store_->List(prefix, after, limit, deadline);
  }
  absl::Status Delete(absl::string_view key, absl::Time deadline) override {
    PH_RETURN_IF_ERROR(refusals_->Next());
    return store_->Delete(key, deadline);
  }

 private:
  ObjectStore* const store_;
  Refusals* const refusals_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_REFUSALS_H_
