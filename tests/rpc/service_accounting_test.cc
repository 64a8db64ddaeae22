// What calls reserve is what they hold, wherever memory runs out (tests/support/accounting.h).
#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "packhouse/v1/partitioning.grpc.pb.h"
#include "packhouse/v1/receipts.grpc.pb.h"
#include "packhouse/v1/sampling.grpc.pb.h"
#include "service/server/services/histogram_service.h"
#include "service/server/services/planning_service.h"
#include "service/server/services/receipt_service.h"
#include "service/server/wire/wire_memory.h"
#include "service/server/wire/wire_planning.h"
#include "service/wings/graphs/services/sampling_service.h"
#include "service/wings/partition/services/partitioning_service.h"
#include "tests/datasets/memory_dataset_store.h"
#include "tests/rpc/server_fixture.h"
#include "tests/support/accounting.h"
#include "tests/support/source_graph_world.h"

namespace packhouse::rpc {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// Notes what is held of a budget when a call is answered.
class HeldWhenAnswered final : public RpcObserver {
 public:
  explicit HeldWhenAnswered(const MemoryBudget* memory) : memory_(memory) {}
  void OnStarted(Method /*method*/) override {}
  void OnFinished(Method /*method*/, absl::StatusCode /*code*/,
                  absl::Duration /*elapsed*/) override {
    bytes_ = memory_->held();
  }
  void OnPlanned(absl::Duration /*elapsed*/, double /*gap*/) override {}
  uint64_t bytes() const { return bytes_; }

 private:
  const MemoryBudget* const memory_;
  std::atomic<uint64_t> bytes_ = 0;
};

// A server of one service, whose calls work with `memory`.
class ServiceWorld {
 public:
  using Make = absl::FunctionRef<std::unique_ptr<grpc::Service>(const CallContext& context)>;

  ServiceWorld(MemoryBudget* memory, Make make) : observer_(memory) {
    CallContext context;
    context.clock = &clock_;
    context.stream_pool = context.call_pool = context.append_pool = &pool_;
    context.planning_pool = &planning_pool_;
    context.gate = &gate_;
    context.max_response_bytes = 4 << 20;
    context.observer = &observer_;
    context.unsent_budget = &unsent_;
    context.identity = &identity_;
    context.working = memory;
    service_ = make(context);
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
  }
  ~ServiceWorld() { server_->Shutdown(); }

  std::shared_ptr<grpc::Channel> channel() { return server_->InProcessChannel({}); }
  uint64_t held_when_answered() const { return observer_.bytes(); }

 private:
  SimulatedClock clock_;
  HeldWhenAnswered observer_;
  const PeerAddressIdentity identity_;
  Gate gate_{{}};
  WorkerPool pool_{&clock_, 1};
  PlanningPool planning_pool_{&clock_, 1};
  UnsentBudget unsent_{uint64_t{16} << 20};
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
};

uint64_t NothingIsKept(int /*made*/) { return 0; }

// The law, of a call that is all over afterwards; and each of `things` was refused once.
void ExpectCallAccounted(absl::FunctionRef<absl::Status(MemoryBudget* memory)> call,
                         const std::vector<std::string>& things) {
  std::set<std::string> refusals;
  ExpectAccounted(
      [&](MemoryBudget* memory) -> absl::StatusOr<int> {
        const absl::Status ended = call(memory);
        if (!ended.ok()) refusals.emplace(ended.message());
        PH_RETURN_IF_ERROR(ended);
        return 0;
      },
      NothingIsKept);
  for (const std::string& thing : things) {
    EXPECT_THAT(refusals, Contains(HasSubstr(absl::StrCat("--memory-budget: ", thing, " bytes"))));
  }
}

TEST(ServiceAccountingTest, AFileOfAPartition) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  SimulatedClock clock;
  OneGraphStore graphs(SmallSourceGraph(60), folder.path() + "/companion");
  PartitionJobs jobs(&graphs, /*engine=*/nullptr, &clock, /*memory=*/nullptr, {});
  PartitionPlan plan;
  plan.name = "p";
  plan.options.num_parts = 2;
  ASSERT_THAT(jobs.Partition("g", plan).status(), IsOk());
  jobs.AwaitIdle();
  PH_ASSERT_OK_AND_ASSIGN(const PartitionJobInfo info, jobs.Get("g", "p"));
  v1::ReadPartitionFileRequest request;
  request.set_graph("g");
  request.set_name("p");
  request.set_path(info.files[0].path);
  // As many as it has: what is reserved is what is read.
  request.set_max_bytes(info.files[0].num_bytes);
  ExpectCallAccounted(
      [&](MemoryBudget* memory) {
        ServiceWorld world(memory, [&](const CallContext& context) {
          return std::make_unique<PartitioningService>(context, &jobs, /*datasets=*/nullptr);
        });
        grpc::ClientContext context;
        v1::ReadPartitionFileResponse response;
        const absl::Status ended = ToAbsl(v1::PartitioningService::NewStub(world.channel())
                                              ->ReadPartitionFile(&context, request, &response));
        EXPECT_EQ(response.data().size(), ended.ok() ? request.max_bytes() : 0);
        return ended;
      },
      {absl::StrCat("the bytes of a file of ", request.max_bytes())});
}

