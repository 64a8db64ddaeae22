#include "service/algorithms/pieces/graph_cutting.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/graphs/index_values.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// Rows that are tried for a piece in vain before it is closed.
constexpr size_t kMisses = 48;
// Rows that are looked at in vain, in their order, before no more are.
constexpr size_t kLooks = 4096;

// So many copies of rows and so many steps, for each row or index and for each graph, are enough
// for every cut that is of use. They bound what a graph with hostile edges can take.
constexpr uint64_t kCopiesPerRow = 4;
constexpr uint64_t kCopies = uint64_t{1} << 16;
constexpr uint64_t kStepsPerRow = 64;
constexpr uint64_t kSteps = uint64_t{1} << 22;

// A graph as rows that point at rows. Rows of all components that are no ragged features are
// numbered through.
class PointingRows {
 public:
  static absl::StatusOr<PointingRows> Create(const PieceSchema& schema, const GraphChunk& chunk,
                                             size_t index) {
    PointingRows rows(schema);
    rows.Number(chunk, index);
    rows.ReadIndices(chunk, index);
    rows.FindOwners();
    PH_RETURN_IF_ERROR(rows.ReadLengths(chunk, index));
    return rows;
  }

  uint32_t num_rows() const { return first_.back(); }
  uint64_t num_indices() const { return targets_.rows.size(); }
  uint32_t first(size_t component) const { return first_[component]; }
  size_t ComponentOf(uint32_t row) const {
    return static_cast<size_t>(std::upper_bound(first_.begin(), first_.end(), row) -
                               first_.begin()) -
           1;
  }
  // Whether the row has no indices.
  bool is_atom(uint32_t row) const { return atom_[row] == row; }
  // The row without indices that a row is owned with.
  uint32_t atom(uint32_t row) const { return atom_[row]; }
  absl::Span<const uint32_t> targets(uint32_t row) const { return Of(targets_, row); }
  absl::Span<const uint32_t> pointing_at(uint32_t row) const { return Of(pointing_at_, row); }
  // Rows with indices that are owned with an atom, each after those that it is owned over.
  absl::Span<const uint32_t> owned(uint32_t atom) const { return Of(owned_, atom); }

  // Adds what a row and the ragged features along it count.
  void AddTo(uint32_t row, std::vector<uint64_t>& counts) const {
    const size_t component = ComponentOf(row);
    ++counts[component];
    for (const size_t ragged : ragged_of_[component]) {
      const std::vector<uint64_t>& steps = steps_[ragged];
      const uint32_t at = row - first_[component];
      counts[ragged] += steps[at + 1] - steps[at];
    }
  }

 private:
  struct Lists {
    std::vector<uint64_t> starts;
    std::vector<uint32_t> rows;
  };

  explicit PointingRows(const PieceSchema& schema)
      : schema_(schema),
        steps_(schema.components().size()),
        ragged_of_(schema.components().size()) {}

  static absl::Span<const uint32_t> Of(const Lists& lists, uint32_t row) {
    return absl::MakeConstSpan(lists.rows)
        .subspan(lists.starts[row], lists.starts[row + 1] - lists.starts[row]);
  }

  void Number(const GraphChunk& chunk, size_t index) {
    first_ = {0};
    for (size_t k = 0; k < schema_.components().size(); ++k) {
      const uint64_t count = schema_.components()[k].lengths ? 0 : chunk.count(index, k);
      first_.push_back(first_.back() + static_cast<uint32_t>(count));
    }
  }

