packhouse_room(base
  FOLDER base
  SOURCES cgroup_limits.cc checksum.cc clock.cc disk_file.cc durable_folder.cc execution.cc file_name.cc
          listening_sockets.cc low_priority.cc out_of_memory.cc shared_memory.cc short_slices.cc
          standard_files.cc steady_waits.cc text_characters.cc vector_level.cc
  DEPENDS absl::btree absl::flat_hash_map absl::flat_hash_set absl::function_ref absl::hash
          absl::inlined_vector absl::int128 absl::node_hash_map absl::span absl::status
          absl::statusor absl::str_format absl::strings absl::synchronization absl::time
          OpenSSL::Crypto ${ISAL_LIBRARY} Threads::Threads)

# Its files lie on four floors by what they see; as a library they are one still.
packhouse_room(admission
  FOLDER base
  SOURCES access/authorizer.cc access/client_identity.cc
          server/calls/connection_calls.cc stores/limits/disk_quota.cc server/calls/gate.cc
          server/calls/idle_timer.cc limited_log.cc log_line.cc memory_budget.cc memory_return.cc
          memory_shares.cc access/planning_pool.cc access/policy.cc producer.cc
          server/calls/readiness.cc stores/limits/retention.cc access/worker_pool.cc
  DEPENDS packhouse_base absl::cleanup)


if(PACKHOUSE_WITH_GRPC)
  # What programs with commands have in common.
  packhouse_room(command_line QUICK
    FOLDER base/command_line
    SOURCES command_line.cc exit_code.cc json.cc readable.cc table.cc
    DEPENDS packhouse_base CLI11::CLI11 nlohmann_json::nlohmann_json)
endif()
