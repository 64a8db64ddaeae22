// What a principal may not do, it cannot do by any RPC, whatever the request names. The RPCs and
// the fields with names are read from the protos of the contract, so that a new one without its
// options (rights.proto) fails here.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/dynamic_message.h"
#include "grpcpp/generic/generic_stub.h"
#include "packhouse/v1/admin.grpc.pb.h"
#include "packhouse/v1/dataset.grpc.pb.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "packhouse/v1/packing.grpc.pb.h"
#include "packhouse/v1/receipts.grpc.pb.h"
#include "packhouse/v1/rights.pb.h"
#include "packhouse/v1/sampling.grpc.pb.h"
#include "service/access/authorizer.h"
#include "service/access/policy.h"
#include "service/access/principal.h"
#include "service/server/calls/request_rights.h"
#include "service/server/calls_grpc/in_process_calls.h"
#include "tests/rpc/server_fixture.h"
#include "tests/support/random.h"
#include "tests/support/random_graphs.h"

namespace packhouse::rpc {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::MethodDescriptor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A caller is whom it says it is.
class GullibleAuthenticator final : public Authenticator {
 public:
  absl::StatusOr<Principal> Authenticate(const CallCredentials& credentials) const override {
    if (credentials.authorization.empty()) return absl::UnauthenticatedError("say who you are");
    return credentials.authorization;
  }
};

std::vector<const MethodDescriptor*> AllMethods() {
  std::vector<const MethodDescriptor*> methods;
  for (const auto& each : std::filesystem::directory_iterator(PACKHOUSE_CONTRACT)) {
    if (each.path().extension() != ".proto") continue;
    const FileDescriptor* const file = DescriptorPool::generated_pool()->FindFileByName(
        absl::StrCat("packhouse/v1/", each.path().filename().string()));
    EXPECT_NE(file, nullptr) << each.path() << " is not linked: does the server serve it?";
    for (int i = 0; file != nullptr && i < file->service_count(); ++i) {
      for (int k = 0; k < file->service(i)->method_count(); ++k) {
        methods.push_back(file->service(i)->method(k));
      }
    }
  }
  return methods;
}

const MethodRights* RowOf(const MethodDescriptor& method) {
  for (const MethodRights& row : AllMethodRights()) {
    if (row.method == method.full_name()) return &row;
  }
  return nullptr;
}

using Path = std::vector<const FieldDescriptor*>;

// A text of a request, as its options are read here: not by what is tested.
struct Text {
  Path path;
  v1::Thing thing = v1::THING_UNSPECIFIED;
  v1::Right right = v1::RIGHT_UNSPECIFIED;
};

void FindTexts(const Descriptor& type, v1::Right right, Path path, std::vector<Text>& found) {
  ASSERT_LT(path.size(), 12u) << type.full_name() << " contains itself";
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const v1::Right own = field.options().GetExtension(v1::right);
    const v1::Right here = own == v1::RIGHT_UNSPECIFIED ? right : own;
    Path there = path;
    there.push_back(&field);
    if (field.message_type() != nullptr) {
      FindTexts(*field.message_type(), here, there, found);
    } else if (field.type() == FieldDescriptor::TYPE_STRING) {
      found.push_back({there, field.options().GetExtension(v1::thing), here});
    }
  }
}

std::vector<Text> TextsOf(const MethodDescriptor& method) {
  std::vector<Text> found;
  FindTexts(*method.input_type(), method.options().GetExtension(v1::call_right), {}, found);
  return found;
}

std::vector<Text> NamesOf(const MethodDescriptor& method) {
  std::vector<Text> names = TextsOf(method);
  names.erase(std::remove_if(names.begin(), names.end(),
                             [](const Text& text) { return text.thing == v1::THING_NONE; }),
              names.end());
  return names;
}

std::string PathText(const Path& path) {
  return absl::StrJoin(path, ".", [](std::string* out, const FieldDescriptor* field) {
    absl::StrAppend(out, field->name());
  });
}

Right RightOf(v1::Right right) { return static_cast<Right>(right - v1::RIGHT_VIEW); }

