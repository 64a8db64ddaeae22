#include "service/wings/partition_mpi/runs/distributed_run.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/cutting/assignment.h"
#include "service/wings/partition/files/json_fields.h"
#include "service/wings/partition/files/partition_json.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/part_writer.h"
#include "service/wings/partition_mpi/runs/chunked_edge_reader.h"
#include "service/wings/partition_mpi/runs/chunked_input.h"
#include "service/wings/partition_mpi/runs/feature_shuffle.h"
#include "service/wings/partition_mpi/runs/gathered_tables.h"
#include "service/wings/partition_mpi/runs/own_classes.h"
#include "service/wings/partition_mpi/runs/run_folder.h"
#include "service/wings/partition_mpi/shares/part_gatherer.h"
#include "service/wings/partition_mpi/shares/share_assignment.h"

namespace packhouse {
namespace {

constexpr char kEngineName[] = "pt-scotch";

class DistributedRun {
 public:
  DistributedRun(Ranks& ranks, const DistributedRequest& request, ShareEngine& engine,
                 const PhaseWatch& watch)
      : ranks_(ranks),
        request_(request),
        plan_(request.plan),
        folder_(request.output),
        engine_(engine),
        watch_(watch) {}

  absl::StatusOr<PartitionReport> Make() {
    PH_RETURN_IF_ERROR(Open());
    Tell("reading");
    PH_ASSIGN_OR_RETURN(const std::unique_ptr<EdgeReader> reader,
                        MakeChunkedEdgeReader(ranks_, input_));
    PH_ASSIGN_OR_RETURN(GraphShare graph, GraphShare::Create(ranks_, &input_.types, *reader));
    PH_RETURN_IF_ERROR(Assign(graph));
    Tell("numbering");
    const uint32_t trainers = plan_.options.trainers_per_machine;
    std::vector<uint32_t> part = finest_;
    for (uint32_t& p : part) p /= trainers;
    const SharedIds ids(ranks_, &graph, part, plan_.options.num_parts);
    PartGatherer gatherer(
        &ranks_, &ids, part,
        trainers > 1 ? absl::MakeConstSpan(finest_) : absl::Span<const uint32_t>(),
        plan_.options.num_hops, plan_.options.halo);
    PH_ASSIGN_OR_RETURN(const FeatureShuffle features, FeatureShuffle::Open(ranks_, input_, &ids));
    PartitionReport report;
    report.num_nodes = input_.types.num_nodes;
    report.num_edges = input_.types.num_edges;
    PH_RETURN_IF_ERROR(WriteParts(ids, gatherer, features, report));
    report.assignment = description_;
    report.assignment.notes.insert(report.assignment.notes.end(), features.notes().begin(),
                                   features.notes().end());
    Tell("publishing");
    PH_RETURN_IF_ERROR(WriteMappings(ids));
    PH_RETURN_IF_ERROR(Agree(ranks_, ranks_.rank() == 0 ? Publish(ids, report) : absl::OkStatus()));
    return report;
  }

 private:
  void Tell(const std::string& phase) const {
    if (watch_ && ranks_.rank() == 0) watch_(phase);
  }

  absl::Status Open() {
    absl::Status status = CheckPartitionPlan(plan_);
    if (status.ok()) status = CheckPartitionNumbers(plan_.options);
    if (status.ok() && !request_.assignment.empty()) {
      // How many parts; the shares are read later.
      const absl::StatusOr<GivenShare> given =
          ReadGivenShare(request_.assignment, SharedTypes(), 0, 0);
      status = given.status();
      if (given.ok()) plan_.options.num_parts = given->num_parts;
    }
    absl::StatusOr<ChunkedInput> input = ReadChunkedInput(request_.graph);
    if (status.ok()) status = input.status();
    PH_RETURN_IF_ERROR(Agree(ranks_, status));
    input_ = *std::move(input);
    std::string words = absl::StrCat(input_.version, " ", ranks_.size(), " ranks ",
                                     request_.assignment.empty() ? "" : "given ", PlanText(plan_));
    if (ranks_.rank() == 0) status = folder_.Begin(words, request_.assignment.empty());
    return Agree(ranks_, status);
  }