  // Sets targets_: where those of each row begin, then all of them. A row's come tensor after
  // tensor, and within a tensor plane after plane.
  void ReadIndices(const GraphChunk& chunk, size_t index) {
    targets_.starts.assign(num_rows() + size_t{1}, 0);
    const GraphSchema& whole = schema_.whole();
    for (size_t k = 0; k < schema_.components().size(); ++k) {
      size_t each = 0;
      for (const size_t t : schema_.components()[k].indices) each += Elements(whole, t);
      for (uint32_t row = first_[k]; row < first_[k + 1]; ++row) {
        targets_.starts[row + 1] = targets_.starts[row] + each;
      }
    }
    targets_.rows.resize(targets_.starts.back());
    for (size_t k = 0; k < schema_.components().size(); ++k) {
      size_t before = 0;
      for (const size_t t : schema_.components()[k].indices) {
        const TensorSpec& spec = whole.tensors()[t];
        const size_t elements = Elements(whole, t);
        const size_t planes = whole.num_planes(t);
        const size_t in_plane = elements / planes;
        for (size_t plane = 0; plane < planes; ++plane) {
          const absl::string_view values = chunk.rows(index, t, plane);
          for (uint32_t row = first_[k]; row < first_[k + 1]; ++row) {
            for (size_t e = 0; e < in_plane; ++e) {
              const auto value = static_cast<uint32_t>(
                  IndexValueAt(spec.dtype, values, (row - first_[k]) * in_plane + e));
              targets_.rows[targets_.starts[row] + before + plane * in_plane + e] =
                  first_[*spec.index_into] + value;
            }
          }
        }
        before += elements;
      }
    }
    Reverse();
  }

  static size_t Elements(const GraphSchema& schema, size_t t) {
    size_t elements = 1;
    for (const uint32_t extent : schema.tensors()[t].row_shape) elements *= extent;
    return elements;
  }

  void Reverse() {
    pointing_at_.starts.assign(num_rows() + size_t{1}, 0);
    for (const uint32_t target : targets_.rows) ++pointing_at_.starts[target + 1];
    for (uint32_t row = 0; row < num_rows(); ++row) {
      pointing_at_.starts[row + 1] += pointing_at_.starts[row];
    }
    pointing_at_.rows.resize(targets_.rows.size());
    std::vector<uint64_t> next(pointing_at_.starts.begin(), pointing_at_.starts.end() - 1);
    for (uint32_t row = 0; row < num_rows(); ++row) {
      for (const uint32_t target : targets(row)) pointing_at_.rows[next[target]++] = row;
    }
  }

  void FindOwners() {
    atom_.resize(num_rows());
    owned_.starts.assign(num_rows() + size_t{1}, 0);
    for (const size_t k : schema_.order()) {
      for (uint32_t row = first_[k]; row < first_[k + 1]; ++row) {
        const absl::Span<const uint32_t> at = targets(row);
        atom_[row] = at.empty() ? row : atom_[at.back()];
        if (!at.empty()) ++owned_.starts[atom_[row] + 1];
      }
    }
    for (uint32_t row = 0; row < num_rows(); ++row) owned_.starts[row + 1] += owned_.starts[row];
    owned_.rows.resize(owned_.starts.back());
    std::vector<uint64_t> next(owned_.starts.begin(), owned_.starts.end() - 1);
    for (const size_t k : schema_.order()) {
      for (uint32_t row = first_[k]; row < first_[k + 1]; ++row) {
        if (atom_[row] != row) owned_.rows[next[atom_[row]]++] = row;
      }
    }
  }

  // Sets steps_ of each ragged feature: where the steps of each row begin, by the rows of its root,
  // the component that the rows belong to after all: a feature of several ragged dimensions has
  // lengths of lengths, and order() has the outer ones first.
  absl::Status ReadLengths(const GraphChunk& chunk, size_t index) {
    const GraphSchema& whole = schema_.whole();
    std::vector<size_t> root(schema_.components().size());
    for (const size_t k : schema_.order()) {
      root[k] = k;
      if (!schema_.components()[k].lengths) continue;
      const size_t t = *schema_.components()[k].lengths;
      const TensorSpec& spec = whole.tensors()[t];
      const absl::string_view values = chunk.rows(index, t);
      const size_t elements = Elements(whole, t);
      const size_t rows = values.size() / (ElementBytes(spec.dtype) * elements);
      std::vector<uint64_t> ends = {0};
      for (size_t i = 0; i < rows * elements; ++i) {
        const int64_t length = IndexValueAt(spec.dtype, values, i);
        const uint64_t sum = ends.back() + static_cast<uint64_t>(std::max<int64_t>(length, 0));
        if (length < 0 || sum > chunk.count(index, k)) {
          return absl::InvalidArgumentError(absl::StrCat(
              "graph ", chunk.sizes().graph_id(index), ": ", spec.name, " has ", length,
              ", with the others more than its ", chunk.count(index, k), " steps"));
        }
        if (i % elements == 0) {
          ends.push_back(sum);
        } else {
          ends.back() = sum;
        }
      }
      if (ends.back() != chunk.count(index, k)) {
        return absl::InvalidArgumentError(
            absl::StrCat("graph ", chunk.sizes().graph_id(index), ": ", spec.name, " add up to ",
                         ends.back(), ", there are ", chunk.count(index, k), " steps"));
      }
      // Along the rows that are no steps themselves.
      root[k] = root[spec.component];
      if (schema_.components()[spec.component].lengths) {
        std::vector<uint64_t> of_root = steps_[spec.component];
        for (uint64_t& step : of_root) step = ends[step];
        ends = std::move(of_root);
      }
      steps_[k] = std::move(ends);
      ragged_of_[root[k]].push_back(k);
    }
    return absl::OkStatus();
  }

