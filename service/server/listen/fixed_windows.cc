#include "service/server/listen/fixed_windows.h"

#include <atomic>

#include "absl/base/attributes.h"
#include "grpcpp/version_info.h"

#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR == 51

// As in gRPC's flow_control.h, which is not installed.
namespace grpc_core::chttp2 {

class TestOnlyTransportTargetWindowEstimatesMocker {
 public:
  virtual ~TestOnlyTransportTargetWindowEstimatesMocker() = default;
  // Bytes that a connection's windows have next. It is asked when a connection begins and after
  // each probe.
  virtual double ComputeNextTargetInitialWindowSizeFromPeriodicUpdate(double current_bytes) = 0;
};

// Null where gRPC was built without its symbols.
ABSL_ATTRIBUTE_WEAK extern TestOnlyTransportTargetWindowEstimatesMocker*
    g_test_only_transport_target_window_estimates_mocker;

}  // namespace grpc_core::chttp2

namespace packhouse::rpc {
namespace {

using WindowHook = grpc_core::chttp2::TestOnlyTransportTargetWindowEstimatesMocker;

class FixedWindow final : public WindowHook {
 public:
  explicit FixedWindow(int bytes) : bytes_(bytes) {}
  int bytes() const { return bytes_; }
  double ComputeNextTargetInitialWindowSizeFromPeriodicUpdate(double) override { return bytes_; }

 private:
  const int bytes_;
};

}  // namespace

bool FixWindows(int bytes) {
  WindowHook** const hook =
      &grpc_core::chttp2::g_test_only_transport_target_window_estimates_mocker;
  if (hook == nullptr) return false;
  // Connections ask it for as long as the process lives.
  static const FixedWindow* const fixed = [hook, bytes] {
    auto* const first = new FixedWindow(bytes);
    std::atomic_ref<WindowHook*>(*hook).store(first);
    return first;
  }();
  return fixed->bytes() == bytes;
}

}  // namespace packhouse::rpc

#else

namespace packhouse::rpc {

bool FixWindows(int) { return false; }

}  // namespace packhouse::rpc

#endif
