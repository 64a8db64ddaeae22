// Writes valid inputs for the fuzz targets to start from: make_seeds FOLDER, which has a folder
// NAME-corpus for each target.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "packhouse/v1/batch.pb.h"
#include "packhouse/v1/dataset.pb.h"
#include "packhouse/v1/graphs.pb.h"
#include "packhouse/v1/histogram.pb.h"
#include "packhouse/v1/loader.pb.h"
#include "packhouse/v1/packing.pb.h"
#include "packhouse/v1/planning.pb.h"
#include "packhouse/v1/sampling.pb.h"
#include "service/engine/jobs/cursor.h"
#include "service/engine/jobs/event_codec.h"
#include "service/stores/datasets/chunk_record.h"
#include "service/wings/partition/files/chunked_layout.h"
#include "service/wings/partition/files/dgl_format.h"
#include "service/wings/partition/files/dgl_writer.h"
#include "service/wings/partition/files/npy_file.h"
#include "service/wings/partition/files/partition_json.h"
#include "service/wings/partition/files/safetensors_file.h"
#include "service/wings/tfgnn/example_encoder.h"
#include "service/wings/tfgnn/random_graphs.h"
#include "service/wings/tfgnn/record_framing.h"
#include "tests/fuzz/sealed_record.h"
#include "tests/fuzz/tfgnn_fuzz_schema.h"

namespace {

namespace v1 = packhouse::v1;

template <typename Message>
std::string Bytes(const std::string& text) {
  Message message;
  if (!google::protobuf::TextFormat::ParseFromString(text, &message)) std::abort();
  return message.SerializeAsString();
}

// As MessageStream reads them.
std::string Stream(const std::vector<std::string>& messages) {
  std::string stream;
  for (const std::string& message : messages) {
    stream.push_back(static_cast<char>(message.size() % 256));
    stream.push_back(static_cast<char>(message.size() / 256));
    stream += message;
  }
  return stream;
}

void Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

constexpr char kSchema[] = R"(
    components: 'nodes' components: 'edges'
    tensors { name: 'x' dtype: DATA_TYPE_INT16 component: 'nodes' padding_value: "\1\2" }
    tensors { name: 'e' dtype: DATA_TYPE_INT8 row_shape: 2 component: 'edges' index_into: 'nodes'
              layout: LAYOUT_ROWS_LAST }
    tensors { name: 'y' dtype: DATA_TYPE_BOOL component: 'graphs' })";
// Two graphs: 2 nodes and 1 edge, 1 node and no edge.
constexpr char kSizes[] = R"(num_graphs: 2 counts: "\2\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0")";
constexpr char kHistogram[] =
    R"(tuples: "\3\0\0\0\5\0\0\0\2\0\0\0\0\0\0\0" counts: "\x0a\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0")";
constexpr char kLimits[] = R"(capacities { component: 'nodes' rows: 9 }
                              capacities { component: 'edges' rows: 12 }
                              capacities { component: 'graphs' rows: 4 })";

// A tf.Example of two nodes and an edge, and the schema of TF-GNN that it obeys.
constexpr char kExample[] =
    R"(\012\226\001\012\026\012\015nodes/n.#size\022\005\032\003\012\001\002\012\031)"
    R"(\012\011nodes/n.x\022\014\022\012\012\010\000\000\200\077\000\000\000@\012\025)"
    R"(\012\011nodes/n.t\022\010\012\006\012\002ab\012\000\012\026\012\015edges/e.#size)"
    R"(\022\005\032\003\012\001\001\012\030\012\017edges/e.#source\022\005\032\003\012)"
    R"(\001\001\012\030\012\017edges/e.#target\022\005\032\003\012\001\000)";
constexpr char kTfgnnSchema[] =
    "node_sets { key: 'n' value { features { key: 'x' value { dtype: DT_FLOAT } } "
    "features { key: 't' value { dtype: DT_STRING } } } } "
    "edge_sets { key: 'e' value { source: 'n' target: 'n' } }";

