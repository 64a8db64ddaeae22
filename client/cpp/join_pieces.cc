#include "client/cpp/join_pieces.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/cpp/little_endian.h"
#include "client/cpp/schema_layout.h"

namespace packhouse::client {
namespace {

constexpr absl::string_view kOfGraph[] = {"#piece", "#pieces", "#cut_edges"};

template <typename... Args>
absl::Status Wrong(const Args&... what) {
  return absl::InvalidArgumentError(absl::StrCat(what...));
}

std::optional<std::size_t> TensorNamed(const SchemaLayout& schema, absl::string_view name) {
  for (std::size_t t = 0; t < schema.tensors.size(); ++t) {
    if (schema.tensors[t].name == name) return t;
  }
  return std::nullopt;
}

// `F.d2` is the feature F and 2; nullopt without such an end.
std::optional<std::pair<absl::string_view, uint64_t>> DimensionOf(absl::string_view name) {
  const std::size_t dot = name.rfind(".d");
  uint64_t number = 0;
  if (dot == absl::string_view::npos || !absl::SimpleAtoi(name.substr(dot + 2), &number)) {
    return std::nullopt;
  }
  return std::pair(name.substr(0, dot), number);
}

uint64_t IntegerAt(v1::DataType dtype, const char* at) {
  switch (dtype) {
    case v1::DATA_TYPE_INT8:
      return static_cast<uint64_t>(LoadLittleEndian<int8_t>(at));
    case v1::DATA_TYPE_INT16:
      return static_cast<uint64_t>(LoadLittleEndian<int16_t>(at));
    case v1::DATA_TYPE_INT32:
      return static_cast<uint64_t>(LoadLittleEndian<int32_t>(at));
    case v1::DATA_TYPE_UINT8:
      return LoadLittleEndian<uint8_t>(at);
    case v1::DATA_TYPE_UINT16:
      return LoadLittleEndian<uint16_t>(at);
    case v1::DATA_TYPE_UINT32:
      return LoadLittleEndian<uint32_t>(at);
    default:
      return LoadLittleEndian<uint64_t>(at);
  }
}

void StoreInteger(uint64_t value, std::size_t bytes, char* at) {
  // The low bytes come first.
  for (std::size_t i = 0; i < bytes; ++i) at[i] = static_cast<char>(value >> (8 * i));
}

// A chunk whose lengths are checked.
struct CheckedChunk {
  const v1::GraphChunk* chunk = nullptr;
  // By component (`graphs` last) and graph: the first row; and the end.
  std::vector<std::vector<uint64_t>> starts;

  uint64_t rows(std::size_t component) const { return starts[component].back(); }
  const char* Plane(const TensorLayout& tensor, std::size_t t, std::size_t plane,
                    std::size_t graph) const {
    return chunk->tensors(static_cast<int>(t)).data().data() +
           (plane * rows(tensor.component) + starts[tensor.component][graph]) *
               tensor.plane_row_bytes();
  }
};

absl::StatusOr<CheckedChunk> Check(const SchemaLayout& schema, const v1::GraphChunk& chunk) {
  CheckedChunk checked;
  checked.chunk = &chunk;
  const std::size_t l = schema.components.size();
  const uint64_t n = chunk.sizes().num_graphs();
  const std::string& ids = chunk.sizes().graph_ids();
  const LittleEndianView<uint32_t> counts(chunk.sizes().counts());
  // The ids are in memory, so their number does not overflow.
  if (ids.size() / sizeof(uint64_t) != n || ids.size() % sizeof(uint64_t) != 0 ||
      counts.size() != n * l) {
    return Wrong("chunk: its ids and counts are not those of ", n, " graphs");
  }
  checked.starts.assign(l + 1, std::vector<uint64_t>(1));
  for (uint64_t graph = 0; graph < n; ++graph) {
    for (std::size_t k = 0; k <= l; ++k) {
      checked.starts[k].push_back(checked.starts[k].back() +
                                  (k == l ? uint64_t{1} : counts[graph * l + k]));
    }
  }
  if (static_cast<std::size_t>(chunk.tensors_size()) != schema.tensors.size()) {
    return Wrong("chunk: has ", chunk.tensors_size(), " tensors, the schema ",
                 schema.tensors.size());
  }
  for (std::size_t t = 0; t < schema.tensors.size(); ++t) {
    const TensorLayout& tensor = schema.tensors[t];
    const std::string& data = chunk.tensors(static_cast<int>(t)).data();
    if (data.size() / tensor.row_bytes != checked.rows(tensor.component) ||
        data.size() % tensor.row_bytes != 0) {
      return Wrong("chunk: tensor '", tensor.name, "' has ", data.size(), " bytes for ",
                   checked.rows(tensor.component), " rows of ", tensor.row_bytes);
    }
  }
  return checked;
}

struct PieceOf {
  const CheckedChunk* chunk;
  std::size_t graph;