void SetName(const Text& text, std::string name, Message* message) {
  if (text.thing == v1::THING_MODEL_ON_DEVICE) name += "/device";
  for (const FieldDescriptor* const field : text.path) {
    const google::protobuf::Reflection& fields = *message->GetReflection();
    if (field->message_type() != nullptr) {
      message = field->is_repeated() ? fields.AddMessage(message, field)
                                     : fields.MutableMessage(message, field);
    } else if (field->is_repeated()) {
      fields.AddString(message, field, name);
    } else {
      fields.SetString(message, field, name);
    }
  }
}

// The request with `name` in each of these.
std::unique_ptr<Message> RequestNaming(const MethodDescriptor& method,
                                       const std::vector<Text>& texts, const std::string& name) {
  std::unique_ptr<Message> request(
      MessageFactory::generated_factory()->GetPrototype(method.input_type())->New());
  for (const Text& text : texts) SetName(text, name, request.get());
  return request;
}

class RightsTest : public ServerTest {
 protected:
  static constexpr Role kRoles[] = {Role::kViewer, Role::kTrainer, Role::kProducer, Role::kOwner,
                                    Role::kAdmin};

  RightsTest() {
    std::vector<Policy::Grant> grants;
    for (const Role role : kRoles) grants.push_back({{std::string(NameOf(role))}, role, {"own"}});
    grants.push_back({{"operator"}, Role::kAdmin, {"*"}});
    authorizer_.Set(std::make_shared<const Policy>(*Policy::Create(std::move(grants), {})));
    OpenDatasets();
    ServerOptions options;
    options.authenticator = &authenticator_;
    options.authorizer = &authorizer_;
    options_ = options;
  }

  // How a call ends; the same for all kinds of methods.
  absl::Status Call(const MethodDescriptor& method, const Message& request,
                    const std::string& principal) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    if (!principal.empty()) context.AddMetadata("authorization", principal);
    grpc::CompletionQueue queue;
    const auto await = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    const auto call = stub.PrepareCall(
        &context, absl::StrCat("/", method.service()->full_name(), "/", method.name()), &queue);
    call->StartCall(nullptr);
    if (await()) {
      const grpc::Slice bytes(request.SerializeAsString());
      call->WriteLast(grpc::ByteBuffer(&bytes, 1), grpc::WriteOptions(), nullptr);
      await();
    }
    grpc::ByteBuffer response;
    do {
      call->Read(&response, nullptr);
    } while (await());
    grpc::Status status;
    call->Finish(&status, nullptr);
    await();
    queue.Shutdown();
    return ToAbsl(status);
  }
  absl::Status Call(const MethodDescriptor& method, const std::string& name,
                    const std::string& principal) {
    return Call(method, *RequestNaming(method, NamesOf(method), name), principal);
  }

  const GullibleAuthenticator authenticator_;
  Authorizer authorizer_{std::make_shared<const Policy>()};
  ServerOptions options_;
};
INSTANTIATE_TEST_SUITE_P(Transports, RightsTest, ::testing::Values(Transport::kInProcess),
                         TransportName);

TEST_P(RightsTest, TheContractSaysOfEveryRpcAndEveryTextWhatItNeeds) {
  for (const MethodDescriptor* const method : AllMethods()) {
    const MethodRights* const row = RowOf(*method);
    ASSERT_NE(row, nullptr) << method->full_name() << " has no right";
    const Right right = row->right;
    const v1::Right said = method->options().GetExtension(v1::call_right);
    ASSERT_NE(said, v1::RIGHT_UNSPECIFIED) << method->full_name() << " has no (call_right)";
    EXPECT_EQ(right, RightOf(said)) << method->full_name();
    std::set<Right> rights = {right};
    for (const Text& text : TextsOf(*method)) {
      EXPECT_NE(text.thing, v1::THING_UNSPECIFIED)
          << text.path.back()->full_name() << ", in a request of " << method->full_name()
          << ", needs (thing): does it name a thing that is in a namespace?";
      if (text.thing != v1::THING_NONE) rights.insert(RightOf(text.right));
    }
    EXPECT_TRUE(row->is_sound) << method->full_name();
    EXPECT_EQ(row->names.size(), NamesOf(*method).size()) << method->full_name();
    // What a name promises.
    const absl::string_view name = method->name();
    if (absl::StartsWith(name, "Delete")) {
      EXPECT_EQ(rights, std::set<Right>{Right::kOwn}) << name;
    }
    if (absl::StartsWith(name, "Create") || absl::StartsWith(name, "Append") ||
        absl::StartsWith(name, "Seal") || absl::StartsWith(name, "Merge")) {
      EXPECT_EQ(rights, std::set<Right>{Right::kProduce}) << name;
      EXPECT_TRUE(row->changes) << name;
    }
    const bool is_of_server = row->kind == MethodRights::Kind::kServer;
    EXPECT_EQ(is_of_server, absl::StrContains(row->method, ".AdminService."));
    if (is_of_server) {
      EXPECT_EQ(rights, std::set<Right>{Right::kAdminister}) << name;
    }
    if (absl::StartsWith(name, "Get") || absl::StartsWith(name, "List")) {
      EXPECT_EQ(rights, std::set<Right>{is_of_server ? Right::kAdminister : Right::kView}) << name;
      EXPECT_FALSE(row->changes) << name;
    }
  }
}