// A record of the two graphs, with group ids, and explicit graph ids if they are not in order. The
// first byte tells the target to make the checksums fit what it changes.
std::string ChunkRecord(std::vector<uint64_t> graph_ids) {
  const auto graph_schema = packhouse::GraphSchema::Create(
      packhouse::SizeSchema::NodesAndEdges(), {{"x", packhouse::DType::kInt16, {}, 0, {}, {}},
                                               {"e", packhouse::DType::kInt32, {2}, 1, 0, {}}});
  auto table = packhouse::SizeTable::WithIds(2, 2, {2, 1, 1, 0}, std::move(graph_ids));
  const std::string edge(8, '\0');
  const auto graphs =
      packhouse::GraphChunk::Create(&*graph_schema, *std::move(table), {"abcdef", edge}, nullptr);
  const std::vector<uint64_t> group_ids = {5, 6};
  const auto encoded = packhouse::EncodedChunk::Create(&*graphs, group_ids);
  std::string record(1 + encoded->num_bytes(), '\3');
  encoded->WriteTo(record.data() + 1, {3, 1000});
  return record;
}

packhouse::EpochIdentity Epoch(uint64_t epoch) {
  packhouse::EpochIdentity identity;
  identity.key = {"job", epoch};
  identity.dataset = "molecules";
  identity.dataset_version = 3;
  identity.seed = 11;
  identity.rank_groups = {{{222, 502, 64}, 2, 30}, {{100, 300, 64}, 1, 10}};
  identity.options = "shuffle";
  return identity;
}

// As ledger_fuzz reads them.
std::string Ledger(const std::vector<packhouse::LedgerEvent>& events) {
  std::vector<std::string> records;
  for (const auto& event : events) records.push_back(packhouse::EncodeEvent(event));
  return std::string(1, '\0') + Stream(records);
}

packhouse::PlannerResult Plan() {
  packhouse::PlannerResult plan;
  plan.receipt = "v1-0";
  plan.dataset_version = 3;
  plan.shapes = {{{222, 502, 64}}, {{100, 300, 64}, {10, 30, 6}}};
  plan.num_components = 2;
  plan.tuples = {3, 5, 20, 40};
  plan.patterns = {{{{{0, 2}, {1, 1}}, 4}}, {{{{0, 3}}, 1}}};
  return plan;
}

// The first byte says which kind of file; of a graph file, the head is shortened.
void WritePartitionSeeds(const std::string& folder) {
  const auto iota = [](uint64_t i) { return i; };
  const auto array = packhouse::MadeArray<int64_t>("a/x", packhouse::DType::kInt64, 2, iota);
  const std::string binary = folder + "partition_binary_fuzz-corpus/";
  packhouse::StringSink tensors, graph, npy, safetensors;
  packhouse::DglGraphSource source;
  source.num_nodes = 2;
  source.coo = packhouse::DglCooSource{array, array};
  source.node_data = {array};
  source.edge_data = {array};
  if (!packhouse::WriteDglTensorFile({array}, tensors).ok() ||
      !packhouse::WriteDglGraphFile(source, graph).ok() ||
      !packhouse::WriteNpyFile(array, npy).ok() ||
      !packhouse::WriteSafetensorsFile({array}, safetensors).ok()) {
    std::abort();
  }
  std::string short_graph = graph.bytes();
  short_graph.erase(32, packhouse::kDglHeadBytes - 32);
  packhouse::PartitionJson json;
  json.num_nodes = 2;
  json.node_map = {{"a", {{0, 2}}}};
  json.edge_map = {{"a:r:a", {{0, 0}}}};
  json.parts = {packhouse::DglPartFileNames(0)};
  Write(binary + "tensors", std::string(1, '\0') + tensors.bytes());
  Write(binary + "graph", "\1" + short_graph);
  Write(binary + "npy", "\2" + npy.bytes());
  Write(binary + "safetensors", "\3" + safetensors.bytes());
  Write(binary + "json", "\4" + packhouse::WritePartitionJson(json).value());
  const std::string text = folder + "partition_text_fuzz-corpus/";
  Write(text + "metis", std::string(1, '\0') + "3 2 011 2\n1 0 2 5\n0 1 1 5 3 1\n1 1 2 1\n");
  Write(text + "parts", "\0010 1\n1 0\n");
  Write(text + "rows", "\0033 1 2\n0 1 0 0\n0 2 0 1\n");
  const std::string zero(1, '\0');
  Write(text + "conversion",
        "\2"
        R"({"nid": {"a": [0, 2], "b": [2, 3]}, "eid": {"ba": [0, 1], "ab": [1, 4]}})" +
            zero + "0 1 1 0 7\n" + zero + "1 0 1 0\n2 0 1 1\n" + zero + "2 0 1 2 0 1\n" + zero +
            "0 2 2 1 0 0\n" + zero + "0 2 1 1\n1 2 2 1\n");
}