  const PieceSchema& schema_;
  std::vector<uint32_t> first_;
  Lists targets_;
  Lists pointing_at_;
  Lists owned_;
  std::vector<uint32_t> atom_;
  std::vector<std::vector<uint64_t>> steps_;  // Of ragged features, by row of the root.
  std::vector<std::vector<size_t>> ragged_of_;
};

// One attempt at a cut.
class Cutting {
 public:
  Cutting(const PieceSchema& schema, const PointingRows& rows, absl::Span<const uint64_t> limits,
          bool by_affinity)
      : schema_(schema),
        rows_(rows),
        limits_(limits),
        by_affinity_(by_affinity),
        state_(rows.num_rows(), State::kFree),
        presence_(rows.num_rows(), kAbsent),
        affinity_(by_affinity ? rows.num_rows() : 0),
        counts_(limits.size()),
        steps_left_(kStepsPerRow * (rows.num_rows() + rows.num_indices()) + kSteps),
        copies_left_(kCopiesPerRow * rows.num_rows() + kCopies) {}

  absl::StatusOr<std::vector<GraphPiece>> Cut() {
    for (;;) {
      const std::optional<uint32_t> seed = NextSeed();
      if (!seed && pending_.empty()) return std::move(pieces_);
      PH_RETURN_IF_ERROR(BeginPiece(seed));
      Grow();
      PH_RETURN_IF_ERROR(EndPiece());
    }
  }

  uint64_t num_cut_edges() const { return num_cut_edges_; }

 private:
  enum class State : uint8_t { kFree, kOwned };
  enum : uint8_t { kAbsent, kHalo, kInner };

  struct Candidate {
    uint32_t affinity;
    uint32_t atom;
    // The next one is the largest; of equal affinities that of the first row.
    bool operator<(const Candidate& other) const {
      return affinity != other.affinity ? affinity < other.affinity : atom > other.atom;
    }
  };

  bool IsFreeAtom(uint32_t row) const { return rows_.is_atom(row) && state_[row] == State::kFree; }

  // Where the next piece begins, unless it has to begin with pending rows.
  std::optional<uint32_t> NextSeed() {
    while (next_ < rows_.num_rows() && !IsFreeAtom(next_)) ++next_;
    if (frontier_seed_ && IsFreeAtom(*frontier_seed_)) return frontier_seed_;
    return next_ < rows_.num_rows() ? std::optional(next_) : std::nullopt;
  }

  // Takes rows into the piece as its own, with all that they point at. Nothing changes if there is
  // no room.
  bool TryOwn(absl::Span<const uint32_t> owned) {
    const std::vector<uint64_t> counts = counts_;
    const size_t had = present_.size();
    bool fits = true;
    for (size_t i = 0; fits && i < owned.size(); ++i) fits = TryAdd(owned[i]);
    if (!fits) {
      for (size_t i = had; i < present_.size(); ++i) presence_[present_[i]] = kAbsent;
      present_.resize(had);
      counts_ = counts;
      return false;
    }
    for (const uint32_t row : owned) {
      presence_[row] = kInner;
      state_[row] = State::kOwned;
      inner_.push_back(row);
    }
    return true;
  }

