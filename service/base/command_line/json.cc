#include "service/base/command_line/json.h"

#include <nlohmann/json.hpp>

namespace packhouse {

std::string JsonText(const Json& value) {
  constexpr int kIndent = 2;
  return value.dump(kIndent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace packhouse