// All fields with names at once, each by itself, and none, in every namespace, as every role.
TEST_P(RightsTest, EveryRpcAndNameAsEveryRoleOnOwnAndForeignNamespaces) {
  StartServer(options_);
  int num_calls = 0;
  for (const MethodDescriptor* const method : AllMethods()) {
    const MethodRights* const row = RowOf(*method);
    ASSERT_NE(row, nullptr);
    if (Call(*method, "own/thing", "operator").code() == absl::StatusCode::kUnimplemented) {
      continue;  // This server has no such service.
    }
    EXPECT_EQ(Call(*method, "own/thing", "").code(), absl::StatusCode::kUnauthenticated);
    const std::vector<Text> names = NamesOf(*method);
    std::vector<std::vector<Text>> choices = {{}, names};
    for (const Text& text : names) choices.push_back({text});
    for (const std::vector<Text>& chosen : choices) {
      for (const Role role : kRoles) {
        for (const std::string where : {"own", "foreign", "ownother", "default"}) {
          // A name without a slash is in the namespace "default".
          const std::string name = where == "default" ? "thing" : where + "/thing";
          const std::unique_ptr<Message> request = RequestNaming(*method, chosen, name);
          bool allowed = row->kind != MethodRights::Kind::kServer && Includes(role, row->right);
          for (const Text& text : chosen) {
            allowed &= where == "own" && Includes(role, RightOf(text.right));
          }
          const absl::Status ended = Call(*method, *request, std::string(NameOf(role)));
          const std::string named = chosen.size() == 1 ? PathText(chosen.front().path)
                                                       : absl::StrCat(chosen.size(), " names");
          ++num_calls;
          EXPECT_NE(ended.code(), absl::StatusCode::kUnauthenticated);
          EXPECT_EQ(ended.code() != absl::StatusCode::kPermissionDenied, allowed)
              << method->full_name() << ", " << named << " as " << NameOf(role) << " in " << where
              << ": " << ended;
        }
      }
    }
    EXPECT_NE(Call(*method, "foreign/thing", "operator").code(),
              absl::StatusCode::kPermissionDenied);
    EXPECT_EQ(Call(*method, "own/thing", "nobody").code(), absl::StatusCode::kPermissionDenied);
  }
  EXPECT_GT(num_calls, 2000);
}

// By hand, so that nobody changes an option without saying so here.
TEST_P(RightsTest, NamesOfASideNeedTheirOwnRightAndOpenNothing) {
  StartServer(options_);
  const MethodDescriptor& pack =
      *DescriptorPool::generated_pool()->FindMethodByName("packhouse.v1.PackingService.Pack");
  const auto call = [&](absl::string_view principal,
                        const std::function<void(v1::PackOpen*)>& set) {
    v1::PackRequest request;
    set(request.mutable_open());
    return Call(pack, request, std::string(principal)).code();
  };
  const auto calibrated = [](const std::string& name) {
    return [name](v1::PackOpen* open) { open->mutable_calibration()->set_histogram(name); };
  };
  const auto measured = [](const std::string& name) {
    return [name](v1::PackOpen* open) { open->mutable_device_profile()->set_measured_as(name); };
  };
  const auto counted = [](const std::string& name) {
    return [name](v1::PackOpen* open) { open->set_histogram(name); };
  };
  constexpr auto kDenied = absl::StatusCode::kPermissionDenied;
  // The sizes of a foreign histogram, by the limits that fit it.
  EXPECT_EQ(call("trainer", calibrated("foreign/sizes")), kDenied);
  EXPECT_NE(call("trainer", calibrated("own/sizes")), kDenied);
  EXPECT_EQ(call("viewer", measured("own/model/device")), kDenied);
  EXPECT_NE(call("trainer", measured("own/model/device")), kDenied);
  EXPECT_EQ(call("producer", counted("own/sizes")), kDenied);
  EXPECT_EQ(call("trainer", counted("own/sizes")), kDenied);
  EXPECT_NE(call("owner", counted("own/sizes")), kDenied);

  const MethodDescriptor& sample =
      *DescriptorPool::generated_pool()->FindMethodByName("packhouse.v1.SamplingService.Sample");
  v1::SampleRequest request;
  request.mutable_open()->mutable_sub_graphs()->set_graph("own/graph");
  request.mutable_open()->mutable_pack()->mutable_calibration()->set_histogram("foreign/sizes");
  EXPECT_EQ(Call(sample, request, "trainer").code(), kDenied);
}

