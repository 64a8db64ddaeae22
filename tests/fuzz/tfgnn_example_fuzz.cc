// Any bytes as a tf.Example. Whatever comes in: no crash; what is taken is written and read back as
// the same rows; and what protobuf parses is taken or refused as what protobuf makes of it.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/status/statusor.h"
#include "google/protobuf/stubs/logging.h"
#include "service/wings/tfgnn/example_decoder.h"
#include "service/wings/tfgnn/example_encoder.h"
#include "tensorflow/core/example/example.pb.h"
#include "tests/fuzz/tfgnn_fuzz_schema.h"

namespace {

namespace tfgnn = packhouse::tfgnn;
using packhouse::GraphChunk;

constexpr size_t kMaxGraphBytes = size_t{1} << 20;

void Fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

class Pipeline {
 public:
  absl::StatusOr<GraphChunk> Read(absl::string_view record) {
    const absl::Status status = decoder_.Append(record, 0, rows_);
    if (!status.ok()) {
      if (rows_.num_graphs() != 0) Fail("a refused record left something");
      return status;
    }
    return rows_.Build(0);
  }
  absl::StatusOr<std::string> Written(const GraphChunk& chunk) {
    std::string record;
    const absl::Status status = encoder_.Append(chunk, 0, &record);
    if (!status.ok()) return status;
    return record;
  }

 private:
  tfgnn::GraphSets sets_ = tfgnn::GraphSets::FromTfgnnFile(tfgnn::kFuzzSchema).value();
  tfgnn::ExampleDecoder decoder_ =
      tfgnn::ExampleDecoder::Create(sets_, {"", kMaxGraphBytes}).value();
  tfgnn::ExampleEncoder encoder_{sets_};
  tfgnn::RowBuilder rows_{sets_.shared_schema()};
};

void ExpectSame(const GraphChunk& a, const GraphChunk& b) {
  if (a.sizes().counts() != b.sizes().counts()) Fail("sizes differ");
  for (size_t t = 0; t < a.num_columns(); ++t) {
    if (a.column(t) != b.column(t)) Fail("rows differ");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // protobuf logs every key that is no UTF-8.
  static const google::protobuf::LogSilencer silencer;
  static auto* const pipeline = new Pipeline();
  const absl::string_view record(reinterpret_cast<const char*>(data), size);
  const auto graph = pipeline->Read(record);
  tensorflow::Example example;
  if (example.ParseFromArray(data, static_cast<int>(size))) {
    const auto same = pipeline->Read(example.SerializeAsString());
    if (same.ok() != graph.ok()) Fail("protobuf's form of it has another fate");
    if (graph.ok()) ExpectSame(*graph, *same);
  }
  if (!graph.ok()) return 0;
  // NaN's bits may change in float16 and bfloat16; written once, they are those that stay.
  auto written = pipeline->Written(*graph);
  if (!written.ok()) Fail("what was read cannot be written");
  const auto again = pipeline->Read(*written);
  if (!again.ok()) Fail("what was written cannot be read");
  const auto twice = pipeline->Written(*again);
  if (!twice.ok() || *twice != *written) Fail("what was written changes");
  return 0;
}
