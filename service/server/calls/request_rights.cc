#include "service/server/calls/request_rights.h"

#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "packhouse/v1/rights.pb.h"
#include "service/base/mixture_name.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

struct KindOf {
  v1::Thing thing;
  absl::string_view kind;
};
constexpr KindOf kKinds[] = {
    {v1::THING_DATASET, "data set"},
    {v1::THING_HISTOGRAM, "histogram"},
    {v1::THING_JOB, "job"},
    {v1::THING_SOURCE_GRAPH, "source graph"},
    {v1::THING_MODEL, "measured model"},
    {v1::THING_MODEL_ON_DEVICE, "measured model"},
};

// The contract's files with services.
constexpr absl::string_view kContract[] = {"admin",    "dataset",  "feedback",     "histogram",
                                           "loader",   "packing",  "partitioning", "planning",
                                           "receipts", "sampling", "source_graph"};

// What others have defined, and which therefore has no options of ours.
struct ForeignService {
  absl::string_view name;
  MethodRights::Kind kind;
};
constexpr ForeignService kForeign[] = {
    {"grpc.channelz.v1.Channelz", MethodRights::Kind::kServer},
    {"grpc.reflection.v1.ServerReflection", MethodRights::Kind::kFree},
    {"grpc.reflection.v1alpha.ServerReflection", MethodRights::Kind::kFree},
};

std::optional<Right> RightOf(v1::Right right) {
  switch (right) {
    case v1::RIGHT_VIEW:
      return Right::kView;
    case v1::RIGHT_TRAIN:
      return Right::kTrain;
    case v1::RIGHT_PRODUCE:
      return Right::kProduce;
    case v1::RIGHT_OWN:
      return Right::kOwn;
    case v1::RIGHT_ADMINISTER:
      return Right::kAdminister;
    default:
      return std::nullopt;
  }
}

// Finds the names in the messages of `type`, to which `path` leads.
void FindNames(const Descriptor& type, Right right, std::vector<const FieldDescriptor*>& path,
               MethodRights& row) {
  // A text in a message that contains itself could stand anywhere.
  constexpr size_t kDeepest = 16;
  if (path.size() > kDeepest) {
    row.is_sound = false;
    return;
  }
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const Right needed = RightOf(field.options().GetExtension(v1::right)).value_or(right);
    path.push_back(&field);
    if (field.message_type() != nullptr) {
      FindNames(*field.message_type(), needed, path, row);
    } else if (field.type() == FieldDescriptor::TYPE_STRING) {
      const v1::Thing thing = field.options().GetExtension(v1::thing);
      const auto* const kind =
          absl::c_find_if(kKinds, [thing](const KindOf& each) { return each.thing == thing; });
      if (kind != std::end(kKinds)) {
        row.names.push_back({needed, kind->kind, path});
      } else {
        row.is_sound &= thing == v1::THING_NONE;
      }
    }
    path.pop_back();
  }
}

MethodRights RightsOf(const MethodDescriptor& method) {
  const std::optional<Right> right = RightOf(method.options().GetExtension(v1::call_right));
  MethodRights row;
  row.method = method.full_name();
  row.is_sound = right.has_value();
  row.right = right.value_or(Right::kAdminister);
  row.changes = method.options().GetExtension(v1::call_changes);
  row.kind =
      row.right == Right::kAdminister ? MethodRights::Kind::kServer : MethodRights::Kind::kNamed;
  std::vector<const FieldDescriptor*> path;
  FindNames(*method.input_type(), row.right, path, row);
  return row;
}

const std::vector<MethodRights>& Rows() {
  static const auto& rows = [] {
    auto& made = *new std::vector<MethodRights>();
    const DescriptorPool& pool = *DescriptorPool::generated_pool();
    for (const absl::string_view name : kContract) {
      const FileDescriptor* const file =
          pool.FindFileByName(absl::StrCat("packhouse/v1/", name, ".proto"));
      for (int i = 0; file != nullptr && i < file->service_count(); ++i) {
        for (int k = 0; k < file->service(i)->method_count(); ++k) {
          made.push_back(RightsOf(*file->service(i)->method(k)));
        }
      }
    }
    for (const ForeignService& foreign : kForeign) {
      const ServiceDescriptor* const service = pool.FindServiceByName(std::string(foreign.name));
      for (int k = 0; service != nullptr && k < service->method_count(); ++k) {
        MethodRights row;
        row.method = service->method(k)->full_name();
        row.kind = foreign.kind;
        made.push_back(std::move(row));
      }
    }
    return std::ref(made);
  }();
  return rows;
}

// A request's type tells the method: no two methods have the same. Null: two have.
const absl::flat_hash_map<const Descriptor*, const MethodRights*>& RowsByRequest() {
  static const auto& rows = [] {
    auto& made = *new absl::flat_hash_map<const Descriptor*, const MethodRights*>();
    for (const MethodRights& row : Rows()) {
      const MethodDescriptor* const method =
          DescriptorPool::generated_pool()->FindMethodByName(row.method);
      const auto [found, is_new] = made.emplace(method->input_type(), &row);
      if (!is_new) found->second = nullptr;
    }
    return std::ref(made);
  }();
  return rows;
}

