// What calls tell observers.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_RPC_OBSERVER_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_RPC_OBSERVER_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "packhouse/methods.h"

namespace packhouse {

// All methods, for metrics, logs and lists of open calls: those of the contract, as CMake reads
// them there (proto/CMakeLists.txt), and gRPC's. Channelz is each of grpc.channelz.v1.
// clang-format off
#define PACKHOUSE_METHODS(ROW) \
  PACKHOUSE_CONTRACT_METHODS(ROW) \
  ROW(Channelz, false) ROW(ServerReflectionInfo, true) ROW(Check, false) ROW(Watch, true)
// clang-format on

enum class Method {
#define PACKHOUSE_METHOD(name, is_stream) k##name,
  PACKHOUSE_METHODS(PACKHOUSE_METHOD)
#undef PACKHOUSE_METHOD
};

// In the order of Method.
inline constexpr std::array kMethodNames = {
#define PACKHOUSE_METHOD(name, is_stream) absl::string_view(#name),
    PACKHOUSE_METHODS(PACKHOUSE_METHOD)
#undef PACKHOUSE_METHOD
};

// Whether its calls have more than one request, or more than one response.
constexpr bool IsStream(Method method) {
  constexpr std::array kStreams = {
#define PACKHOUSE_METHOD(name, is_stream) is_stream,
      PACKHOUSE_METHODS(PACKHOUSE_METHOD)
#undef PACKHOUSE_METHOD
  };
  return kStreams[static_cast<size_t>(method)];
}
#undef PACKHOUSE_METHODS

// Thread-safe; must be quick.
class RpcObserver {
 public:
  virtual ~RpcObserver() = default;

  virtual void OnStarted(Method method) = 0;
  // Paired with OnStarted; `elapsed` since then.
  virtual void OnFinished(Method method, absl::StatusCode code, absl::Duration elapsed) = 0;
  // A plan was made; `gap` of the best one, as in PlanQuality.
  virtual void OnPlanned(absl::Duration elapsed, double gap) = 0;
  // Malformed tf.Examples of a message: `skipped` were left out, or the message was `refused` for
  // one.
  virtual void OnMalformedExamples(Method /*method*/, uint64_t /*skipped*/, uint64_t /*refused*/) {}
  // The change of a call's responses that are made and not yet taken by the connection. The changes
  // of a call add up to 0, 0 before its OnFinished(). Called under the call's lock.
  virtual void OnUnsent(Method /*method*/, int64_t /*responses*/, int64_t /*bytes*/) {}
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_RPC_OBSERVER_H_