// metadata.json, partition_meta.json, the parts of two types, and the files that the metadata
// names.
void WriteChunkedSeeds(const std::string& folder) {
  packhouse::StringSink pairs, rows;
  auto ends = packhouse::MadeArray<int32_t>("", packhouse::DType::kInt32, 4,
                                            [](uint64_t i) { return i / 2; });
  ends.header.shape = {2, 2};
  const auto feature =
      packhouse::MadeArray<uint8_t>("", packhouse::DType::kUint8, 3, [](uint64_t i) { return i; });
  if (!packhouse::WriteNpyFile(ends, pairs).ok() || !packhouse::WriteNpyFile(feature, rows).ok()) {
    std::abort();
  }
  packhouse::ChunkedGraph graph;
  using packhouse::ChunkFormat;
  graph.node_types = {{"a", 3, {}, {{"x", ChunkFormat::kNumpy, ' ', {"2"}}}}, {"b", 2, {}, {}}};
  graph.edge_types = {{"a:r:b", 3, {}, {"", ChunkFormat::kCsv, ',', {"0"}}, {}},
                      {"b:r:a", 2, {}, {"", ChunkFormat::kNumpy, ' ', {"1"}}, {}}};
  const std::string between = "\n%%\n";
  const std::string text = packhouse::WriteChunkedMetadata(graph).value() + between +
                           R"({"num_parts": 2, "algo_name": "metis"})" + between + "0\n1\n1" +
                           between + "1\n0\n" + between + "0,1\n2,0\n1,1\n" + between +
                           pairs.bytes() + between + rows.bytes();
  Write(folder + "chunked_folder_fuzz-corpus/folder", text);
}

// A byte of options, one of seeds, one of limits; then a spec, or four bytes an op.
void WriteSamplingSeeds(const std::string& folder) {
  const std::string corpus = folder + "sampling_fuzz-corpus/";
  const std::string spec =
      "seed_op { op_name: 's' node_set_name: 'paper' } sampling_ops { op_name: 'a' input_op_names: "
      "'s' edge_set_name: 'written' sample_size: 2 strategy: RANDOM_UNIFORM } sampling_ops { "
      "op_name: 'b' input_op_names: 'a' edge_set_name: 'writes' sample_size: 1 }";
  const std::string zero(1, '\0');
  Write(corpus + "text", zero + "\5" + zero + spec);
  Write(corpus + "link", "\2\3\xff" + std::string("symmetric_link_seed_op { op_name: 's' }"));
  Write(corpus + "short", "\3\3" + zero + "\1\3\2\1\3\2\2\2\4\1\1\2");
  Write(corpus + "times", "\x15\x2f" + zero + "\1\3\2\1\3\2\2\1\4\1\1\1");
}

