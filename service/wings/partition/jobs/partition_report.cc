#include "service/wings/partition/jobs/partition_report.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/files/json_fields.h"

namespace packhouse {
namespace {

constexpr int kReportIndent = 1;

constexpr std::pair<PartMethod, absl::string_view> kMethods[] = {
    {PartMethod::kAutomatic, "automatic"},
    {PartMethod::kMetis, "metis"},
    {PartMethod::kRandom, "random"},
    {PartMethod::kStreaming, "streaming"},
};

constexpr std::pair<const char*, uint64_t ReportedPart::*> kPartFields[] = {
    {"inner_nodes", &ReportedPart::num_inner_nodes}, {"halo_nodes", &ReportedPart::num_halo_nodes},
    {"inner_edges", &ReportedPart::num_inner_edges}, {"halo_edges", &ReportedPart::num_halo_edges},
    {"cut_edges", &ReportedPart::num_cut_edges},     {"bytes", &ReportedPart::num_bytes},
};

absl::StatusOr<double> RealField(const ReadJson& json, const std::string& key) {
  const auto member = json.find(key);
  if (member == json.end() || !member->is_number()) {
    return absl::InvalidArgumentError(absl::StrCat(Quoted(key), " must be a number"));
  }
  return member->get<double>();
}

absl::StatusOr<BalanceReport> BalanceOf(const ReadJson& json) {
  BalanceReport balance;
  PH_ASSIGN_OR_RETURN(balance.name, StringField(json, "name"));
  PH_ASSIGN_OR_RETURN(balance.total, NumberField(json, "total"));
  PH_ASSIGN_OR_RETURN(balance.largest, NumberField(json, "largest"));
  PH_ASSIGN_OR_RETURN(balance.asked, RealField(json, "asked"));
  PH_ASSIGN_OR_RETURN(balance.achieved, RealField(json, "achieved"));
  PH_ASSIGN_OR_RETURN(const uint64_t met, NumberField(json, "met"));
  PH_ASSIGN_OR_RETURN(balance.dropped, StringField(json, "dropped"));
  balance.met = met != 0;
  return balance;
}

}  // namespace

absl::string_view MethodName(PartMethod method) {
  for (const auto& [value, name] : kMethods) {
    if (value == method) return name;
  }
  return "";
}

std::string ReportText(const PartitionReport& report) {
  const Assignment& assignment = report.assignment;
  OrderedJson balance = OrderedJson::array();
  for (const BalanceReport& of : assignment.balance) {
    balance.push_back({{"name", of.name},
                       {"total", of.total},
                       {"largest", of.largest},
                       {"asked", of.asked},
                       {"achieved", of.achieved},
                       {"met", of.met ? 1 : 0},
                       {"dropped", of.dropped}});
  }
  OrderedJson parts = OrderedJson::array();
  for (const ReportedPart& part : report.parts) {
    OrderedJson object = OrderedJson::object();
    for (const auto& [name, field] : kPartFields) object[name] = part.*field;
    parts.push_back(std::move(object));
  }
  const OrderedJson json = {{"method", std::string(MethodName(assignment.method))},
                            {"reason", assignment.reason},
                            {"notes", assignment.notes},
                            {"num_parts", assignment.num_parts},
                            {"num_nodes", report.num_nodes},
                            {"num_edges", report.num_edges},
                            {"cut_edges", assignment.cut_edges},
                            {"volume", assignment.volume},
                            {"nodes_of_part", assignment.nodes_of_part},
                            {"edges_of_part", assignment.edges_of_part},
                            {"balance", std::move(balance)},
                            {"parts", std::move(parts)}};
  return json.dump(kReportIndent, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

absl::StatusOr<PartitionReport> ReportOfText(absl::string_view text) {
  PH_ASSIGN_OR_RETURN(const ReadJson json, ParseJsonObject(text));
  PartitionReport report;
  Assignment& assignment = report.assignment;
  PH_ASSIGN_OR_RETURN(const std::string method, StringField(json, "method"));
  for (const auto& [value, name] : kMethods) {
    if (name == method) assignment.method = value;
  }
  PH_ASSIGN_OR_RETURN(assignment.reason, StringField(json, "reason"));
  PH_ASSIGN_OR_RETURN(assignment.notes, StringsField(json, "notes"));
  PH_ASSIGN_OR_RETURN(const uint64_t num_parts, NumberField(json, "num_parts"));
  assignment.num_parts = static_cast<uint32_t>(num_parts);
  PH_ASSIGN_OR_RETURN(report.num_nodes, NumberField(json, "num_nodes"));
  PH_ASSIGN_OR_RETURN(report.num_edges, NumberField(json, "num_edges"));
  PH_ASSIGN_OR_RETURN(assignment.cut_edges, NumberField(json, "cut_edges"));
  PH_ASSIGN_OR_RETURN(assignment.volume, NumberField(json, "volume"));
  PH_ASSIGN_OR_RETURN(assignment.nodes_of_part, NumbersField(json, "nodes_of_part"));
  PH_ASSIGN_OR_RETURN(assignment.edges_of_part, NumbersField(json, "edges_of_part"));
  const auto balance = json.find("balance");
  const auto parts = json.find("parts");
  if (balance == json.end() || !balance->is_array() || parts == json.end() || !parts->is_array()) {
    return absl::InvalidArgumentError("'balance' and 'parts' must be lists");
  }
  for (const ReadJson& of : *balance) {
    PH_ASSIGN_OR_RETURN(BalanceReport read, BalanceOf(of));
    assignment.balance.push_back(std::move(read));
  }
  for (const ReadJson& of : *parts) {
    ReportedPart part;
    for (const auto& [name, field] : kPartFields) {
      PH_ASSIGN_OR_RETURN(part.*field, NumberField(of, name));
    }
    report.parts.push_back(part);
  }
  return report;
}

}  // namespace packhouse
