#include "service/stores/datasets/store_check.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace packhouse {

std::string NamedDataset(absl::string_view name) {
  return absl::StrCat("data set '", absl::CHexEscape(name), "'");
}

void TellDamage(const std::string& file, absl::string_view name, const VerifyReport& report,
                DamageVisitor found) {
  const std::string dataset = NamedDataset(name);
  for (const DamagedRecord& record : report.damaged) {
    found({file, absl::StrCat("record ", record.record, " of ", dataset),
           std::string(record.status.message()),
           absl::StrCat("graphs ", record.first_graph, " to ",
                        record.first_graph + record.num_graphs - 1, " of ", dataset)});
  }
  if (report.num_damaged > report.damaged.size()) {
    found({file, dataset,
           absl::StrCat(report.num_damaged - report.damaged.size(), " more records are damaged"),
           dataset});
  }
  for (const absl::Status& disagreement : report.disagreements) {
    found({file, dataset, std::string(disagreement.message()),
           absl::StrCat("counts and histogram of ", dataset, "; its records can be read")});
  }
}

}  // namespace packhouse