void WritePackSeeds(const std::string& folder) {
  const std::string schema = kSchema;
  const std::string sizes = kSizes;
  const std::string limits = kLimits;
  const std::string chunk =
      Bytes<v1::PackRequest>("graphs { sizes {" + sizes + R"(} tensors { name: 'x' data: "abcdef" }
          tensors { name: 'e' data: "\0\1" } tensors { name: 'y' data: "\1\0" } })");
  int seed = 0;
  for (const char* padding : {"PADDING_NONE", "PADDING_MASKED", "PADDING_GRAPH"}) {
    const std::string open = Bytes<v1::PackRequest>(
        "open { schema {" + schema + "} limits {" + limits + "} padding: " + padding +
        " look_ahead: 2 derived: DERIVED_TENSOR_ROW_COUNTS derived: DERIVED_TENSOR_MASKS "
        "derived: DERIVED_TENSOR_GRAPH_INDEX derived: DERIVED_TENSOR_ROW_OFFSETS }");
    Write(folder + "pack_stream_fuzz-corpus/seed" + std::to_string(seed++),
          Stream({open, chunk, chunk, Bytes<v1::PackRequest>("flush { token: 1 }"), chunk}));
  }
  const std::string examples =
      absl::StrCat("examples { examples: \"", kExample, "\" examples: \"\\n\" examples: \"\" ");
  for (const char* options :
       {"padding: PADDING_TFGNN min_rows { component: 'n' rows: 1 }", "padding: PADDING_NONE"}) {
    const std::string open = Bytes<v1::PackRequest>(absl::StrCat(
        "open { tfgnn_schema { text: \"", kTfgnnSchema,
        "\" } limits { capacities { component: 'n' rows: 9 } capacities { component: 'e' rows: 9 } "
        "capacities { component: 'graphs' rows: 4 } } ",
        options, " derived: DERIVED_TENSOR_ROW_COUNTS }"));
    Write(folder + "pack_stream_fuzz-corpus/seed" + std::to_string(seed++),
          Stream({open, Bytes<v1::PackRequest>(examples + "skip_malformed: true }"),
                  Bytes<v1::PackRequest>("flush { token: 1 }"),
                  Bytes<v1::PackRequest>(examples + "first_id: 7 }")}));
  }
  Write(folder + "pack_stream_fuzz-corpus/seed" + std::to_string(seed),
        Stream({Bytes<v1::PackRequest>("open { limits {" + limits +
                                       "} histogram: 'h' max_delay { seconds: 1 } }"),
                Bytes<v1::PackRequest>("sizes {" + sizes + "}"),
                Bytes<v1::PackRequest>("sizes {" + sizes + "first_id: 70 }")}));
  const std::string device =
      "device_profile { components { component: 'nodes' max_rows: 24 multiple_of: 3 "
      "bytes_per_row: 4 } components { component: 'edges' max_rows: 40 } memory_bytes: 4096 "
      "max_distinct_shapes: 3 } ";
  Write(folder + "pack_stream_fuzz-corpus/seed_device",
        Stream({Bytes<v1::PackRequest>("open { schema {" + schema + "} padding: PADDING_GRAPH " +
                                       device + "calibration { num_graphs: 3 } }"),
                chunk, chunk, Bytes<v1::PackRequest>("flush { token: 1 }"), chunk}));
  Write(folder + "pack_stream_fuzz-corpus/seed_device_histogram",
        Stream({Bytes<v1::PackRequest>("open { histogram: 'h' " + device +
                                       "calibration { num_graphs: 9 histogram: 'h' } }"),
                Bytes<v1::PackRequest>("sizes {" + sizes + "}")}));
}

