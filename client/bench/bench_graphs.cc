#include "client/bench/bench_graphs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/bench/npz_graphs.h"
#include "client/cpp/batch_slices.h"
#include "client/cpp/little_endian.h"
#include "client/cpp/schema_layout.h"
#include "client/graph/files/fingerprint.h"
#include "packhouse/v1/packing.pb.h"

namespace packhouse::client {
namespace {

constexpr uint64_t kNumMade = 41127;

// SplitMix64 (Steele et al. 2014).
class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed) {}
  uint64_t Below(uint64_t bound) {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (z ^ (z >> 31)) % bound;
  }

 private:
  uint64_t state_;
};

void AddTensor(v1::GraphSchema& schema, const std::string& name, v1::DataType dtype, uint32_t width,
               const std::string& component, const std::string& index_into = "") {
  v1::TensorSpec* const spec = schema.add_tensors();
  spec->set_name(name);
  spec->set_dtype(dtype);
  if (width > 0) spec->add_row_shape(width);
  spec->set_component(component);
  spec->set_index_into(index_into);
}

// Molecules that nobody has seen.
class MadeMolecules final : public GraphSource {
 public:
  MadeMolecules() {
    schema_.add_components("nodes");
    schema_.add_components("edges");
    AddTensor(schema_, "senders", v1::DATA_TYPE_INT32, 0, "edges", "nodes");
    AddTensor(schema_, "receivers", v1::DATA_TYPE_INT32, 0, "edges", "nodes");
    AddTensor(schema_, "x", v1::DATA_TYPE_INT16, 9, "nodes");
    AddTensor(schema_, "edge_attr", v1::DATA_TYPE_INT8, 3, "edges");
    AddTensor(schema_, "y", v1::DATA_TYPE_INT8, 0, "graphs");
    Draw draw(1);
    for (uint64_t i = 0; i < kNumMade; ++i) {
      uint32_t nodes = 4;
      for (int part = 0; part < 4; ++part) nodes += static_cast<uint32_t>(draw.Below(11));
      if (draw.Below(64) == 0) nodes += static_cast<uint32_t>(draw.Below(160));
      // Bonds of a tree and some rings, each in both directions.
      const uint32_t edges = 2 * (nodes - 1 + static_cast<uint32_t>(draw.Below(6)));
      sizes_.push_back(nodes);
      sizes_.push_back(edges);
    }
  }

  const v1::GraphSchema& schema() const override { return schema_; }
  bool is_grouped() const override { return false; }
  uint64_t num_graphs() const override { return kNumMade; }
  uint64_t GraphBytes(uint64_t graph) const override {
    return uint64_t{sizes_[2 * graph]} * 18 + uint64_t{sizes_[2 * graph + 1]} * 11 + 1 + 8;
  }
  std::string fingerprint() const override {
    Fingerprint fingerprint;
    fingerprint.Add("made molecules 1");
    return fingerprint.Hex();
  }

  absl::StatusOr<SourceChunk> Next(uint64_t count) override {
    SourceChunk chunk;
    v1::SizeTable& table = *chunk.graphs.mutable_sizes();
    table.set_num_graphs(count);
    table.set_first_id(next_);
    AppendLittleEndian(absl::MakeConstSpan(sizes_).subspan(2 * next_, 2 * count),
                       *table.mutable_counts());
    std::vector<std::string*> data;
    for (const v1::TensorSpec& spec : schema_.tensors()) {
      v1::TensorData* const tensor = chunk.graphs.add_tensors();
      tensor->set_name(spec.name());
      data.push_back(tensor->mutable_data());
    }
    Draw draw(next_);
    for (const uint64_t end = next_ + count; next_ < end; ++next_) {
      const uint32_t nodes = sizes_[2 * next_];
      for (uint32_t edge = 0; edge < sizes_[2 * next_ + 1]; ++edge) {
        const int32_t ends[] = {static_cast<int32_t>(draw.Below(nodes)),
                                static_cast<int32_t>(draw.Below(nodes))};
        AppendLittleEndian(absl::MakeConstSpan(ends, 1), *data[0]);
        AppendLittleEndian(absl::MakeConstSpan(ends + 1, 1), *data[1]);
        for (int i = 0; i < 3; ++i) data[3]->push_back(static_cast<char>(draw.Below(5)));
      }
      for (uint32_t i = 0; i < 9 * nodes; ++i) {
        const int16_t value = static_cast<int16_t>(draw.Below(119));
        AppendLittleEndian(absl::MakeConstSpan(&value, 1), *data[2]);
      }
      data[4]->push_back(static_cast<char>(draw.Below(2)));
    }
    return chunk;
  }

 private:
  v1::GraphSchema schema_;
  // Nodes and edges of each graph.
  std::vector<uint32_t> sizes_;
  uint64_t next_ = 0;
};

