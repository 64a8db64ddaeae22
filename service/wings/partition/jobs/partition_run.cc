#include "service/wings/partition/jobs/partition_run.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/file_name.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/cutting/assignment.h"
#include "service/wings/partition/files/chunked_layout.h"
#include "service/wings/partition/files/dgl_reader.h"
#include "service/wings/partition/files/metis_graph_file.h"
#include "service/wings/partition/files/npy_file.h"
#include "service/wings/partition/files/partition_json.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/part_writer.h"

namespace packhouse {
namespace {

// Where each phase ends, as a share of all work: METIS and the files take most of it.
constexpr double kReadingEnds = 0.1;
constexpr double kAssigningEnds = 0.5;
constexpr double kRefiningEnds = 0.55;
constexpr double kNumberingEnds = 0.6;

// Of the work that is kept until the partition is whole.
constexpr char kPlanFile[] = "/plan.json";
constexpr char kAssignedFile[] = "/assigned.json";
constexpr char kPartsFile[] = "/assigned.npy";

absl::Status WriteText(const std::string& path, absl::string_view text) {
  return WriteDurably(path, [text](ByteSink& sink) { return sink.Write(text); }).status();
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  PH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return std::string(file.bytes());
}

absl::StatusOr<uint64_t> WritePartNumbers(const std::string& path,
                                          const std::vector<uint32_t>& parts) {
  return WriteDurably(path, [&parts](ByteSink& sink) {
    return WriteNpyFile(MappedArray<uint32_t>("", DType::kUint32, absl::MakeConstSpan(parts),
                                              [](uint32_t part) { return part; }),
                        sink);
  });
}

class Run {
 public:
  Run(const SourceGraph& source, const PartitionPlan& plan, std::string folder,
      AssignmentEngine* engine, const RunWatch& watch, const GivenParts* given)
      : source_(source),
        plan_(plan),
        folder_(std::move(folder)),
        partial_(PartialFolder(folder_)),
        engine_(engine),
        watch_(watch),
        given_(given) {}

  absl::StatusOr<PartitionReport> Make() {
    PH_RETURN_IF_ERROR(CheckPartitionPlan(plan_));
    if (PathExists(folder_)) {
      return absl::AlreadyExistsError(absl::StrCat(folder_, " is there already"));
    }
    PH_RETURN_IF_ERROR(Begin());
    PH_ASSIGN_OR_RETURN(const HomogeneousGraph graph, HomogeneousGraph::Create(&source_));
    PH_RETURN_IF_ERROR(Assign(graph));
    Tell(RunPhase::kNumbering, kRefiningEnds);
    PH_ASSIGN_OR_RETURN(const NewIds ids,
                        NewIds::Create(&graph, assignment_.part, assignment_.num_parts, Watch()));
    PartitionReport report;
    report.num_nodes = graph.num_nodes();
    report.num_edges = graph.num_edges();
    if (plan_.without_files) {
      CountParts(ids, report);
    } else {
      PH_RETURN_IF_ERROR(WriteParts(ids, report));
    }
    if (plan_.mapping) PH_RETURN_IF_ERROR(WriteMapping(ids));
    if (plan_.assignment) PH_RETURN_IF_ERROR(WriteAssignment(graph));
    if (plan_.without_files) {
      PH_RETURN_IF_ERROR(RemoveFolder(partial_ + kPartsOfNodesFile));
      PH_RETURN_IF_ERROR(Wrote(WritePartNumbers(partial_ + kPartsOfNodesFile, assignment_.part)));
    }
    // A large array, and the report needs none of it.
    report.assignment = std::move(assignment_);
    report.assignment.part.clear();
    report.assignment.trainer.clear();
    for (std::string& note : LeftOutColumns(source_)) {
      report.assignment.notes.push_back(std::move(note));
    }
    PH_RETURN_IF_ERROR(Publish(ids, report));
    Tell(RunPhase::kWriting, 1);
    return report;
  }

 private:
  void Tell(RunPhase phase, double share) {
    share_ = std::max(share_, share);
    if (watch_.progress) watch_.progress(phase, share_);
  }

  // Counts the bytes of a file or of a part once it is on the disk.
  absl::Status Wrote(absl::StatusOr<uint64_t> bytes) {
    PH_RETURN_IF_ERROR(bytes.status());
    written_ += *bytes;
    return watch_.wrote ? watch_.wrote(written_) : absl::OkStatus();
  }