  uint64_t rows(std::size_t component) const {
    return chunk->starts[component][graph + 1] - chunk->starts[component][graph];
  }
};

// The rows of a component in one piece that the piece owns, and their numbers in the whole.
struct OwnedRows {
  std::vector<uint64_t> places;
  std::vector<uint64_t> numbers;
};

// Of one graph.
class Joining {
 public:
  Joining(const SchemaLayout& schema, std::size_t num_sent, uint64_t id,
          std::vector<PieceOf> pieces)
      : schema_(schema),
        num_sent_(num_sent),
        id_(id),
        pieces_(std::move(pieces)),
        owned_(schema.components.size()),
        counts_(schema.components.size()) {}

  // Appends the graph's rows to `planes`, by tensor that was sent and plane, and its counts.
  absl::Status Join(std::vector<std::vector<std::string>>& planes, std::string& counts) {
    for (std::size_t k = 0; k < schema_.components.size(); ++k) {
      if (absl::Status status = Own(k, 0); !status.ok()) return status;
    }
    for (std::size_t t = 0; t < num_sent_; ++t) {
      for (std::size_t plane = 0; plane < schema_.tensors[t].num_planes(); ++plane) {
        absl::Status status = AppendPlane(t, plane, planes[t][plane]);
        if (!status.ok()) return status;
      }
    }
    std::vector<uint32_t> own;
    for (const uint64_t count : counts_) own.push_back(static_cast<uint32_t>(count));
    AppendLittleEndian(absl::MakeConstSpan(own), counts);
    return absl::OkStatus();
  }

 private:
  // Finds which rows of component k each piece owns.
  absl::Status Own(std::size_t k, std::size_t depth) {
    if (!owned_[k].empty()) return absl::OkStatus();
    std::vector<OwnedRows> owned(pieces_.size());
    uint64_t count = 0;
    const auto rows = TensorNamed(schema_, absl::StrCat(schema_.components[k], ".#row"));
    if (rows) {
      const auto inner = TensorNamed(schema_, absl::StrCat(schema_.components[k], ".#inner"));
      if (!inner) return Wrong("the schema has no tensor '", schema_.components[k], ".#inner'");
      for (std::size_t p = 0; p < pieces_.size(); ++p) {
        const char* const numbers = Plane(p, *rows);
        const char* const marks = Plane(p, *inner);
        for (uint64_t row = 0; row < pieces_[p].rows(k); ++row) {
          if (marks[row] == 0) continue;
          owned[p].places.push_back(row);
          owned[p].numbers.push_back(LoadLittleEndian<uint32_t>(numbers + row * sizeof(uint32_t)));
          ++count;
        }
      }
    } else if (absl::Status status = OwnSteps(k, depth, owned, count); !status.ok()) {
      return status;
    }
    std::vector<bool> seen(count);
    for (const OwnedRows& of_piece : owned) {
      for (const uint64_t number : of_piece.numbers) {
        if (number >= count || seen[number]) {
          return Wrong("graph ", id_, ": its pieces lack rows of '", schema_.components[k], "'");
        }
        seen[number] = true;
      }
    }
    owned_[k] = std::move(owned);
    counts_[k] = count;
    return absl::OkStatus();
  }

