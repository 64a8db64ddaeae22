#include "service/rpc/packing_service.h"

#include <memory>

#include "service/rpc/stream_reactor.h"
#include "service/wire/pack_handler.h"

namespace packhouse::rpc {

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* PackingService::Pack(
    grpc::CallbackServerContext* call) {
  return StreamReactor<v1::PackRequest, PackReply>::Start(
      context_, *call, Method::kPack,
      std::make_unique<PackHandler>(context_.clock, bounds_, histograms_, observers_));
}

}  // namespace packhouse::rpc
