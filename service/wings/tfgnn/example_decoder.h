// From serialized tf.Examples to the rows of graphs.
//
// Use: one decoder a thread, one Append for each record, then RowBuilder::Build.
//
// Keys are made from the schema and looked up; a key of a record is never taken apart. What is read
// and what is refused:
// - Absent: a whole set (it has no rows), a ragged feature (its rows are empty), a size (0). A
//   feature without a kind counts as absent. Unknown keys are skipped. An empty list of any kind is
//   empty.
// - Lists may be packed or not, a key may come twice (the last one counts), and fields that
//   tf.Example does not have are skipped, as protobuf does it. An integer outside the range of the
//   feature's dtype is refused; of bool, everything but 0 is true. float16 and bfloat16 are rounded
//   to the nearest, ties to even.
// - Refused: rows that disagree with their set's size (or lengths that disagree with the values), a
//   dense feature that is absent though there are rows, lists of another kind, ends of edges that
//   are not rows of their node set, a size with several values, negative sizes and lengths, counts
//   above 2^32 - 1, and bytes that are no tf.Example.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_EXAMPLE_DECODER_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_EXAMPLE_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/wings/tfgnn/graph_sets.h"
#include "service/wings/tfgnn/row_builder.h"

namespace packhouse::tfgnn {

struct DecoderOptions {
  // Comes before every key.
  std::string prefix;
  // The most bytes of rows of one graph. A record of 20 bytes can declare four billion empty ragged
  // rows, so there is always a bound.
  size_t max_graph_bytes = size_t{1} << 30;
};

// Not thread-safe: it remembers in which order the last record had its keys.
class ExampleDecoder {
 public:
  // INVALID_ARGUMENT naming the tensor for a schema that no tf.Example can fill: ends of edges in
  // one tensor, index tensors other than ends, tensors with Layout::kRowsLast. Schemas of
  // GraphSets::FromTfgnn have none of these.
  static absl::StatusOr<ExampleDecoder> Create(const GraphSets& sets, DecoderOptions options = {});

  ExampleDecoder(ExampleDecoder&&) noexcept;
  ExampleDecoder& operator=(ExampleDecoder&&) noexcept;
  ~ExampleDecoder();

  // Appends the graph of one serialized tf.Example to `rows`, which has this decoder's schema. With
  // an error nothing is appended, and the next record can be. `record_number` is for messages.
  //
  // INVALID_ARGUMENT: `record 17: key 'edges/writes.#source': value 5 at position 3 is not in
  // [0, 4), the rows of node set 'author'`; always the record, and where there is one the key, the
  // value and the bound. Nothing else. May throw std::bad_alloc.
  // Cost: O(bytes of the record and of its rows).
  absl::Status Append(absl::string_view record, uint64_t record_number, RowBuilder& rows);

  // Replaces DecoderOptions::max_graph_bytes for the records to come.
  void set_max_graph_bytes(size_t bytes);

 private:
  class Parts;
  explicit ExampleDecoder(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace packhouse::tfgnn

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_EXAMPLE_DECODER_H_
