// Appends to source graphs, and seals them, until it is killed. Prints what it was answered:
//   appended GRAPH SEQUENCE
//   sealed GRAPH
// Usage: append_rows_until_killed FOLDER. Goes on where an earlier run was killed.
#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/wings/graphs/stored/file_source_graph_store.h"
#include "tests/source_graphs/stored/killed_rows.h"

int main(int argc, char** argv) {
  using namespace packhouse;
  if (argc != 2) return 2;
  FileSourceGraphStore::Options options;
  options.folder = argv[1];
  options.min_free_bytes = 0;
  const auto store = FileSourceGraphStore::Open(options);
  if (!store.ok()) {
    std::fprintf(stderr, "%s\n", store.status().ToString().c_str());
    return 1;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  for (uint64_t graph = 0;; ++graph) {
    const std::string name = absl::StrCat("graph", graph);
    (void)(*store)->Create(name, LawSchema(), LawOptions());
    const auto info = (*store)->Get(name);
    if (!info.ok()) return 1;
    if (info->state == SourceGraphState::kSealed) continue;
    for (uint64_t sequence = 1; sequence <= kAppendsOfGraph; ++sequence) {
      const ChunkOfRows chunk(LawSchema(), LawOptions(), RowsOf(graph, sequence));
      const auto result =
          (*store)->Append({name, 0}, chunk.chunk(), ProducerSequence{"p", sequence});
      if (!result.ok()) return 1;
      std::printf("appended %llu %llu\n", static_cast<unsigned long long>(graph),
                  static_cast<unsigned long long>(sequence));
    }
    const auto sealed = (*store)->Seal(name, {}, [](const SourceGraphProgress&) { return true; });
    if (!sealed.ok()) return 1;
    std::printf("sealed %llu\n", static_cast<unsigned long long>(graph));
  }
}