  bool IsCancelled() const { return watch_.cancelled && watch_.cancelled(); }

  PartitionWatch Watch() {
    PartitionWatch watch;
    watch.cancelled = watch_.cancelled;
    watch.progress = [this](PartitionPhase phase, double share) {
      const auto between = [share](double from, double to) { return from + share * (to - from); };
      switch (phase) {
        case PartitionPhase::kReading:
          return Tell(RunPhase::kReading, between(0, kReadingEnds));
        case PartitionPhase::kAssigning:
          return Tell(RunPhase::kAssigning, between(kReadingEnds, kAssigningEnds));
        case PartitionPhase::kRefining:
          return Tell(RunPhase::kRefining, between(kAssigningEnds, kRefiningEnds));
        case PartitionPhase::kNumbering:
          return Tell(RunPhase::kNumbering, between(kRefiningEnds, kNumberingEnds));
      }
    };
    return watch;
  }

  // What was begun stays only if it is of the same graph and the same words.
  absl::Status Begin() {
    std::string words =
        absl::StrCat(source_.version(), given_ != nullptr ? " given " : " ", PlanText(plan_));
    if (given_ != nullptr) {
      absl::StrAppend(&words, " ", given_->reason);
    }
    const absl::StatusOr<std::string> before = ReadText(partial_ + kPlanFile);
    if (before.ok() && *before == words && given_ == nullptr) return absl::OkStatus();
    PH_RETURN_IF_ERROR(RemoveFolder(partial_));
    PH_RETURN_IF_ERROR(MakeFolder(partial_));
    PH_RETURN_IF_ERROR(WriteText(partial_ + kPlanFile, words));
    return SyncFolder(partial_);
  }

  absl::Status Assign(const HomogeneousGraph& graph) {
    if (TakeKeptAssignment(graph)) return absl::OkStatus();
    PH_ASSIGN_OR_RETURN(const PartitionOptions options, OptionsFor(source_, plan_));
    PH_RETURN_IF_ERROR(CheckPartitionOptions(graph, options));
    if (given_ != nullptr) {
      PH_ASSIGN_OR_RETURN(assignment_, DescribeParts(graph, options, given_->part, Watch()));
      assignment_.reason = given_->reason;
    } else {
      PH_ASSIGN_OR_RETURN(assignment_, AssignParts(graph, options, engine_, Watch()));
    }
    const std::vector<uint32_t>& finest =
        assignment_.trainer.empty() ? assignment_.part : assignment_.trainer;
    for (const char* const file : {kPartsFile, kAssignedFile}) {
      PH_RETURN_IF_ERROR(RemoveFolder(partial_ + file));
    }
    PH_RETURN_IF_ERROR(Wrote(WritePartNumbers(partial_ + kPartsFile, finest)));
    PartitionReport kept;
    kept.assignment = assignment_;
    PH_RETURN_IF_ERROR(WriteText(partial_ + kAssignedFile, ReportText(kept)));
    PH_RETURN_IF_ERROR(SyncFolder(partial_));
    if (watch_.kept) watch_.kept();
    return absl::OkStatus();
  }

  // Both files are durable before the folder has their names; a torn one does not parse.
  bool TakeKeptAssignment(const HomogeneousGraph& graph) {
    const absl::StatusOr<MappedFile> file = MappedFile::Open(partial_ + kPartsFile);
    const absl::StatusOr<std::string> text = ReadText(partial_ + kAssignedFile);
    if (!file.ok() || !text.ok()) return false;
    const absl::StatusOr<ArrayView> array = ReadNpyFile(file->bytes());
    absl::StatusOr<PartitionReport> report = ReportOfText(*text);
    if (!array.ok() || !report.ok() || array->header.dtype != DType::kUint32 ||
        array->bytes.size() != graph.num_nodes() * sizeof(uint32_t)) {
      return false;
    }
    assignment_ = std::move(report->assignment);
    assignment_.part.resize(graph.num_nodes());
    std::memcpy(assignment_.part.data(), array->bytes.data(), array->bytes.size());
    const uint32_t trainers = std::max(plan_.options.trainers_per_machine, uint32_t{1});
    if (trainers > 1) {
      assignment_.trainer = assignment_.part;
      for (uint32_t& part : assignment_.part) part /= trainers;
    }
    const bool is_whole =
        std::all_of(assignment_.part.begin(), assignment_.part.end(),
                    [this](uint32_t part) { return part < assignment_.num_parts; });
    if (is_whole) written_ = file->bytes().size();
    return is_whole;
  }

