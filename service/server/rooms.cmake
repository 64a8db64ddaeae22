packhouse_room(http QUICK
  FOLDER server/http
  SOURCES host_port.cc http_server.cc own_page.cc tls_sessions.cc watching_pages.cc
  DEPENDS packhouse_base ${MICROHTTPD_LIBRARY} ${GNUTLS_LIBRARY})

# HttpServer::Loop has members of types that its file keeps to itself.
set_target_properties(packhouse_http PROPERTIES UNITY_BUILD OFF)

# Messages to the domain and back: no gRPC, so that it can be fuzzed and run under ThreadSanitizer.
# What calls of every kind need is a library of its own, which their tests under ThreadSanitizer link
# without the rest.
packhouse_room(wire_calls
  FOLDER server/calls
  SOURCES batch_reply.cc call_log.cc request_call.cc request_rights.cc source_call.cc streaming_call.cc streaming_call_turn.cc
          wire_footprint.cc wire_graphs.cc wire_sizes.cc
  DEPENDS packhouse_proto packhouse_admission packhouse_collation)

# A contract that names a thing without a right does not build.
add_executable(packhouse-contract-check EXCLUDE_FROM_ALL server/calls/contract_check_main.cc)
target_link_libraries(packhouse-contract-check PRIVATE packhouse_flags packhouse_wire_calls)
# With the files that nothing refers to.
set_target_properties(packhouse-contract-check PROPERTIES LINK_LIBRARY_OVERRIDE_packhouse_proto WHOLE_ARCHIVE)
add_custom_command(TARGET packhouse-contract-check POST_BUILD
  COMMAND packhouse-contract-check ${PROJECT_SOURCE_DIR}/proto/packhouse/v1 VERBATIM)

# Under ThreadSanitizer, too.
packhouse_room(lanes
  FOLDER server/lanes
  SOURCES lane.cc lane_door.cc slot_ring.cc
  DEPENDS packhouse_base packhouse_admission)

packhouse_room(wire
  FOLDER server/services
  SOURCES append_handler.cc dataset_drifts.cc server/wire/epoch_words.cc
          server/wire/example_format.cc job_lists.cc lane_replies.cc lane_source.cc load_source.cc
          observe_handler.cc pack_handler.cc pack_lane.cc rebuild_source.cc receipt_plans.cc reflection_handler.cc stream_drift.cc stream_tuning.cc wire_admin.cc
          server/wire/wire_cursor.cc server/wire/wire_datasets.cc
          server/wire/wire_feedback.cc server/wire/wire_heuristics.cc server/wire/wire_loader.cc
          server/wire/wire_memory.cc server/wire/wire_planning.cc server/wire/wire_tuning.cc
  DEPENDS packhouse_wire_calls packhouse_lanes packhouse_grpc_messages packhouse_streams packhouse_delivery
          packhouse_feedback packhouse_planning_baselines)


if(PACKHOUSE_WITH_GRPC)
  packhouse_room(metrics QUICK
    FOLDER server/metrics
    SOURCES call_exemplars.cc delivery_collector.cc event_metrics.cc metrics.cc namespace_calls.cc
            open_metrics.cc packing_metrics.cc process_collector.cc served_reading.cc
            server_collector.cc store_collector.cc thread_cells.cc
    DEPENDS packhouse_delivery packhouse_streams prometheus-cpp::core)

  packhouse_room(rpc
    FOLDER server/services
    HEADERS packhouse_grpc_headers
    SOURCES admin_service.cc server/calls_grpc/call_credentials.cc channelz_service.cc
            server/listen/connection_acceptor.cc dataset_service.cc feedback_service.cc
            server/listen/fixed_windows.cc server/listen/goaway.cc health_service.cc
            histogram_service.cc server/calls_grpc/in_process_calls.cc job_place.cc
            server/listen/library_logs.cc loader_service.cc packing_service.cc
            planning_service.cc quota_use.cc
            receipt_service.cc served_jobs.cc
            server/listen/server.cc server_bounds.cc server/listen/server_drain.cc services.cc
            server/calls_grpc/status_mapping.cc
            server/listen/tcp_congestion.cc server/listen/tls_server_credentials.cc
    DEPENDS packhouse_wire packhouse_histograms packhouse_grpc gRPC::grpcpp_channelz)
endif()