TEST_P(RightsTest, AMixtureNeedsTheRightOnEachOfItsDataSets) {
  StartServer(options_);
  int num_names = 0;
  for (const MethodDescriptor* const method : AllMethods()) {
    for (const Text& text : NamesOf(*method)) {
      if (text.thing != v1::THING_DATASET) continue;
      ++num_names;
      const auto is_denied = [&](const std::string& name) {
        return Call(*method, *RequestNaming(*method, {text}, name), "owner").code() ==
               absl::StatusCode::kPermissionDenied;
      };
      EXPECT_FALSE(is_denied("own/a+own/b")) << method->full_name();
      for (const std::string name : {"own/a+foreign/b", "foreign/a+own/b", "own/a+b", "own/a+"}) {
        EXPECT_TRUE(is_denied(name)) << method->full_name() << ": " << name;
      }
    }
  }
  EXPECT_GT(num_names, 8);
  // Names of other things may have the sign.
  const MethodDescriptor& get = *DescriptorPool::generated_pool()->FindMethodByName(
      "packhouse.v1.HistogramService.GetHistogram");
  EXPECT_NE(Call(get, "own/a+b", "owner").code(), absl::StatusCode::kPermissionDenied);
}

// Behind a proxy all callers have its address, so an address gives no right.
TEST_P(RightsTest, WithoutAPolicyServersAreAdministeredAtTheirSocketAlone) {
  const std::string socket = absl::StrCat(folder_.path(), "/admin.sock");
  for (const bool has_policy : {false, true}) {
    ServerOptions options;
    if (has_policy) options = options_;
    options.admin_address = absl::StrCat("unix:", socket);
    options.admin.drain = [] {};
    StartServer(options);
    struct stat there = {};
    ASSERT_EQ(::stat(socket.c_str(), &there), 0);
    EXPECT_EQ(there.st_mode & 0777, 0600u);
    const std::shared_ptr<grpc::Channel> clients = channel_;
    const std::shared_ptr<grpc::Channel> administrators =
        grpc::CreateChannel(server_->admin_address(), grpc::InsecureChannelCredentials());
    int num_methods = 0;
    for (const MethodDescriptor* const method : AllMethods()) {
      const bool is_of_server = RowOf(*method)->kind == MethodRights::Kind::kServer;
      num_methods += is_of_server ? 1 : 0;
      channel_ = administrators;
      const absl::Status at_socket = Call(*method, "thing", "");
      EXPECT_EQ(at_socket.code() == absl::StatusCode::kUnimplemented, !is_of_server) << at_socket;
      EXPECT_NE(at_socket.code(), absl::StatusCode::kPermissionDenied) << at_socket;
      EXPECT_NE(at_socket.code(), absl::StatusCode::kUnauthenticated) << at_socket;
      if (!is_of_server || has_policy) continue;
      channel_ = clients;
      EXPECT_THAT(Call(*method, "thing", ""),
                  StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("--admin-listen")))
          << method->full_name();
    }
    EXPECT_GE(num_methods, 6);
    channel_ = clients;
    server_.reset();
    EXPECT_NE(::stat(socket.c_str(), &there), 0) << "the socket is left behind";
  }
}

