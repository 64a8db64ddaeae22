// tf.Examples of sub-graphs of OGBN-MAG's shape: read, written, and parsed by protobuf alone, which
// TensorFlow's own parser is no faster than. Bytes are those of the records. One thread.
//
//   build/release/tests/benchmarks/packhouse_benchmarks --benchmark_filter=Tfgnn
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/seeded_random.h"
#include "service/wings/tfgnn/example_decoder.h"
#include "service/wings/tfgnn/example_encoder.h"
#include "service/wings/tfgnn/record_framing.h"
#include "tensorflow/core/example/example.pb.h"

namespace packhouse::tfgnn {
namespace {

constexpr char kMag[] = R"(
    node_sets { key: "author" value { } }
    node_sets { key: "field_of_study" value { } }
    node_sets { key: "institution" value { } }
    node_sets { key: "paper" value {
      features { key: "feat" value { dtype: DT_FLOAT shape { dim { size: 128 } } } }
      features { key: "labels" value { dtype: DT_INT64 shape { dim { size: 1 } } } }
      features { key: "year" value { dtype: DT_INT64 shape { dim { size: 1 } } } } } }
    edge_sets { key: "affiliated_with" value { source: "author" target: "institution" } }
    edge_sets { key: "cites" value { source: "paper" target: "paper" } }
    edge_sets { key: "has_topic" value { source: "paper" target: "field_of_study" } }
    edge_sets { key: "writes" value { source: "author" target: "paper" } }
    edge_sets { key: "written" value { source: "paper" target: "author" } })";
constexpr size_t kRecords = 64;

// A record of about 150 kB, as TF-GNN's guide has them: 250 papers and 3,800 edges.
void AppendMagGraph(const GraphSets& sets, SeededRandom& random, RowBuilder& rows) {
  const uint32_t nodes[] = {700, 500, 90, 230 + static_cast<uint32_t>(random.Below(41))};
  for (size_t s = 0; s < sets.node_sets().size(); ++s) {
    rows.counts()[sets.node_sets()[s].component] = nodes[s];
  }
  const auto put = [&rows](size_t t, auto value) {
    std::memcpy(rows.column(t).Grow(sizeof(value)), &value, sizeof(value));
  };
  for (const EdgeSet& edges : sets.edge_sets()) {
    constexpr uint32_t kEdges = 760;
    rows.counts()[edges.component] = kEdges;
    for (uint32_t e = 0; e < kEdges; ++e) {
      put(edges.source, static_cast<int32_t>(random.Below(nodes[edges.source_set])));
      put(edges.target, static_cast<int32_t>(random.Below(nodes[edges.target_set])));
    }
  }
  for (const Feature& feature : sets.node_sets()[3].features) {
    for (uint32_t row = 0; row < nodes[3]; ++row) {
      if (feature.dtype == DType::kInt64) {
        put(feature.values, static_cast<int64_t>(random.Below(2020)));
        continue;
      }
      for (int j = 0; j < 128; ++j) {
        put(feature.values, static_cast<float>(random.Below(1000)) / 1000);
      }
    }
  }
  rows.EndGraph();
}

struct Data {
  GraphSets sets = GraphSets::FromTfgnnFile(kMag).value();
  GraphChunk graphs = [this] {
    SeededRandom random(1);
    RowBuilder rows(sets.shared_schema());
    for (size_t i = 0; i < kRecords; ++i) AppendMagGraph(sets, random, rows);
    return rows.Build(0).value();
  }();
  std::vector<std::string> records = [this] {
    std::vector<std::string> made(kRecords);
    ExampleEncoder encoder(sets);
    for (size_t i = 0; i < kRecords; ++i) (void)encoder.Append(graphs, i, &made[i]);
    return made;
  }();
  int64_t bytes = [this] {
    int64_t sum = 0;
    for (const std::string& record : records) sum += static_cast<int64_t>(record.size());
    return sum;
  }();
};

// Leaves the records for others to read, if PACKHOUSE_TFGNN_RECORDS names a folder.
const Data* MakeData() {
  const auto* const data = new Data();
  const char* const folder = std::getenv("PACKHOUSE_TFGNN_RECORDS");
  if (folder == nullptr) return data;
  std::string file;
  for (const std::string& record : data->records) AppendRecord(record, &file);
  std::ofstream(absl::StrCat(folder, "/records.tfrecord"), std::ios::binary) << file;
  std::ofstream(absl::StrCat(folder, "/schema.pbtxt")) << kMag;
  return data;
}

const Data& TheData() {
  static const Data* const data = MakeData();
  return *data;
}

void BM_TfgnnDecode(benchmark::State& state) {
  const Data& data = TheData();
  ExampleDecoder decoder = ExampleDecoder::Create(data.sets).value();
  for (auto _ : state) {
    RowBuilder rows(data.sets.shared_schema());
    for (size_t i = 0; i < kRecords; ++i) {
      if (!decoder.Append(data.records[i], i, rows).ok()) state.SkipWithError("refused");
    }
    benchmark::DoNotOptimize(rows.Build(0));
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * data.bytes);
}
BENCHMARK(BM_TfgnnDecode)->Unit(benchmark::kMillisecond);

void BM_TfgnnProtobufParse(benchmark::State& state) {
  const Data& data = TheData();
  for (auto _ : state) {
    for (const std::string& record : data.records) {
      tensorflow::Example example;
      if (!example.ParseFromString(record)) state.SkipWithError("refused");
      benchmark::DoNotOptimize(example);
    }
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * data.bytes);
}
BENCHMARK(BM_TfgnnProtobufParse)->Unit(benchmark::kMillisecond);

void BM_TfgnnEncode(benchmark::State& state) {
  const Data& data = TheData();
  ExampleEncoder encoder(data.sets);
  std::string record;
  for (auto _ : state) {
    for (size_t i = 0; i < kRecords; ++i) {
      record.clear();
      if (!encoder.Append(data.graphs, i, &record).ok()) state.SkipWithError("refused");
      benchmark::DoNotOptimize(record);
    }
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * data.bytes);
}
BENCHMARK(BM_TfgnnEncode)->Unit(benchmark::kMillisecond);

// A file of these records, 1 MiB at a time.
void BM_TfgnnRecordReader(benchmark::State& state) {
  std::string file;
  for (const std::string& record : TheData().records) AppendRecord(record, &file);
  for (auto _ : state) {
    RecordReader reader("f");
    size_t records = 0;
    for (size_t at = 0; at < file.size(); at += size_t{1} << 20) {
      reader.Feed(absl::string_view(file).substr(at, size_t{1} << 20));
      while (true) {
        const auto record = reader.Next();
        if (!record.ok() || !record->has_value()) break;
        ++records;
      }
    }
    if (records != kRecords) state.SkipWithError("damaged");
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(file.size()));
}
BENCHMARK(BM_TfgnnRecordReader)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace packhouse::tfgnn
