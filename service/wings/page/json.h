// What the page is told, as JSON.
#ifndef PACKHOUSE_SERVICE_WINGS_PAGE_JSON_H_
#define PACKHOUSE_SERVICE_WINGS_PAGE_JSON_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace packhouse::page {

// Objects keep the order of their keys.
using Json = nlohmann::ordered_json;

// On one line. Bytes that are no UTF-8 are replaced: names come from clients.
std::string JsonText(const Json& value);

}  // namespace packhouse::page

#endif  // PACKHOUSE_SERVICE_WINGS_PAGE_JSON_H_
