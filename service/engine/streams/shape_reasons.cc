#include "service/engine/streams/shape_reasons.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/tuning/tuning_reasons.h"

namespace packhouse {
namespace {

class ShapeReasonWriter {
 public:
  ShapeReasonWriter(const StreamShapes& chosen, const SizeHistogram& histogram,
                    const DeviceProfile& profile, const SizeSchema& schema)
      : chosen_(chosen), histogram_(histogram), profile_(profile), schema_(schema) {}

  std::vector<std::string> Write() {
    Say("Batches of ", Names(Largest()), " are expected to cost ",
        absl::StrFormat("%.3g %%", 100 * chosen_.overhead), " more than their real rows.");
    for (size_t k = 0; k < chosen_.terms.size(); ++k) SayTerm(k);
    SayReserved();
    SayLargestGraph();
    SaySmaller();
    if (chosen_.oversize) {
      for (std::string& reason : OversizeReasons(*chosen_.oversize, profile_, schema_)) {
        reasons_.push_back(std::move(reason));
      }
    }
    return std::move(reasons_);
  }

 private:
  template <typename... Parts>
  void Say(const Parts&... parts) {
    reasons_.push_back(absl::StrCat(parts...));
  }
  const std::vector<uint64_t>& Largest() const { return chosen_.shapes[0].requested; }
  std::string Names(const std::vector<uint64_t>& capacities) const {
    std::vector<std::string> names;
    for (size_t k = 0; k < capacities.size(); ++k) {
      if (capacities[k] == kUnlimited) continue;
      names.push_back(absl::StrCat(schema_.name(k), " ", capacities[k]));
    }
    return absl::StrJoin(names, ", ");
  }

  void SayTerm(size_t k) {
    const ComponentProfile& component = profile_.components[k];
    const std::string named = absl::StrCat(schema_.name(k), " ", Largest()[k]);
    switch (chosen_.terms[k]) {
      case CapacityTerm::kNone:
        return;
      case CapacityTerm::kMaxRows:
        Say(named, " is the most that max_rows ", component.max_rows, " allows",
            component.multiple_of > 1 ? absl::StrCat(" in multiples of ", component.multiple_of)
                                      : "",
            ".");
        return;
      case CapacityTerm::kMemory:
        Say(named, ": a batch takes ", chosen_.memory_bytes[0], " of ", profile_.memory_bytes,
            " bytes (memory_bytes), which leave no room for ", component.multiple_of, " more.");
        return;
      case CapacityTerm::kServer:
        Say(named, " is the most that the server allows for a batch.");
        return;
      case CapacityTerm::kSizes:
        if (component.fits_packs) {
          Say(named, " is what the fullest packs need, with some to spare.");
        } else {
          Say(named, ": more would not be cheaper for these sizes",
              component.multiple_of > 1 ? absl::StrCat(", in multiples of ", component.multiple_of)
                                        : "",
              ".");
        }
        return;
    }
  }

  void SayReserved() {
    std::vector<std::string> reserved;
    for (size_t k = 0; k < Largest().size(); ++k) {
      const uint64_t rows = profile_.components[k].reserved_rows;
      if (rows == 0 || Largest()[k] == kUnlimited) continue;
      reserved.push_back(absl::StrCat(rows, " of ", schema_.name(k)));
    }
    if (reserved.empty()) return;
    Say("Padding keeps ", absl::StrJoin(reserved, " and "), " free in each batch.");
  }

  // How large a graph may come without being rejected.
  void SayLargestGraph() {
    std::vector<std::string> largest;
    for (size_t k = 0; k < histogram_.num_components(); ++k) {
      if (Largest()[k] == kUnlimited) continue;
      const uint64_t usable = Largest()[k] - profile_.components[k].reserved_rows;
      largest.push_back(absl::StrCat(usable, " of ", schema_.name(k), " (the largest so far has ",
                                     histogram_.maximum(k), ")"));
    }
    if (largest.empty()) return;
    Say("A graph may have at most ", absl::StrJoin(largest, ", "),
        ". A larger min_rows of the profile would take larger ones.");
  }

  void SaySmaller() {
    for (size_t i = 1; i < chosen_.shapes.size(); ++i) {
      const std::string names = Names(chosen_.shapes[i].requested);
      if (chosen_.shares[i] > 0) {
        Say(names, " suffices for ", absl::StrFormat("%.3g %%", 100 * chosen_.shares[i]),
            " of the batches.");
      } else {
        Say(names, " is for batches that are not full.");
      }
    }
  }

  const StreamShapes& chosen_;
  const SizeHistogram& histogram_;
  const DeviceProfile& profile_;
  const SizeSchema& schema_;
  std::vector<std::string> reasons_;
};

}  // namespace

std::vector<std::string> ShapeReasons(const StreamShapes& chosen, const SizeHistogram& histogram,
                                      const DeviceProfile& profile, const SizeSchema& schema) {
  return ShapeReasonWriter(chosen, histogram, profile, schema).Write();
}

}  // namespace packhouse