// Of histograms, plans and tuning.
void WritePlanningSeeds(const std::string& folder) {
  const std::string sizes = kSizes;
  const std::string limits = kLimits;
  const std::string histogram = kHistogram;
  Write(folder + "histogram_fuzz-corpus/seed",
        Stream({Bytes<v1::ObserveRequest>("histogram: 'h' producer_sequence { producer: 'p' "
                                          "sequence: 3 } sizes {" +
                                          sizes + "}"),
                Bytes<v1::MergeHistogramRequest>("histogram: 'h' addend {" + histogram + "}"),
                Bytes<v1::MergeHistogramRequest>("histogram: 'h' subtract: true addend {" +
                                                 histogram + "}")}));
  Write(folder + "plan_fuzz-corpus/seed",
        Bytes<v1::PlanRequest>("histogram {" + histogram + "} limits {" + limits +
                               "} include_baselines: true include_notebook: true"));
  Write(folder + "plan_fuzz-corpus/seed_warm",
        Bytes<v1::PlanRequest>("histogram {" + histogram + "} limits {" + limits +
                               R"(} include_tuple_packing: true budget_steps: 5000 seed: 7
                                  warm_start {
                                    tuples: "\2\0\0\0\0\0\0\0\3\0\0\0\5\0\0\0"
                                    patterns { entries { tuple: 1 copies: 2 } entries { copies: 1 }
                                               repeats: 4 }
                                    patterns { entries { copies: 3 } repeats: 1 } })"));
  const std::string profile = R"(
      components { component: 'nodes' min_rows: 3 max_rows: 24 multiple_of: 3 bytes_per_row: 4 }
      components { component: 'edges' max_rows: 40 multiple_of: 8 relative_cost: 0.5 }
      components { component: 'graphs' max_rows: 4 } memory_bytes: 4096 fixed_bytes: 100 )";
  Write(folder + "tune_fuzz-corpus/seed",
        Bytes<v1::TuneRequest>("histogram {" + histogram + "} profile {" + profile +
                               "} include_grid: true budget_steps: 5000 seed: 7"));
  Write(folder + "tune_fuzz-corpus/seed_mean",
        Bytes<v1::TuneRequest>("histogram {" + histogram + "} profile {" + profile +
                               "} objective: TUNE_OBJECTIVE_HARMONIC_MEAN"));
  Write(folder + "tune_fuzz-corpus/seed_shapes",
        Bytes<v1::TuneRequest>("histogram {" + histogram + "} profile {" + profile +
                               "max_distinct_shapes: 3 }"));
}

void WriteCursorSeeds(const std::string& folder) {
  const packhouse::Cursor cursor = {Epoch(7), 3, packhouse::BatchSet::Of({0, 1, 2, 5, 39})};
  const std::string text = packhouse::EncodeCursor(cursor);
  Write(folder + "cursor_fuzz-corpus/seed_text", std::string(1, '\0') + text);
  std::string record;
  if (!absl::WebSafeBase64Unescape(text, &record)) std::abort();
  Write(folder + "cursor_fuzz-corpus/seed_message", '\1' + packhouse::Unsealed(record));
  packhouse::Cursor sampled = cursor;
  sampled.identity.num_windows = 3;
  sampled.windows = {25, 15};
  Write(folder + "cursor_fuzz-corpus/seed_windows",
        std::string(1, '\0') + packhouse::EncodeCursor(sampled));
}

void WriteSampleStreamSeeds(const std::string& folder) {
  const std::string seeds = "seeds { seeds { numbers: '\\1\\0\\0\\0\\2\\0\\0\\0' } }";
  const std::string spec =
      "sub_graphs { graph: 'g' text: \"seed_op { op_name: 'seed' node_set_name: 'n' } sampling_ops "
      "{ "
      "op_name: 'a' input_op_names: 'seed' edge_set_name: 'e' sample_size: 3 strategy: "
      "RANDOM_UNIFORM }\"";
  Write(folder + "sample_stream_fuzz-corpus/seed_graphs",
        Stream({Bytes<v1::SampleRequest>("open { " + spec + " } seed: 3 }"),
                Bytes<v1::SampleRequest>(seeds)}));
  Write(folder + "sample_stream_fuzz-corpus/seed_batches",
        Stream({Bytes<v1::SampleRequest>(
                    "open { " + spec +
                    " readout: true readout_columns { name: 'y' dtype: DATA_TYPE_UINT8 } } pack { "
                    "limits { capacities { component: 'n' rows: 20 } capacities { component: "
                    "'graphs' rows: 4 } } padding: PADDING_MASKED } }"),
                Bytes<v1::SampleRequest>(
                    "seeds { seeds { numbers: '\\1\\0\\0\\0\\2\\0\\0\\0' readout { name: 'y' "
                    "data: 'ab' } } }"),
                Bytes<v1::SampleRequest>("flush {}")}));
}