  absl::Status Assign(const GraphShare& graph) {
    const bool given = !request_.assignment.empty();
    if (!given && TakeKept(graph)) return absl::OkStatus();
    PH_ASSIGN_OR_RETURN(const std::vector<OwnClasses> classes,
                        ReadOwnClasses(ranks_, input_, plan_, graph.first_node(),
                                       graph.first_node() + graph.num_own()));
    ShareAssignment made;
    if (given) {
      absl::StatusOr<GivenShare> share =
          ReadGivenShare(request_.assignment, input_.types, graph.first_node(),
                         graph.first_node() + graph.num_own());
      PH_RETURN_IF_ERROR(Agree(ranks_, share.status()));
      PartitionOptions options = plan_.options;
      options.trainers_per_machine = 1;
      plan_.options.trainers_per_machine = 1;
      made = DescribeShare(ranks_, graph, classes, options, std::move(share->part));
      made.description.reason = absl::StrCat("as ", request_.assignment, " says");
    } else {
      Tell("assigning");
      PH_ASSIGN_OR_RETURN(made, AssignShare(ranks_, graph, classes, plan_.options, engine_));
    }
    finest_ = std::move(made.finest);
    description_ = std::move(made.description);
    PH_RETURN_IF_ERROR(Agree(ranks_, folder_.KeepShare(ranks_.rank(), finest_)));
    return Agree(ranks_,
                 ranks_.rank() == 0 ? folder_.KeepDescription(description_) : absl::OkStatus());
  }

  // What an earlier run had assigned, if every rank has its share of it.
  bool TakeKept(const GraphShare& graph) {
    absl::StatusOr<Assignment> description = folder_.KeptDescription();
    std::optional<std::vector<uint32_t>> share = folder_.KeptShare(ranks_.rank(), graph.num_own());
    const uint32_t num_parts = plan_.options.num_parts * plan_.options.trainers_per_machine;
    const bool whole = description.ok() && share.has_value() &&
                       std::all_of(share->begin(), share->end(),
                                   [num_parts](uint32_t part) { return part < num_parts; });
    if (AnyRank(ranks_, !whole)) return false;
    finest_ = *std::move(share);
    description_ = *std::move(description);
    return true;
  }

  absl::Status WriteGathered(const SharedIds& ids, const GatheredPart& part,
                             const FeatureShuffle& features,
                             const FeatureShuffle::OfPart& rows) const {
    const GatheredTables tables(&ids, &part, plan_.forms);
    const bool has_trainers = plan_.options.trainers_per_machine > 1;
    PartSources sources;
    sources.graph = tables.Graph();
    sources.node_features =
        features.NodeArrays(rows, part.number, [&](size_t type, std::vector<ArraySource>& arrays) {
          if (has_trainers) arrays.push_back(tables.NodeTrainers(type));
        });
    sources.edge_features =
        features.EdgeArrays(rows, part.number, [&](size_t type, std::vector<ArraySource>& arrays) {
          if (has_trainers) arrays.push_back(tables.EdgeTrainers(type));
        });
    sources.original_nodes = tables.OriginalNodes();
    sources.original_edges = tables.OriginalEdges();
    PH_RETURN_IF_ERROR(folder_.BeginPart(part.number));
    ReportedPart reported = tables.Report();
    const PartFormats formats = {plan_.npy, plan_.safetensors, plan_.original_ids};
    PH_ASSIGN_OR_RETURN(reported.num_bytes,
                        WritePart(sources, formats, folder_.partial(), part.number));
    return folder_.EndPart(part.number, reported);
  }