  absl::Status WriteParts(const NewIds& ids, PartitionReport& report) {
    PartCutter cutter(&ids, plan_.options.num_hops, plan_.options.halo);
    uint64_t done = 0;
    bool has_written = false;
    for (uint32_t number = 0; number < ids.num_parts(); ++number) {
      if (IsCancelled()) return absl::CancelledError("the partition was cancelled");
      if (PathExists(PartFolder(partial_, number))) {
        PH_ASSIGN_OR_RETURN(const ReportedPart part, PartOfFiles(number));
        report.parts.push_back(part);
      } else {
        if (has_written && watch_.gives_way && watch_.gives_way()) {
          return absl::AbortedError("the partition gave way to others");
        }
        PH_ASSIGN_OR_RETURN(const Part part, cutter.Cut(number, Watch()));
        const PartTables tables(&ids, &part, assignment_.trainer, plan_.forms);
        const PartSources sources = {tables.Graph(), tables.NodeFeatures(), tables.EdgeFeatures(),
                                     tables.OriginalNodes(), tables.OriginalEdges()};
        const PartFormats formats = {plan_.npy, plan_.safetensors, plan_.original_ids};
        PH_ASSIGN_OR_RETURN(const uint64_t bytes, WritePart(sources, formats, partial_, number));
        report.parts.push_back(tables.Report());
        report.parts.back().num_bytes = bytes;
        has_written = true;
        if (watch_.kept) watch_.kept();
      }
      PH_RETURN_IF_ERROR(Wrote(report.parts.back().num_bytes));
      done += report.parts.back().num_inner_edges + report.parts.back().num_inner_nodes;
      const double share =
          static_cast<double>(done) / static_cast<double>(report.num_edges + report.num_nodes + 1);
      Tell(RunPhase::kWriting, kNumberingEnds + share * (1 - kNumberingEnds));
    }
    return absl::OkStatus();
  }

  // What parts would have, without a halo.
  void CountParts(const NewIds& ids, PartitionReport& report) const {
    report.parts.resize(ids.num_parts());
    for (uint32_t number = 0; number < ids.num_parts(); ++number) {
      report.parts[number].num_inner_nodes = ids.NodesOfPart(number).size();
      report.parts[number].num_inner_edges = ids.EdgesOfPart(number).size();
    }
    for (const HomogeneousEdgeType& type : ids.graph().edge_types()) {
      const uint32_t* const sources =
          assignment_.part.data() + ids.graph().node_types()[type.source].start;
      const HomogeneousNodeType& target = ids.graph().node_types()[type.target];
      for (uint32_t row = 0; row < target.size; ++row) {
        const uint32_t part = assignment_.part[target.start + row];
        for (uint64_t at = type.by_target.offsets[row]; at < type.by_target.offsets[row + 1];
             ++at) {
          if (sources[type.by_target.neighbours[at]] != part) ++report.parts[part].num_cut_edges;
        }
      }
    }
  }

