# Apart, for its tests under ThreadSanitizer.
packhouse_room(page_jobs QUICK
  FOLDER wings/page
  SOURCES page_jobs.cc
  DEPENDS packhouse_admission protobuf::libprotobuf)

packhouse_room(page QUICK
  FOLDER wings/page
  SOURCES data_json.cc epoch_json.cc heat_map.cc history.cc json.cc next_fit.cc page_answers.cc
          page_api.cc page_query.cc plan_json.cc server_reading.cc
  DEPENDS packhouse_page_jobs packhouse_wire nlohmann_json::nlohmann_json)
