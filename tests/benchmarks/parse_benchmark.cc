// What it costs to know a message's footprint before it is parsed, beside parsing it. Compare the
// two figures of one message:
//
//   build/release/tests/benchmarks/packhouse_benchmarks --benchmark_filter='Footprint|ParseOnly'
//     --benchmark_enable_random_interleaving=true --benchmark_repetitions=9
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "packhouse/v1/dataset.pb.h"
#include "packhouse/v1/histogram.pb.h"
#include "packhouse/v1/packing.pb.h"
#include "packhouse/v1/planning.pb.h"
#include "service/wire/wire_footprint.h"

namespace packhouse {
namespace {

using google::protobuf::io::ArrayInputStream;

// As gRPC's slices.
constexpr int kBlockBytes = 8192;

void FillGraphs(int num_graphs, v1::GraphChunk& graphs) {
  graphs.mutable_sizes()->set_num_graphs(num_graphs);
  graphs.mutable_sizes()->set_counts(std::string(num_graphs * 8, 'c'));
  for (const auto& [name, row_bytes] : {std::pair("x", 25 * 72), std::pair("edge_index", 50 * 16),
                                        std::pair("edge_attr", 50 * 24), std::pair("y", 4)}) {
    v1::TensorData& tensor = *graphs.add_tensors();
    tensor.set_name(name);
    tensor.set_data(std::string(num_graphs * row_bytes, 'd'));
  }
}

v1::PackRequest MessageOf(const v1::PackRequest*, int num_graphs) {
  v1::PackRequest request;
  FillGraphs(num_graphs, *request.mutable_graphs());
  return request;
}
v1::AppendRequest MessageOf(const v1::AppendRequest*, int num_graphs) {
  v1::AppendRequest request;
  request.mutable_producer_sequence()->set_producer("a producer");
  request.mutable_producer_sequence()->set_sequence(12345);
  FillGraphs(num_graphs, *request.mutable_graphs());
  return request;
}
v1::ObserveRequest MessageOf(const v1::ObserveRequest*, int num_graphs) {
  v1::ObserveRequest request;
  request.mutable_sizes()->set_num_graphs(num_graphs);
  request.mutable_sizes()->set_counts(std::string(num_graphs * 8, 'c'));
  return request;
}
v1::PlanRequest MessageOf(const v1::PlanRequest*, int num_patterns) {
  v1::PlanRequest request;
  for (int p = 0; p < num_patterns; ++p) {
    v1::Pattern& pattern = *request.mutable_warm_start()->add_patterns();
    pattern.set_repeats(p + 1);
    for (int e = 0; e < 3; ++e) pattern.add_entries()->set_tuple(p + e);
  }
  return request;
}

template <typename Message>
void BM_Footprint(benchmark::State& state) {
  const std::string bytes =
      MessageOf(static_cast<const Message*>(nullptr), static_cast<int>(state.range(0)))
          .SerializeAsString();
  const FootprintTable& table = FootprintTableOf<Message>();
  for (auto _ : state) {
    ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()), kBlockBytes);
    benchmark::DoNotOptimize(
        table.Measure(&stream, bytes.size(), MostFootprint(bytes.size()))->bytes);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes.size()));
}

template <typename Message>
void BM_ParseOnly(benchmark::State& state) {
  const std::string bytes =
      MessageOf(static_cast<const Message*>(nullptr), static_cast<int>(state.range(0)))
          .SerializeAsString();
  for (auto _ : state) {
    ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()), kBlockBytes);
    Message message;
    benchmark::DoNotOptimize(message.ParseFromZeroCopyStream(&stream));
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes.size()));
}

BENCHMARK_TEMPLATE(BM_Footprint, v1::ObserveRequest)->Arg(1)->Arg(64)->Arg(4096);
BENCHMARK_TEMPLATE(BM_ParseOnly, v1::ObserveRequest)->Arg(1)->Arg(64)->Arg(4096);
BENCHMARK_TEMPLATE(BM_Footprint, v1::PackRequest)->Arg(1)->Arg(16)->Arg(1024);
BENCHMARK_TEMPLATE(BM_ParseOnly, v1::PackRequest)->Arg(1)->Arg(16)->Arg(1024);
BENCHMARK_TEMPLATE(BM_Footprint, v1::AppendRequest)->Arg(1)->Arg(1024);
BENCHMARK_TEMPLATE(BM_ParseOnly, v1::AppendRequest)->Arg(1)->Arg(1024);
BENCHMARK_TEMPLATE(BM_Footprint, v1::PlanRequest)->Arg(1000);
BENCHMARK_TEMPLATE(BM_ParseOnly, v1::PlanRequest)->Arg(1000);

}  // namespace
}  // namespace packhouse
