// What a stream of Pack costs the server without its connection: the requests are read, checked and
// packed, and the batches laid out as they are sent. The counters are microseconds a batch: of
// reading a request into its message, of taking it in, and of making batches.
//
//   build/release/tests/benchmarks/packhouse_benchmarks --benchmark_filter=PackStream
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "benchmark/benchmark.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "packhouse/v1/packing.pb.h"
#include "service/base/clock.h"
#include "service/engine/histograms/histogram_store.h"
#include "service/engine/streams/pack_observer.h"
#include "service/server/calls/batch_reply.h"
#include "service/server/calls/request_bytes.h"
#include "service/server/services/pack_handler.h"
#include "tests/packing/molecule_sizes.h"
#include "tests/support/random.h"
#include "tests/support/unwatched_streams.h"

namespace packhouse {
namespace {

// As gRPC's slices.
constexpr int kSliceBytes = 8192;

class Blocks final : public RequestBytes {
 public:
  explicit Blocks(const std::string* bytes) : bytes_(bytes) {}
  size_t size() const override { return bytes_->size(); }
  void Read(absl::FunctionRef<void(google::protobuf::io::ZeroCopyInputStream& stream)> read)
      const override {
    google::protobuf::io::ArrayInputStream stream(bytes_->data(), static_cast<int>(bytes_->size()),
                                                  kSliceBytes);
    read(stream);
  }

 private:
  const std::string* const bytes_;
};

v1::TensorSpec& AddTensor(v1::GraphSchema& schema, const std::string& name, v1::DataType dtype,
                          const std::string& component) {
  v1::TensorSpec& spec = *schema.add_tensors();
  spec.set_name(name);
  spec.set_dtype(dtype);
  spec.set_component(component);
  return spec;
}

// Narrow features, as in the benchmark of the server.
v1::GraphSchema NarrowMolecules() {
  v1::GraphSchema schema;
  schema.add_components("nodes");
  schema.add_components("edges");
  AddTensor(schema, "x", v1::DATA_TYPE_INT16, "nodes").add_row_shape(9);
  for (const char* const ends : {"senders", "receivers"}) {
    AddTensor(schema, ends, v1::DATA_TYPE_INT32, "edges").set_index_into("nodes");
  }
  AddTensor(schema, "edge_attr", v1::DATA_TYPE_INT8, "edges").add_row_shape(3);
  AddTensor(schema, "y", v1::DATA_TYPE_INT8, "graphs");
  return schema;
}

std::string RequestOf(size_t num_graphs, uint64_t seed) {
  const std::vector<uint32_t> sizes = MoleculeSizes(num_graphs, seed);
  v1::PackRequest request;
  v1::GraphChunk& graphs = *request.mutable_graphs();
  graphs.mutable_sizes()->set_num_graphs(num_graphs);
  graphs.mutable_sizes()->set_counts(
      std::string(reinterpret_cast<const char*>(sizes.data()), sizes.size() * sizeof(uint32_t)));
  uint64_t nodes = 0;
  uint64_t edges = 0;
  std::string ends;
  Random random(seed);
  for (size_t i = 0; i < sizes.size(); i += 2) {
    nodes += sizes[i];
    edges += sizes[i + 1];
    for (uint32_t e = 0; e < sizes[i + 1]; ++e) {
      const auto node = static_cast<int32_t>(random.Below(sizes[i]));
      ends.append(reinterpret_cast<const char*>(&node), sizeof(node));
    }
  }
  for (auto& [name, data] :
       {std::pair("x", std::string(nodes * 18, 'x')), std::pair("senders", ends),
        std::pair("receivers", ends), std::pair("edge_attr", std::string(edges * 3, 'e')),
        std::pair("y", std::string(num_graphs, 'y'))}) {
    v1::TensorData& tensor = *graphs.add_tensors();
    tensor.set_name(name);
    tensor.set_data(data);
  }
  return request.SerializeAsString();
}

// The argument: KiB of a batch, and about of a request.
void BM_PackStream(benchmark::State& state) {
  // As the server does: batches are not given back to the kernel.
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  const size_t batch_bytes = static_cast<size_t>(state.range(0)) << 10;
  const size_t num_graphs = batch_bytes / 1072;
  std::vector<std::string> requests;
  for (uint64_t i = 0; i < std::max<size_t>(4, (size_t{4} << 20) / batch_bytes); ++i) {
    requests.push_back(RequestOf(num_graphs, i));
  }
  SystemClock clock;
  HistogramStore histograms({});
  UnwatchedStreams observers;
  PackHandler handler(&clock, {}, &histograms, &observers);
  auto open = std::make_unique<v1::PackRequest>();
  *open->mutable_open()->mutable_schema() = NarrowMolecules();
  open->mutable_open()->set_padding(v1::PADDING_MASKED);
  for (const auto& [component, rows] :
       {std::pair("nodes", 26 * num_graphs), std::pair("edges", 56 * num_graphs),
        std::pair("graphs", num_graphs + num_graphs / 8)}) {
    v1::Capacity& capacity = *open->mutable_open()->mutable_limits()->add_capacities();
    capacity.set_component(component);
    capacity.set_rows(rows);
  }
  open->mutable_open()->add_derived(v1::DERIVED_TENSOR_GRAPH_INDEX);
  open->mutable_open()->add_derived(v1::DERIVED_TENSOR_MASKS);
  if (!handler.Accept(std::move(open)).ok()) return state.SkipWithError("not opened");

  using Time = std::chrono::steady_clock;
  Time::duration reading{};
  Time::duration accepting{};
  Time::duration making{};
  int64_t batches = 0;
  int64_t bytes = 0;
  size_t next = 0;
  // What is being sent.
  MessagePieces sent;
  for (auto unused : state) {
    const Time::time_point begun = Time::now();
    auto request = std::make_unique<v1::PackRequest>();
    const auto hold =
        ParseRequest(Blocks(&requests[next++ % requests.size()]), nullptr, request.get());
    if (!hold.ok()) return state.SkipWithError("not read");
    const Time::time_point read = Time::now();
    if (!handler.Accept(std::move(request)).ok()) return state.SkipWithError("not accepted");
    const Time::time_point accepted = Time::now();
    for (;;) {
      const auto reply = handler.Next();
      if (!reply.ok()) return state.SkipWithError("no batch");
      if (*reply) {
        sent = PiecesOf(**reply);
        bytes += static_cast<int64_t>(sent.size());
        ++batches;
      } else if (!handler.IsBusy()) {
        break;
      }
    }
    reading += read - begun;
    accepting += accepted - read;
    making += Time::now() - accepted;
  }
  const auto each = [&](Time::duration time) {
    return std::chrono::duration<double, std::micro>(time).count() /
           static_cast<double>(std::max<int64_t>(1, batches));
  };
  state.counters["read_us"] = each(reading);
  state.counters["accept_us"] = each(accepting);
  state.counters["make_us"] = each(making);
  state.SetBytesProcessed(bytes);
}
BENCHMARK(BM_PackStream)->Arg(64)->Arg(256)->Arg(1024);

}  // namespace
}  // namespace packhouse
