#include "service/wings/page/json.h"

#include <nlohmann/json.hpp>

namespace packhouse::page {

std::string JsonText(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace packhouse::page