  // Adds a row, and what it points at, as far as they are not there.
  bool TryAdd(uint32_t row) {
    std::vector<uint32_t>& stack = stack_;
    stack.assign(1, row);
    while (!stack.empty()) {
      const uint32_t next = stack.back();
      stack.pop_back();
      if (presence_[next] != kAbsent) continue;
      presence_[next] = kHalo;
      present_.push_back(next);
      Spend(1 + rows_.targets(next).size());
      rows_.AddTo(next, counts_);
      for (size_t k = 0; k < counts_.size(); ++k) {
        if (counts_[k] > limits_[k]) return false;
      }
      const auto targets = rows_.targets(next);
      stack.insert(stack.end(), targets.begin(), targets.end());
    }
    return true;
  }

  bool TryOwnAtom(uint32_t atom) {
    bundle_.assign(1, atom);
    const auto owned = rows_.owned(atom);
    Spend(owned.size());
    bundle_.insert(bundle_.end(), owned.begin(), owned.end());
    if (!TryOwn(bundle_)) return false;
    Attract(atom);
    for (const uint32_t row : owned) Attract(row);
    return true;
  }

  // The row has come into the piece: those that it points at, or that point at it, are closer.
  void Attract(uint32_t row) {
    if (!by_affinity_) return;
    Spend(rows_.targets(row).size() + rows_.pointing_at(row).size());
    for (const uint32_t other : rows_.targets(row)) AttractAtom(rows_.atom(other));
    for (const uint32_t other : rows_.pointing_at(row)) AttractAtom(rows_.atom(other));
  }
  void AttractAtom(uint32_t atom) {
    if (state_[atom] != State::kFree) return;
    if (affinity_[atom]++ == 0) touched_.push_back(atom);
    queue_.push({affinity_[atom], atom});
  }

  absl::Status DoesNotFit(uint32_t row) const {
    std::vector<uint64_t> counts(counts_.size());
    std::vector<uint32_t> stack = {row};
    std::vector<bool> seen(rows_.num_rows());
    while (!stack.empty()) {
      const uint32_t next = stack.back();
      stack.pop_back();
      if (seen[next]) continue;
      seen[next] = true;
      rows_.AddTo(next, counts);
      const auto targets = rows_.targets(next);
      stack.insert(stack.end(), targets.begin(), targets.end());
    }
    size_t k = 0;
    while (k + 1 < counts.size() && counts[k] <= limits_[k]) ++k;
    const size_t own = rows_.ComponentOf(row);
    return absl::OutOfRangeError(absl::StrCat(
        "row ", row - rows_.first(own), " of '", schema_.whole().sizes().name(own), "' needs ",
        counts[k], " of '", schema_.whole().sizes().name(k), "', at most ", limits_[k]));
  }

  absl::Status BeginPiece(std::optional<uint32_t> seed) {
    if (!pending_.empty()) return TakePending();
    if (TryOwnAtom(*seed)) return absl::OkStatus();
    // It owns more than one piece takes: the rest comes into the next ones.
    const uint32_t atom = *seed;
    if (!TryOwn({&atom, 1})) return DoesNotFit(atom);
    const auto owned = rows_.owned(atom);
    pending_.assign(owned.begin(), owned.end());
    Attract(atom);
    return TakePending();
  }

  // Owns as many of the pending rows as fit, in their order.
  absl::Status TakePending() {
    std::vector<uint32_t> left;
    size_t misses = 0;
    Spend(pending_.size());
    for (size_t i = 0; i < pending_.size(); ++i) {
      if (misses < kMisses && TryOwn({&pending_[i], 1})) {
        Attract(pending_[i]);
        continue;
      }
      if (inner_.empty()) return DoesNotFit(pending_[i]);
      ++misses;
      left.push_back(pending_[i]);
    }
    pending_ = std::move(left);
    return absl::OkStatus();
  }

  void Grow() {
    size_t misses = 0;
    while (misses < kMisses && !queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      if (state_[best.atom] != State::kFree || affinity_[best.atom] != best.affinity) continue;
      if (TryOwnAtom(best.atom)) continue;
      if (!frontier_seed_ || misses == 0) frontier_seed_ = best.atom;
      ++misses;
    }
    // Whatever fits besides, so that no room is lost.
    size_t looks = 0;
    for (uint32_t row = next_; misses < kMisses && looks < kLooks && row < rows_.num_rows();
         ++row, ++looks) {
      if (!IsFreeAtom(row) || (by_affinity_ && affinity_[row] > 0)) continue;
      if (TryOwnAtom(row)) {
        looks = 0;
      } else {
        ++misses;
      }
    }
  }