void WriteLedgerSeeds(const std::string& folder) {
  const packhouse::EpochKey key = Epoch(7).key;
  const auto plan = packhouse::KeepPlan(Plan());
  const std::vector<packhouse::LedgerEvent> events = {
      packhouse::EpochOpened{Epoch(7)},
      packhouse::GenerationStarted{key, 3, "first", packhouse::Sharing::Ranked(2),
                                   packhouse::BatchSet::Of({1})},
      packhouse::WorkerJoined{key, 3, "worker"},
      packhouse::BatchesAcknowledged{key, 3, packhouse::BatchSet::Of({0, 2, 3, 39})},
      packhouse::EpochOpened{Epoch(8)},
      packhouse::EpochPlanned{Epoch(8).key, plan->digest, plan},
      packhouse::EpochPlanned{key, plan->digest, nullptr},
      packhouse::GenerationStarted{Epoch(8).key, 4, "", {}, {}},
      packhouse::EpochForgotten{key},
      packhouse::GenerationsUsed{9}};
  Write(folder + "ledger_fuzz-corpus/seed", Ledger(events));
}

void WriteLoadSeeds(const std::string& folder) {
  const std::string schema = kSchema;
  const std::string sizes = kSizes;
  const std::string limits = kLimits;
  int seed = 0;
  const std::string append = Bytes<v1::AppendRequest>(
      "dataset: 'd' producer_sequence { producer: 'p' sequence: 1 } graphs { sizes {" + sizes +
      R"(} tensors { name: 'x' data: "abcdef" } tensors { name: 'e' data: "\0\1" }
          tensors { name: 'y' data: "\1\0" } } group_ids: "\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0")");
  const std::string epoch = "epoch { dataset: 'd' job: 'j' rank_groups { shapes {" + limits + "} }";
  for (const std::string options :
       {"padding: PADDING_GRAPH derived: DERIVED_TENSOR_MASKS } ranked { num_ranks: 2 }",
        "grouped: true payload: PAYLOAD_SIZES } dynamic { worker: 'w' } attempt: 'a'",
        "in_order: true look_ahead: 3 } ranked { num_ranks: 1 drop_last: true }",
        "subset { ranges { count: 1 } } draw { num_graphs: 3 with_replacement: true } } "
        "ranked { num_ranks: 1 } max_in_flight: 1"}) {
    Write(
        folder + "load_fuzz-corpus/seed" + std::to_string(seed++),
        Stream({Bytes<v1::CreateDatasetRequest>("name: 'd' grouped: true schema {" + schema + "}"),
                append, "", Bytes<v1::LoadRequest>(epoch + options)}));
  }
}

