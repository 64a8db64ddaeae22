#include "client/cli/commands/receipt_plan.h"

#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/files/plan_file.h"
#include "client/cli/reports/plan_report.h"
#include "client/cpp/receipt_client.h"
#include "client/graph/files/sizes_file.h"
#include "service/command_line/json.h"
#include "service/command_line/table.h"

namespace packhouse::client {
namespace {

// What the ledger keeps of a plan: without the figures of the planner that made it.
std::string KeptPlanText(const v1::ReplanResponse& response) {
  const v1::PlanSummary& best = response.plan().best();
  return absl::StrCat("packs        ", Grouped(best.packs()), "\nlower bound  ",
                      best.lower_bound() == 0 ? "none" : Grouped(best.lower_bound()),
                      "\nkept for     epoch ", response.epoch(), " of job ", response.job(),
                      ", of ", response.dataset(), "\nreceipt      ", best.receipt(), "\n");
}

}  // namespace

ExitCode RunReceiptPlan(const ReceiptPlanArguments& arguments) {
  const int sources =
      !arguments.sizes.empty() + !arguments.dataset.empty() + !arguments.histogram.empty();
  if (sources > 1) {
    return Misuse(absl::InvalidArgumentError(
        "--sizes, --dataset, --histogram: the sizes come from one of them"));
  }
  if (!arguments.warm_start.empty() && arguments.sizes.empty()) {
    return Misuse(absl::InvalidArgumentError("--warm-start with --receipt needs --sizes"));
  }
  if (arguments.sizes.empty() && arguments.server.empty()) {
    return Misuse(absl::InvalidArgumentError(
        "--server: needed with --receipt, unless --sizes says what the plan is made of"));
  }
  v1::ReplanRequest request;
  request.set_receipt(arguments.receipt);
  request.set_summaries_only(arguments.patterns == 0 && arguments.save_plan.empty());
  std::vector<std::string> components;
  if (!arguments.sizes.empty()) {
    const absl::StatusOr<GraphSizes> sizes = ReadSizesFile(arguments.sizes);
    if (!sizes.ok()) return Fail(sizes.status());
    absl::StatusOr<v1::Histogram> histogram = MakeHistogram(*sizes);
    if (!histogram.ok()) return Fail(histogram.status());
    *request.mutable_histogram() = *std::move(histogram);
    components = sizes->components;
  } else if (!arguments.dataset.empty()) {
    request.set_dataset(arguments.dataset);
  } else if (!arguments.histogram.empty()) {
    request.set_histogram_name(arguments.histogram);
  }
  if (!arguments.warm_start.empty()) {
    absl::StatusOr<v1::PackingPlan> plan = ReadPlanFile(arguments.warm_start, components);
    if (!plan.ok()) return Fail(plan.status());
    *request.mutable_warm_start() = *std::move(plan);
  }
  const absl::StatusOr<ServerConnection> connection = ConnectToServer(arguments.server);
  if (!connection.ok()) return Fail(connection.status());
  const absl::StatusOr<v1::ReplanResponse> response =
      ReceiptClient(connection->servers).Replan(request);
  if (!response.ok()) return Fail(response.status());
  const v1::PlanResponse& plan = response->plan();
  components.clear();
  for (int k = 0; k + 1 < plan.best().components_size(); ++k) {
    components.push_back(plan.best().components(k).component());
  }
  if (arguments.json) {
    std::cout << JsonText(PlanJson(plan, components, arguments.patterns));
  } else {
    std::cout << (response->job().empty() ? PlanCertificate(plan.best()) : KeptPlanText(*response));
    if (arguments.patterns > 0) {
      std::cout << '\n' << PatternList(plan, components, arguments.patterns);
    }
  }
  if (!arguments.save_plan.empty()) {
    if (absl::Status status = WritePlanFile(arguments.save_plan, plan); !status.ok()) {
      return Fail(status);
    }
  }
  return kExitOk;
}

}  // namespace packhouse::client
