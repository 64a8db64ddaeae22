// A measured model as the metrics show it.
#ifndef PACKHOUSE_SERVICE_ENGINE_FEEDBACK_FEEDBACK_READING_H_
#define PACKHOUSE_SERVICE_ENGINE_FEEDBACK_FEEDBACK_READING_H_

#include <cstdint>
#include <string>
#include <vector>

namespace packhouse {

struct FeedbackReading {
  // Of one component, `graphs` too.
  struct Component {
    std::string name;
    double seconds_per_row = 0;
    double bytes_per_row = 0;
  };
  std::string model;
  std::string device;
  uint64_t num_reports = 0;
  uint64_t num_out_of_memory = 0;
  double fixed_seconds = 0;
  double fixed_bytes = 0;
  // Median share by which batches differ from the law.
  double spread = 0;
  std::vector<Component> components;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_FEEDBACK_FEEDBACK_READING_H_
