#include "service/wings/partition_mpi/runs/run_folder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/disk_file.h"
#include "service/base/file_name.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/files/chunked_layout.h"
#include "service/wings/partition/files/dgl_reader.h"
#include "service/wings/partition/files/metis_graph_file.h"
#include "service/wings/partition/files/npy_file.h"
#include "service/wings/partition/files/partition_json.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/part_writer.h"
#include "service/wings/partition/jobs/partition_run.h"

namespace packhouse {
namespace {

absl::Status WriteWhole(const std::string& path, absl::string_view text) {
  return WriteDurably(path, [text](ByteSink& sink) { return sink.Write(text); }).status();
}

// The numbers of a share, unless the file is torn.
std::optional<absl::Span<const uint32_t>> NumbersOf(const MappedFile& file) {
  const absl::StatusOr<ArrayView> array = ReadNpyFile(file.bytes());
  if (!array.ok() || array->header.dtype != DType::kUint32) return std::nullopt;
  // The head of such a file is a multiple of 64 bytes.
  return absl::Span<const uint32_t>(reinterpret_cast<const uint32_t*>(array->bytes.data()),
                                    array->bytes.size() / sizeof(uint32_t));
}

std::vector<TypeRanges> MapOf(const auto& types, const std::vector<std::vector<IdRange>>& ranges) {
  std::vector<TypeRanges> map;
  for (size_t t = 0; t < types.size(); ++t) {
    TypeRanges type = {types[t].name, {}};
    for (const IdRange& range : ranges[t]) type.parts.push_back({range.begin, range.end});
    map.push_back(std::move(type));
  }
  return map;
}

}  // namespace

RunFolder::RunFolder(std::string output)
    : output_(std::move(output)), partial_(PartialFolder(output_)) {}

std::string RunFolder::SharePath(uint32_t rank) const {
  return absl::StrCat(partial_, "/assigned.", rank, ".npy");
}
std::string RunFolder::PartReportPath(uint32_t part) const {
  return absl::StrCat(partial_, "/part", part, ".json");
}

absl::Status RunFolder::Begin(const std::string& words, bool keep) const {
  if (PathExists(output_)) {
    return absl::AlreadyExistsError(absl::StrCat(output_, " is there already"));
  }
  const std::string plan_path = partial_ + "/plan.json";
  if (keep) {
    const absl::StatusOr<std::string> before = ReadWhole(plan_path);
    if (before.ok() && *before == words) return absl::OkStatus();
  }
  PH_RETURN_IF_ERROR(RemoveFolder(partial_));
  PH_RETURN_IF_ERROR(MakeFolder(partial_));
  PH_RETURN_IF_ERROR(WriteWhole(plan_path, words));
  return SyncFolder(partial_);
}

std::optional<std::vector<uint32_t>> RunFolder::KeptShare(uint32_t rank, uint64_t count) const {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(SharePath(rank));
  if (!file.ok()) return std::nullopt;
  const std::optional<absl::Span<const uint32_t>> numbers = NumbersOf(*file);
  if (!numbers || numbers->size() != count) return std::nullopt;
  return std::vector<uint32_t>(numbers->begin(), numbers->end());
}

absl::Status RunFolder::KeepShare(uint32_t rank, absl::Span<const uint32_t> finest) const {
  PH_RETURN_IF_ERROR(RemoveFolder(SharePath(rank)));
  PH_RETURN_IF_ERROR(
      WriteDurably(SharePath(rank), [finest](ByteSink& sink) {
        return WriteNpyFile(
            MappedArray<uint32_t>("", DType::kUint32, finest, [](uint32_t part) { return part; }),
            sink);
      }).status());
  return SyncFolder(partial_);
}

absl::Status RunFolder::KeepDescription(const Assignment& description) const {
  PartitionReport kept;
  kept.assignment = description;
  const std::string path = partial_ + "/assigned.json";
  PH_RETURN_IF_ERROR(RemoveFolder(path));
  PH_RETURN_IF_ERROR(WriteWhole(path, ReportText(kept)));
  return SyncFolder(partial_);
}

absl::StatusOr<Assignment> RunFolder::KeptDescription() const {
  PH_ASSIGN_OR_RETURN(const std::string text, ReadWhole(partial_ + "/assigned.json"));
  PH_ASSIGN_OR_RETURN(PartitionReport report, ReportOfText(text));
  return std::move(report.assignment);
}

absl::btree_map<uint32_t, ReportedPart> RunFolder::WholeParts(uint32_t num_parts) const {
  absl::btree_map<uint32_t, ReportedPart> parts;
  for (uint32_t part = 0; part < num_parts; ++part) {
    const absl::StatusOr<std::string> text = ReadWhole(PartReportPath(part));
    if (!text.ok()) continue;
    const absl::StatusOr<PartitionReport> report = ReportOfText(*text);
    if (!report.ok() || report->parts.size() != 1) continue;
    if (PathExists(PartFolder(partial_, part))) parts[part] = report->parts[0];
  }
  return parts;
}

absl::Status RunFolder::BeginPart(uint32_t part) const {
  PH_RETURN_IF_ERROR(RemoveFolder(PartReportPath(part)));
  return RemoveFolder(PartFolder(partial_, part));
}

absl::Status RunFolder::EndPart(uint32_t part, const ReportedPart& report) const {
  PartitionReport kept;
  kept.parts.push_back(report);
  PH_RETURN_IF_ERROR(WriteWhole(PartReportPath(part), ReportText(kept)));
  return SyncFolder(partial_);
}

absl::Status RunFolder::MakeFolders(bool mapping, bool assignment) const {
  for (const char* const name : {"/mapping", "/assignment"}) {
    PH_RETURN_IF_ERROR(RemoveFolder(partial_ + name));
  }
  if (mapping) {
    PH_RETURN_IF_ERROR(MakeFolder(partial_ + "/mapping/nodes"));
    PH_RETURN_IF_ERROR(MakeFolder(partial_ + "/mapping/edges"));
    PH_RETURN_IF_ERROR(SyncFolder(partial_ + "/mapping"));
  }
  return assignment ? MakeFolder(partial_ + "/assignment") : absl::OkStatus();
}

absl::Status RunFolder::WriteMapping(const SharedIds& ids, const std::vector<IdRange>& ranges,
                                     bool nodes, const std::string& path) const {
  // Part after part from the files, which have it already: no array of all ids is needed.
  uint64_t total = 0;
  for (const IdRange& range : ranges) total += range.size();
  ArraySource array;
  array.header = {"", DType::kInt64, {total}};
  array.write = [&](ByteSink& sink) -> absl::Status {
    for (uint32_t part = 0; part < ids.num_parts(); ++part) {
      const std::string folder = PartFolder(partial_, part);
      PH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(folder + "/graph.dgl"));
      PH_ASSIGN_OR_RETURN(const DglGraphView graph, ReadDglGraphFile(file.bytes()));
      const ArrayView* const originals =
          FindArray(nodes ? graph.node_data : graph.edge_data, "orig_id");
      const IdRange of_part = nodes ? ids.NodesOfPart(part) : ids.EdgesOfPart(part);
      const uint64_t local = ranges[part].begin - of_part.begin;
      if (originals == nullptr || originals->header.shape[0] < local + ranges[part].size()) {
        return absl::DataLossError(absl::StrCat(folder, " is damaged"));
      }
      PH_RETURN_IF_ERROR(sink.Write(
          originals->bytes.substr(local * sizeof(int64_t), ranges[part].size() * sizeof(int64_t))));
    }
    return absl::OkStatus();
  };
  PH_RETURN_IF_ERROR(RemoveFolder(path));
  PH_RETURN_IF_ERROR(
      WriteDurably(path, [&array](ByteSink& sink) { return WriteNpyFile(array, sink); }).status());
  return SyncFolder(partial_ + (nodes ? "/mapping/nodes" : "/mapping/edges"));
}

