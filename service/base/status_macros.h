// Early return for absl::Status and absl::StatusOr. Debian 12's abseil ships none.
#ifndef PACKHOUSE_SERVICE_BASE_STATUS_MACROS_H_
#define PACKHOUSE_SERVICE_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the enclosing function if `expression` (an absl::Status) is not OK.
#define PH_RETURN_IF_ERROR(expression)     \
  do {                                     \
    absl::Status ph_status = (expression); \
    if (!ph_status.ok()) return ph_status; \
  } while (false)

// PH_ASSIGN_OR_RETURN(auto x, F()): x is F()'s value, or returns F()'s status.
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration cannot stand in parentheses.
#define PH_ASSIGN_OR_RETURN(declaration, expression) \
  PH_ASSIGN_OR_RETURN_IMPL_(PH_CONCATENATE_(ph_result_, __LINE__), declaration, expression)
#define PH_ASSIGN_OR_RETURN_IMPL_(result, declaration, expression) \
  auto result = (expression);                                      \
  if (!result.ok()) return std::move(result).status();             \
  declaration = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)
#define PH_CONCATENATE_(a, b) PH_CONCATENATE_IMPL_(a, b)
#define PH_CONCATENATE_IMPL_(a, b) a##b

#endif  // PACKHOUSE_SERVICE_BASE_STATUS_MACROS_H_
