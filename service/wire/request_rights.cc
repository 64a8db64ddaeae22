#include "service/wire/request_rights.h"

#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"
#include "service/admission/client_identity.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;

constexpr absl::string_view kDataset = "data set";
constexpr absl::string_view kHistogram = "histogram";
constexpr absl::string_view kJob = "job";
constexpr absl::string_view kGraph = "source graph";
constexpr absl::string_view kModel = "measured model";
constexpr bool kChanges = true;
constexpr bool kReads = false;

// Who may see sizes may also plan for them. Exporting gives the graphs themselves.
const std::vector<MethodRights>& Rows() {
  using enum Right;
  using Kind = MethodRights::Kind;
  static const auto& rows = *new std::vector<MethodRights>{
      {"packhouse.v1.PackingService.Pack",
       kTrain,
       kReads,
       {{kProduce, kHistogram, "open.histogram"},
        {kView, kModel, "open.device_profile.measured_as"}}},
      {"packhouse.v1.HistogramService.Observe",
       kProduce,
       kChanges,
       {{kProduce, kHistogram, "histogram"}}},
      {"packhouse.v1.HistogramService.GetHistogram",
       kView,
       kReads,
       {{kView, kHistogram, "histogram"}}},
      {"packhouse.v1.HistogramService.MergeHistogram",
       kProduce,
       kChanges,
       {{kProduce, kHistogram, "histogram"}}},
      {"packhouse.v1.HistogramService.DeleteHistogram",
       kOwn,
       kChanges,
       {{kOwn, kHistogram, "histogram"}}},
      {"packhouse.v1.PlanningService.Plan", kView, kReads, {{kView, kHistogram, "histogram_name"}}},
      {"packhouse.v1.PlanningService.Tune",
       kView,
       kReads,
       {{kView, kHistogram, "histogram_name"}, {kView, kModel, "profile.measured_as"}}},
      {"packhouse.v1.FeedbackService.Report", kTrain, kChanges, {{kTrain, kModel, "model"}}},
      {"packhouse.v1.FeedbackService.GetModel", kView, kReads, {{kView, kModel, "model"}}},
      {"packhouse.v1.FeedbackService.ListModels", kView, kReads, {}},
      {"packhouse.v1.FeedbackService.DeleteModel", kOwn, kChanges, {{kOwn, kModel, "model"}}},
      {"packhouse.v1.DatasetService.CreateDataset",
       kProduce,
       kChanges,
       {{kProduce, kDataset, "name"}}},
      {"packhouse.v1.DatasetService.Append", kProduce, kChanges, {{kProduce, kDataset, "dataset"}}},
      {"packhouse.v1.DatasetService.SealDataset",
       kProduce,
       kChanges,
       {{kProduce, kDataset, "name"}}},
      {"packhouse.v1.DatasetService.GetDataset", kView, kReads, {{kView, kDataset, "name"}}},
      {"packhouse.v1.DatasetService.ListDatasets", kView, kReads, {}},
      {"packhouse.v1.DatasetService.DeleteDataset", kOwn, kChanges, {{kOwn, kDataset, "name"}}},
      {"packhouse.v1.DatasetService.VerifyDataset", kView, kReads, {{kView, kDataset, "name"}}},
      {"packhouse.v1.DatasetService.ExportDataset", kTrain, kReads, {{kTrain, kDataset, "name"}}},
      {"packhouse.v1.LoaderService.Load",
       kTrain,
       kChanges,
       {{kTrain, kDataset, "epoch.dataset"},
        {kTrain, kGraph, "epoch.samples.sub_graphs.graph"},
        {kTrain, kJob, "epoch.job"},
        {kView, kModel, "epoch.rank_groups.device_profile.measured_as"}}},
      {"packhouse.v1.LoaderService.Acknowledge", kTrain, kReads, {{kTrain, kJob, "job"}}},
      {"packhouse.v1.LoaderService.GetEpoch",
       kView,
       kReads,
       {{kView, kDataset, "epoch.dataset"},
        {kView, kGraph, "epoch.samples.sub_graphs.graph"},
        {kView, kJob, "epoch.job"},
        {kView, kModel, "epoch.rank_groups.device_profile.measured_as"}}},
      {"packhouse.v1.LoaderService.ExportEpoch",
       kTrain,
       kReads,
       {{kTrain, kDataset, "epoch.dataset"},
        {kTrain, kGraph, "epoch.samples.sub_graphs.graph"},
        {kTrain, kJob, "epoch.job"},
        {kView, kModel, "epoch.rank_groups.device_profile.measured_as"}}},
      {"packhouse.v1.LoaderService.ReportStep", kTrain, kReads, {{kTrain, kJob, "job"}}},
      {"packhouse.v1.LoaderService.DeleteJob", kOwn, kChanges, {{kOwn, kJob, "job"}}},
      {"packhouse.v1.LoaderService.ListJobs", kView, kReads, {}},
      {"packhouse.v1.LoaderService.GetJob", kView, kReads, {{kView, kJob, "job"}}},
      {"packhouse.v1.SourceGraphService.CreateSourceGraph",
       kProduce,
       kChanges,
       {{kProduce, kGraph, "name"}}},
      {"packhouse.v1.SourceGraphService.AppendSourceGraph",
       kProduce,
       kChanges,
       {{kProduce, kGraph, "graph"}}},
      {"packhouse.v1.SourceGraphService.SealSourceGraph",
       kProduce,
       kChanges,
       {{kProduce, kGraph, "name"}}},
      {"packhouse.v1.SourceGraphService.GetSourceGraph", kView, kReads, {{kView, kGraph, "name"}}},
      {"packhouse.v1.SourceGraphService.ListSourceGraphs", kView, kReads, {}},
      {"packhouse.v1.SourceGraphService.DeleteSourceGraph",
       kOwn,
       kChanges,
       {{kOwn, kGraph, "name"}}},
      {"packhouse.v1.SourceGraphService.VerifySourceGraph",
       kView,
       kReads,
       {{kView, kGraph, "name"}}},
      {"packhouse.v1.SourceGraphService.LookupNodes", kTrain, kReads, {{kTrain, kGraph, "graph"}}},
      {"packhouse.v1.SourceGraphService.ReadEdges", kTrain, kReads, {{kTrain, kGraph, "graph"}}},
      {"packhouse.v1.SamplingService.Sample",
       kTrain,
       kReads,
       {{kTrain, kGraph, "open.sub_graphs.graph"},
        {kProduce, kHistogram, "open.pack.histogram"},
        {kView, kModel, "open.pack.device_profile.measured_as"}}},
      {"packhouse.v1.SamplingService.EstimateSizes",
       kView,
       kReads,
       {{kView, kGraph, "sub_graphs.graph"}, {kProduce, kHistogram, "histogram"}}},
      {"packhouse.v1.SamplingService.SampleDataset",
       kProduce,
       kChanges,
       {{kTrain, kGraph, "sub_graphs.graph"}, {kProduce, kDataset, "dataset"}}},
      {"packhouse.v1.PartitioningService.Partition",
       kProduce,
       kChanges,
       {{kProduce, kGraph, "graph"}}},
      {"packhouse.v1.PartitioningService.GetPartition", kView, kReads, {{kView, kGraph, "graph"}}},
      {"packhouse.v1.PartitioningService.ListPartitions",
       kView,
       kReads,
       {{kView, kGraph, "graph"}}},
      {"packhouse.v1.PartitioningService.CancelPartition",
       kProduce,
       kChanges,
       {{kProduce, kGraph, "graph"}}},
      {"packhouse.v1.PartitioningService.DeletePartition",
       kOwn,
       kChanges,
       {{kOwn, kGraph, "graph"}}},
      {"packhouse.v1.PartitioningService.ReadPartitionFile",
       kTrain,
       kReads,
       {{kTrain, kGraph, "graph"}}},
      {"packhouse.v1.PartitioningService.PartitionDataset",
       kProduce,
       kChanges,
       {{kTrain, kGraph, "graph"}, {kProduce, kDataset, "dataset"}}},
      {"packhouse.v1.AdminService.GetServer", kAdminister, kReads, {}, Kind::kServer},
      {"packhouse.v1.AdminService.ListClients", kAdminister, kReads, {}, Kind::kServer},
      {"packhouse.v1.AdminService.SetLogLevel", kAdminister, kChanges, {}, Kind::kServer},
      {"packhouse.v1.AdminService.Reload", kAdminister, kChanges, {}, Kind::kServer},
      {"packhouse.v1.AdminService.Drain", kAdminister, kChanges, {}, Kind::kServer},
      {"packhouse.v1.AdminService.TakeSnapshot", kAdminister, kChanges, {}, Kind::kServer},
      {"grpc.channelz.v1.Channelz.GetTopChannels", kAdminister, kReads, {}, Kind::kServer},
      {"grpc.channelz.v1.Channelz.GetServers", kAdminister, kReads, {}, Kind::kServer},
      {"grpc.channelz.v1.Channelz.GetServer", kAdminister, kReads, {}, Kind::kServer},
      {"grpc.channelz.v1.Channelz.GetServerSockets", kAdminister, kReads, {}, Kind::kServer},
      {"grpc.channelz.v1.Channelz.GetChannel", kAdminister, kReads, {}, Kind::kServer},
      {"grpc.channelz.v1.Channelz.GetSubchannel", kAdminister, kReads, {}, Kind::kServer},
      {"grpc.channelz.v1.Channelz.GetSocket", kAdminister, kReads, {}, Kind::kServer},
      {"packhouse.v1.ReceiptService.Replan",
       kView,
       kReads,
       {{kView, kHistogram, "histogram_name"}, {kView, kDataset, "dataset"}}},
      {"packhouse.v1.ReceiptService.RebuildBatches",
       kTrain,
       kReads,
       {{kTrain, kJob, "job"},
        {kTrain, kDataset, "words.dataset"},
        {kTrain, kGraph, "words.samples.sub_graphs.graph"}}},
      {"grpc.reflection.v1.ServerReflection.ServerReflectionInfo", kView, kReads, {}, Kind::kFree},
      {"grpc.reflection.v1alpha.ServerReflection.ServerReflectionInfo",
       kView,
       kReads,
       {},
       Kind::kFree},
  };
  return rows;
}