TEST_P(RightsTest, ARefusalNamesTheRightAndDoesNotTellWhatThereIs) {
  StartServer(options_);
  PH_ASSERT_OK_AND_ASSIGN(const GraphSchema schema,
                          GraphSchema::Create(*SizeSchema::Create({"nodes"}), {}));
  ASSERT_TRUE(datasets_->Create("foreign/there", schema, {}).ok());
  const MethodDescriptor* const remove = DescriptorPool::generated_pool()->FindMethodByName(
      "packhouse.v1.DatasetService.DeleteDataset");
  const absl::Status of_nothing = Call(*remove, "foreign/none_", "owner");
  const absl::Status of_something = Call(*remove, "foreign/there", "owner");
  EXPECT_EQ(of_nothing.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(of_nothing.message()),
              HasSubstr("gives principal 'owner' no right 'own' on data set 'foreign/none_'"));
  EXPECT_EQ(absl::StripSuffix(of_nothing.message(), "none_'"),
            absl::StripSuffix(of_something.message(), "there'"));
  EXPECT_TRUE(datasets_->Get("foreign/there").ok());
}

TEST_P(RightsTest, ListsShowWhatTheCallerMaySee) {
  StartServer(options_);
  PH_ASSERT_OK_AND_ASSIGN(const GraphSchema schema,
                          GraphSchema::Create(*SizeSchema::Create({"nodes"}), {}));
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(datasets_->Create(absl::StrCat("foreign/", i), schema, {}).ok());
    ASSERT_TRUE(datasets_->Create(absl::StrCat("zone/", i), schema, {}).ok());
  }
  for (const std::string name : {"own/a", "own/b", "own/c"}) {
    ASSERT_TRUE(datasets_->Create(name, schema, {}).ok());
  }
  const auto stub = v1::DatasetService::NewStub(channel_);
  for (const uint32_t page_size : {0U, 1U, 2U, 3U}) {
    std::vector<std::string> listed;
    v1::ListDatasetsRequest request;
    request.set_page_size(page_size);
    do {
      grpc::ClientContext context;
      context.AddMetadata("authorization", "viewer");
      v1::ListDatasetsResponse response;
      ASSERT_TRUE(stub->ListDatasets(&context, request, &response).ok());
      for (const v1::Dataset& each : response.datasets()) listed.push_back(each.name());
      EXPECT_THAT(response.next_page_token(), ::testing::AnyOf("", ::testing::StartsWith("own/")));
      request.set_page_token(response.next_page_token());
    } while (!request.page_token().empty());
    EXPECT_THAT(listed, ElementsAre("own/a", "own/b", "own/c"));
  }
  const auto histograms = v1::HistogramService::NewStub(channel_);
  const auto call_as = [](const std::string& who) {
    auto context = std::make_unique<grpc::ClientContext>();
    context->AddMetadata("authorization", who);
    return context;
  };
  for (const std::string name : {"own/h", "zone/h", "foreign/h"}) {
    v1::MergeHistogramRequest merge;
    merge.set_histogram(name);
    merge.mutable_addend()->add_components("nodes");
    v1::MergeHistogramResponse merged;
    ASSERT_TRUE(histograms->MergeHistogram(call_as("operator").get(), merge, &merged).ok());
  }
  v1::ListHistogramsResponse seen;
  ASSERT_TRUE(histograms->ListHistograms(call_as("viewer").get(), {}, &seen).ok());
  EXPECT_THAT(seen.histograms(), ElementsAre("own/h"));
}