template <typename Found>
void ForEachName(const Message& message, absl::Span<const FieldDescriptor* const> path,
                 const Found& found) {
  const FieldDescriptor* const field = path.front();
  const google::protobuf::Reflection& fields = *message.GetReflection();
  const int size = field->is_repeated() ? fields.FieldSize(message, field) : 1;
  if (path.size() > 1) {
    if (!field->is_repeated()) {
      if (!fields.HasField(message, field)) return;
      ForEachName(fields.GetMessage(message, field), path.subspan(1), found);
      return;
    }
    for (int i = 0; i < size; ++i) {
      ForEachName(fields.GetRepeatedMessage(message, field, i), path.subspan(1), found);
    }
    return;
  }
  if (!field->is_repeated()) {
    std::string name = fields.GetString(message, field);
    if (!name.empty()) found(std::move(name));
    return;
  }
  for (int i = 0; i < size; ++i) found(fields.GetRepeatedString(message, field, i));
}

// The names of what is named: of a model on a device, "MODEL/DEVICE", the model; of a mixture, all
// data sets.
std::vector<std::string> NamesIn(const FieldDescriptor& field, absl::string_view name) {
  switch (field.options().GetExtension(v1::thing)) {
    case v1::THING_MODEL_ON_DEVICE:
      return {std::string(name.substr(0, name.rfind('/')))};
    case v1::THING_DATASET: {
      const std::vector<absl::string_view> names = NamesInMixture(name);
      return {names.begin(), names.end()};
    }
    default:
      return {std::string(name)};
  }
}

std::vector<Demand> DemandsOf(const Message& request, const MethodRights& row) {
  std::vector<Demand> demands;
  for (const NameField& field : row.names) {
    ForEachName(request, field.path, [&](std::string name) {
      for (std::string& each : NamesIn(*field.path.back(), name)) {
        demands.push_back({field.right, Demand::Where::kNamed, field.kind, std::move(each)});
      }
    });
  }
  return demands;
}

// Gives a stream its places in the namespaces of what it names.
absl::Status EnterStream(const CallContext& context, absl::Span<const Demand> demands) {
  std::set<absl::string_view> namespaces;
  for (const Demand& demand : demands) {
    if (demand.where == Demand::Where::kNamed) namespaces.insert(NamespaceOf(demand.name));
  }
  for (const absl::string_view where : namespaces) {
    PH_ASSIGN_OR_RETURN(auto place, context.authorizer->EnterStream(where));
    if (place != nullptr) context.record->places.push_back(std::move(place));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Span<const MethodRights> AllMethodRights() { return Rows(); }

absl::Status Authorize(const CallContext& context, const Message& request, RequestKind kind) {
  const bool is_first = kind != RequestKind::kGoesOn;
  if (context.authorizer == nullptr && (context.record == nullptr || !is_first)) {
    return absl::OkStatus();
  }
  const auto& rows = RowsByRequest();
  const auto found = rows.find(request.GetDescriptor());
  if (found == rows.end() || found->second == nullptr || !found->second->is_sound) {
    if (context.authorizer == nullptr) return absl::OkStatus();
    return absl::PermissionDeniedError(
        absl::StrCat("the server does not know which right ", request.GetTypeName(), " needs"));
  }
  const MethodRights& row = *found->second;
  std::vector<Demand> demands = DemandsOf(request, row);
  if (context.record != nullptr && is_first) {
    context.record->may_change = row.changes;
    if (!demands.empty()) context.record->resource = demands.front().name;
    if (context.record->entry != nullptr) {
      context.record->entry->SetResource(context.record->resource);
    }
  }
  if (context.authorizer == nullptr && row.kind == MethodRights::Kind::kServer &&
      !context.is_administrators) {
    return absl::PermissionDeniedError(absl::StrCat(
        "the server has no policy (--policy) that says who may administer it: it takes ",
        row.method, " at its socket for administrators alone (--admin-listen)"));
  }
  if (context.authorizer == nullptr || row.kind == MethodRights::Kind::kFree) {
    return absl::OkStatus();
  }
  if (row.kind == MethodRights::Kind::kServer) {
    demands.push_back({row.right, Demand::Where::kServer, "", ""});
  } else if (is_first && absl::c_none_of(demands, [&row](const Demand& demand) {
               return demand.right == row.right;
             })) {
    // Names of a side, such as a histogram to be counted in, do not open the call itself.
    demands.push_back({row.right, Demand::Where::kSomewhere, "", ""});
  }
  for (const Demand& demand : demands) {
    PH_RETURN_IF_ERROR(context.authorizer->Check(context.principal(), demand));
  }
  // A request that is looked at twice has its places already.
  if (kind != RequestKind::kBeginsStream || context.record == nullptr ||
      !context.record->places.empty()) {
    return absl::OkStatus();
  }
  return EnterStream(context, demands);
}

}  // namespace packhouse