class SamplingAccountingTest : public ::testing::Test {
 protected:
  SamplingAccountingTest() {
    sub_graphs_.set_graph("g");
    sub_graphs_.set_text(TwoHopSpec(4, 3));
    seeds_.set_numbers(Uint32sToWire({3, 1, 4, 15, 9, 26}));
  }
  // Of one call; what it makes stays in the stores.
  std::unique_ptr<grpc::Service> Service(const CallContext& context) {
    return std::make_unique<SamplingService>(context, StreamBounds(), &histograms_,
                                             /*observers=*/nullptr, /*live=*/nullptr, &graphs_,
                                             &datasets_, /*sampled=*/nullptr);
  }

  // As many bytes as BytesOfSeeds() has for them.
  const std::string seeds_are_held_ = "seeds of 72";
  v1::SubGraphs sub_graphs_;
  v1::Seeds seeds_;
  OneGraphStore graphs_{SmallSourceGraph(60)};
  HistogramStore histograms_{{}};
  MemoryDatasetStore datasets_{uint64_t{1} << 30};
};

TEST_F(SamplingAccountingTest, Estimates) {
  v1::EstimateSizesRequest request;
  *request.mutable_sub_graphs() = sub_graphs_;
  *request.mutable_seeds() = seeds_;
  request.set_histogram("h");
  v1::EstimateSizesResponse response;
  uint64_t held = 0;
  const auto estimate = [&](MemoryBudget* memory) {
    ServiceWorld world(memory, [&](const CallContext& context) { return Service(context); });
    grpc::ClientContext context;
    const absl::Status ended = ToAbsl(
        v1::SamplingService::NewStub(world.channel())->EstimateSizes(&context, request, &response));
    held = world.held_when_answered();
    return ended;
  };
  MemoryBudget memory(uint64_t{1} << 30);
  ASSERT_THAT(estimate(&memory), IsOk());
  // Until the answer is sent; and nothing else.
  const uint64_t num_distinct = response.histogram().counts().size() / sizeof(uint64_t);
  EXPECT_EQ(held, BytesToWire(num_distinct, 2));
  ExpectCallAccounted(estimate,
                      {seeds_are_held_, absl::StrCat("the histogram as it is sent of ", held)});
}

TEST_F(SamplingAccountingTest, DataSets) {
  v1::SampleDatasetRequest request;
  *request.mutable_sub_graphs() = sub_graphs_;
  *request.mutable_seeds() = seeds_;
  request.set_dataset("drawn");
  ExpectCallAccounted(
      [&](MemoryBudget* memory) {
        // Some of it may be there after a refusal.
        datasets_.Delete("drawn").IgnoreError();
        ServiceWorld world(memory, [&](const CallContext& context) { return Service(context); });
        grpc::ClientContext context;
        const auto stub = v1::SamplingService::NewStub(world.channel());
        const auto responses = stub->SampleDataset(&context, request);
        v1::SampleDatasetResponse response;
        while (responses->Read(&response)) {
        }
        return ToAbsl(responses->Finish());
      },
      {seeds_are_held_});
}

