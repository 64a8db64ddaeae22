// Any bytes as a schema of TF-GNN. Whatever comes in: no crash, and what is taken means the same on
// the way back.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "google/protobuf/stubs/logging.h"
#include "service/wings/tfgnn/graph_schema_file.h"
#include "service/wings/tfgnn/graph_sets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace tfgnn = packhouse::tfgnn;
  // protobuf logs every name that is no UTF-8.
  static const google::protobuf::LogSilencer silencer;
  const auto schema = tfgnn::ParseGraphSchema({reinterpret_cast<const char*>(data), size});
  if (!schema.ok()) return 0;
  const auto warnings = tfgnn::ValidateGraphSchema(*schema, true);
  const auto sets = tfgnn::GraphSets::FromTfgnn(*schema);
  if (!sets.ok()) return 0;
  const std::string text = sets->ToTfgnnText();
  const auto again = tfgnn::GraphSets::FromTfgnnFile(text);
  const bool is_same =
      again.ok() && again->ToTfgnnText() == text && again->node_sets() == sets->node_sets() &&
      again->edge_sets() == sets->edge_sets() && again->context() == sets->context();
  // A schema that warns is a schema that is accepted without the check of tagged read-outs too.
  if (is_same && (!warnings.ok() || tfgnn::ValidateGraphSchema(*schema).ok())) return 0;
  std::fprintf(stderr, "not the same: %s\n", text.c_str());
  std::abort();
}
