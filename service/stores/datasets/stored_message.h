// How values of data sets are read from stored messages: bytes are refused unless they are exactly
// those that would be written.
#ifndef PACKHOUSE_SERVICE_STORES_DATASETS_STORED_MESSAGE_H_
#define PACKHOUSE_SERVICE_STORES_DATASETS_STORED_MESSAGE_H_

#include <cstddef>
#include <limits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// DATA_LOSS.
inline absl::Status MalformedValue(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("stored ", what, ": malformed"));
}

template <typename Message>
bool ParseStored(absl::string_view bytes, Message& message) {
  // protobuf counts in int, so it must not be asked for more.
  return bytes.size() <= size_t{std::numeric_limits<int>::max()} &&
         message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

// The decoded value, if its encoding is exactly the bytes that it came from.
template <typename T>
absl::StatusOr<T> IfExact(T decoded, absl::string_view encoded, absl::string_view bytes,
                          absl::string_view what) {
  if (encoded != bytes) return MalformedValue(what);
  return decoded;
}

// What the states of data sets have in common, in whichever store they are.
template <typename State, typename Message>
void SetCommonState(const State& state, Message& stored) {
  stored.set_sealed(state.sealed);
  stored.set_version(state.version);
  stored.set_num_graphs(state.num_graphs);
  stored.set_num_records(state.num_records);
  stored.set_num_bytes(state.num_bytes);
  stored.set_num_producers(state.num_producers);
  stored.mutable_totals()->Add(state.totals.begin(), state.totals.end());
}
template <typename State, typename Message>
void ReadCommonState(const Message& stored, State& state) {
  state.sealed = stored.sealed();
  state.version = stored.version();
  state.num_graphs = stored.num_graphs();
  state.num_records = stored.num_records();
  state.num_bytes = stored.num_bytes();
  state.num_producers = stored.num_producers();
  state.totals.assign(stored.totals().begin(), stored.totals().end());
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_DATASETS_STORED_MESSAGE_H_
