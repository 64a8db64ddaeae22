#include "service/server/services/channelz_service.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/util/json_util.h"
#include "grpc/grpc.h"
#include "grpc/support/alloc.h"
#include "grpcpp/ext/channelz_service_plugin.h"
#include "service/base/status_macros.h"

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

// A few numbers take no memory that would have to be counted.
absl::Status ParseInto(const RequestBytes& bytes, Message& message) {
  if (bytes.size() > kLongestRequest) {
    return absl::InvalidArgumentError(
        absl::StrCat("a request of ", bytes.size(), " bytes, at most ", kLongestRequest));
  }
  bool is_parsed = false;
  bytes.Read([&](auto& stream) { is_parsed = message.ParseFromZeroCopyStream(&stream); });
  if (is_parsed) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the request is no ", message.GetTypeName()));
}

absl::StatusOr<RequestCall::Given> Respond(const MethodDescriptor& method,
                                           const RequestBytes& bytes, RequestCall& call) {
  const std::unique_ptr<Message> request = New(method.input_type());
  PH_RETURN_IF_ERROR(ParseInto(bytes, *request));
  PH_RETURN_IF_ERROR(call.Admit(*request));
  const std::unique_ptr<char, decltype(&gpr_free)> json(AskCore(method.name(), *request),
                                                        &gpr_free);
  if (json == nullptr) return absl::NotFoundError("there is nothing of that number");
  const std::unique_ptr<Message> response = New(method.output_type());
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(json.get(), response.get(), options);
  if (!parsed.ok()) {
    return absl::InternalError(absl::StrCat("gRPC's answer is no ", response->GetTypeName(), ": ",
                                            std::string(parsed.message())));
  }
  return call.Write(*response);
}

}  // namespace

ChannelzService::ChannelzService(const CallContext& context) : EarlyService(kService, context) {
  const auto* const service = DescriptorPool::generated_pool()->FindServiceByName(kService);
  std::vector<MethodRow> rows;
  for (int i = 0; service != nullptr && i < service->method_count(); ++i) {
    rows.push_back({.method = Method::kChannelz,
                    .answer = [method = service->method(i)](
                                  const RequestBytes& bytes,
                                  RequestCall& call) { return Respond(*method, bytes, call); },
                    .name = service->method(i)->name()});
  }
  Serve(std::move(rows));
}

}  // namespace packhouse::rpc