absl::Status AddRequests(const std::string& path, uint64_t chunk_bytes, BenchGraphs& graphs) {
  absl::StatusOr<std::unique_ptr<GraphSource>> source = OpenBenchGraphs(path);
  if (!source.ok()) return source.status();
  std::vector<grpc::ByteBuffer> requests;
  uint64_t num_bytes = 0;
  for (uint64_t begin = 0; begin < graphs.num_graphs;) {
    const uint64_t end = EndOfChunk(**source, begin, chunk_bytes);
    absl::StatusOr<SourceChunk> chunk = (*source)->Next(end - begin);
    if (!chunk.ok()) return chunk.status();
    if (graphs.requests.empty()) graphs.sizes += chunk->graphs.sizes().counts();
    v1::PackRequest request;
    *request.mutable_graphs() = std::move(chunk->graphs);
    // They are sent again and again: the server numbers them.
    request.mutable_graphs()->mutable_sizes()->clear_ids();
    requests.push_back(ToByteBuffer(request));
    num_bytes += requests.back().Length();
    begin = end;
  }
  graphs.request_bytes_per_graph =
      static_cast<double>(num_bytes) / static_cast<double>(graphs.num_graphs);
  graphs.requests.push_back(std::move(requests));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<GraphSource>> OpenBenchGraphs(const std::string& path) {
  if (path.empty()) return std::make_unique<MadeMolecules>();
  absl::StatusOr<std::unique_ptr<GraphSource>> source = NpzGraphs::Open(path, "");
  if (!source.ok()) return source;
  if ((*source)->num_graphs() == 0 || (*source)->schema().tensors().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": has no graphs with tensors"));
  }
  return source;
}

uint64_t EndOfChunk(const GraphSource& source, uint64_t begin, uint64_t chunk_bytes) {
  uint64_t end = begin;
  uint64_t bytes = 0;
  do {
    bytes += source.GraphBytes(end++);
  } while (end < source.num_graphs() && bytes + source.GraphBytes(end) <= chunk_bytes);
  return end;
}

std::size_t ChunkSizeFor(uint64_t payload_bytes) {
  return payload_bytes < kChunkBytes[1] ? 0 : payload_bytes < kChunkBytes[2] ? 1 : 2;
}

absl::StatusOr<BenchGraphs> ReadBenchGraphs(const std::string& path) {
  BenchGraphs graphs;
  {
    const absl::StatusOr<std::unique_ptr<GraphSource>> source = OpenBenchGraphs(path);
    if (!source.ok()) return source.status();
    graphs.schema = (*source)->schema();
    graphs.num_graphs = (*source)->num_graphs();
    for (uint64_t i = 0; i < graphs.num_graphs; ++i) graphs.num_bytes += (*source)->GraphBytes(i);
  }
  for (const uint64_t chunk_bytes : kChunkBytes) {
    if (absl::Status status = AddRequests(path, chunk_bytes, graphs); !status.ok()) return status;
  }

  const std::size_t width = static_cast<std::size_t>(graphs.schema.components_size());
  const LittleEndianView<uint32_t> sizes(graphs.sizes);
  graphs.totals.resize(width);
  graphs.maxima.resize(width);
  std::map<std::vector<uint32_t>, uint64_t> counts;
  std::vector<uint32_t> tuple(width);
  for (uint64_t i = 0; i < graphs.num_graphs; ++i) {
    for (std::size_t k = 0; k < width; ++k) {
      tuple[k] = sizes[i * width + k];
      graphs.totals[k] += tuple[k];
      graphs.maxima[k] = std::max(graphs.maxima[k], tuple[k]);
    }
    ++counts[tuple];
  }
  *graphs.histogram.mutable_components() = graphs.schema.components();
  for (const auto& [size, count] : counts) {
    AppendLittleEndian(absl::MakeConstSpan(size), *graphs.histogram.mutable_tuples());
    AppendLittleEndian(absl::MakeConstSpan(&count, 1), *graphs.histogram.mutable_counts());
  }
  return graphs;
}

v1::Limits LimitsForPayload(const BenchGraphs& graphs, uint64_t payload_bytes) {
  const std::size_t width = graphs.totals.size();
  // Graph index and mask of each row; mask, id and size tuple of each graph.
  std::vector<double> row_bytes(width, 5);
  row_bytes.push_back(static_cast<double>(9 + 4 * width));
  for (const v1::TensorSpec& spec : graphs.schema.tensors()) {
    double bytes = static_cast<double>(ElementBytes(spec.dtype()));
    for (const uint32_t extent : spec.row_shape()) bytes *= extent;
    std::size_t k = 0;
    while (k < width && graphs.schema.components(static_cast<int>(k)) != spec.component()) ++k;
    row_bytes[k] += bytes;
  }

  // Rows of `count` mean graphs. Some more graphs than that, so that small ones do not fill it.
  const auto rows = [&](std::size_t k, uint64_t count) -> uint64_t {
    if (k == width) return count + count / 8 + 1;
    const double mean =
        static_cast<double>(graphs.totals[k]) / static_cast<double>(graphs.num_graphs);
    return std::max<uint64_t>(
        {1, graphs.maxima[k], static_cast<uint64_t>(std::ceil(mean * static_cast<double>(count)))});
  };
  const auto bytes = [&](uint64_t count) {
    double sum = 0;
    for (std::size_t k = 0; k <= width; ++k) {
      sum += row_bytes[k] * static_cast<double>(rows(k, count));
    }
    return sum;
  };
  uint64_t low = 1;
  uint64_t high = payload_bytes;
  while (low < high) {
    const uint64_t middle = low + (high - low + 1) / 2;
    if (bytes(middle) <= static_cast<double>(payload_bytes)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  v1::Limits limits;
  for (std::size_t k = 0; k <= width; ++k) {
    v1::Capacity* const capacity = limits.add_capacities();
    capacity->set_component(k < width ? graphs.schema.components(static_cast<int>(k)) : "graphs");
    capacity->set_rows(rows(k, low));
  }
  return limits;
}

}  // namespace packhouse::client
