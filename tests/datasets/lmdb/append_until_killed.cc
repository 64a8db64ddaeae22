// Appends with several producers until it is killed: append_until_killed FOLDER. Writes a line
// "PRODUCER SEQUENCE FIRST_GRAPH" for each append once it is acknowledged. Goes on where the store
// says it was.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "tests/datasets/lmdb/killed_appends.h"

namespace {

void Append(packhouse::LmdbDatasetStore& store, uint64_t producer) {
  const packhouse::GraphSchema schema = packhouse::KilledAppendSchema();
  const std::string name = absl::StrCat("p", producer);
  for (uint64_t sequence = 1;; ++sequence) {
    const packhouse::GraphChunk chunk = packhouse::KilledAppend(schema, producer, sequence);
    const auto result = store.Append("set", chunk, {}, packhouse::ProducerSequence{name, sequence});
    if (!result.ok()) {
      std::fprintf(stderr, "%s\n", std::string(result.status().message()).c_str());
      std::_Exit(3);
    }
    // What was there before this run was said then, or was not acknowledged.
    if (result->is_repetition) continue;
    const std::string line = absl::StrCat(producer, " ", sequence, " ", result->first_graph, "\n");
    if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) std::_Exit(4);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  packhouse::LmdbDatasetStore::Options options;
  options.folder = argv[1];
  options.max_bytes = uint64_t{1} << 30;
  const auto store = packhouse::LmdbDatasetStore::Open(options);
  if (!store.ok()) {
    std::fprintf(stderr, "%s\n", std::string(store.status().message()).c_str());
    return 1;
  }
  const auto created = (*store)->Create("set", packhouse::KilledAppendSchema(), {});
  if (!created.ok() && created.status().code() != absl::StatusCode::kAlreadyExists) return 1;
  std::vector<std::thread> threads;
  for (uint64_t producer = 0; producer < packhouse::kKilledProducers; ++producer) {
    threads.emplace_back([&store, producer] { Append(**store, producer); });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}