// A request that names a receipt, or a job whose words the ledger keeps, does not name the data set
// behind it.
TEST_P(RightsTest, ReceiptsOpenNoOtherDoor) {
  authorizer_.Set(std::make_shared<const Policy>(
      *Policy::Create({{{"operator"}, Role::kAdmin, {"*"}},
                       {{"viewer"}, Role::kViewer, {"jobs", "data"}},
                       {{"half"}, Role::kTrainer, {"jobs"}},
                       {{"trainer"}, Role::kTrainer, {"jobs", "data"}},
                       {{"stranger"}, Role::kTrainer, {"foreign"}}},
                      {})));
  StartServer(options_);
  PH_ASSERT_OK_AND_ASSIGN(
      const GraphSchema schema,
      GraphSchema::Create(*SizeSchema::Create({"nodes"}), {{"x", DType::kUint8, {}, 0, {}, {}}}));
  Random random(1);
  ASSERT_THAT(datasets_->Create("data/graphs", schema, {}), IsOk());
  const GraphChunk chunk = RandomChunk(random, &schema, 20, 9, 0);
  ASSERT_THAT(datasets_->Append("data/graphs", chunk, {}, std::nullopt), IsOk());
  ASSERT_THAT(datasets_->Seal("data/graphs"), IsOk());

  v1::LoadRequest load;
  v1::EpochSpec& spec = *load.mutable_epoch();
  spec.set_dataset("data/graphs");
  spec.set_job("jobs/job");
  spec.set_padding(v1::PADDING_MASKED);
  v1::Limits& limits = *spec.add_rank_groups()->add_shapes();
  for (const auto& [component, rows] : {std::pair("nodes", 24), std::pair("graphs", 6)}) {
    v1::Capacity& capacity = *limits.add_capacities();
    capacity.set_component(component);
    capacity.set_rows(rows);
  }
  load.mutable_dynamic()->set_worker("worker");
  load.set_max_in_flight(1);
  grpc::ClientContext loading;
  loading.AddMetadata("authorization", "operator");
  const auto stream = v1::LoaderService::NewStub(channel_)->Load(&loading, load);
  v1::LoadResponse opened;
  ASSERT_TRUE(stream->Read(&opened));
  ASSERT_TRUE(opened.has_opened());
  loading.TryCancel();
  while (stream->Read(&opened)) {
  }
  stream->Finish();

  v1::GetEpochRequest get;
  *get.mutable_epoch() = spec;
  v1::Epoch epoch;
  grpc::ClientContext getting;
  getting.AddMetadata("authorization", "trainer");
  ASSERT_THAT(ToAbsl(v1::LoaderService::NewStub(channel_)->GetEpoch(&getting, get, &epoch)),
              IsOk());
  const auto stub = v1::ReceiptService::NewStub(channel_);
  const auto replan = [&](const std::string& principal) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", principal);
    v1::ReplanRequest request;
    request.set_receipt(epoch.receipt());
    v1::ReplanResponse response;
    const absl::Status status = ToAbsl(stub->Replan(&context, request, &response));
    EXPECT_EQ(response.job(), status.ok() ? "jobs/job" : "");
    return status;
  };
  for (const char* const principal : {"operator", "trainer", "viewer"}) {
    EXPECT_THAT(replan(principal), IsOk()) << principal;
  }
  // As if there were none.
  for (const char* const principal : {"half", "stranger"}) {
    EXPECT_THAT(replan(principal), StatusIs(absl::StatusCode::kNotFound, HasSubstr("receipt")))
        << principal;
  }

  const auto rebuild = [&](const std::string& principal) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", principal);
    v1::RebuildBatchesRequest request;
    request.set_job("jobs/job");
    request.add_numbers(0);
    const auto rebuilt = stub->RebuildBatches(&context, request);
    v1::RebuildBatchesResponse response;
    bool has_batch = false;
    while (rebuilt->Read(&response)) has_batch |= response.has_batch();
    const absl::Status status = ToAbsl(rebuilt->Finish());
    EXPECT_EQ(has_batch, status.ok());
    return status;
  };
  EXPECT_THAT(rebuild("operator"), IsOk());
  EXPECT_THAT(rebuild("trainer"), IsOk());
  EXPECT_THAT(rebuild("half"), StatusIs(absl::StatusCode::kPermissionDenied,
                                        HasSubstr("no right 'train' on data set 'data/graphs'")));
  for (const char* const principal : {"viewer", "stranger"}) {
    EXPECT_THAT(rebuild(principal),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("on job 'jobs/job'")))
        << principal;
  }
}