// Batches as they are received, and chunks as they are stored.
void WriteBatchSeeds(const std::string& folder) {
  const std::string schema = kSchema;
  const std::string loaded = Bytes<v1::LoadResponse>(R"(batch { batch { id: 3 epoch: 1 step: 3
      graph_ids: "\7\0\0\0\0\0\0\0" sizes: "\2\0\0\0\1\0\0\0" real_rows: 2 real_rows: 1 real_rows: 1
      rows: 2 rows: 2 rows: 1
      tensors { name: 'x' dtype: DATA_TYPE_INT16 shape: 2 data: "abcd" }
      tensors { name: 'e' dtype: DATA_TYPE_INT8 shape: 2 shape: 2 data: "\0\1\1\1" } }
      is_redelivered: true graphs_of_step: 9 shape: 1 })");
  for (const char piece : {'\1', '\x7f'}) {
    Write(folder + "batch_view_fuzz-corpus/seed" + std::to_string(piece), piece + loaded);
  }
  Write(folder + "chunk_record_fuzz-corpus/seed_consecutive", ChunkRecord({40, 41}));
  Write(folder + "chunk_record_fuzz-corpus/seed_explicit", ChunkRecord({41, 40}));
  Write(folder + "uncollate_fuzz-corpus/seed",
        Stream({Bytes<v1::GraphSchema>(schema),
                Bytes<v1::Batch>(R"(graph_ids: "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"
                                    sizes: "\2\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0"
                                    tensors { name: 'x' data: "abcdef" }
                                    tensors { name: 'e' data: "\0\1" }
                                    tensors { name: 'y' data: "\1\0" })")}));
}

// The first byte chooses the message, the second how it is cut.
void WriteFootprintSeeds(const std::string& folder) {
  const std::string sizes = kSizes;
  const std::string limits = kLimits;
  const std::string histogram = kHistogram;
  const std::vector<std::string> messages = {
      Bytes<v1::PackRequest>("open { schema {" + std::string(kSchema) + "} limits {" + limits +
                             "} padding: PADDING_MASKED }"),
      Bytes<v1::ObserveRequest>("histogram: 'h' sizes {" + sizes + "}"),
      Bytes<v1::PlanRequest>("histogram {" + histogram + "} limits {" + limits + "}"),
      Bytes<v1::LoadRequest>("epoch { dataset: 'd' job: 'j' rank_groups { shapes {" + limits +
                             "} } } ranked { num_ranks: 2 }"),
      Bytes<v1::AcknowledgeRequest>("job: 'j' epoch: 7 batches: 1 batches: 300"),
      Bytes<v1::AppendRequest>("dataset: 'd' graphs { sizes {" + sizes +
                               R"(} tensors { name: 'x' data: "abcdef" } })"),
      Bytes<v1::CreateDatasetRequest>("name: 'd' schema {" + std::string(kSchema) + "}")};
  for (size_t i = 0; i < messages.size(); ++i) {
    Write(folder + "footprint_fuzz-corpus/seed" + std::to_string(i),
          std::string{static_cast<char>(i), '\x10'} + messages[i]);
  }
}

void WriteTfgnnSeeds(const std::string& folder) {
  Write(folder + "tfgnn_schema_fuzz-corpus/seed_text", packhouse::tfgnn::kFuzzSchema);
  const auto sets = packhouse::tfgnn::GraphSets::FromTfgnnFile(packhouse::tfgnn::kFuzzSchema);
  if (!sets.ok()) std::abort();
  packhouse::SeededRandom random(1);
  packhouse::tfgnn::RowBuilder rows(sets->shared_schema());
  packhouse::tfgnn::ExampleEncoder encoder(*sets);
  std::string file;
  for (const uint32_t most : {0U, 1U, 3U}) {
    packhouse::tfgnn::RandomGraphOptions options;
    options.min_rows = most == 3 ? 1 : most;
    options.max_rows = most;
    std::string example;
    if (!packhouse::tfgnn::AppendRandomGraph(*sets, options, random, rows).ok()) std::abort();
    if (!encoder.Append(rows.Build(0).value(), 0, &example).ok()) std::abort();
    Write(folder + "tfgnn_example_fuzz-corpus/seed" + std::to_string(most), example);
    packhouse::tfgnn::AppendRecord(example.substr(0, 20), &file);
  }
  Write(folder + "tfrecord_fuzz-corpus/seed", file);
}

void WriteTableSeeds(const std::string& folder) {
  Write(folder + "csv_reader_fuzz-corpus/seed", "id,\"a \"\"b\"\"\"\r\nx,\"two\nlines\"\n,\n");
  Write(folder + "table_rows_fuzz-corpus/seed_csv", "\1-1,s,text,t,0.5");
  Write(folder + "unigraph_fuzz-corpus/seed",
        "node_sets { key: 'a' value { features { key: 'f' value { dtype: DT_FLOAT shape { dim { "
        "size: -1 } } } } metadata { filename: 'a.csv' } } } edge_sets { key: 'e' value { source: "
        "'a' target: 'a' metadata { filename: 'e.tfrecords@2' extra { key: 'edge_type' value: "
        "'reversed' } } } }");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = std::string(argv[1]) + "/";
  for (const auto write :
       {WritePackSeeds, WritePlanningSeeds, WriteCursorSeeds, WriteSampleStreamSeeds,
        WriteLedgerSeeds, WriteLoadSeeds, WriteBatchSeeds, WriteTfgnnSeeds, WritePartitionSeeds,
        WriteChunkedSeeds, WriteFootprintSeeds, WriteTableSeeds, WriteSamplingSeeds}) {
    write(folder);
  }
  return 0;
}
