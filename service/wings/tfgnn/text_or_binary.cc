#include "service/wings/tfgnn/text_or_binary.h"

#include <string>
#include <vector>

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

absl::Status ParseTextOrBinary(absl::string_view what, absl::string_view bytes, size_t max_bytes,
                               google::protobuf::Message& message) {
  if (bytes.size() > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": ", bytes.size(), " bytes, at most ", max_bytes));
  }
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(kMaxNesting);
  google::protobuf::io::ArrayInputStream text(bytes.data(), static_cast<int>(bytes.size()));
  if (parser.Parse(&text, &message)) return absl::OkStatus();
  message.Clear();
  // Some files of another kind are messages too, with no field that is known.
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    message.GetReflection()->ListFields(message, &fields);
    if (!fields.empty()) return absl::OkStatus();
    message.Clear();
  }
  // The parser quotes words of any length.
  constexpr size_t kMostQuoted = 300;
  absl::string_view why = error.message();
  const bool is_cut = why.size() > kMostQuoted;
  return absl::InvalidArgumentError(absl::StrCat(what, ": neither its binary form nor its text: ",
                                                 why.substr(0, kMostQuoted), is_cut ? "..." : ""));
}

}  // namespace packhouse::tfgnn