  absl::Status WriteParts(const SharedIds& ids, PartGatherer& gatherer,
                          const FeatureShuffle& features, PartitionReport& report) {
    PH_ASSIGN_OR_RETURN(const std::vector<uint32_t> missing, MissingParts());
    PH_RETURN_IF_ERROR(Agree(ranks_, MakeFolder(SpoolFolder())));
    for (size_t first = 0; first < missing.size(); first += ranks_.size()) {
      Tell(absl::StrCat("writing part ", missing[first], " of ", ids.num_parts()));
      const size_t at = first + ranks_.rank();
      const std::optional<uint32_t> own =
          at < missing.size() ? std::optional(missing[at]) : std::nullopt;
      const std::optional<GatheredPart> part = gatherer.Gather(own);
      const PartGatherer::Wave wave = gatherer.AgreeOnWave(own);
      PH_ASSIGN_OR_RETURN(const FeatureShuffle::OfPart rows,
                          features.Gather(ranks_, wave, SpoolFolder()));
      PH_RETURN_IF_ERROR(
          Agree(ranks_, part ? WriteGathered(ids, *part, features, rows) : absl::OkStatus()));
    }
    PH_RETURN_IF_ERROR(Agree(ranks_, RemoveFolder(SpoolFolder())));
    absl::Status status;
    if (ranks_.rank() == 0) {
      for (const auto& [number, part] : folder_.WholeParts(ids.num_parts())) {
        report.parts.push_back(part);
      }
      if (report.parts.size() != ids.num_parts()) {
        status = absl::DataLossError(absl::StrCat(folder_.partial(), " has ", report.parts.size(),
                                                  " whole parts of ", ids.num_parts()));
      }
    }
    return Agree(ranks_, status);
  }

  std::string SpoolFolder() const {
    return absl::StrCat(folder_.partial(), "/spool.", ranks_.rank());
  }

  // Rank 0 looks, so that all ranks have the same answer.
  absl::StatusOr<std::vector<uint32_t>> MissingParts() {
    std::vector<uint64_t> whole(plan_.options.num_parts);
    if (ranks_.rank() == 0) {
      for (const auto& [part, report] : folder_.WholeParts(plan_.options.num_parts)) {
        whole[part] = 1;
      }
    }
    ranks_.Sum(absl::MakeSpan(whole));
    std::vector<uint32_t> missing;
    for (uint32_t part = 0; part < whole.size(); ++part) {
      if (whole[part] == 0) missing.push_back(part);
    }
    return missing;
  }

  absl::Status WriteMappings(const SharedIds& ids) {
    PH_RETURN_IF_ERROR(Agree(ranks_, ranks_.rank() == 0
                                         ? folder_.MakeFolders(plan_.mapping, plan_.assignment)
                                         : absl::OkStatus()));
    absl::Status status;
    if (plan_.mapping) {
      const size_t num_nodes = input_.node_types.size();
      for (size_t i = ranks_.rank(); i < num_nodes + input_.edge_types.size() && status.ok();
           i += ranks_.size()) {
        status = i < num_nodes ? folder_.WriteNodeMapping(ids, i)
                               : folder_.WriteEdgeMapping(ids, i - num_nodes);
      }
    }
    if (plan_.assignment && ranks_.rank() == 0 && status.ok()) {
      status = folder_.WriteAssignment(ids, plan_.options.trainers_per_machine);
    }
    return Agree(ranks_, status);
  }

  absl::Status Publish(const SharedIds& ids, const PartitionReport& report) const {
    const bool given = !request_.assignment.empty();
    return folder_.Publish(ids, plan_, given ? "metis" : kEngineName,
                           DistributedReportText(report, given), ranks_.size());
  }

  Ranks& ranks_;
  const DistributedRequest& request_;
  PartitionPlan plan_;
  const RunFolder folder_;
  ShareEngine& engine_;
  const PhaseWatch& watch_;
  ChunkedInput input_;
  std::vector<uint32_t> finest_;  // Of own nodes.
  Assignment description_;
};

}  // namespace

absl::StatusOr<PartitionReport> RunDistributedPartition(Ranks& ranks,
                                                        const DistributedRequest& request,
                                                        ShareEngine& engine,
                                                        const PhaseWatch& watch) {
  return DistributedRun(ranks, request, engine, watch).Make();
}

std::string DistributedReportText(const PartitionReport& report, bool given) {
  constexpr int kIndent = 1;
  const std::string text = ReportText(report);
  if (given) return text;
  OrderedJson json = OrderedJson::parse(text);
  json["method"] = kEngineName;
  return json.dump(kIndent, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace packhouse
