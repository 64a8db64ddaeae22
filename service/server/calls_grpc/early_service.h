// Services that know of a call as soon as its headers have come.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_EARLY_SERVICE_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_EARLY_SERVICE_H_

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "grpcpp/impl/codegen/server_callback_handlers.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/server_context.h"
#include "service/base/short_slices.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls/method_table.h"
#include "service/server/calls_grpc/call_reactor.h"
#include "service/server/calls_grpc/one_answer_call.h"
#include "service/server/calls_grpc/stream_reactor.h"

namespace packhouse::rpc {

// A service by its table of methods.
//
// Generated services learn of a call with one request only when the request has come. A client that
// sends headers without requests would not be counted, though each such call takes some 10 KB. So
// for gRPC's server all methods here are streams both ways, and the reactor reads the request. On
// the wire there is no difference. Constant after construction.
class EarlyService : public grpc::Service {
 protected:
  using Begin = std::function<CallReactor*(grpc::CallbackServerContext*)>;

  // `name`: the service's full name. The context's pointees must outlive the service.
  EarlyService(std::string name, const CallContext& context)
      : context_(context), name_(std::move(name)) {}

  // Answers calls as the rows say.
  void Serve(std::vector<MethodRow> rows) {
    for (MethodRow& each : rows) {
      const MethodRow& row = rows_.emplace_back(std::move(each));
      Serve(row.name.empty() ? kMethodNames[static_cast<size_t>(row.method)] : row.name,
            [this, &row](grpc::CallbackServerContext* peer) { return BeginCall(row, *peer); });
    }
  }

  // Begins calls of `method`, such as "Watch", with `begin`, on a thread of gRPC, once their
  // headers have come. gRPC owns what `begin` returns.
  void Serve(absl::string_view method, Begin begin) {
    // gRPC keeps the pointer.
    const std::string& path = paths_.emplace_back(absl::StrCat("/", name_, "/", method));
    AddMethod(new grpc::internal::RpcServiceMethod(
        path.c_str(), grpc::internal::RpcMethod::BIDI_STREAMING, /*handler=*/nullptr));
    MarkMethodRawCallback(
        static_cast<int>(paths_.size()) - 1,
        new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
            [begin = std::move(begin)](grpc::CallbackServerContext* call) {
              // gRPC's threads are not made here.
              AskForShortSlices();
              return begin(call);
            }));
  }

  const CallContext context_;

 private:
  CallReactor* BeginCall(const MethodRow& row, grpc::CallbackServerContext& peer) const {
    if (row.open != nullptr) return StartStream(context_, peer, row);
    return row.IsSource() ? StartSource(context_, peer, row)
                          : OneAnswerCall::Start(context_, peer, row);
  }

  const std::string name_;
  std::deque<std::string> paths_;
  std::deque<MethodRow> rows_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_EARLY_SERVICE_H_
