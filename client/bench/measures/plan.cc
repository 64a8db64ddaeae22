#include "client/bench/measures/plan.h"

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/bench/bench_stream.h"
#include "client/cpp/status.h"
#include "grpcpp/client_context.h"
#include "packhouse/v1/planning.grpc.pb.h"

namespace packhouse::client {
namespace {

constexpr int kLeastPlans = 3;
constexpr absl::Duration kCallTimeout = absl::Minutes(2);

}  // namespace

absl::StatusOr<std::vector<PlanFigures>> MeasurePlan(const BenchSetup& setup) {
  const absl::StatusOr<std::unique_ptr<BenchServer>> server = setup.StartPackhoused(1);
  if (!server.ok()) return server.status();
  const auto stub = v1::PlanningService::NewStub((*server)->channel(0));
  const BenchGraphs& graphs = setup.graphs();
  v1::PlanRequest request;
  *request.mutable_histogram() = graphs.histogram;
  // One batch takes the largest graph: the limits of the paper.
  for (std::size_t k = 0; k < graphs.maxima.size(); ++k) {
    v1::Capacity* const capacity = request.mutable_limits()->add_capacities();
    capacity->set_component(graphs.schema.components(static_cast<int>(k)));
    capacity->set_rows(graphs.maxima[k]);
  }
  std::vector<PlanFigures> figures;
  for (const auto& [name, algorithm] :
       {std::pair("first-fit decreasing", v1::PLAN_ALGORITHM_FIRST_FIT_DECREASING),
        std::pair("optimized", v1::PLAN_ALGORITHM_OPTIMIZED)}) {
    PlanFigures& plan = figures.emplace_back();
    plan.name = name;
    request.clear_heuristics();
    request.add_heuristics()->set_algorithm(algorithm);
    const absl::Time end = absl::Now() + setup.settings().runs * setup.settings().seconds;
    for (int call = 0; call < kLeastPlans || absl::Now() < end; ++call) {
      grpc::ClientContext context;
      context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
      v1::PlanResponse response;
      const int64_t begin = MonotonicNanos();
      const grpc::Status status = stub->Plan(&context, request, &response);
      if (!status.ok()) return ToAbslStatus(status);
      plan.milliseconds.push_back(static_cast<double>(MonotonicNanos() - begin) /
                                  kNanosPerMillisecond);
    }
  }
  return figures;
}

}  // namespace packhouse::client
