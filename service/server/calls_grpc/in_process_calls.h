// Calls of the page to the server that it is in: through gRPC, as all other clients'.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_IN_PROCESS_CALLS_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_IN_PROCESS_CALLS_H_

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "service/server/calls/page_calls.h"

namespace packhouse::rpc {

// The call's metadata for viewers whom the HTTP port knows, by a certificate or a token. The value
// is ViewerSecret() and the principal; without the secret it means nothing (call_credentials.h).
// "-bin": gRPC aborts for other keys if the value is not printable ASCII.
inline constexpr char kViewerKey[] = "packhouse-viewer-bin";

// Drawn when the process first asks for it; nobody outside knows it.
const std::string& ViewerSecret();
// The principal that such a value names; nullopt if it means nothing, or if the call's peer is not
// this process. How long it takes tells nothing of the secret.
std::optional<std::string> ViewerOf(absl::string_view value, absl::string_view peer);

// The largest answer that is taken.
inline constexpr int kMostAnswerBytes = 8 << 20;

// Until Close(): a channel within the process must be gone before the server sends GOAWAY
// (goaway.h). All viewers without a principal are one client, "in-process"; others are clients by
// their principals. A call ends with DEADLINE_EXCEEDED after half a minute, with RESOURCE_EXHAUSTED
// if its answer is larger than kMostAnswerBytes, and otherwise as the server says.
class InProcessCalls final : public page::PageCalls {
 public:
  explicit InProcessCalls(std::shared_ptr<grpc::Channel> channel)
      : stub_(std::make_unique<grpc::GenericStub>(std::move(channel))) {}

  // Ends all calls, waits until they have ended, and lets go of the channel. From then on calls are
  // UNAVAILABLE.
  void Close();

  absl::Status Call(const std::string& method, const page::Viewer& viewer,
                    const google::protobuf::Message& request, google::protobuf::Message& response,
                    page::StopSwitch& stop) override;
  absl::Status CallStreaming(const std::string& method, const page::Viewer& viewer,
                             const google::protobuf::Message& request,
                             absl::FunctionRef<absl::Status(const std::string& response)> take,
                             page::StopSwitch& stop) override;

 private:
  class OpenCall;

  absl::Mutex mutex_;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<OpenCall*> open_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::GenericStub> stub_;  // Null once it is closed.
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_IN_PROCESS_CALLS_H_
