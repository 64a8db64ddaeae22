// What all reactors of calls have of gRPC.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_CALL_REACTOR_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_CALL_REACTOR_H_

#include <string>

#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "service/server/calls/call_headers.h"

namespace packhouse::rpc {

// A call of any kind, with messages as raw bytes.
using CallReactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

class GrpcHeaders : public CallHeaders {
 public:
  // gRPC's, until OnDone.
  explicit GrpcHeaders(grpc::CallbackServerContext* peer) : peer_(peer) {}

  bool Has(const std::string& key) const final { return peer_->client_metadata().contains(key); }
  void Add(const std::string& key, const std::string& value) final {
    peer_->AddInitialMetadata(key, value);
  }
  void AddTrailing(const std::string& key, const std::string& value) final {
    peer_->AddTrailingMetadata(key, value);
  }

 protected:
  grpc::CallbackServerContext& peer() const { return *peer_; }

 private:
  grpc::CallbackServerContext* const peer_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_CALL_REACTOR_H_
