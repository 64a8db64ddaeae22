// Who sends numbered requests to something that is stored, so that a retry is harmless; and what is
// remembered of one producer, so that other requests under old numbers are noticed.
#ifndef PACKHOUSE_SERVICE_BASE_PRODUCER_H_
#define PACKHOUSE_SERVICE_BASE_PRODUCER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace packhouse {

// The number that a producer gave a request: it increases with each one, from 1 or more.
struct ProducerSequence {
  static constexpr size_t kMaxNameLength = 128;
  static constexpr absl::Duration kMaxForgetAfter = absl::Hours(24 * 30);

  std::string producer;
  uint64_t sequence = 0;
  // Infinite: a named producer, remembered as long as what it sends to. Otherwise its name was made
  // up for one call, and it may be forgotten so long after its last request, which came at `now`.
  absl::Duration forget_after = absl::InfiniteDuration();
  absl::Time now = absl::UnixEpoch();
  // The ids of the request's graphs are counted by the stream, so that they differ in a repetition.
  bool counts_ids = false;

  bool is_named() const { return forget_after == absl::InfiniteDuration(); }
};

// INVALID_ARGUMENT for a name that is empty or too long, sequence 0, or a forget_after that is
// negative or above kMaxForgetAfter.
absl::Status CheckProducer(const ProducerSequence& producer);

// Of the last requests of one producer. A few bytes for each number that is remembered.
class ProducerHistory {
 public:
  ProducerHistory() = default;
  // What EncodeProducer() and its like have stored; `digests` are those of the last numbers.
  ProducerHistory(uint64_t last, std::vector<uint32_t> digests, uint64_t forget_seconds)
      : last_(last), digests_(std::move(digests)), forget_seconds_(forget_seconds) {}

  // Whether the request is a repetition of the one that had its number. False: it is new. `digest`
  // is that of its content.
  //
  // ALREADY_EXISTS naming `where`, the producer, the number, both digests and the next number, if
  // it is not new and not known to be a repetition: the number was that of a request with other
  // content, or of none, or is older than what is remembered.
  absl::StatusOr<bool> IsRepetition(absl::string_view where, const ProducerSequence& request,
                                    uint32_t digest) const;

  // A new request was taken. The digests of the last `most` numbers are remembered.
  void Add(const ProducerSequence& request, uint32_t digest, size_t most);

  // The largest number so far; 0: none.
  uint64_t last() const { return last_; }
  // The smallest number of which IsRepetition() can tell; last() + 1 if there is none.
  uint64_t first_remembered() const { return last_ + 1 - digests_.size(); }
  // Of the numbers from first_remembered() to last(); 0: there was no such request.
  const std::vector<uint32_t>& digests() const { return digests_; }
  // Since the Unix epoch; 0: never.
  uint64_t forget_seconds() const { return forget_seconds_; }
  bool is_named() const { return forget_seconds_ == 0; }
  bool IsOver(absl::Time now) const {
    return forget_seconds_ != 0 &&
           absl::FromUnixSeconds(static_cast<int64_t>(forget_seconds_)) < now;
  }

  friend bool operator==(const ProducerHistory&, const ProducerHistory&) = default;

 private:
  uint64_t last_ = 0;
  std::vector<uint32_t> digests_;
  uint64_t forget_seconds_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_PRODUCER_H_
