#include "client/bench/bench_ceiling.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/bench/bench_sockets.h"
#include "client/cpp/little_endian.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/slice.h"

namespace packhouse::client {
namespace {

// As packhoused's default.
constexpr int kMaxMessageBytes = 64 << 20;
constexpr std::size_t kTcpPieceBytes = std::size_t{1} << 20;
// The most answers that are owed before reading stops: two, as in packhoused, or small ones of this
// many bytes.
constexpr uint64_t kMaxOwedBytes = 64 << 10;
constexpr uint64_t kMinOwed = 2;

CeilingRequest FromByteBuffer(const grpc::ByteBuffer& buffer) {
  CeilingRequest request;
  grpc::Slice slice;
  if (buffer.DumpToSingleSlice(&slice).ok() && slice.size() == 2 * sizeof(uint64_t)) {
    const char* const bytes = reinterpret_cast<const char*>(slice.begin());
    request.answer_bytes = std::min<uint64_t>(LoadLittleEndian<uint64_t>(bytes), kMaxMessageBytes);
    request.bytes_per_answer = LoadLittleEndian<uint64_t>(bytes + sizeof(uint64_t));
  }
  return request;
}

class CeilingCall final : public grpc::ServerGenericBidiReactor {
 public:
  CeilingCall() { StartRead(&request_); }

  void OnReadDone(bool ok) override {
    const absl::MutexLock lock(&mutex_);
    is_reading_ = false;
    if (!ok) {
      has_ended_ = true;
      // A download has only one request.
      if (is_endless()) return;
    } else if (!is_open_) {
      is_open_ = true;
      open_ = FromByteBuffer(request_);
      grpc::Slice slice(open_.answer_bytes);
      std::memset(const_cast<uint8_t*>(slice.begin()), 1, slice.size());
      answer_ = grpc::ByteBuffer(&slice, 1);
    } else {
      received_ += request_.Length();
      owed_ += received_ / open_.bytes_per_answer;
      received_ %= open_.bytes_per_answer;
    }
    GoOn();
  }

  void OnWriteDone(bool ok) override {
    const absl::MutexLock lock(&mutex_);
    is_writing_ = false;
    if (!ok) {
      End();
    } else {
      GoOn();
    }
  }

  void OnCancel() override {
    const absl::MutexLock lock(&mutex_);
    End();
  }
  void OnDone() override { delete this; }

 private:
  bool is_endless() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return is_open_ && open_.bytes_per_answer == 0;
  }

  void GoOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (is_finished_) return;
    if (!is_writing_ && (is_endless() || owed_ > 0)) {
      if (!is_endless()) --owed_;
      is_writing_ = true;
      StartWrite(&answer_);
    }
    const bool has_room =
        owed_ < std::max(kMinOwed, kMaxOwedBytes / std::max<uint64_t>(1, open_.answer_bytes));
    if (!is_reading_ && !has_ended_ && has_room) {
      is_reading_ = true;
      StartRead(&request_);
    }
    if (has_ended_ && !is_writing_ && !is_endless()) End();
  }

  void End() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (is_finished_) return;
    is_finished_ = true;
    Finish(grpc::Status::OK);
  }

  absl::Mutex mutex_;
  grpc::ByteBuffer request_;
  // Set by the first request, then constant.
  CeilingRequest open_;
  grpc::ByteBuffer answer_;
  bool is_open_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_reading_ ABSL_GUARDED_BY(mutex_) = true;
  bool is_writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_finished_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t received_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t owed_ ABSL_GUARDED_BY(mutex_) = 0;
};

class CeilingService final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new CeilingCall;
  }
};

// Sends to every client that connects. Returns the address; empty if there is none.
std::string ServeTcp() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener, 16) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return "";
  }
  std::thread([listener] {
    const std::vector<char> piece(kTcpPieceBytes, 1);
    for (int fd = -1; (fd = accept(listener, nullptr, nullptr)) >= 0;) {
      while (send(fd, piece.data(), piece.size(), MSG_NOSIGNAL) > 0) {
      }
      close(fd);
    }
  }).detach();
  return absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
}

ExitCode Serve(const std::string& congestion) {
  CeilingService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  // As packhoused: service/server/listen/server.cc.
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.RegisterCallbackGenericService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const std::string tcp = ServeTcp();
  if (server == nullptr || tcp.empty()) {
    return Fail(absl::UnavailableError("cannot listen on 127.0.0.1"));
  }
  if (!congestion.empty()) {
    for (const int one : {port, PortOf(tcp)}) {
      if (absl::Status status = SetCongestionControl(one, congestion); !status.ok()) {
        return Fail(status);
      }
    }
  }
  std::printf(R"({"event":"listening","grpc":"127.0.0.1:%d","tcp":"%s"})"
              "\n",
              port, tcp.c_str());
  std::fflush(stdout);
  server->Wait();
  return kExitOk;
}

}  // namespace

grpc::ByteBuffer ToByteBuffer(const CeilingRequest& request) {
  grpc::Slice slice(2 * sizeof(uint64_t));
  char* const bytes = reinterpret_cast<char*>(const_cast<uint8_t*>(slice.begin()));
  StoreLittleEndian(request.answer_bytes, bytes);
  StoreLittleEndian(request.bytes_per_answer, bytes + sizeof(uint64_t));
  return grpc::ByteBuffer(&slice, 1);
}

void AddBenchCeilingCommand(CLI::App& app, ExitCode& code) {
  const auto congestion = std::make_shared<std::string>();
  CLI::App* const command =
      app.add_subcommand(kCeilingCommand, "The server of opaque bytes behind `packhouse-bench`");
  command->group("");
  command->add_option("--tcp-congestion", *congestion, "Of its sockets; empty: the system's");
  command->callback([congestion, &code] { code = Serve(*congestion); });
}

}  // namespace packhouse::client
