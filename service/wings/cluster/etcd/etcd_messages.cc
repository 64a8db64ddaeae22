#include "service/wings/cluster/etcd/etcd_messages.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

std::string EndOf(const std::string& prefix, const KeyRange& range) {
  return range.end.empty() ? "" : absl::StrCat(prefix, range.end);
}

void SetCompare(const std::string& prefix, const Compare& compare, etcdserverpb::Compare& message) {
  message.set_key(absl::StrCat(prefix, compare.key));
  switch (compare.target) {
    case Compare::Target::kCreateRevision:
      message.set_target(etcdserverpb::Compare::CREATE);
      message.set_create_revision(static_cast<int64_t>(compare.revision));
      break;
    case Compare::Target::kModRevision:
      message.set_target(etcdserverpb::Compare::MOD);
      message.set_mod_revision(static_cast<int64_t>(compare.revision));
      break;
    case Compare::Target::kValue:
      message.set_target(etcdserverpb::Compare::VALUE);
      message.set_value(compare.value);
      break;
  }
}

void SetStep(const std::string& prefix, const Operation& step, etcdserverpb::RequestOp& message) {
  switch (step.kind) {
    case Operation::Kind::kPut: {
      etcdserverpb::PutRequest& put = *message.mutable_request_put();
      put.set_key(absl::StrCat(prefix, step.range.begin));
      put.set_value(step.value);
      put.set_lease(static_cast<int64_t>(step.lease));
      break;
    }
    case Operation::Kind::kDelete: {
      etcdserverpb::DeleteRangeRequest& erase = *message.mutable_request_delete_range();
      erase.set_key(absl::StrCat(prefix, step.range.begin));
      erase.set_range_end(EndOf(prefix, step.range));
      break;
    }
    case Operation::Kind::kRead:
      *message.mutable_request_range() = ToRangeRequest(prefix, step.range, step.limit, 0);
      break;
  }
}

absl::Status NoAnswer(absl::string_view what) {
  return absl::InternalError(absl::StrCat("etcd answered with ", what));
}

}  // namespace

etcdserverpb::RangeRequest ToRangeRequest(const std::string& prefix, const KeyRange& range,
                                          size_t limit, Revision revision) {
  etcdserverpb::RangeRequest request;
  request.set_key(absl::StrCat(prefix, range.begin));
  request.set_range_end(EndOf(prefix, range));
  request.set_limit(static_cast<int64_t>(limit));
  request.set_revision(static_cast<int64_t>(revision));
  return request;
}

etcdserverpb::TxnRequest ToTxnRequest(const std::string& prefix, const Transaction& transaction) {
  etcdserverpb::TxnRequest request;
  for (const Compare& compare : transaction.compares) {
    SetCompare(prefix, compare, *request.add_compare());
  }
  for (const Operation& step : transaction.then) SetStep(prefix, step, *request.add_success());
  for (const Operation& step : transaction.otherwise) {
    SetStep(prefix, step, *request.add_failure());
  }
  return request;
}

absl::StatusOr<RangeResult> FromRangeResponse(const std::string& prefix, const KeyRange& range,
                                              size_t limit, etcdserverpb::RangeResponse& response) {
  RangeResult result;
  result.has_more = response.more();
  result.revision = static_cast<Revision>(response.header().revision());
  const auto num_values = static_cast<size_t>(response.kvs_size());
  if ((limit != 0 && num_values > limit) || (result.has_more && num_values == 0)) {
    return NoAnswer(absl::StrCat(num_values, " keys", result.has_more ? " and more" : "",
                                 " where at most ", limit, " were asked for"));
  }
  result.values.reserve(num_values);
  for (etcdserverpb::KeyValue& each : *response.mutable_kvs()) {
    absl::string_view key = each.key();
    if (!absl::ConsumePrefix(&key, prefix) || !range.Contains(key) ||
        (!result.values.empty() && key <= result.values.back().key)) {
      return NoAnswer(absl::StrCat("the key ", Quoted(each.key()), ", which was not asked for"));
    }
    KeyValue value;
    value.key = std::string(key);
    value.value = std::move(*each.mutable_value());
    value.create_revision = static_cast<Revision>(each.create_revision());
    value.mod_revision = static_cast<Revision>(each.mod_revision());
    value.lease = static_cast<LeaseId>(each.lease());
    result.values.push_back(std::move(value));
  }
  return result;
}

absl::StatusOr<TransactionResult> FromTxnResponse(const std::string& prefix,
                                                  const Transaction& transaction,
                                                  etcdserverpb::TxnResponse& response) {
  TransactionResult result;
  result.succeeded = response.succeeded();
  result.revision = static_cast<Revision>(response.header().revision());
  const std::vector<Operation>& steps = result.succeeded ? transaction.then : transaction.otherwise;
  if (static_cast<size_t>(response.responses_size()) != steps.size()) {
    return NoAnswer(
        absl::StrCat(response.responses_size(), " answers to ", steps.size(), " steps"));
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    etcdserverpb::ResponseOp& each = *response.mutable_responses(static_cast<int>(i));
    const Operation& step = steps[i];
    if (each.has_response_range() != (step.kind == Operation::Kind::kRead)) {
      return NoAnswer(absl::StrCat("an answer of another kind to step ", i));
    }
    if (step.kind != Operation::Kind::kRead) continue;
    PH_ASSIGN_OR_RETURN(RangeResult read, FromRangeResponse(prefix, step.range, step.limit,
                                                            *each.mutable_response_range()));
    read.revision = result.revision;
    result.reads.push_back(std::move(read));
  }
  return result;
}

}  // namespace packhouse
