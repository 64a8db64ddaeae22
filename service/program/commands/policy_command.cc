#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/access/policy.h"
#include "service/access/security/policy_file.h"
#include "service/access/security/small_file.h"
#include "service/program/commands/subcommands.h"

namespace packhouse {
namespace {

struct PolicyArguments {
  std::string file;
  std::string principal;
  std::string name;
};

ExitCode Check(const PolicyArguments& arguments) {
  const absl::StatusOr<std::string> text = security::ReadSmallFile(arguments.file);
  if (!text.ok()) return Fail(text.status());
  const absl::StatusOr<Policy> policy = security::ParsePolicy(*text);
  if (!policy.ok()) {
    return Fail(absl::Status(policy.status().code(),
                             absl::StrCat(arguments.file, ": ", policy.status().message())));
  }
  if (arguments.principal.empty()) {
    std::cout << arguments.file << ": good; principals: " << policy->num_principals()
              << ", namespaces with quotas: " << policy->num_namespaces() << "\n";
    return kExitOk;
  }
  const absl::string_view where = NamespaceOf(arguments.name);
  std::vector<absl::string_view> rights;
  for (const Right right :
       {Right::kView, Right::kTrain, Right::kProduce, Right::kOwn, Right::kAdminister}) {
    const bool is_of_server = right == Right::kAdminister;
    if (policy->Allows(arguments.principal, right, is_of_server ? kAll : where)) {
      rights.push_back(NameOf(right));
    }
  }
  std::cout << arguments.principal << " in namespace " << where << ": "
            << (rights.empty() ? "nothing" : absl::StrJoin(rights, ", ")) << "\n";
  return kExitOk;
}

}  // namespace

void AddPolicyCommand(CLI::App& app, ExitCode& code) {
  CLI::App* const command =
      app.add_subcommand("policy", "Policy files: who may do what (docs/security.md)");
  command->require_subcommand(1);
  CLI::App* const check = command->add_subcommand(
      "check", "Reads a policy as a server would, and says what is wrong, or whom it lets do what");
  const auto arguments = std::make_shared<PolicyArguments>();
  check->add_option("FILE", arguments->file, "the policy")->required();
  CLI::Option* const principal =
      check->add_option("--principal", arguments->principal, "whose rights to list");
  check
      ->add_option("--name", arguments->name,
                   "on what: NAMESPACE/NAME, or a name in the namespace default")
      ->needs(principal);
  check->callback([arguments, &code] { code = Check(*arguments); });
}

}  // namespace packhouse
