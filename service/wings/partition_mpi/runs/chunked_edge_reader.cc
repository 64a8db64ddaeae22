#include "service/wings/partition_mpi/runs/chunked_edge_reader.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/in_file.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/files/npy_file.h"
#include "service/wings/partition/files/number_lines.h"
#include "service/wings/partition/jobs/durable_files.h"

namespace packhouse {
namespace {

// Where the first line begins that begins at `at` or later.
uint64_t LineStart(absl::string_view text, uint64_t at) {
  if (at == 0) return 0;
  const size_t end = text.find('\n', at - 1);
  return end == absl::string_view::npos ? text.size() : end + 1;
}

// Rows of one file that this rank reads.
struct EdgePiece {
  size_t type = 0;
  std::string path;
  uint64_t first_row = 0;    // Within the type, of the piece.
  uint64_t line_before = 0;  // Lines of the file before the piece that are not blank.
  // Rows of a numpy file, bytes of a csv file.
  uint64_t begin = 0;
  uint64_t end = 0;
};

class ChunkedEdgeReader : public EdgeReader {
 public:
  explicit ChunkedEdgeReader(const ChunkedInput* input) : input_(input) {}

  // Collective.
  absl::Status Prepare(Ranks& ranks) {
    std::vector<uint64_t> own;  // Lines of this rank, by csv file in order.
    const absl::Status counted = CountLines(ranks, own);
    PH_RETURN_IF_ERROR(Agree(ranks, counted));
    std::vector<uint64_t> before = own;
    std::vector<uint64_t> all = own;
    ranks.SumBefore(absl::MakeSpan(before));
    ranks.Sum(absl::MakeSpan(all));
    return Agree(ranks, MakePieces(ranks, own, before, all));
  }

  void Rewind() override {
    next_ = 0;
    file_.reset();
  }

  absl::StatusOr<bool> Next(std::vector<SharedEdge>& edges) override {
    edges.clear();
    while (edges.empty()) {
      if (next_ == pieces_.size()) return false;
      const EdgePiece& piece = pieces_[next_];
      const absl::StatusOr<bool> ended = ReadOn(piece, edges);
      if (!ended.ok()) return InFile(piece.path, ended.status());
      if (!*ended) continue;
      file_.reset();
      ++next_;
    }
    return true;
  }

 private:
  static constexpr size_t kEdgesAtOnce = 1 << 14;

  const ChunkedTable& TableOf(size_t type) const { return input_->edge_types[type].edges; }

  // The run of bytes of a csv file whose lines are this rank's.
  static std::pair<uint64_t, uint64_t> RunOf(const Ranks& ranks, absl::string_view text) {
    const Blocks bytes(text.size(), ranks.size());
    return {LineStart(text, bytes.begin(ranks.rank())), LineStart(text, bytes.end(ranks.rank()))};
  }

  absl::Status CountLines(const Ranks& ranks, std::vector<uint64_t>& lines) {
    for (size_t type = 0; type < input_->edge_types.size(); ++type) {
      if (TableOf(type).format != ChunkFormat::kCsv) continue;
      for (const std::string& name : TableOf(type).files) {
        PH_ASSIGN_OR_RETURN(const MappedFile file,
                            MappedFile::Open(ChunkPath(input_->folder, name)));
        const auto [begin, end] = RunOf(ranks, file.bytes());
        const absl::string_view run = file.bytes().substr(begin, end - begin);
        lines.push_back(CountRows(begin == 0 ? WithoutByteOrderMark(run) : run));
      }
    }
    return absl::OkStatus();
  }

  absl::Status MakePieces(const Ranks& ranks, const std::vector<uint64_t>& own,
                          const std::vector<uint64_t>& before, const std::vector<uint64_t>& all) {
    size_t csv = 0;
    for (size_t type = 0; type < input_->edge_types.size(); ++type) {
      const uint64_t num_edges = input_->edge_types[type].num_edges;
      const Blocks rows_of_ranks(num_edges, ranks.size());
      const uint64_t first = rows_of_ranks.begin(ranks.rank());
      const uint64_t last = rows_of_ranks.end(ranks.rank());
      uint64_t rows = 0;
      for (const std::string& name : TableOf(type).files) {
        EdgePiece piece;
        piece.type = type;
        piece.path = ChunkPath(input_->folder, name);
        PH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(piece.path));
        if (TableOf(type).format == ChunkFormat::kCsv) {
          std::tie(piece.begin, piece.end) = RunOf(ranks, file.bytes());
          piece.line_before = before[csv];
          piece.first_row = rows + before[csv];
          rows += all[csv];
          if (own[csv++] > 0) pieces_.push_back(std::move(piece));
          continue;
        }
        const absl::StatusOr<ArrayView> array = PairsOf(file.bytes());
        if (!array.ok()) return InFile(piece.path, array.status());
        const uint64_t of_file = array->header.shape[0];
        piece.begin = std::clamp(first, rows, rows + of_file) - rows;
        piece.end = std::clamp(last, rows, rows + of_file) - rows;
        piece.first_row = rows + piece.begin;
        rows += of_file;
        if (piece.begin < piece.end) pieces_.push_back(std::move(piece));
      }
      if (rows == num_edges) continue;
      return absl::InvalidArgumentError(absl::StrCat(input_->folder, ": edge type ",
                                                     Quoted(input_->edge_types[type].name), " has ",
                                                     num_edges, " edges, its files ", rows));
    }
    return absl::OkStatus();
  }