absl::Status RunFolder::WriteNodeMapping(const SharedIds& ids, size_t type) const {
  return WriteMapping(ids, ids.node_map()[type], true,
                      absl::StrCat(partial_, "/mapping/nodes/",
                                   FileNameOf(ids.graph().types().node_types[type].name), ".npy"));
}

absl::Status RunFolder::WriteEdgeMapping(const SharedIds& ids, size_t type) const {
  return WriteMapping(ids, ids.edge_map()[type], false,
                      absl::StrCat(partial_, "/mapping/edges/",
                                   FileNameOf(ids.graph().types().edge_types[type].name), ".npy"));
}

absl::Status RunFolder::WriteAssignment(const SharedIds& ids, uint32_t trainers_per_machine) const {
  constexpr size_t kLinesAtOnce = 1 << 16;
  const std::string folder = partial_ + "/assignment";
  const Blocks& blocks = ids.graph().blocks();
  for (const SharedNodeType& type : ids.graph().types().node_types) {
    const auto write = [&](ByteSink& sink) -> absl::Status {
      std::vector<uint32_t> lines;
      for (uint32_t rank = 0; rank < blocks.ranks(); ++rank) {
        const uint64_t begin = std::clamp(blocks.begin(rank), type.start, type.end());
        const uint64_t end = std::clamp(blocks.end(rank), type.start, type.end());
        if (begin == end) continue;
        PH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(SharePath(rank)));
        const std::optional<absl::Span<const uint32_t>> finest = NumbersOf(file);
        if (!finest || finest->size() != blocks.size(rank)) {
          return absl::DataLossError(absl::StrCat(SharePath(rank), " is damaged"));
        }
        for (uint64_t at = begin; at < end; at += lines.size()) {
          lines.clear();
          for (uint64_t node = at; node < std::min(end, at + kLinesAtOnce); ++node) {
            lines.push_back((*finest)[node - blocks.begin(rank)] / trainers_per_machine);
          }
          PH_RETURN_IF_ERROR(WritePartLines(lines, sink));
        }
      }
      return absl::OkStatus();
    };
    PH_RETURN_IF_ERROR(
        WriteDurably(absl::StrCat(folder, "/", FileNameOf(type.name), ".txt"), write).status());
  }
  PH_ASSIGN_OR_RETURN(const std::string meta, WriteAssignmentMeta({ids.num_parts(), "metis"}));
  PH_RETURN_IF_ERROR(WriteWhole(folder + "/partition_meta.json", meta));
  return SyncFolder(folder);
}