  void Spend(uint64_t steps) { steps_left_ -= std::min(steps_left_, steps); }

  // Copies are bounded as steps are: where most edges lead to hubs that no piece can own with them,
  // each piece would repeat these.
  absl::Status EndPiece() {
    Spend(present_.size());
    if (steps_left_ == 0 || copies_left_ < present_.size()) {
      return absl::OutOfRangeError(absl::StrCat(
          "the graph has ", rows_.num_rows(), " rows and ", rows_.num_indices(), " indices; ",
          steps_left_ == 0 ? "cutting it takes too many steps"
                           : "its pieces would repeat its rows too often"));
    }
    copies_left_ -= present_.size();
    GraphPiece piece;
    piece.components.resize(limits_.size());
    for (const uint32_t row : inner_) {
      const size_t k = rows_.ComponentOf(row);
      piece.components[k].numbers.push_back(row - rows_.first(k));
      const auto targets = rows_.targets(row);
      piece.num_cut_edges +=
          std::any_of(targets.begin(), targets.end(),
                      [this](uint32_t target) { return presence_[target] != kInner; })
              ? 1
              : 0;
    }
    // Its own rows come first, then the halo, both in the order of the whole.
    for (GraphPiece::Rows& rows : piece.components) {
      std::sort(rows.numbers.begin(), rows.numbers.end());
      rows.num_inner = static_cast<uint32_t>(rows.numbers.size());
    }
    std::sort(present_.begin(), present_.end());
    for (const uint32_t row : present_) {
      const size_t k = rows_.ComponentOf(row);
      if (presence_[row] == kHalo) piece.components[k].numbers.push_back(row - rows_.first(k));
      presence_[row] = kAbsent;
    }
    piece.tuple.assign(counts_.begin(), counts_.end());
    num_cut_edges_ += piece.num_cut_edges;
    pieces_.push_back(std::move(piece));
    // Only what the piece has touched is cleared, so that many pieces take no longer than few.
    present_.clear();
    inner_.clear();
    counts_.assign(counts_.size(), 0);
    for (const uint32_t atom : touched_) affinity_[atom] = 0;
    touched_.clear();
    queue_ = {};
    return absl::OkStatus();
  }

  const PieceSchema& schema_;
  const PointingRows& rows_;
  const absl::Span<const uint64_t> limits_;
  const bool by_affinity_;
  std::vector<State> state_;
  std::vector<uint32_t> pending_;  // Rows of an atom that owns more than a piece takes.
  uint32_t next_ = 0;              // Atoms before it are owned.
  std::optional<uint32_t> frontier_seed_;
  // Of the open piece.
  std::vector<uint8_t> presence_;
  std::vector<uint32_t> present_;
  std::vector<uint32_t> inner_;
  std::vector<uint32_t> affinity_;
  std::vector<uint32_t> touched_;
  std::priority_queue<Candidate> queue_;
  std::vector<uint64_t> counts_;
  std::vector<uint32_t> stack_;
  std::vector<uint32_t> bundle_;
  std::vector<GraphPiece> pieces_;
  uint64_t num_cut_edges_ = 0;
  uint64_t steps_left_;
  uint64_t copies_left_;
};

}  // namespace

absl::StatusOr<std::vector<GraphPiece>> CutGraph(const PieceSchema& schema, const GraphChunk& chunk,
                                                 size_t index, absl::Span<const uint64_t> limits) {
  PH_ASSIGN_OR_RETURN(const PointingRows rows, PointingRows::Create(schema, chunk, index));
  Cutting by_affinity(schema, rows, limits, /*by_affinity=*/true);
  PH_ASSIGN_OR_RETURN(std::vector<GraphPiece> best, by_affinity.Cut());
  Cutting in_order(schema, rows, limits, /*by_affinity=*/false);
  PH_ASSIGN_OR_RETURN(std::vector<GraphPiece> other, in_order.Cut());
  const bool better = other.size() != best.size()
                          ? other.size() < best.size()
                          : in_order.num_cut_edges() < by_affinity.num_cut_edges();
  return better ? std::move(other) : std::move(best);
}

}  // namespace packhouse
