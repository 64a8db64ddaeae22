// Any bytes as the schema of a unigraph. Whatever comes in: no crash, and tables are those of sets
// that the schema has.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "google/protobuf/stubs/logging.h"
#include "service/wings/graphs/files/unigraph.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // protobuf logs every name that is no UTF-8.
  static const google::protobuf::LogSilencer silencer;
  const auto unigraph =
      packhouse::graph_files::ParseUnigraph({reinterpret_cast<const char*>(data), size});
  if (!unigraph.ok()) return 0;
  for (const auto& table : unigraph->tables) {
    const size_t sets =
        table.is_edges ? unigraph->schema.edge_sets().size() : unigraph->schema.node_sets().size();
    const bool is_reverse = table.is_edges && table.set < sets &&
                            unigraph->schema.edge_sets()[table.set].reverse_of.has_value();
    if (table.set >= sets || is_reverse || table.filename.empty()) {
      std::fprintf(stderr, "a table of no set\n");
      std::abort();
    }
  }
  return 0;
}