  static absl::StatusOr<ArrayView> PairsOf(absl::string_view bytes) {
    PH_ASSIGN_OR_RETURN(ArrayView array, ReadNpyFile(bytes));
    if (array.header.shape.size() != 2 || array.header.shape[1] != 2) {
      return absl::InvalidArgumentError("must have rows of two ids");
    }
    switch (array.header.dtype) {
      case DType::kInt32:
      case DType::kInt64:
      case DType::kUint32:
      case DType::kUint64:
        return array;
      default:
        return absl::InvalidArgumentError("ids must be int32, int64, uint32 or uint64");
    }
  }

  // Some more of the piece; whether it ends.
  absl::StatusOr<bool> ReadOn(const EdgePiece& piece, std::vector<SharedEdge>& edges) {
    if (file_ == nullptr) {
      PH_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(piece.path));
      file_ = std::make_unique<MappedFile>(std::move(file));
      at_ = piece.begin;
      row_ = piece.first_row;
      lines_ = piece.line_before;
    }
    return TableOf(piece.type).format == ChunkFormat::kCsv ? ReadLines(piece, edges)
                                                           : ReadRows(piece, edges);
  }

  void Add(const EdgePiece& piece, uint64_t source, uint64_t target,
           std::vector<SharedEdge>& edges) {
    const SharedEdgeType& type = input_->types.edge_types[piece.type];
    edges.push_back({input_->types.node_types[type.target].start + target,
                     input_->types.node_types[type.source].start + source, type.start + row_++});
  }

  absl::StatusOr<bool> ReadLines(const EdgePiece& piece, std::vector<SharedEdge>& edges) {
    const absl::string_view text = file_->bytes();
    if (text.size() < piece.end) return absl::DataLossError("has become shorter");
    const SharedEdgeType& type = input_->types.edge_types[piece.type];
    const uint64_t num_sources = input_->types.node_types[type.source].size;
    const uint64_t num_targets = input_->types.node_types[type.target].size;
    const char delimiter = TableOf(piece.type).delimiter;
    std::vector<absl::string_view> fields;
    while (at_ < piece.end && edges.size() < kEdgesAtOnce) {
      const size_t end = std::min<size_t>(text.find('\n', at_), piece.end);
      absl::string_view line = text.substr(at_, end - at_);
      if (at_ == 0) line = WithoutByteOrderMark(line);
      at_ = std::min<uint64_t>(end + 1, piece.end);
      SplitNumberLine(line, delimiter, &fields);
      if (fields.empty()) continue;
      ++lines_;
      const auto wrong = [this](absl::string_view what) {
        return absl::InvalidArgumentError(absl::StrCat("line ", lines_, ": ", what));
      };
      if (fields.size() != 2) {
        return wrong(absl::StrCat("has ", fields.size(), " fields, 2 are needed"));
      }
      const absl::StatusOr<uint64_t> source = NodeOfField(fields[0], "source", num_sources);
      if (!source.ok()) return wrong(source.status().message());
      const absl::StatusOr<uint64_t> target = NodeOfField(fields[1], "target", num_targets);
      if (!target.ok()) return wrong(target.status().message());
      Add(piece, *source, *target, edges);
    }
    return at_ >= piece.end;
  }

  template <typename Id>
  absl::Status TakeRows(const EdgePiece& piece, const ArrayView& array,
                        std::vector<SharedEdge>& edges) {
    const SharedEdgeType& type = input_->types.edge_types[piece.type];
    const uint64_t num_sources = input_->types.node_types[type.source].size;
    const uint64_t num_targets = input_->types.node_types[type.target].size;
    const uint64_t end = std::min<uint64_t>(piece.end, at_ + kEdgesAtOnce);
    for (; at_ < end; ++at_) {
      Id pair[2];
      std::memcpy(pair, array.bytes.data() + at_ * sizeof(pair), sizeof(pair));
      // Negative ones are large.
      if (static_cast<uint64_t>(pair[0]) >= num_sources ||
          static_cast<uint64_t>(pair[1]) >= num_targets) {
        return absl::InvalidArgumentError(absl::StrCat("row ", at_, " joins ", pair[0], " and ",
                                                       pair[1], ", there are ", num_sources,
                                                       " and ", num_targets, " nodes"));
      }
      Add(piece, static_cast<uint64_t>(pair[0]), static_cast<uint64_t>(pair[1]), edges);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> ReadRows(const EdgePiece& piece, std::vector<SharedEdge>& edges) {
    PH_ASSIGN_OR_RETURN(const ArrayView array, PairsOf(file_->bytes()));
    if (array.header.shape[0] < piece.end) return absl::DataLossError("has become shorter");
    switch (array.header.dtype) {
      case DType::kInt32:
        PH_RETURN_IF_ERROR(TakeRows<int32_t>(piece, array, edges));
        break;
      case DType::kUint32:
        PH_RETURN_IF_ERROR(TakeRows<uint32_t>(piece, array, edges));
        break;
      case DType::kUint64:
        PH_RETURN_IF_ERROR(TakeRows<uint64_t>(piece, array, edges));
        break;
      default:
        PH_RETURN_IF_ERROR(TakeRows<int64_t>(piece, array, edges));
    }
    return at_ >= piece.end;
  }

  const ChunkedInput* const input_;
  std::vector<EdgePiece> pieces_;
  size_t next_ = 0;
  std::unique_ptr<MappedFile> file_;  // Of pieces_[next_], once it is begun.
  uint64_t at_ = 0;
  uint64_t row_ = 0;
  uint64_t lines_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<EdgeReader>> MakeChunkedEdgeReader(Ranks& ranks,
                                                                  const ChunkedInput& input) {
  auto reader = std::make_unique<ChunkedEdgeReader>(&input);
  PH_RETURN_IF_ERROR(reader->Prepare(ranks));
  return reader;
}

}  // namespace packhouse
