// Producers that number their requests, on the wire.
#ifndef PACKHOUSE_CLIENT_CPP_PRODUCER_H_
#define PACKHOUSE_CLIENT_CPP_PRODUCER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "packhouse/v1/histogram.pb.h"

namespace packhouse::client {

// `forget_after` infinite: a named producer.
inline void SetProducer(const std::string& producer, uint64_t sequence, absl::Duration forget_after,
                        v1::ProducerSequence& wire) {
  wire.set_producer(producer);
  wire.set_sequence(sequence);
  if (forget_after == absl::InfiniteDuration()) return;
  wire.mutable_forget_after()->set_seconds(absl::ToInt64Seconds(forget_after));
}

// ALREADY_EXISTS if all requests up to `last_sequence` are older than what the server remembers.
inline absl::Status CheckSomeWereSent(const std::string& producer, uint64_t last_sequence,
                                      const v1::ProducerState& state) {
  if (last_sequence >= state.first_remembered_sequence()) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("all sequences up to ", last_sequence, " of producer '", producer,
                   "' are older than those of which the server remembers what they held, from ",
                   state.first_remembered_sequence(), " on: nothing was sent"));
}

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_PRODUCER_H_
