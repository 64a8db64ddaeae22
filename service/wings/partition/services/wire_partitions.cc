#include "service/wings/partition/services/wire_partitions.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr uint32_t kMostPartsOfTrainers = 65'536;
constexpr double kDefaultImbalance = 1.03;
constexpr uint64_t kDefaultFileBytes = uint64_t{1} << 20;
constexpr uint64_t kMostFileBytes = uint64_t{4} << 20;
// Around the bytes of a file in their message.
constexpr uint64_t kFileFraming = 1024;

absl::Status NoSuchValue(absl::string_view field, int value) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, " is none"));
}

absl::StatusOr<PartMethod> PartMethodFromWire(v1::PartitionMethod wire) {
  switch (wire) {
    case v1::PARTITION_METHOD_UNSPECIFIED:
    case v1::PARTITION_METHOD_AUTOMATIC:
      return PartMethod::kAutomatic;
    case v1::PARTITION_METHOD_METIS:
      return PartMethod::kMetis;
    case v1::PARTITION_METHOD_RANDOM:
      return PartMethod::kRandom;
    case v1::PARTITION_METHOD_STREAMING:
      return PartMethod::kStreaming;
    default:
      return NoSuchValue("method", wire);
  }
}

v1::PartitionMethod PartMethodToWire(PartMethod method) {
  switch (method) {
    case PartMethod::kAutomatic:
      return v1::PARTITION_METHOD_AUTOMATIC;
    case PartMethod::kMetis:
      return v1::PARTITION_METHOD_METIS;
    case PartMethod::kRandom:
      return v1::PARTITION_METHOD_RANDOM;
    case PartMethod::kStreaming:
      break;
  }
  return v1::PARTITION_METHOD_STREAMING;
}

absl::Status FormatsFromWire(const v1::PartitionRequest& wire, PartitionPlan& plan) {
  for (const int format : wire.formats()) {
    switch (format) {
      case v1::PARTITION_FORMAT_UNSPECIFIED:
      case v1::PARTITION_FORMAT_DGL:
        break;
      case v1::PARTITION_FORMAT_NPY:
        plan.npy = true;
        break;
      case v1::PARTITION_FORMAT_SAFETENSORS:
        plan.safetensors = true;
        break;
      default:
        return NoSuchValue("formats", format);
    }
  }
  if (!wire.graph_forms().empty()) plan.forms = {false, false, false};
  for (const std::string& form : wire.graph_forms()) {
    if (form == "coo") {
      plan.forms.coo = true;
    } else if (form == "csr") {
      plan.forms.csr = true;
    } else if (form == "csc") {
      plan.forms.csc = true;
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("graph_forms: ", Quoted(form), " is none of coo, csr and csc"));
    }
  }
  return absl::OkStatus();
}

absl::Status EnumsFromWire(const v1::PartitionRequest& wire, PartitionOptions& options) {
  PH_ASSIGN_OR_RETURN(options.method, PartMethodFromWire(wire.method()));
  switch (wire.objective()) {
    case v1::PARTITION_OBJECTIVE_UNSPECIFIED:
    case v1::PARTITION_OBJECTIVE_CUT:
      options.objective = PartObjective::kCut;
      break;
    case v1::PARTITION_OBJECTIVE_VOLUME:
      options.objective = PartObjective::kVolume;
      break;
    default:
      return NoSuchValue("objective", wire.objective());
  }
  switch (wire.halo()) {
    case v1::PARTITION_HALO_UNSPECIFIED:
    case v1::PARTITION_HALO_ALL:
      options.halo = HaloKind::kPartitionGraph;
      break;
    case v1::PARTITION_HALO_IN_EDGES:
      options.halo = HaloKind::kInEdges;
      break;
    default:
      return NoSuchValue("halo", wire.halo());
  }
  return absl::OkStatus();
}

void PlanToWire(const PartitionPlan& plan, v1::PartitionRequest& wire) {
  const PartitionOptions& options = plan.options;
  wire.set_name(plan.name);
  wire.set_num_parts(options.num_parts);
  wire.set_method(PartMethodToWire(options.method));
  wire.set_recursive(options.scheme == PartScheme::kRecursive);
  wire.set_objective(options.objective == PartObjective::kCut ? v1::PARTITION_OBJECTIVE_CUT
                                                              : v1::PARTITION_OBJECTIVE_VOLUME);
  wire.set_best_quality(options.quality == PartQuality::kBest);
  wire.set_num_hops(options.num_hops);
  wire.set_halo(options.halo == HaloKind::kPartitionGraph ? v1::PARTITION_HALO_ALL
                                                          : v1::PARTITION_HALO_IN_EDGES);
  wire.set_trainers_per_machine(options.trainers_per_machine);
  for (const PlannedClasses& given : plan.classes) {
    v1::PartitionClasses& classes = *wire.add_balance_node_sets();
    classes.set_node_set(given.node_set);
    for (const std::string& column : given.columns) classes.add_columns(column);
  }
  wire.set_balance_edges(options.balance_edges);
  wire.set_imbalance(options.imbalance);
  wire.set_seed(options.seed);
  wire.add_formats(v1::PARTITION_FORMAT_DGL);
  if (plan.npy) wire.add_formats(v1::PARTITION_FORMAT_NPY);
  if (plan.safetensors) wire.add_formats(v1::PARTITION_FORMAT_SAFETENSORS);
  if (plan.forms.coo) wire.add_graph_forms("coo");
  if (plan.forms.csr) wire.add_graph_forms("csr");
  if (plan.forms.csc) wire.add_graph_forms("csc");
  wire.set_mapping(plan.mapping);
  wire.set_assignment(plan.assignment);
  wire.set_without_files(plan.without_files);
}

