#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/files/parmetis_converter.h"
#include "service/wings/partition/files/parmetis_rows.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/parmetis_pipeline.h"
#include "service/wings/partition/jobs/part_writer.h"
#include "service/wings/partition/jobs/partition_run.h"

namespace packhouse {

absl::StatusOr<PartitionJson> ConvertParmetisFolder(const ParmetisConversion& conversion) {
  PH_RETURN_IF_ERROR(CheckParmetisName(conversion.graph_name));
  if (PathExists(conversion.output)) {
    return absl::AlreadyExistsError(absl::StrCat(conversion.output, " is there already"));
  }
  if (conversion.num_parts == 0 || conversion.num_parts > kMaxPartsOfDirectory) {
    return absl::InvalidArgumentError(absl::StrCat("the number of parts is ", conversion.num_parts,
                                                   ", must be 1 to ", kMaxPartsOfDirectory));
  }
  const auto in_folder = [&conversion](const std::string& name) {
    return absl::StrCat(conversion.input_folder, "/", name);
  };
  // Maps live as long as the converter.
  std::vector<MappedFile> maps;
  const auto map = [&maps](const std::string& path) -> absl::StatusOr<absl::string_view> {
    PH_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
    maps.push_back(std::move(file));
    return maps.back().bytes();
  };
  ParmetisFiles files;
  PH_ASSIGN_OR_RETURN(const absl::string_view schema_text, map(conversion.schema));
  absl::StatusOr<ParmetisSchema> schema = ReadParmetisSchema(schema_text);
  if (!schema.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(conversion.schema, ": ", schema.status().message()));
  }
  files.schema = *std::move(schema);
  files.num_weights = conversion.num_weights;
  files.node_attributes = conversion.node_attributes;
  files.edge_attributes = conversion.edge_attributes;
  for (uint64_t part = 0; part < conversion.num_parts; ++part) {
    PH_ASSIGN_OR_RETURN(const absl::string_view nodes,
                        map(in_folder(ParmetisPartFile(part, conversion.graph_name, "nodes"))));
    PH_ASSIGN_OR_RETURN(const absl::string_view edges,
                        map(in_folder(ParmetisPartFile(part, conversion.graph_name, "edges"))));
    files.nodes.push_back(nodes);
    files.edges.push_back(edges);
  }
  const std::string beside = in_folder(conversion.graph_name + "_removed_edges.txt");
  if (!conversion.removed_edges.empty() || PathExists(beside)) {
    PH_ASSIGN_OR_RETURN(files.removed_edges,
                        map(conversion.removed_edges.empty() ? beside : conversion.removed_edges));
  }
  PH_ASSIGN_OR_RETURN(const ParmetisConverter converter,
                      ParmetisConverter::Create(std::move(files)));
  PartitionJson json = converter.Json(conversion.graph_name, "metis");
  PH_ASSIGN_OR_RETURN(const std::string text, WritePartitionJson(json));
  const std::string partial = PartialFolder(conversion.output);
  PH_RETURN_IF_ERROR(RemoveFolder(partial));
  PH_RETURN_IF_ERROR(MakeFolder(partial));
  for (uint64_t number = 0; number < conversion.num_parts; ++number) {
    PH_ASSIGN_OR_RETURN(const ConvertedPart part, converter.PartOf(number));
    const PartSources sources = {converter.Graph(part), converter.NodeFeatures(part),
                                 converter.EdgeFeatures(part)};
    PH_RETURN_IF_ERROR(WritePart(sources, {}, partial, number).status());
  }
  PH_RETURN_IF_ERROR(
      WriteDurably(absl::StrCat(partial, "/", conversion.graph_name, ".json"), [&](ByteSink& sink) {
        return sink.Write(text);
      }).status());
  PH_RETURN_IF_ERROR(SyncFolder(partial));
  PH_RETURN_IF_ERROR(RenameDurably(partial, conversion.output));
  return json;
}

}  // namespace packhouse
