#include "service/program/wing.h"

#include "absl/strings/str_cat.h"

namespace packhouse {

std::string AbsentWing::WhyNot() const {
  return absl::StrCat("this packhoused was built without the wing ", name);
}

std::vector<http::Route> RoutesOfAbsent(const Wings& wings) {
  std::vector<http::Route> routes;
  for (const AbsentWing& wing : wings.absent) {
    for (const absl::string_view path : wing.paths) {
      http::Route& route = routes.emplace_back();
      route.path = std::string(path);
      route.render = [why_not = absl::StrCat(wing.WhyNot(), "\n")] {
        http::Page page;
        page.status = 404;
        page.body = why_not;
        return page;
      };
      route.is_free = true;
    }
  }
  return routes;
}

}  // namespace packhouse