v1::PartitionState PartitionStateToWire(PartitionJobState state) {
  switch (state) {
    case PartitionJobState::kWaiting:
      return v1::PARTITION_STATE_WAITING;
    case PartitionJobState::kRunning:
      return v1::PARTITION_STATE_RUNNING;
    case PartitionJobState::kDone:
      return v1::PARTITION_STATE_DONE;
    case PartitionJobState::kFailed:
      return v1::PARTITION_STATE_FAILED;
    case PartitionJobState::kCancelled:
      break;
  }
  return v1::PARTITION_STATE_CANCELLED;
}

v1::PartitionPhase RunPhaseToWire(RunPhase phase) {
  switch (phase) {
    case RunPhase::kReading:
      return v1::PARTITION_PHASE_READING;
    case RunPhase::kAssigning:
      return v1::PARTITION_PHASE_ASSIGNING;
    case RunPhase::kRefining:
      return v1::PARTITION_PHASE_REFINING;
    case RunPhase::kNumbering:
      return v1::PARTITION_PHASE_NUMBERING;
    case RunPhase::kWriting:
      break;
  }
  return v1::PARTITION_PHASE_WRITING;
}

void ReportToWire(const PartitionReport& report, v1::PartitionReport& wire) {
  const Assignment& assignment = report.assignment;
  wire.set_method(PartMethodToWire(assignment.method));
  wire.set_reason(assignment.reason);
  for (const std::string& note : assignment.notes) wire.add_notes(note);
  wire.set_num_nodes(report.num_nodes);
  wire.set_num_edges(report.num_edges);
  wire.set_num_cut_edges(assignment.cut_edges);
  wire.set_volume(assignment.volume);
  for (const BalanceReport& from : assignment.balance) {
    v1::PartitionBalance& balance = *wire.add_balance();
    balance.set_name(from.name);
    balance.set_total(from.total);
    balance.set_largest(from.largest);
    balance.set_asked(from.asked);
    balance.set_achieved(from.achieved);
    balance.set_met(from.met);
    balance.set_dropped(from.dropped);
  }
  for (const ReportedPart& from : report.parts) {
    v1::PartitionPart& part = *wire.add_parts();
    part.set_num_inner_nodes(from.num_inner_nodes);
    part.set_num_halo_nodes(from.num_halo_nodes);
    part.set_num_inner_edges(from.num_inner_edges);
    part.set_num_halo_edges(from.num_halo_edges);
    part.set_num_cut_edges(from.num_cut_edges);
    part.set_num_bytes(from.num_bytes);
  }
}

}  // namespace

absl::StatusOr<PartitionPlan> PartitionPlanFromWire(const v1::PartitionRequest& wire) {
  PartitionPlan plan;
  plan.name = wire.name();
  PartitionOptions& options = plan.options;
  options.num_parts = wire.num_parts();
  PH_RETURN_IF_ERROR(EnumsFromWire(wire, options));
  options.scheme = wire.recursive() ? PartScheme::kRecursive : PartScheme::kKWay;
  options.quality = wire.best_quality() ? PartQuality::kBest : PartQuality::kDefault;
  options.num_hops = std::max(wire.num_hops(), uint32_t{1});
  options.trainers_per_machine = std::max(wire.trainers_per_machine(), uint32_t{1});
  options.balance_edges = wire.balance_edges();
  options.imbalance = wire.imbalance() == 0 ? kDefaultImbalance : wire.imbalance();
  options.seed = std::max(wire.seed(), uint64_t{1});
  for (const v1::PartitionClasses& classes : wire.balance_node_sets()) {
    plan.classes.push_back(
        {classes.node_set(), {classes.columns().begin(), classes.columns().end()}});
  }
  PH_RETURN_IF_ERROR(FormatsFromWire(wire, plan));
  plan.mapping = wire.mapping();
  plan.assignment = wire.assignment();
  plan.without_files = wire.without_files();
  PH_RETURN_IF_ERROR(CheckPartitionPlan(plan));
  const uint64_t trainers = uint64_t{options.num_parts} * options.trainers_per_machine;
  if (trainers > kMostPartsOfTrainers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "trainers_per_machine: ", options.num_parts, " parts of ", options.trainers_per_machine,
        " trainers are ", trainers, ", must be at most ", kMostPartsOfTrainers));
  }
  return plan;
}

void PartitionJobToWire(const PartitionJobInfo& info, v1::PartitionJob& wire) {
  wire.Clear();
  wire.mutable_request()->set_graph(info.graph);
  PlanToWire(info.plan, *wire.mutable_request());
  wire.set_graph_version(info.graph_version);
  wire.set_state(PartitionStateToWire(info.state));
  if (info.state == PartitionJobState::kRunning) {
    wire.set_phase(RunPhaseToWire(info.phase));
    wire.set_share_done(info.share_done);
    if (info.rest) wire.set_estimated_seconds_left(absl::ToDoubleSeconds(*info.rest));
  }
  if (info.state == PartitionJobState::kDone) wire.set_share_done(1);
  wire.set_error_code(static_cast<int>(info.error.code()));
  wire.set_error_message(std::string(info.error.message()));
  if (info.report) ReportToWire(*info.report, *wire.mutable_report());
  for (const PartitionJobFile& from : info.files) {
    v1::PartitionFile& file = *wire.add_files();
    file.set_path(from.path);
    file.set_num_bytes(from.num_bytes);
  }
}

uint64_t PartitionFileBytes(uint64_t asked_for, uint64_t max_response_bytes) {
  const uint64_t bytes = asked_for == 0 ? kDefaultFileBytes : std::min(asked_for, kMostFileBytes);
  return std::min(bytes, std::max(max_response_bytes, 2 * kFileFraming) - kFileFraming);
}

}  // namespace packhouse
