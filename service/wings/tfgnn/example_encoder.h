// From the rows of graphs to serialized tf.Examples, which TF-GNN's parse_single_example reads.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_EXAMPLE_ENCODER_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_EXAMPLE_ENCODER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/wings/tfgnn/graph_sets.h"

namespace packhouse::tfgnn {

struct EncoderOptions {
  // Comes before every key.
  std::string prefix;
};

// One record is one graph, a GraphTensor of one component. It has every key of every set, also
// those of empty lists, in ascending order; so equal graphs have equal bytes. Integers and bool
// become int64 lists (uint64 keeps its bits), floats float lists (float64 is rounded to float32),
// strings bytes lists.
//
// The ends of edges may be of any integer type, in two tensors or in one. An index tensor that is
// no end is a feature as any other. Not thread-safe.
class ExampleEncoder {
 public:
  explicit ExampleEncoder(const GraphSets& sets, EncoderOptions options = {});
  ExampleEncoder(ExampleEncoder&&) noexcept;
  ExampleEncoder& operator=(ExampleEncoder&&) noexcept;
  ~ExampleEncoder();

  // Appends the record of graph i of `chunk` to `*out`; `chunk` has whole graphs (it is not
  // OfSizes) of the sets' schema, 0 <= i < num_graphs(). Cost: O(bytes of the graph and of the
  // record).
  //
  // INVALID_ARGUMENT naming the graph and the tensor if lengths of a ragged feature are negative or
  // disagree with its values (the service does not check lengths when graphs come as tensors), or
  // if a record would exceed 2^31 - 1 bytes. FAILED_PRECONDITION naming the key if two parts of the
  // schema have the same one: a tensor of a foreign schema may be called `S.#size`. Then `*out` is
  // as before.
  absl::Status Append(const GraphChunk& chunk, size_t i, std::string* out);

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace packhouse::tfgnn

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_EXAMPLE_ENCODER_H_