// Of 6 sizes of two components.
class SizesAccountingTest : public ::testing::Test {
 protected:
  SizesAccountingTest() {
    SizeHistogram sizes(2);
    for (uint32_t n = 3; n < 9; ++n) EXPECT_THAT(sizes.Add({n, 2 * n}, n), IsOk());
    HistogramToWire(sizes, SizeSchema::NodesAndEdges(), histogram_);
    EXPECT_THAT(histograms_.Merge({"h", SizeSchema::NodesAndEdges()}, sizes, std::nullopt,
                                  absl::UnixEpoch()),
                IsOk());
    for (const auto& [component, rows] :
         {std::pair("nodes", 20), std::pair("edges", 40), std::pair("graphs", 4)}) {
      v1::Capacity& capacity = *plan_.mutable_limits()->add_capacities();
      capacity.set_component(component);
      capacity.set_rows(static_cast<uint64_t>(rows));
    }
    plan_.set_budget_steps(1000);
    *plan_.mutable_histogram() = histogram_;
  }
  absl::Status Plan(const v1::PlanRequest& request, v1::PlanResponse& response,
                    MemoryBudget* memory) {
    ServiceWorld world(memory, [&](const CallContext& context) {
      return std::make_unique<PlanningService>(context, &histograms_, &quota_, 1000,
                                               /*measured=*/nullptr);
    });
    grpc::ClientContext context;
    return ToAbsl(
        v1::PlanningService::NewStub(world.channel())->Plan(&context, request, &response));
  }
  v1::PlanResponse Planned() {
    MemoryBudget memory(uint64_t{1} << 30);
    v1::PlanResponse response;
    EXPECT_THAT(Plan(plan_, response, &memory), IsOk());
    return response;
  }
  // The whole messages' memory is what they are said to take.
  static std::string PlanIsSent(const v1::PackingPlan& plan) {
    return absl::StrCat("the plan as it is sent of ",
                        BytesToWire(PlanFromWire(plan, 2, "plan").value()));
  }

  HistogramStore histograms_{{}};
  ByteQuota quota_{uint64_t{1} << 30};
  v1::Histogram histogram_;
  v1::PlanRequest plan_;
};

TEST_F(SizesAccountingTest, Plans) {
  const v1::PlanResponse planned = Planned();
  *plan_.mutable_warm_start() = planned.plan();
  const std::vector<std::string> made = {
      absl::StrCat("warm_start of ", BytesOfPlan(planned.plan())), PlanIsSent(planned.plan())};
  for (const bool is_named : {false, true}) {
    std::vector<std::string> things = made;
    if (is_named) {
      plan_.set_histogram_name("h");
    } else {
      things.push_back(
          absl::StrCat("the histogram of the request of ", BytesOfHistogram(histogram_)));
    }
    v1::PlanResponse response;
    ExpectCallAccounted([&](MemoryBudget* memory) { return Plan(plan_, response, memory); },
                        things);
    EXPECT_EQ(response.best().packs(), planned.best().packs());
  }
}