  // The tensor of the lengths along which the steps of a ragged feature lie: F.d2 before F.d1.
  absl::StatusOr<std::size_t> LengthsOf(std::size_t k) const {
    absl::string_view feature = schema_.components[k];
    uint64_t below = UINT64_MAX;
    if (const auto dimension = DimensionOf(feature)) std::tie(feature, below) = *dimension;
    std::optional<std::size_t> best;
    uint64_t best_number = 0;
    for (std::size_t t = 0; t < num_sent_; ++t) {
      const TensorLayout& tensor = schema_.tensors[t];
      const auto dimension = DimensionOf(tensor.name);
      if (!dimension || dimension->first != feature || tensor.component == k) continue;
      if (tensor.index_into ||
          (tensor.dtype != v1::DATA_TYPE_INT32 && tensor.dtype != v1::DATA_TYPE_INT64)) {
        continue;
      }
      if (dimension->second >= below || dimension->second <= best_number) continue;
      best = t;
      best_number = dimension->second;
    }
    if (best && schema_.tensors[*best].component < schema_.components.size()) return *best;
    return Wrong("the ragged feature '", schema_.components[k], "' has no lengths");
  }

  // The same of a ragged feature: its steps follow the rows that have their lengths.
  absl::Status OwnSteps(std::size_t k, std::size_t depth, std::vector<OwnedRows>& owned,
                        uint64_t& count) {
    const absl::StatusOr<std::size_t> lengths = LengthsOf(k);
    if (!lengths.ok()) return lengths.status();
    const TensorLayout& tensor = schema_.tensors[*lengths];
    const std::size_t along = tensor.component;
    if (depth > schema_.components.size()) {
      return Wrong("the lengths of '", schema_.components[k], "' depend on themselves");
    }
    if (absl::Status status = Own(along, depth + 1); !status.ok()) return status;
    // The steps of each row: in each piece, and in the whole.
    std::vector<std::vector<uint64_t>> steps(pieces_.size());
    std::vector<uint64_t> starts(counts_[along] + 1);
    const std::size_t element_bytes = ElementBytes(tensor.dtype);
    for (std::size_t p = 0; p < pieces_.size(); ++p) {
      steps[p].assign(pieces_[p].rows(along), 0);
      uint64_t sum = 0;
      for (std::size_t plane = 0; plane < tensor.num_planes(); ++plane) {
        const char* at = Plane(p, *lengths, plane);
        for (uint64_t& of_row : steps[p]) {
          for (std::size_t e = 0; e < tensor.row_elements / tensor.num_planes(); ++e) {
            const uint64_t length = IntegerAt(tensor.dtype, at);
            at += element_bytes;
            if (length > pieces_[p].rows(k) - sum) {
              return Wrong("graph ", id_, ": '", tensor.name, "' has more steps than '",
                           schema_.components[k], "' has rows");
            }
            of_row += length;
            sum += length;
          }
        }
      }
      if (sum != pieces_[p].rows(k)) {
        return Wrong("graph ", id_, ": '", tensor.name, "' has ", sum, " steps, '",
                     schema_.components[k], "' ", pieces_[p].rows(k), " rows");
      }
      const OwnedRows& rows = owned_[along][p];
      for (std::size_t i = 0; i < rows.places.size(); ++i) {
        starts[rows.numbers[i] + 1] = steps[p][rows.places[i]];
      }
    }
    for (std::size_t row = 1; row < starts.size(); ++row) starts[row] += starts[row - 1];
    count = starts.back();
    for (std::size_t p = 0; p < pieces_.size(); ++p) {
      std::vector<uint64_t> own_starts(steps[p].size() + 1);
      for (std::size_t row = 0; row < steps[p].size(); ++row) {
        own_starts[row + 1] = own_starts[row] + steps[p][row];
      }
      const OwnedRows& rows = owned_[along][p];
      for (std::size_t i = 0; i < rows.places.size(); ++i) {
        for (uint64_t step = 0; step < steps[p][rows.places[i]]; ++step) {
          owned[p].places.push_back(own_starts[rows.places[i]] + step);
          owned[p].numbers.push_back(starts[rows.numbers[i]] + step);
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status AppendPlane(std::size_t t, std::size_t plane, std::string& column) const {
    const TensorLayout& tensor = schema_.tensors[t];
    const std::size_t bytes = tensor.plane_row_bytes();
    if (tensor.component == schema_.components.size()) {
      column.append(Plane(0, t, plane), bytes);
      return absl::OkStatus();
    }
    const std::size_t first = column.size();
    column.resize(first + counts_[tensor.component] * bytes);
    for (std::size_t p = 0; p < pieces_.size(); ++p) {
      const char* const from = Plane(p, t, plane);
      const OwnedRows& rows = owned_[tensor.component][p];
      for (std::size_t i = 0; i < rows.places.size(); ++i) {
        char* const to = column.data() + first + rows.numbers[i] * bytes;
        std::copy_n(from + rows.places[i] * bytes, bytes, to);
        if (!tensor.index_into) continue;
        absl::Status status = Renumber(tensor, p, to);
        if (!status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  // Makes a row's indices into a piece indices into the whole.
  absl::Status Renumber(const TensorLayout& tensor, std::size_t p, char* row) const {
    const std::size_t into = *tensor.index_into;
    // There is one graph: index 0 of itself.
    if (into == schema_.components.size()) return absl::OkStatus();
    const auto numbers = TensorNamed(schema_, absl::StrCat(schema_.components[into], ".#row"));
    if (!numbers) {
      return Wrong("the schema has no tensor '", schema_.components[into], ".#row'");
    }
    const std::size_t bytes = ElementBytes(tensor.dtype);
    for (std::size_t e = 0; e < tensor.row_elements / tensor.num_planes(); ++e, row += bytes) {
      const uint64_t index = IntegerAt(tensor.dtype, row);
      if (index >= pieces_[p].rows(into)) {
        return Wrong("graph ", id_, ": tensor '", tensor.name, "' holds the index ",
                     static_cast<int64_t>(index), " into ", pieces_[p].rows(into), " rows");
      }
      StoreInteger(LoadLittleEndian<uint32_t>(Plane(p, *numbers) + index * sizeof(uint32_t)), bytes,
                   row);
    }
    return absl::OkStatus();
  }

  const char* Plane(std::size_t piece, std::size_t t, std::size_t plane = 0) const {
    return pieces_[piece].chunk->Plane(schema_.tensors[t], t, plane, pieces_[piece].graph);
  }

  const SchemaLayout& schema_;
  const std::size_t num_sent_;
  const uint64_t id_;
  const std::vector<PieceOf> pieces_;
  // By component and piece; empty until it is known.
  std::vector<std::vector<OwnedRows>> owned_;
  std::vector<uint64_t> counts_;
};

// Checks dtypes and places of the tensors of pieces, whose values are read.
absl::Status CheckPieceTensors(const SchemaLayout& schema, std::size_t num_sent) {
  for (std::size_t t = num_sent; t < schema.tensors.size(); ++t) {
    const TensorLayout& tensor = schema.tensors[t];
    const bool is_mark = tensor.name.ends_with(".#inner");
    const v1::DataType dtype = is_mark ? v1::DATA_TYPE_BOOL : v1::DATA_TYPE_UINT32;
    std::size_t component = schema.components.size();
    const std::size_t hash = tensor.name.rfind(".#");
    if (hash != std::string::npos) {
      component =
          static_cast<std::size_t>(std::find(schema.components.begin(), schema.components.end(),
                                             tensor.name.substr(0, hash)) -
                                   schema.components.begin());
    }
    if (tensor.dtype != dtype || tensor.row_elements != 1 || tensor.component != component) {
      return Wrong("the schema's tensor '", tensor.name, "' is not that of pieces");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::GraphSchema> WholeSchema(const v1::GraphSchema& schema) {
  v1::GraphSchema whole = schema;
  int first = schema.tensors_size();
  for (const absl::string_view name : kOfGraph) {
    int at = 0;
    while (at < schema.tensors_size() && schema.tensors(at).name() != name) ++at;
    if (at == schema.tensors_size()) {
      return Wrong("the schema has no tensor '", name, "': its graphs are not cut");
    }
    first = std::min(first, at);
  }
  whole.mutable_tensors()->DeleteSubrange(first, schema.tensors_size() - first);
  return whole;
}

absl::StatusOr<v1::GraphChunk> JoinPieces(const v1::GraphSchema& schema,
                                          absl::Span<const v1::GraphChunk> chunks) {
  const absl::StatusOr<v1::GraphSchema> whole = WholeSchema(schema);
  if (!whole.ok()) return whole.status();
  const absl::StatusOr<SchemaLayout> layout = ResolveSchema(schema);
  if (!layout.ok()) return layout.status();
  const auto num_sent = static_cast<std::size_t>(whole->tensors_size());
  if (absl::Status status = CheckPieceTensors(*layout, num_sent); !status.ok()) return status;
  std::vector<CheckedChunk> checked;
  for (const v1::GraphChunk& chunk : chunks) {
    absl::StatusOr<CheckedChunk> one = Check(*layout, chunk);
    if (!one.ok()) return one.status();
    checked.push_back(*std::move(one));
  }
  const std::size_t of_piece = *TensorNamed(*layout, kOfGraph[0]);
  const std::size_t of_pieces = *TensorNamed(*layout, kOfGraph[1]);
  // By id, in the order of the first pieces.
  std::vector<uint64_t> order;
  std::map<uint64_t, std::pair<uint32_t, std::map<uint32_t, PieceOf>>> graphs;
  for (const CheckedChunk& chunk : checked) {
    const LittleEndianView<uint64_t> ids(chunk.chunk->sizes().graph_ids());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto number =
          LoadLittleEndian<uint32_t>(chunk.Plane(layout->tensors[of_piece], of_piece, 0, i));
      const auto count =
          LoadLittleEndian<uint32_t>(chunk.Plane(layout->tensors[of_pieces], of_pieces, 0, i));
      const auto [graph, is_new] = graphs.try_emplace(ids[i]);
      if (is_new) {
        order.push_back(ids[i]);
        graph->second.first = count;
      } else if (graph->second.first != count) {
        return Wrong("graph ", ids[i], ": has ", graph->second.first, " pieces, and ", count);
      }
      if (!graph->second.second.emplace(number, PieceOf{&chunk, i}).second) {
        return Wrong("graph ", ids[i], ": piece ", number, " is there twice");
      }
    }
  }
  v1::GraphChunk joined;
  std::vector<std::vector<std::string>> planes(num_sent);
  for (std::size_t t = 0; t < num_sent; ++t) planes[t].resize(layout->tensors[t].num_planes());
  for (const uint64_t id : order) {
    const auto& [count, by_number] = graphs[id];
    std::vector<PieceOf> pieces;
    for (const auto& [number, piece] : by_number) {
      if (number != pieces.size()) break;
      pieces.push_back(piece);
    }
    if (pieces.size() != count || by_number.size() != count) {
      return Wrong("graph ", id, ": piece ", pieces.size(), " of ", count, " is missing");
    }
    Joining joining(*layout, num_sent, id, std::move(pieces));
    absl::Status status = joining.Join(planes, *joined.mutable_sizes()->mutable_counts());
    if (!status.ok()) return status;
  }
  joined.mutable_sizes()->set_num_graphs(order.size());
  AppendLittleEndian(absl::MakeConstSpan(order), *joined.mutable_sizes()->mutable_graph_ids());
  for (std::size_t t = 0; t < num_sent; ++t) {
    v1::TensorData& tensor = *joined.add_tensors();
    tensor.set_name(layout->tensors[t].name);
    for (std::string& plane : planes[t]) {
      tensor.mutable_data()->append(std::exchange(plane, {}));
    }
  }
  return joined;
}

}  // namespace packhouse::client
