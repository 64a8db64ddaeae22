// Fills data sets and deletes them until it is killed: erase_until_killed FOLDER. Writes a line
// when one is deleted, and when some of one is erased. A data set "kept" is made first, and left
// alone.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/stores/lmdb/lmdb_dataset_eraser.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "tests/datasets/lmdb/killed_appends.h"

namespace {

void Say(absl::string_view line) {
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) std::_Exit(4);
}

void Require(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::_Exit(3);
}

class SayingWhatIsErased final : public packhouse::CommitObserver {
 public:
  void OnCommitBegin() override {}
  void OnCommitEnd(const packhouse::CommitSummary&) override {}
  void OnStoreBytes(uint64_t num_bytes) override {
    if (num_bytes < num_bytes_) Say("erased\n");
    num_bytes_ = num_bytes;
  }

 private:
  uint64_t num_bytes_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  SayingWhatIsErased observer;
  packhouse::LmdbDatasetStore::Options options;
  options.folder = argv[1];
  options.max_bytes = uint64_t{1} << 30;
  options.observer = &observer;
  const auto store = packhouse::LmdbDatasetStore::Open(options);
  Require(store.status());
  const packhouse::GraphSchema schema = packhouse::KilledAppendSchema();
  if (!(*store)->Get("kept").ok()) {
    Require((*store)->Create("kept", schema, {}).status());
    const auto chunk = packhouse::KilledAppend(schema, 0, 1);
    Require((*store)->Append("kept", chunk, {}, std::nullopt).status());
  }
  const auto chunk = packhouse::KilledAppend(schema, 1, 1);
  constexpr size_t kThreads = 4;
  constexpr size_t kRecords = 5 * packhouse::LmdbDatasetEraser::kMaxKeys / 2;
  // The last run may have left one by half.
  if ((*store)->Get("large").ok()) Require((*store)->Delete("large"));
  while (true) {
    Require((*store)->Create("large", schema, {}).status());
    std::vector<std::thread> threads;
    for (size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&] {
        for (size_t i = 0; i < kRecords / kThreads; ++i) {
          Require((*store)->Append("large", chunk, {}, std::nullopt).status());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    Require((*store)->Delete("large"));
    Say("deleted\n");
  }
}