// A row with its fields found in the request's type.
struct RequestRow {
  const MethodRights* row = nullptr;
  std::vector<std::vector<const FieldDescriptor*>> paths;  // Of each name.
  // False if a field is not there, or if another method with other rights has the same request.
  bool is_sound = true;
};

std::vector<const FieldDescriptor*> PathOf(const Descriptor* type, absl::string_view path) {
  std::vector<const FieldDescriptor*> fields;
  for (const absl::string_view name : absl::StrSplit(path, '.')) {
    const FieldDescriptor* const field =
        type == nullptr ? nullptr : type->FindFieldByName(std::string(name));
    if (field == nullptr || field->is_map()) return {};
    fields.push_back(field);
    type = field->message_type();
  }
  if (fields.back()->cpp_type() != FieldDescriptor::CPPTYPE_STRING) return {};
  return fields;
}

// A request's type tells the method: no two methods have the same, or their rows are alike.
const absl::flat_hash_map<const Descriptor*, RequestRow>& RowsByRequest() {
  static const auto& rows = [] {
    auto& made = *new absl::flat_hash_map<const Descriptor*, RequestRow>();
    for (const MethodRights& row : Rows()) {
      const MethodDescriptor* const method =
          DescriptorPool::generated_pool()->FindMethodByName(std::string(row.method));
      if (method == nullptr) continue;
      RequestRow& of_request = made[method->input_type()];
      of_request.is_sound = of_request.row == nullptr;
      of_request.row = &row;
      for (const NameField& name : row.names) {
        of_request.paths.push_back(PathOf(method->input_type(), name.path));
        of_request.is_sound &= !of_request.paths.back().empty();
      }
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

// The name of what is named: of a model on a device, "MODEL/DEVICE", the model.
std::string NameIn(const NameField& field, std::string name) {
  if (field.kind != kModel || !absl::EndsWith(field.path, "measured_as")) return name;
  return name.substr(0, name.rfind('/'));
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
  if (found == rows.end() || !found->second.is_sound) {
    if (context.authorizer == nullptr) return absl::OkStatus();
    return absl::PermissionDeniedError(
        absl::StrCat("the server does not know which right ", request.GetTypeName(), " needs"));
  }
  const MethodRights& row = *found->second.row;
  std::vector<Demand> demands;
  for (size_t i = 0; i < row.names.size(); ++i) {
    ForEachName(request, found->second.paths[i], [&](std::string name) {
      name = NameIn(row.names[i], std::move(name));
      demands.push_back(
          {row.names[i].right, Demand::Where::kNamed, row.names[i].kind, std::move(name)});
    });
  }
  if (context.record != nullptr && is_first) {
    context.record->may_change = row.changes;
    if (!demands.empty()) context.record->resource = demands.front().name;
    if (context.record->entry != nullptr) {
      context.record->entry->SetResource(context.record->resource);
    }
  }
  if (context.authorizer == nullptr && row.kind == MethodRights::Kind::kServer &&
      !IsThisMachine(context.record->peer)) {
    return absl::PermissionDeniedError(absl::StrCat(
        "the server has no policy (--policy) that says who may administer it: it takes ",
        row.method, " from its own machine alone"));
  }
  if (context.authorizer == nullptr || row.kind == MethodRights::Kind::kFree) {
    return absl::OkStatus();
  }
  if (row.kind == MethodRights::Kind::kServer) {
    demands.push_back({row.right, Demand::Where::kServer, "", ""});
  } else if (demands.empty() && is_first) {
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

}  // namespace packhouse