  // Of a part that was written before.
  absl::StatusOr<ReportedPart> PartOfFiles(uint32_t number) const {
    const std::string folder = PartFolder(partial_, number);
    PH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(folder + "/graph.dgl"));
    PH_ASSIGN_OR_RETURN(const DglGraphView graph, ReadDglGraphFile(file.bytes()));
    const auto count = [](const std::vector<ArrayView>& arrays, const char* name) {
      const ArrayView* const marks = FindArray(arrays, name);
      return marks == nullptr
                 ? uint64_t{0}
                 : static_cast<uint64_t>(std::count(marks->bytes.begin(), marks->bytes.end(), 1));
    };
    ReportedPart part;
    part.num_inner_nodes = count(graph.node_data, "inner_node");
    part.num_halo_nodes = graph.num_nodes - part.num_inner_nodes;
    part.num_inner_edges = count(graph.edge_data, "inner_edge");
    const ArrayView* const ids = FindArray(graph.edge_data, "_ID");
    part.num_halo_edges = (ids == nullptr ? 0 : ids->header.shape[0]) - part.num_inner_edges;
    // In the first form that there is, edges by their places or their numbers.
    const auto cut = [&](const ArrayView& sources, const ArrayView* edges) {
      uint64_t crossing = 0;
      for (uint64_t at = 0; at < sources.header.shape[0]; ++at) {
        const auto value = [at](const ArrayView& array) {
          int64_t number_at;
          std::memcpy(&number_at, array.bytes.data() + at * sizeof(number_at), sizeof(number_at));
          return static_cast<uint64_t>(number_at);
        };
        const uint64_t edge = edges == nullptr ? at : value(*edges);
        crossing += edge < part.num_inner_edges && value(sources) >= part.num_inner_nodes ? 1 : 0;
      }
      return crossing;
    };
    if (graph.coo) {
      part.num_cut_edges = cut(graph.coo->sources, nullptr);
    } else if (graph.csc) {
      part.num_cut_edges = cut(graph.csc->neighbours, &graph.csc->edges);
    } else {
      // CSR has sources as rows.
      const auto* const offsets = graph.csr->offsets.bytes.data();
      for (uint64_t row = part.num_inner_nodes; row < graph.num_nodes; ++row) {
        int64_t range[2];
        std::memcpy(range, offsets + row * sizeof(int64_t), sizeof(range));
        for (int64_t at = range[0]; at < range[1]; ++at) {
          int64_t edge;
          std::memcpy(&edge, graph.csr->edges.bytes.data() + static_cast<size_t>(at) * sizeof(edge),
                      sizeof(edge));
          part.num_cut_edges += static_cast<uint64_t>(edge) < part.num_inner_edges ? 1 : 0;
        }
      }
    }
    PH_ASSIGN_OR_RETURN(part.num_bytes, FolderBytes(folder));
    return part;
  }

  absl::Status WriteMapping(const NewIds& ids) {
    const std::string folder = partial_ + "/mapping";
    PH_RETURN_IF_ERROR(RemoveFolder(folder));
    for (const char* const of : {"/nodes", "/edges"}) PH_RETURN_IF_ERROR(MakeFolder(folder + of));
    const HomogeneousGraph& graph = ids.graph();
    for (size_t t = 0; t < graph.node_types().size(); ++t) {
      std::vector<uint32_t> originals = ids.OriginalWithinType(t);
      const ImportedRows& rows = graph.node_types()[t].imported;
      for (uint32_t& original : originals) original = static_cast<uint32_t>(rows.row(original));
      const std::string path =
          absl::StrCat(folder, "/nodes/", FileNameOf(graph.node_types()[t].name), ".npy");
      PH_RETURN_IF_ERROR(Wrote(WriteDurably(path, [&originals](ByteSink& sink) {
        return WriteNpyFile(Int64Array("", absl::MakeConstSpan(originals)), sink);
      })));
    }
    for (size_t t = 0; t < graph.edge_types().size(); ++t) {
      PH_RETURN_IF_ERROR(WriteEdgeMapping(ids, t, folder));
    }
    for (const char* const of : {"/nodes", "/edges", ""}) {
      PH_RETURN_IF_ERROR(SyncFolder(folder + of));
    }
    return absl::OkStatus();
  }

  // Part after part from the files, which have it already: no array of all edges is needed.
  absl::Status WriteEdgeMapping(const NewIds& ids, size_t type, const std::string& folder) {
    ArraySource array;
    array.header = {"", DType::kInt64, {ids.graph().edge_types()[type].size}};
    array.write = [&](ByteSink& sink) -> absl::Status {
      for (uint32_t number = 0; number < ids.num_parts(); ++number) {
        PH_ASSIGN_OR_RETURN(const MappedFile file,
                            MappedFile::Open(PartFolder(partial_, number) + "/graph.dgl"));
        PH_ASSIGN_OR_RETURN(const DglGraphView graph, ReadDglGraphFile(file.bytes()));
        const ArrayView* const originals = FindArray(graph.edge_data, "orig_id");
        const auto range = ids.edge_map()[type][number];
        const uint64_t local = range.begin - ids.EdgesOfPart(number).begin;
        if (originals == nullptr || originals->header.shape[0] < local + range.size()) {
          return absl::DataLossError(absl::StrCat(PartFolder(partial_, number), " is damaged"));
        }
        PH_RETURN_IF_ERROR(sink.Write(
            originals->bytes.substr(local * sizeof(int64_t), range.size() * sizeof(int64_t))));
      }
      return absl::OkStatus();
    };
    const std::string path =
        absl::StrCat(folder, "/edges/", FileNameOf(ids.graph().edge_types()[type].name), ".npy");
    return Wrote(
        WriteDurably(path, [&array](ByteSink& sink) { return WriteNpyFile(array, sink); }));
  }

