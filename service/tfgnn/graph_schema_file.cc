#include "service/tfgnn/graph_schema_file.h"

#include <climits>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/text_format.h"

namespace packhouse::tfgnn {
namespace {

constexpr int kMaxNesting = 100;

// Keeps the first error, which the others follow from.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (message_.empty()) {
      message_ = absl::StrCat("line ", line + 1, ", column ", column + 1, ": ", message);
    }
  }
  void AddWarning(int /*line*/, google::protobuf::io::ColumnNumber /*column*/,
                  const std::string& /*message*/) override {}
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

}  // namespace

absl::StatusOr<tensorflow_gnn::GraphSchema> ParseGraphSchema(absl::string_view bytes) {
  if (bytes.size() > kMaxGraphSchemaBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("graph schema: ", bytes.size(), " bytes, at most ", kMaxGraphSchemaBytes));
  }
  tensorflow_gnn::GraphSchema schema;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(kMaxNesting);
  google::protobuf::io::ArrayInputStream text(bytes.data(), static_cast<int>(bytes.size()));
  if (parser.Parse(&text, &schema)) return schema;
  schema.Clear();
  if (schema.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return schema;
  return absl::InvalidArgumentError(
      absl::StrCat("graph schema: neither its binary form nor its text: ", error.message()));
}

std::string GraphSchemaText(const tensorflow_gnn::GraphSchema& schema) {
  // The printer sorts maps by their keys.
  std::string text;
  google::protobuf::TextFormat::PrintToString(schema, &text);
  return text;
}

}  // namespace packhouse::tfgnn
