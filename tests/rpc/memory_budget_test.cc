// Any number of clients may stop reading. The memory for what waits for them has a bound, and
// clients that read are served.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/rpc/server_fixture.h"

namespace packhouse::rpc {
namespace {

constexpr uint64_t kMebibyte = 1 << 20;
// A quarter is for responses that are not sent.
constexpr uint64_t kBudget = 32 * kMebibyte;
constexpr uint64_t kBatchBytes = kMebibyte;
constexpr uint64_t kMostCalls = kBudget / 4 / kBatchBytes;
// More than sockets and windows take.
constexpr uint64_t kGraphs = 60;

class MemoryBudgetTest : public ServerTest {
 protected:
  void StartSmallServer() {
    ServerOptions options;
    options.memory_budget = kBudget;
    options.max_message_bytes = 4 * kMebibyte;
    StartServer(options);
  }

  // A stream, on a connection of its own, that asks for kGraphs batches: small graphs, padded.
  std::unique_ptr<PackCall> StartPadded() {
    channel_ = NewChannel();
    auto call = StartPack();
    v1::PackRequest request;
    v1::PackOpen& open = *request.mutable_open();
    open.mutable_schema()->add_components("nodes");
    v1::TensorSpec& tensor = *open.mutable_schema()->add_tensors();
    tensor.set_name("x");
    tensor.set_dtype(v1::DATA_TYPE_UINT8);
    tensor.set_component("nodes");
    for (const auto& [component, rows] :
         {std::pair("nodes", kBatchBytes), std::pair("graphs", uint64_t{1})}) {
      v1::Capacity& capacity = *open.mutable_limits()->add_capacities();
      capacity.set_component(component);
      capacity.set_rows(rows);
    }
    open.set_padding(v1::PADDING_MASKED);
    open.set_look_ahead(1);
    EXPECT_TRUE(call->stream->Write(request));
    request.Clear();
    v1::GraphChunk& chunk = *request.mutable_graphs();
    chunk.mutable_sizes()->set_num_graphs(kGraphs);
    chunk.mutable_sizes()->set_counts(Uint32sToWire(std::vector<uint32_t>(kGraphs, 1)));
    v1::TensorData& data = *chunk.add_tensors();
    data.set_name("x");
    data.set_data(std::string(kGraphs, '\7'));
    EXPECT_TRUE(call->stream->Write(request));
    call->stream->WritesDone();
    return call;
  }

  // Reads until a batch has come, or the stream has ended.
  static bool ReadBatch(PackCall& call) {
    v1::PackResponse response;
    while (call.stream->Read(&response)) {
      if (response.has_batch()) return true;
    }
    return false;
  }
};
INSTANTIATE_TEST_SUITE_P(Transports, MemoryBudgetTest,
                         ::testing::Values(Transport::kInProcess, Transport::kTcp), TransportName);

TEST_P(MemoryBudgetTest, EveryCallThatIsAdmittedIsServedThoughOthersDoNotRead) {
  StartSmallServer();
  // Each takes one batch and no more.
  std::vector<std::unique_ptr<PackCall>> calls;
  absl::Status refused;
  while (refused.ok()) {
    ASSERT_LE(calls.size(), kMostCalls);
    auto call = StartPadded();
    if (ReadBatch(*call)) {
      calls.push_back(std::move(call));
    } else {
      refused = ToAbsl(call->stream->Finish());
    }
  }
  EXPECT_THAT(refused,
              StatusIs(absl::StatusCode::kResourceExhausted,
                       ::testing::AllOf(::testing::HasSubstr("--memory-budget"),
                                        ::testing::HasSubstr(std::to_string(kBudget / 4)))));
  // Batches that are made ahead of the readers take at most the half.
  EXPECT_GE(calls.size(), kMostCalls / 2 - 1);

  // The first one reads on.
  uint64_t batches = 1;
  while (ReadBatch(*calls.front())) ++batches;
  EXPECT_EQ(batches, kGraphs);
  EXPECT_THAT(ToAbsl(calls.front()->stream->Finish()), IsOk());

  // Another one comes in its place.
  observer_.AwaitFinished(Method::kPack, absl::StatusCode::kOk);
  calls.front() = StartPadded();
  EXPECT_TRUE(ReadBatch(*calls.front()));

  for (const auto& call : calls) call->context.TryCancel();
  for (const auto& call : calls) {
    EXPECT_THAT(Finish(*call->stream), StatusIs(absl::StatusCode::kCancelled, ::testing::_));
  }
}

}  // namespace
}  // namespace packhouse::rpc