  absl::Status WriteAssignment(const HomogeneousGraph& graph) {
    const std::string folder = partial_ + "/assignment";
    PH_RETURN_IF_ERROR(RemoveFolder(folder));
    PH_RETURN_IF_ERROR(MakeFolder(folder));
    for (const HomogeneousNodeType& type : graph.node_types()) {
      const auto parts = absl::MakeConstSpan(assignment_.part).subspan(type.start, type.size);
      PH_RETURN_IF_ERROR(
          Wrote(WriteDurably(absl::StrCat(folder, "/", FileNameOf(type.name), ".txt"),
                             [parts](ByteSink& sink) { return WritePartLines(parts, sink); })));
    }
    PH_ASSIGN_OR_RETURN(
        const std::string meta,
        WriteAssignmentMeta({assignment_.num_parts, std::string(MethodName(assignment_.method))}));
    PH_RETURN_IF_ERROR(WriteText(folder + "/partition_meta.json", meta));
    return SyncFolder(folder);
  }

  // From here on the folder is whole: it gets its JSON, loses what was kept to go on, and its name.
  absl::Status Publish(const NewIds& ids, const PartitionReport& report) {
    const HomogeneousGraph& graph = ids.graph();
    const std::string report_path = partial_ + "/report.json";
    if (plan_.without_files) {
      PH_RETURN_IF_ERROR(RemoveFolder(report_path));
      PH_RETURN_IF_ERROR(WriteText(report_path, ReportText(report)));
      return Rename();
    }
    PartitionJson json;
    json.graph_name = plan_.name;
    json.num_nodes = graph.num_nodes();
    json.num_edges = graph.num_edges();
    json.part_method = std::string(MethodName(report.assignment.method));
    json.halo_hops = plan_.options.num_hops;
    const auto add = [](const std::string& name, const auto& ranges, std::vector<TypeRanges>& map) {
      TypeRanges type = {name, {}};
      for (const auto& range : ranges) type.parts.push_back({range.begin, range.end});
      map.push_back(std::move(type));
    };
    for (size_t t = 0; t < graph.node_types().size(); ++t) {
      add(graph.node_types()[t].name, ids.node_map()[t], json.node_map);
    }
    for (size_t t = 0; t < graph.edge_types().size(); ++t) {
      add(graph.edge_types()[t].name, ids.edge_map()[t], json.edge_map);
    }
    for (uint64_t part = 0; part < ids.num_parts(); ++part) {
      json.parts.push_back(DglPartFileNames(part));
    }
    PH_ASSIGN_OR_RETURN(const std::string text, WritePartitionJson(json));
    const std::string json_path = absl::StrCat(partial_, "/", plan_.name, ".json");
    for (const std::string& path : {json_path, report_path}) {
      PH_RETURN_IF_ERROR(RemoveFolder(path));
    }
    PH_RETURN_IF_ERROR(WriteText(report_path, ReportText(report)));
    PH_RETURN_IF_ERROR(WriteText(json_path, text));
    return Rename();
  }

  absl::Status Rename() {
    // The plan first: without it, the rest is nothing to go on from.
    for (const char* const file : {kPlanFile, kPartsFile, kAssignedFile}) {
      PH_RETURN_IF_ERROR(RemoveFolder(partial_ + file));
    }
    if (watch_.whole) PH_RETURN_IF_ERROR(watch_.whole(partial_));
    PH_RETURN_IF_ERROR(SyncFolder(partial_));
    return RenameDurably(partial_, folder_);
  }

  const SourceGraph& source_;
  const PartitionPlan& plan_;
  const std::string folder_;
  const std::string partial_;
  AssignmentEngine* const engine_;
  const RunWatch& watch_;
  const GivenParts* const given_;
  double share_ = 0;
  uint64_t written_ = 0;  // Bytes on the disk, without texts of some lines.
  Assignment assignment_;
};

}  // namespace

std::string PartialFolder(const std::string& folder) { return folder + ".partial"; }

absl::StatusOr<PartitionReport> RunPartition(const SourceGraph& graph, const PartitionPlan& plan,
                                             const std::string& folder, AssignmentEngine* engine,
                                             const RunWatch& watch,
                                             const std::optional<GivenParts>& given) {
  return Run(graph, plan, folder, engine, watch, given ? &*given : nullptr).Make();
}

}  // namespace packhouse
