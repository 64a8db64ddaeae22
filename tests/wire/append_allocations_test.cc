// How often memory is allocated for an append: not once a graph.
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/calls/wire_graphs.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/services/append_handler.h"
#include "service/stores/datasets/chunk_record.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace {

std::atomic<size_t> num_allocations = 0;  // Of all threads.

void* Allocate(size_t bytes) {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return Allocate(bytes); }
void* operator new[](size_t bytes) { return Allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace packhouse {
namespace {

enum class Ids { kConsecutive, kAscending, kUnordered };

GraphSchema Schema() {
  return GraphSchema::Create(SizeSchema::NodesAndEdges(),
                             {{"x", DType::kFloat32, {2}, 0, {}, {}},
                              {"edge_index", DType::kInt32, {2}, 1, 0, {}},
                              {"y", DType::kFloat32, {}, 2, {}, {}}})
      .value();
}

// Graphs of few different sizes.
std::shared_ptr<v1::AppendRequest> RequestOf(const GraphSchema& schema, size_t num_graphs,
                                             Ids ids) {
  Random random(0);
  const GraphChunk chunk = RandomChunk(random, &schema, num_graphs, 3, 0);
  auto request = std::make_shared<v1::AppendRequest>();
  request->set_dataset("d");
  v1::GraphChunk& graphs = *request->mutable_graphs();
  graphs.mutable_sizes()->set_num_graphs(num_graphs);
  graphs.mutable_sizes()->set_counts(Uint32sToWire(chunk.sizes().counts()));
  if (ids != Ids::kConsecutive) {
    std::vector<uint64_t> graph_ids;
    for (uint64_t i = 0; i < num_graphs; ++i) {
      graph_ids.push_back(3 * (ids == Ids::kAscending ? i : num_graphs - i));
    }
    graphs.mutable_sizes()->set_graph_ids(Uint64sToWire(graph_ids));
  }
  for (size_t t = 0; t < chunk.num_columns(); ++t) {
    v1::TensorData& tensor = *graphs.add_tensors();
    tensor.set_name(schema.tensors()[t].name);
    tensor.set_data(std::string(chunk.column(t)));
  }
  return request;
}

template <typename Function>
size_t AllocationsOf(Function function) {
  const size_t before = num_allocations;
  function();
  return num_allocations - before;
}

// From the message to the bytes of its record: as many allocations for 10,000 graphs as for 100.
TEST(AppendAllocationsTest, CheckingAndEncodingTakesAsManyWhateverTheNumberOfGraphs) {
  const GraphSchema schema = Schema();
  for (const Ids ids : {Ids::kConsecutive, Ids::kAscending, Ids::kUnordered}) {
    SCOPED_TRACE(testing::Message() << "ids=" << static_cast<int>(ids));
    const auto allocations_for = [&](size_t num_graphs) {
      const auto request = RequestOf(schema, num_graphs, ids);
      std::string record(size_t{1} << 20, '\0');
      return AllocationsOf([&] {
        const auto chunk = GraphChunkFromWire(request->graphs(), &schema, 0, request);
        ASSERT_THAT(chunk, IsOk());
        const auto encoded = EncodedChunk::Create(&*chunk, {});
        ASSERT_THAT(encoded, IsOk());
        ASSERT_LE(encoded->num_bytes(), record.size());
        encoded->WriteTo(record.data(), {});
      });
    };
    allocations_for(100);
    const size_t few = allocations_for(100);
    EXPECT_EQ(allocations_for(10'000), few);
    EXPECT_LT(few, 20U);
  }
}

// And from the message to the disk: a few more may be those of the store's own tables.
TEST(AppendAllocationsTest, AppendingTakesAboutAsManyWhateverTheNumberOfGraphs) {
  const GraphSchema schema = Schema();
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  LmdbDatasetStore::Options options;
  options.folder = folder.path();
  PH_ASSERT_OK_AND_ASSIGN(const auto store, LmdbDatasetStore::Open(options));
  ASSERT_THAT(store->Create("d", schema, {}), IsOk());
  AppendHandler handler(store.get());
  const auto allocations_for = [&](size_t num_graphs) {
    auto request =
        std::make_unique<v1::AppendRequest>(*RequestOf(schema, num_graphs, Ids::kConsecutive));
    return AllocationsOf([&] {
      ASSERT_THAT(handler.Accept(std::move(request)), IsOk());
      ASSERT_THAT(handler.Next(), IsOk());
    });
  };
  allocations_for(100);
  const size_t few = allocations_for(100);
  const size_t many = allocations_for(10'000);
  EXPECT_LE(many, few + 50);
  EXPECT_LT(few, 400U);
}

}  // namespace
}  // namespace packhouse
