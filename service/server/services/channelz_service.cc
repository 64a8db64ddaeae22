#include "service/server/services/channelz_service.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/util/json_util.h"
#include "grpc/grpc.h"
#include "grpc/support/alloc.h"
#include "grpcpp/ext/channelz_service_plugin.h"
#include "service/base/status_macros.h"
#include "service/server/calls/allocation_failure.h"
#include "service/server/calls_grpc/one_answer_call.h"

namespace packhouse::rpc {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::MethodDescriptor;

constexpr const char* kService = "grpc.channelz.v1.Channelz";
constexpr size_t kLongestRequest = 256;

// Never called: a linker leaves out a library of which nothing is used, and with it the messages.
[[gnu::used]] void (*const keeps_library)() = &grpc::channelz::experimental::InitChannelzService;

// 0 if it is not set; all fields of these requests are numbers or truth values.
intptr_t NumberIn(const Message& request, const char* name) {
  const FieldDescriptor* const field = request.GetDescriptor()->FindFieldByName(name);
  if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_INT64) return 0;
  return static_cast<intptr_t>(request.GetReflection()->GetInt64(request, field));
}

// The answer of gRPC's core in JSON, to be freed; null if there is no such thing.
char* AskCore(const std::string& method, const Message& request) {
  if (method == "GetTopChannels") {
    return grpc_channelz_get_top_channels(NumberIn(request, "start_channel_id"));
  }
  if (method == "GetServers")
    return grpc_channelz_get_servers(NumberIn(request, "start_server_id"));
  if (method == "GetServer") return grpc_channelz_get_server(NumberIn(request, "server_id"));
  if (method == "GetServerSockets") {
    return grpc_channelz_get_server_sockets(NumberIn(request, "server_id"),
                                            NumberIn(request, "start_socket_id"),
                                            NumberIn(request, "max_results"));
  }
  if (method == "GetChannel") return grpc_channelz_get_channel(NumberIn(request, "channel_id"));
  if (method == "GetSubchannel") {
    return grpc_channelz_get_subchannel(NumberIn(request, "subchannel_id"));
  }
  if (method == "GetSocket") return grpc_channelz_get_socket(NumberIn(request, "socket_id"));
  return nullptr;
}

std::unique_ptr<Message> New(const Descriptor* type) {
  return std::unique_ptr<Message>(MessageFactory::generated_factory()->GetPrototype(type)->New());
}

class ChannelzCall final : public OneAnswerCall {
 public:
  static CallReactor* Start(const CallContext& server, grpc::CallbackServerContext& call,
                            const MethodDescriptor* method) {
    return Begin(std::shared_ptr<ChannelzCall>(new ChannelzCall(server, call, method)));
  }

 private:
  ChannelzCall(const CallContext& server, grpc::CallbackServerContext& call,
               const MethodDescriptor* method)
      : OneAnswerCall(server, call, Method::kChannelz, Gate::CallKind::kQuick), method_(method) {}

  void Work() override {
    context_.call_pool->Submit(context_.client, [this, self = shared_from_this()] {
      Answer(EndOnAllocationFailure([this] { return Respond(); }));
    });
  }

  absl::Status Respond() {
    const std::unique_ptr<Message> request = New(method_->input_type());
    PH_RETURN_IF_ERROR(ParseInto(*request));
    PH_RETURN_IF_ERROR(Authorize(context_, *request));
    const std::unique_ptr<char, decltype(&gpr_free)> json(AskCore(method_->name(), *request),
                                                          &gpr_free);
    if (json == nullptr) return absl::NotFoundError("there is nothing of that number");
    const std::unique_ptr<Message> response = New(method_->output_type());
    google::protobuf::util::JsonParseOptions options;
    options.ignore_unknown_fields = true;
    const auto parsed =
        google::protobuf::util::JsonStringToMessage(json.get(), response.get(), options);
    if (!parsed.ok()) {
      return absl::InternalError(absl::StrCat("gRPC's answer is no ", response->GetTypeName(), ": ",
                                              std::string(parsed.message())));
    }
    return Write(*response);
  }

  // A few numbers take no memory that would have to be counted.
  absl::Status ParseInto(Message& message) const {
    if (request().Length() > kLongestRequest) {
      return absl::InvalidArgumentError(
          absl::StrCat("a request of ", request().Length(), " bytes, at most ", kLongestRequest));
    }
    grpc::Slice bytes;
    if (request().Length() == 0) return absl::OkStatus();
    if (!request().DumpToSingleSlice(&bytes).ok() ||
        !message.ParseFromArray(bytes.begin(), static_cast<int>(bytes.size()))) {
      return absl::InvalidArgumentError(absl::StrCat("the request is no ", message.GetTypeName()));
    }
    return absl::OkStatus();
  }

  const MethodDescriptor* const method_;
};

}  // namespace

ChannelzService::ChannelzService(const CallContext& context)
    : EarlyService(kService), context_(context) {
  const auto* const service = DescriptorPool::generated_pool()->FindServiceByName(kService);
  for (int i = 0; service != nullptr && i < service->method_count(); ++i) {
    Serve(service->method(i)->name(),
          [this, method = service->method(i)](grpc::CallbackServerContext* call) {
            return ChannelzCall::Start(context_, *call, method);
          });
  }
}

}  // namespace packhouse::rpc
