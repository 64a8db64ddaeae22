// The schema of graphs that may be pieces of larger graphs.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PIECES_PIECE_SCHEMA_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PIECES_PIECE_SCHEMA_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "service/algorithms/graphs/graph_schema.h"

namespace packhouse {

// A schema, and the same with the tensors of pieces behind its own: `#piece`, `#pieces` and
// `#cut_edges`, uint32 along `graphs`; and for each component c that is no ragged feature `c.#row`,
// uint32, the number of the row in the whole graph, and `c.#inner`, bool, whether the piece owns
// it. Immutable; thread-safe.
class PieceSchema {
 public:
  // How the rows of a component come into a piece.
  struct Component {
    // Of a ragged feature: the tensor of its lengths, whose component's rows its own belong to.
    std::optional<size_t> lengths;
    // Index tensors along it, in the order of the schema. The last one tells who owns a row.
    std::vector<size_t> indices;
    // `c.#row` and `c.#inner` in with_pieces(); none for ragged features.
    size_t row = 0;
    size_t inner = 0;
  };

  // INVALID_ARGUMENT naming the component or the tensor: index tensors that lead in a circle, or
  // point into `graphs` or into ragged features; a ragged feature without lengths; a schema that
  // has no room for the tensors, or has one of these names. Lengths of ragged features are the
  // int32 or int64 tensor `F.d1` (inner ones `F.d2` and so on); several steps a row have fixed
  // dimensions.
  static absl::StatusOr<PieceSchema> Create(const GraphSchema& whole);
  // The other way; nullopt unless `with_pieces` has the tensors of pieces, and all of them.
  static std::optional<PieceSchema> Of(const GraphSchema& with_pieces);

  const GraphSchema& whole() const { return *whole_; }
  const GraphSchema& with_pieces() const { return *with_pieces_; }
  std::shared_ptr<const GraphSchema> shared_whole() const { return whole_; }
  std::shared_ptr<const GraphSchema> shared_with_pieces() const { return with_pieces_; }
  const std::vector<Component>& components() const { return components_; }
  // Each component after all that its index tensors point into, and that its lengths lie along.
  const std::vector<size_t>& order() const { return order_; }
  // The first of the three tensors along `graphs`.
  size_t first_of_graph() const { return whole_->tensors().size(); }

 private:
  PieceSchema() = default;

  std::shared_ptr<const GraphSchema> whole_;
  std::shared_ptr<const GraphSchema> with_pieces_;
  std::vector<Component> components_;
  std::vector<size_t> order_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PIECES_PIECE_SCHEMA_H_
