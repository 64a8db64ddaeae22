// packhouse plan --receipt: a plan made again.
#ifndef PACKHOUSE_CLIENT_CLI_COMMANDS_RECEIPT_PLAN_H_
#define PACKHOUSE_CLIENT_CLI_COMMANDS_RECEIPT_PLAN_H_

#include <cstdint>
#include <string>

#include "client/cli/arguments.h"

namespace packhouse::client {

struct ReceiptPlanArguments {
  std::string server;
  std::string receipt;
  // Where the sizes come from, at most one of them: a file, a data set, or a named histogram.
  std::string sizes;
  std::string dataset;
  std::string histogram;
  // A file with the plan that the receipt's plan started from; empty: none.
  std::string warm_start;
  std::string save_plan;
  bool json = false;
  uint32_t patterns = 0;
};

// Asks for the plan, prints it as `packhouse plan` does, and saves it if asked for.
ExitCode RunReceiptPlan(const ReceiptPlanArguments& arguments);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_COMMANDS_RECEIPT_PLAN_H_