TEST_F(SizesAccountingTest, PlansOfReceipts) {
  const v1::PlanResponse planned = Planned();
  v1::ReplanRequest request;
  request.set_receipt(planned.best().receipt());
  MemoryDatasetStore datasets(uint64_t{1} << 30);
  ASSERT_THAT(
      datasets.Create("set", GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value(), {}),
      IsOk());
  std::vector<uint32_t> counts;
  for (uint32_t n = 3; n < 9; ++n) {
    for (uint32_t i = 0; i < n; ++i) counts.insert(counts.end(), {n, 2 * n});
  }
  const size_t num_graphs = counts.size() / 2;
  const GraphSchema schema = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
  ASSERT_THAT(
      datasets.Append("set",
                      GraphChunk::OfSizes(
                          &schema, SizeTable::WithConsecutiveIds(num_graphs, 2, counts, 0).value()),
                      {}, std::nullopt),
      IsOk());
  for (const std::string source : {"request", "name", "data set"}) {
    SCOPED_TRACE(source);
    std::vector<std::string> things = {PlanIsSent(planned.plan())};
    if (source == "request") {
      *request.mutable_histogram() = histogram_;
      things.push_back(
          absl::StrCat("the histogram of the request of ", BytesOfHistogram(histogram_)));
    } else if (source == "name") {
      request.set_histogram_name("h");
    } else {
      request.set_dataset("set");
      things.push_back(
          absl::StrCat("the histogram of the data set of ", datasets.GetHistogram("set")->bytes()));
    }
    v1::ReplanResponse response;
    ExpectCallAccounted(
        [&](MemoryBudget* memory) {
          ServiceWorld world(memory, [&](const CallContext& context) {
            return std::make_unique<ReceiptService>(context, &histograms_, &datasets,
                                                    /*kinds=*/nullptr, /*loader=*/nullptr,
                                                    /*jobs=*/nullptr);
          });
          grpc::ClientContext context;
          return ToAbsl(
              v1::ReceiptService::NewStub(world.channel())->Replan(&context, request, &response));
        },
        things);
    EXPECT_EQ(response.plan().plan().SerializeAsString(), planned.plan().SerializeAsString());
  }
}

TEST_F(SizesAccountingTest, SearchesForLimits) {
  v1::TuneRequest request;
  *request.mutable_histogram() = histogram_;
  request.set_budget_steps(1000);
  v1::DeviceProfile::Component& nodes = *request.mutable_profile()->add_components();
  nodes.set_component("nodes");
  nodes.set_min_rows(16);
  nodes.set_max_rows(20);
  ExpectCallAccounted(
      [&](MemoryBudget* memory) {
        ServiceWorld world(memory, [&](const CallContext& context) {
          return std::make_unique<PlanningService>(context, &histograms_, &quota_, 1000,
                                                   /*measured=*/nullptr);
        });
        grpc::ClientContext context;
        const auto stub = v1::PlanningService::NewStub(world.channel());
        const auto responses = stub->Tune(&context, request);
        v1::TuneResponse response;
        while (responses->Read(&response)) {
        }
        return ToAbsl(responses->Finish());
      },
      {absl::StrCat("the histogram of the request of ", BytesOfHistogram(histogram_))});
  EXPECT_EQ(quota_.held(), 0U);
}

TEST_F(SizesAccountingTest, Histograms) {
  const auto call = [&](MemoryBudget* memory, auto method, const auto& request, auto response) {
    ServiceWorld world(memory, [&](const CallContext& context) {
      return std::make_unique<HistogramService>(context, &histograms_);
    });
    grpc::ClientContext context;
    return ToAbsl(
        (*v1::HistogramService::NewStub(world.channel()).*method)(&context, request, &response));
  };
  using Stub = v1::HistogramService::Stub;
  v1::GetHistogramRequest get;
  get.set_histogram("h");
  ExpectCallAccounted(
      [&](MemoryBudget* memory) {
        return call(memory, &Stub::GetHistogram, get, v1::GetHistogramResponse());
      },
      {absl::StrCat("the histogram as it is sent of ", BytesToWire(6, 2))});
  const uint64_t of_names = sizeof(std::string) + HistogramStore::kMaxNameLength;
  ExpectCallAccounted(
      [&](MemoryBudget* memory) {
        return call(memory, &Stub::ListHistograms, v1::ListHistogramsRequest(),
                    v1::ListHistogramsResponse());
      },
      {absl::StrCat("the names as they are sent of ", of_names)});
  v1::MergeHistogramRequest merge;
  merge.set_histogram("h");
  *merge.mutable_addend() = histogram_;
  ExpectCallAccounted(
      [&](MemoryBudget* memory) {
        return call(memory, &Stub::MergeHistogram, merge, v1::MergeHistogramResponse());
      },
      {absl::StrCat("addend of ", BytesOfHistogram(histogram_))});
}

}  // namespace
}  // namespace packhouse::rpc
