#include "service/wings/tfgnn/graph_schema_file.h"

#include "google/protobuf/text_format.h"
#include "service/base/status_macros.h"
#include "service/wings/tfgnn/text_or_binary.h"

namespace packhouse::tfgnn {

absl::StatusOr<tensorflow_gnn::GraphSchema> ParseGraphSchema(absl::string_view bytes) {
  tensorflow_gnn::GraphSchema schema;
  PH_RETURN_IF_ERROR(ParseTextOrBinary("graph schema", bytes, kMaxGraphSchemaBytes, schema));
  return schema;
}

std::string GraphSchemaText(const tensorflow_gnn::GraphSchema& schema) {
  // The printer sorts maps by their keys.
  std::string text;
  google::protobuf::TextFormat::PrintToString(schema, &text);
  return text;
}

}  // namespace packhouse::tfgnn