absl::Status RunFolder::Publish(const SharedIds& ids, const PartitionPlan& plan,
                                const std::string& method, const std::string& report,
                                uint32_t num_ranks) const {
  const SharedTypes& types = ids.graph().types();
  PartitionJson json;
  json.graph_name = plan.name;
  json.num_nodes = types.num_nodes;
  json.num_edges = types.num_edges;
  json.part_method = method;
  json.halo_hops = plan.options.num_hops;
  json.node_map = MapOf(types.node_types, ids.node_map());
  json.edge_map = MapOf(types.edge_types, ids.edge_map());
  for (uint64_t part = 0; part < ids.num_parts(); ++part) {
    json.parts.push_back(DglPartFileNames(part));
  }
  PH_ASSIGN_OR_RETURN(const std::string text, WritePartitionJson(json));
  const std::string json_path = absl::StrCat(partial_, "/", plan.name, ".json");
  const std::string report_path = partial_ + "/report.json";
  for (const std::string& path : {json_path, report_path}) PH_RETURN_IF_ERROR(RemoveFolder(path));
  PH_RETURN_IF_ERROR(WriteWhole(report_path, report));
  PH_RETURN_IF_ERROR(WriteWhole(json_path, text));
  // The plan first: without it, the rest is nothing to go on from.
  PH_RETURN_IF_ERROR(RemoveFolder(partial_ + "/plan.json"));
  PH_RETURN_IF_ERROR(RemoveFolder(partial_ + "/assigned.json"));
  for (uint32_t rank = 0; rank < num_ranks; ++rank) {
    PH_RETURN_IF_ERROR(RemoveFolder(SharePath(rank)));
    PH_RETURN_IF_ERROR(RemoveFolder(absl::StrCat(partial_, "/spool.", rank)));
  }
  for (uint32_t part = 0; part < ids.num_parts(); ++part) {
    PH_RETURN_IF_ERROR(RemoveFolder(PartReportPath(part)));
  }
  PH_RETURN_IF_ERROR(SyncFolder(partial_));
  return RenameDurably(partial_, output_);
}

}  // namespace packhouse
