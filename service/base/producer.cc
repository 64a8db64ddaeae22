#include "service/base/producer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"

namespace packhouse {
namespace {

// 0 means that there was no request.
uint32_t Stored(uint32_t digest) { return std::max<uint32_t>(digest, 1); }

}  // namespace

absl::Status CheckProducer(const ProducerSequence& producer) {
  if (producer.producer.empty() || producer.producer.size() > ProducerSequence::kMaxNameLength) {
    return absl::InvalidArgumentError(absl::StrCat("producer: a name of ", producer.producer.size(),
                                                   " characters, must be 1 to ",
                                                   ProducerSequence::kMaxNameLength));
  }
  if (producer.sequence == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("producer ", Quoted(producer.producer), ": sequence 0, must be at least 1"));
  }
  if (!producer.is_named() && (producer.forget_after < absl::ZeroDuration() ||
                               producer.forget_after > ProducerSequence::kMaxForgetAfter)) {
    return absl::InvalidArgumentError(
        absl::StrCat("producer ", Quoted(producer.producer), ": forget_after ",
                     absl::FormatDuration(producer.forget_after), ", must be 0 to ",
                     absl::FormatDuration(ProducerSequence::kMaxForgetAfter)));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ProducerHistory::IsRepetition(absl::string_view where,
                                                   const ProducerSequence& request,
                                                   uint32_t digest) const {
  if (request.sequence > last_) return false;
  const auto taken = [&](absl::string_view why) {
    return absl::AlreadyExistsError(absl::StrCat(where, ": sequence ", request.sequence,
                                                 " of producer ", Quoted(request.producer), " ",
                                                 why, "; its next one is ", last_ + 1));
  };
  if (request.sequence < first_remembered()) {
    return taken(absl::StrCat("is older than the last ", digests_.size(),
                              ", so nobody can tell whether it repeats what was stored"));
  }
  const uint32_t before = digests_[request.sequence - first_remembered()];
  if (before == 0) return taken("was left out, and later ones were stored");
  if (before == Stored(digest)) return true;
  return taken(absl::StrCat("was stored with other content before: its digest was ",
                            absl::Hex(before, absl::kZeroPad8), ", now it is ",
                            absl::Hex(Stored(digest), absl::kZeroPad8)));
}

void ProducerHistory::Add(const ProducerSequence& request, uint32_t digest, size_t most) {
  const uint64_t more = request.sequence - last_;
  if (more >= most || last_ == 0) {
    digests_.clear();
  } else {
    digests_.resize(digests_.size() + more - 1);
  }
  digests_.push_back(Stored(digest));
  if (digests_.size() > most) {
    digests_.erase(digests_.begin(), digests_.end() - static_cast<ptrdiff_t>(most));
  }
  last_ = request.sequence;
  forget_seconds_ = 0;
  if (!request.is_named()) {
    const absl::Time forget = request.now + request.forget_after;
    int64_t seconds = absl::ToUnixSeconds(forget);
    if (absl::FromUnixSeconds(seconds) < forget) ++seconds;
    forget_seconds_ = static_cast<uint64_t>(std::max<int64_t>(seconds, 1));
  }
}

}  // namespace packhouse
