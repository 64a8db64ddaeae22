#include "service/server/calls_grpc/in_process_calls.h"

#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/client_callback.h"
#include "grpcpp/support/slice.h"
#include "grpcpp/support/stub_options.h"
#include "service/access/client_identity.h"
#include "service/base/status_macros.h"
#include "service/server/calls_grpc/steady_deadline.h"

namespace packhouse::rpc {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(30);
constexpr int kSecretWords = 4;
// As PeerAddressIdentity has it.
constexpr absl::string_view kInProcess = "in-process";

absl::Status ToAbsl(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

grpc::ByteBuffer BytesOf(const google::protobuf::Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// Takes one response after another, and ends the call at the first that is not taken.
class Reader final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Reader(grpc::ClientContext& context,
         absl::FunctionRef<absl::Status(const std::string& response)> take)
      : context_(context), take_(take) {}

  void Start(const grpc::ByteBuffer& request) {
    StartWriteLast(&request, grpc::WriteOptions());
    StartRead(&response_);
    StartCall();
  }
  absl::Status Await() {
    done_.WaitForNotification();
    return refused_.ok() ? ToAbsl(status_) : refused_;
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    grpc::Slice bytes;
    if (!response_.DumpToSingleSlice(&bytes).ok()) {
      refused_ = absl::InternalError("a response cannot be read");
    } else {
      refused_ = take_(std::string(reinterpret_cast<const char*>(bytes.begin()), bytes.size()));
    }
    if (!refused_.ok()) return context_.TryCancel();
    StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    status_ = status;
    done_.Notify();
  }

 private:
  grpc::ClientContext& context_;
  const absl::FunctionRef<absl::Status(const std::string& response)> take_;
  grpc::ByteBuffer response_;
  absl::Status refused_;
  grpc::Status status_;
  absl::Notification done_;
};

}  // namespace

const std::string& ViewerSecret() {
  static const auto& secret = [] {
    std::random_device random;
    auto& drawn = *new std::string();
    for (int i = 0; i < kSecretWords; ++i) absl::StrAppend(&drawn, absl::Hex(random()), ".");
    return std::ref(drawn);
  }();
  return secret;
}

std::optional<std::string> ViewerOf(absl::string_view value, absl::string_view peer) {
  const std::string& secret = ViewerSecret();
  if (value.size() < secret.size() || PeerAddressIdentity().Of(peer) != kInProcess) {
    return std::nullopt;
  }
  unsigned differs = 0;
  for (size_t i = 0; i < secret.size(); ++i) {
    differs |= static_cast<unsigned char>(value[i]) ^ static_cast<unsigned char>(secret[i]);
  }
  if (differs != 0) return std::nullopt;
  return std::string(value.substr(secret.size()));
}

// A call from its beginning to its end, which its viewer or Close() may hasten.
class InProcessCalls::OpenCall {
 public:
  OpenCall(InProcessCalls& calls, page::StopSwitch& stop, const page::Viewer& viewer)
      : calls_(calls), stop_(stop) {
    context_.set_deadline(SteadyDeadline(kTimeout));
    if (!viewer.principal.empty()) {
      context_.AddMetadata(kViewerKey, ViewerSecret() + viewer.principal);
    }
    {
      absl::MutexLock lock(&calls_.mutex_);
      is_refused_ = calls_.is_closed_;
      if (!is_refused_) calls_.open_.insert(this);
    }
    stop_.OnStop([this] { context_.TryCancel(); });
  }
  ~OpenCall() {
    stop_.OnStop(nullptr);
    absl::MutexLock lock(&calls_.mutex_);
    calls_.open_.erase(this);
  }
  OpenCall(const OpenCall&) = delete;
  OpenCall& operator=(const OpenCall&) = delete;

  absl::Status refusal() const {
    return is_refused_ ? absl::UnavailableError("the server is draining") : absl::OkStatus();
  }
  grpc::ClientContext& context() { return context_; }

 private:
  InProcessCalls& calls_;
  page::StopSwitch& stop_;
  grpc::ClientContext context_;
  bool is_refused_ = false;
};

void InProcessCalls::Close() {
  absl::MutexLock lock(&mutex_);
  is_closed_ = true;
  for (OpenCall* const call : open_) call->context().TryCancel();
  const auto none_open = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return open_.empty(); };
  mutex_.Await(absl::Condition(&none_open));
  stub_.reset();
}

absl::Status InProcessCalls::Call(const std::string& method, const page::Viewer& viewer,
                                  const google::protobuf::Message& request,
                                  google::protobuf::Message& response, page::StopSwitch& stop) {
  OpenCall call(*this, stop, viewer);
  PH_RETURN_IF_ERROR(call.refusal());
  const grpc::ByteBuffer sent = BytesOf(request);
  grpc::ByteBuffer received;
  grpc::Status status;
  absl::Notification done;
  stub_->UnaryCall(&call.context(), method, grpc::StubOptions(), &sent, &received,
                   [&](grpc::Status ended) {
                     status = std::move(ended);
                     done.Notify();
                   });
  done.WaitForNotification();
  if (!status.ok()) return ToAbsl(status);
  grpc::Slice bytes;
  if (!received.DumpToSingleSlice(&bytes).ok() ||
      !response.ParseFromArray(bytes.begin(), static_cast<int>(bytes.size()))) {
    return absl::InternalError("a response cannot be read");
  }
  return absl::OkStatus();
}

absl::Status InProcessCalls::CallStreaming(
    const std::string& method, const page::Viewer& viewer, const google::protobuf::Message& request,
    absl::FunctionRef<absl::Status(const std::string& response)> take, page::StopSwitch& stop) {
  OpenCall call(*this, stop, viewer);
  PH_RETURN_IF_ERROR(call.refusal());
  const grpc::ByteBuffer sent = BytesOf(request);
  Reader reader(call.context(), take);
  stub_->PrepareBidiStreamingCall(&call.context(), method, grpc::StubOptions(), &reader);
  reader.Start(sent);
  return reader.Await();
}

}  // namespace packhouse::rpc
