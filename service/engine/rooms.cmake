packhouse_room(streams
  FOLDER engine/streams
  SOURCES calibration.cc drift_judgement.cc drift_watch.cc live_streams.cc namespace_bytes.cc
          pack_rehearsal.cc shape_reasons.cc shape_routes.cc stream_packer.cc stream_profile.cc
          stream_shapes.cc
  DEPENDS packhouse_packing packhouse_planning_tuning packhouse_collation)

packhouse_room(epochs
  FOLDER engine/epochs
  SOURCES batch_set.cc cost_order.cc dealing.cc epoch_batches.cc epoch_catalog.cc epoch_identity.cc
          epoch_items.cc epoch_pieces.cc epoch_plan.cc epoch_request.cc epoch_shapes.cc
          fresh_batches.cc gathered_rows.cc graph_selection.cc group_items.cc item_sizes.cc
          made_dataset.cc mixing.cc option_rules.cc padding_batch.cc pair_dealing.cc
          pattern_planning.cc planning_room.cc prepared_epoch.cc request_check.cc round_plan.cc score_order.cc segment_layout.cc segmented_epoch.cc segmented_plan.cc
          selection.cc shape_summary.cc shared_batches.cc
          size_classes.cc
  DEPENDS packhouse_packing packhouse_planning_tuning packhouse_collation packhouse_datasets
          packhouse_pieces)

packhouse_room(ledger
  FOLDER engine/jobs
  SOURCES event_codec.cc job_ledger.cc kept_plan.cc ledger_repair.cc stored_epoch.cc
  DEPENDS packhouse_epochs packhouse_stored_proto)

packhouse_room(feedback
  FOLDER engine/feedback
  SOURCES feedback_store.cc kept_feedback.cc known_models.cc stored_feedback.cc
  DEPENDS packhouse_admission packhouse_keys_logged packhouse_planning_feedback
          packhouse_stored_proto absl::cleanup)

packhouse_room(delivery
  FOLDER engine/jobs
  SOURCES acknowledge_operation.cc cursor.cc epoch_quota.cc evaluation.cc forget_operation.cc
          held_plan.cc job.cc job_census.cc job_state.cc jobs.cc join_operation.cc joining.cc
          lease_table.cc lease_timer.cc load_event.cc loader.cc measured_limits.cc
          next_epoch.cc retention_timer.cc segment_makings.cc window_plans.cc windows_operation.cc
  DEPENDS packhouse_ledger)

# The example of README.md; it links no gRPC.
add_executable(embedded_epoch engine/examples/embedded_epoch.cc)
target_link_libraries(embedded_epoch PRIVATE packhouse_delivery packhouse_ledger_lmdb
                                              packhouse_datasets_lmdb packhouse_flags)
packhouse_use_headers(embedded_epoch packhouse_domain_headers)
