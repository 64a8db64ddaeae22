// Requests to stores that servers share, as steps that fail.
#ifndef PACKHOUSE_TESTS_FAILING_STEPS_FAILING_REQUESTS_H_
#define PACKHOUSE_TESTS_FAILING_STEPS_FAILING_REQUESTS_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "service/stores/objects/object_store.h"
#include "tests/support/failing_steps.h"
#include "tests/support/fake_key_value_store.h"

namespace packhouse {

// Each request to a store of keys or objects is a step.
class FailingRequests final : public CountedSteps {
 public:
  explicit FailingRequests(bool lasts = false) : CountedSteps(lasts) {}
  bool IsUnknown(const absl::Status& ended) const override {
    return OutcomeIsUnknown(ended) || absl::StrContains(ended.message(), "not known");
  }
  std::vector<absl::StatusCode> refusals() const override {
    return {absl::StatusCode::kUnavailable, absl::StatusCode::kUnknown};
  }
};

inline constexpr StoreFault kKeyFaults[] = {StoreFault::kUnreachable, StoreFault::kRequestLost,
                                            StoreFault::kReplyLost, StoreFault::kDoneLater};

// What happens to a request for an object.
enum class ObjectFault {
  kRefused,    // Nothing is done, and it is UNAVAILABLE.
  kReplyLost,  // It is done, and it is UNAVAILABLE.
  kDoneLater,  // It is UNAVAILABLE, and what it changes is done after all that follows.
  kRepeated,   // It is done, and what it changes is done once more after all that follows.
};
inline constexpr ObjectFault kObjectFaults[] = {ObjectFault::kRefused, ObjectFault::kReplyLost,
                                                ObjectFault::kDoneLater, ObjectFault::kRepeated};

// Objects whose requests fail. `store` and `steps` must outlive it.
class StepsObjectStore final : public ObjectStore {
 public:
  StepsObjectStore(ObjectStore* store, CountedSteps* steps, ObjectFault fault)
      : store_(store), steps_(steps), fault_(fault) {}

  // Does what is still under way.
  void DoLateRequests() {
    for (const std::function<void()>& request : std::exchange(late_, {})) request();
  }

  absl::Status Put(absl::string_view key, absl::string_view bytes, absl::Time deadline) override {
    return Change(KindOf("put", key),
                  [store = store_, name = std::string(key), copy = std::string(bytes), deadline] {
                    return store->Put(name, copy, deadline);
                  });
  }
  absl::Status Get(absl::string_view key, const ByteRange& range, ObjectSink sink,
                   absl::Time deadline) override {
    if (!steps_->Fails(KindOf("get", key))) return store_->Get(key, range, sink, deadline);
    if (fault_ == ObjectFault::kRepeated) return store_->Get(key, range, sink, deadline);
    // The reply breaks off behind some bytes.
    if (fault_ == ObjectFault::kReplyLost) {
      const ByteRange some = {range.begin, std::min(range.end, range.begin + 5)};
      store_->Get(key, some, sink, deadline).IgnoreError();
    }
    return absl::UnavailableError("fails");
  }
  absl::StatusOr<ObjectList> List(absl::string_view prefix, absl::string_view after, size_t limit,
                                  absl::Time deadline) override {
    if (steps_->Fails(KindOf("list", prefix)) && fault_ != ObjectFault::kRepeated) {
      return absl::UnavailableError("fails");
    }
    return store_->List(prefix, after, limit, deadline);
  }
  absl::Status Delete(absl::string_view key, absl::Time deadline) override {
    return Change(KindOf("delete", key), [store = store_, name = std::string(key), deadline] {
      return store->Delete(name, deadline);
    });
  }

 private:
  // The request, and of what: its name without numbers, of which each has eight digits or more.
  static std::string KindOf(absl::string_view request, absl::string_view key) {
    std::string kind(request);
    for (const absl::string_view word : absl::StrSplit(key, '/')) {
      if (word.size() < 8) absl::StrAppend(&kind, " ", word);
    }
    return kind;
  }

  absl::Status Change(const std::string& kind, const std::function<absl::Status()>& request) {
    if (!steps_->Fails(kind)) return request();
    const auto later = [request] { request().IgnoreError(); };
    switch (fault_) {
      case ObjectFault::kRefused:
        break;
      case ObjectFault::kReplyLost:
        later();
        break;
      case ObjectFault::kDoneLater:
        late_.emplace_back(later);
        break;
      case ObjectFault::kRepeated:
        late_.emplace_back(later);
        return request();
    }
    return absl::UnavailableError("fails");
  }

  ObjectStore* const store_;
  CountedSteps* const steps_;
  const ObjectFault fault_;
  std::vector<std::function<void()>> late_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_FAILING_STEPS_FAILING_REQUESTS_H_
