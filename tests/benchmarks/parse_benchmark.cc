// What it costs to know a message's footprint before it is parsed, as a part of what parsing it
// costs alone: pairs of both, one right after the other, so that a machine that is slower for a
// while is slower for both. The counters are medians of the pairs.
//
//   build/release/tests/benchmarks/packhouse_benchmarks --benchmark_filter=Footprint
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "packhouse/v1/dataset.pb.h"
#include "packhouse/v1/histogram.pb.h"
#include "packhouse/v1/packing.pb.h"
#include "packhouse/v1/planning.pb.h"
#include "service/server/calls/wire_footprint.h"

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

// The time of one run of `work`. It is repeated often enough that the clock's resolution does not
// matter.
template <typename Work>
double Nanoseconds(int repetitions, const Work& work) {
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < repetitions; ++i) work();
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begun;
  return taken.count() / repetitions;
}

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <typename Message>
void BM_FootprintBesideParse(benchmark::State& state) {
  const std::string bytes =
      MessageOf(static_cast<const Message*>(nullptr), static_cast<int>(state.range(0)))
          .SerializeAsString();
  const FootprintTable& table = FootprintTableOf<Message>();
  const auto measure = [&] {
    ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()), kBlockBytes);
    benchmark::DoNotOptimize(
        table.Measure(&stream, bytes.size(), MostFootprint(bytes.size()))->bytes);
  };
  const auto parse = [&] {
    ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()), kBlockBytes);
    Message message;
    benchmark::DoNotOptimize(message.ParseFromZeroCopyStream(&stream));
  };
  constexpr double kPairNanoseconds = 1e5;
  const int repetitions =
      std::max(1, static_cast<int>(kPairNanoseconds / (1 + Nanoseconds(10, parse))));
  std::vector<double> parsed;
  std::vector<double> parts;
  for (auto _ : state) {
    // Either comes first as often as the other.
    const bool is_odd = parsed.size() % 2 != 0;
    double measured = is_odd ? Nanoseconds(repetitions, measure) : 0;
    parsed.push_back(Nanoseconds(repetitions, parse));
    if (!is_odd) measured = Nanoseconds(repetitions, measure);
    parts.push_back(measured / parsed.back());
  }
  state.counters["parse_ns"] = MedianOf(parsed);
  state.counters["footprint_percent_of_parse"] = 100 * MedianOf(parts);
  state.counters["bytes"] = static_cast<double>(bytes.size());
}

BENCHMARK_TEMPLATE(BM_FootprintBesideParse, v1::ObserveRequest)->Arg(1)->Arg(64)->Arg(4096);
BENCHMARK_TEMPLATE(BM_FootprintBesideParse, v1::PackRequest)->Arg(1)->Arg(16)->Arg(1024);
BENCHMARK_TEMPLATE(BM_FootprintBesideParse, v1::AppendRequest)->Arg(1)->Arg(1024);
BENCHMARK_TEMPLATE(BM_FootprintBesideParse, v1::PlanRequest)->Arg(1000);

}  // namespace
}  // namespace packhouse
