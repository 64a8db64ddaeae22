// Random schemas and graphs, for laws that must hold for all of them.
#ifndef PACKHOUSE_TESTS_SUPPORT_RANDOM_GRAPHS_H_
#define PACKHOUSE_TESTS_SUPPORT_RANDOM_GRAPHS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/algorithms/graphs/index_values.h"
#include "tests/support/random.h"

namespace packhouse {

// 0 to 4 components and 0 to 6 tensors of all dtypes, shapes and kinds.
inline GraphSchema RandomSchema(Random& random) {
  const size_t l = random.Below(5);
  std::vector<std::string> names;
  for (size_t k = 0; k < l; ++k) names.push_back(absl::StrCat("c", k));
  std::vector<TensorSpec> tensors;
  const size_t num_tensors = random.Below(7);
  for (size_t t = 0; t < num_tensors; ++t) {
    TensorSpec spec;
    spec.name = absl::StrCat("t", t);
    spec.dtype = static_cast<DType>(random.Below(13));
    spec.component = random.Below(l + 1);
    const size_t rank = random.Below(3);
    for (size_t i = 0; i < rank; ++i) spec.row_shape.push_back(random.Between(1, 3));
    if (rank == 1 && random.Below(2) == 0) spec.layout = Layout::kRowsLast;
    // int8 and uint8 cannot number large batches.
    if (IsInteger(spec.dtype) && ElementBytes(spec.dtype) > 1 && random.Below(2) == 0) {
      spec.index_into = random.Below(l + 1);
    } else if (random.Below(2) == 0) {
      for (size_t i = 0; i < ElementBytes(spec.dtype); ++i) {
        spec.padding_value.push_back(static_cast<char>(random.Below(256)));
      }
    }
    tensors.push_back(std::move(spec));
  }
  return GraphSchema::Create(SizeSchema::Create(std::move(names)).value(), std::move(tensors))
      .value();
}

// `num_graphs` graphs with counts up to `max_count` and valid random contents; ids are consecutive
// from `first_id`. A tensor that points into an empty component gets a graph without rows, where it
// can, or the count is raised.
inline GraphChunk RandomChunk(Random& random, const GraphSchema* schema, size_t num_graphs,
                              uint32_t max_count, uint64_t first_id) {
  const size_t l = schema->num_components();
  std::vector<uint32_t> counts;
  for (size_t i = 0; i < num_graphs; ++i) {
    std::vector<uint32_t> tuple(l);
    for (uint32_t& count : tuple) count = random.Below(max_count + 1);
    for (const TensorSpec& spec : schema->tensors()) {
      const bool has_rows = spec.component == l || tuple[spec.component] != 0;
      if (spec.index_into && *spec.index_into < l && has_rows && tuple[*spec.index_into] == 0) {
        tuple[*spec.index_into] = 1;
      }
    }
    // Raising one count may have given rows to a tensor that points elsewhere.
    for (size_t round = 0; round < l; ++round) {
      for (const TensorSpec& spec : schema->tensors()) {
        const bool has_rows = spec.component == l || tuple[spec.component] != 0;
        if (spec.index_into && *spec.index_into < l && has_rows && tuple[*spec.index_into] == 0) {
          tuple[*spec.index_into] = 1;
        }
      }
    }
    counts.insert(counts.end(), tuple.begin(), tuple.end());
  }
  auto columns = std::make_shared<std::vector<std::string>>();
  for (size_t t = 0; t < schema->tensors().size(); ++t) {
    const TensorSpec& spec = schema->tensors()[t];
    std::string& column = columns->emplace_back();
    for (size_t piece = 0; piece < schema->num_planes(t) * num_graphs; ++piece) {
      const size_t i = piece % num_graphs;
      const auto count = [&](size_t k) { return k == l ? 1 : counts[i * l + k]; };
      const size_t begin = column.size();
      column.resize(begin + count(spec.component) * schema->plane_row_bytes(t), '\0');
      const size_t element = ElementBytes(spec.dtype);
      for (size_t at = begin; at < column.size(); at += element) {
        if (spec.index_into) {
          ShiftIndices(spec.dtype, column.data() + at, element,
                       random.Below(count(*spec.index_into)));
        } else {
          for (size_t b = 0; b < element; ++b) column[at + b] = static_cast<char>(random.Next());
        }
      }
    }
  }
  std::vector<absl::string_view> views(columns->begin(), columns->end());
  SizeTable sizes =
      SizeTable::WithConsecutiveIds(num_graphs, l, std::move(counts), first_id).value();
  return GraphChunk::Create(schema, std::move(sizes), std::move(views), std::move(columns)).value();
}

// Same sizes, same bytes in every tensor.
inline bool SameRows(const GraphChunk& a, size_t i, const GraphChunk& b, size_t j) {
  if (a.sizes().tuple(i) != b.sizes().tuple(j)) return false;
  for (size_t t = 0; t < a.schema().tensors().size(); ++t) {
    for (size_t plane = 0; plane < a.schema().num_planes(t); ++plane) {
      if (a.rows(i, t, plane) != b.rows(j, t, plane)) return false;
    }
  }
  return true;
}

// And the same id.
inline bool SameGraph(const GraphChunk& a, size_t i, const GraphChunk& b, size_t j) {
  return a.sizes().graph_id(i) == b.sizes().graph_id(j) && SameRows(a, i, b, j);
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_RANDOM_GRAPHS_H_