TEST_P(RightsTest, WhatNamespacesUseOfTheirQuotasIsTold) {
  const Quotas all = {.disk_bytes = uint64_t{1} << 30,
                      .datasets = 11,
                      .source_graphs = 12,
                      .histograms = 13,
                      .epochs = 14,
                      .streams = 15,
                      .pending_bytes = 16'000,
                      .planning = 0.5};
  Quotas idle;
  idle.datasets = 2;
  authorizer_.Set(std::make_shared<const Policy>(
      *Policy::Create({{{"operator"}, Role::kAdmin, {"*"}}}, {{"own", all}, {"idle", idle}})));
  StartServer(options_);
  PH_ASSERT_OK_AND_ASSIGN(const GraphSchema schema,
                          GraphSchema::Create(*SizeSchema::Create({"nodes"}), {}));
  for (const std::string name : {"own/a", "own/b", "zone/c"}) {
    ASSERT_THAT(datasets_->Create(name, schema, {}), IsOk());
  }
  Random random(1);
  const GraphChunk chunk = RandomChunk(random, &schema, 20, 9, 0);
  ASSERT_THAT(datasets_->Append("own/a", chunk, {}, std::nullopt), IsOk());
  const uint64_t bytes = datasets_->Get("own/a")->num_bytes;
  ASSERT_GT(bytes, 0U);
  grpc::ClientContext merging;
  merging.AddMetadata("authorization", "operator");
  v1::MergeHistogramRequest merge;
  merge.set_histogram("own/h");
  merge.mutable_addend()->add_components("nodes");
  v1::MergeHistogramResponse merged;
  ASSERT_THAT(
      ToAbsl(v1::HistogramService::NewStub(channel_)->MergeHistogram(&merging, merge, &merged)),
      IsOk());
  // A stream that counts in it, and holds a graph.
  PackCall call;
  call.context.AddMetadata("authorization", "operator");
  call.stub = v1::PackingService::NewStub(channel_);
  call.stream = call.stub->Pack(&call.context);
  v1::PackRequest open = OpenSizes(10);
  open.mutable_open()->set_histogram("own/sizes");
  ASSERT_TRUE(call.stream->Write(open));
  v1::PackResponse opened;
  ASSERT_TRUE(call.stream->Read(&opened));
  ASSERT_TRUE(call.stream->Write(SizesOf({3}, 0)));
  while (server_->pending_bytes() == 0) std::this_thread::yield();

  std::vector<std::string> told;
  // While it takes long, the last ones.
  std::vector<QuotaReading> quotas;
  while (quotas.empty()) quotas = server_->recent_quotas();
  for (const QuotaReading& each : quotas) {
    told.push_back(absl::StrCat(each.where, " ", each.quota, " ", each.used, "/", each.limit));
  }
  EXPECT_THAT(
      told, ElementsAre("idle datasets 0/2", absl::StrCat("own disk_bytes ", bytes, "/1.07374e+09"),
                        "own datasets 2/11", "own source_graphs 0/12", "own histograms 2/13",
                        "own epochs 0/14", "own streams 1/15",
                        absl::StrCat("own pending_bytes ", server_->pending_bytes(), "/16000"),
                        "own planning 0/0.5"));
  grpc::ClientContext asking;
  asking.AddMetadata("authorization", "operator");
  v1::GetServerResponse server;
  ASSERT_THAT(ToAbsl(v1::AdminService::NewStub(channel_)->GetServer(&asking, {}, &server)), IsOk());
  ASSERT_EQ(server.quotas_size(), 9);
  EXPECT_EQ(server.quotas(2).ShortDebugString(),
            R"(namespace: "own" quota: "datasets" used: 2 limit: 11)");
  // Its place is given back to what ends before the server.
  call.context.TryCancel();
  EXPECT_EQ(call.stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  server_ = nullptr;
}

// What the page's calls say about their viewers counts within the process only.
TEST(ViewerTest, IsNamedByThisProcessAlone) {
  const std::string& secret = ViewerSecret();
  EXPECT_EQ(ViewerOf(secret + "alice", "inproc:7"), "alice");
  EXPECT_EQ(ViewerOf(secret, "inproc:7"), "");
  for (const char* const peer : {"ipv4:127.0.0.1:4711", "ipv6:%5B::1%5D:4711", "unix:/socket"}) {
    EXPECT_EQ(ViewerOf(secret + "alice", peer), std::nullopt) << peer;
  }
  for (size_t i = 0; i < secret.size(); ++i) {
    std::string wrong = secret + "alice";
    wrong[i] = static_cast<char>(wrong[i] ^ 1);
    EXPECT_EQ(ViewerOf(wrong, "inproc:7"), std::nullopt);
    EXPECT_EQ(ViewerOf(secret.substr(0, i), "inproc:7"), std::nullopt);
  }
}

}  // namespace
}  // namespace packhouse::rpc
