//! What rxe of Linux 5.10 cannot do, by the tests that need it.

use testbed::suite::Suite;

/// The kernel concerned.
const KERNEL: &str = "5.10";

/// Tests and examples, and why they are left out.
const LACKING: [(&str, &[&str]); 8] = [
    (
        "there are no memory windows",
        &[
            "a_key_with_a_window_of_another_queue_pair_opens_nothing",
            "a_peer_invalidates_a_window_with_its_message",
            "a_window_",
            "f14_the_rdma_control_group",
            "f18_a_childs_commands_are_refused_and_its_drops_destroy_nothing",
            "f21_keys_that_are_wrong",
            "its_owner_invalidates_a_window_of_type_2_and_binds_it_again",
            "memory_window",
            "rxe_a_region_with_a_bound_window_is_busy",
            "rxe_impossible_bindings_fail_and_say_so",
            "the_device_is_what_sysfs_says",
            "thousands_of_other_objects",
        ],
    ),
    (
        "a requester that violates a key gets no answer, and gives up when its retries are used up",
        &[
            "a_key_that_does_not_exist",
            "a_queue_pair_without_the_permission",
            "a_range_that_is_not_inside",
            "a_region_can_move_to_another_domain_where_the_kernel_can",
            "a_region_without_the_permission",
            "access_can_be_changed_where_the_kernel_can",
            "an_access_violation_is_reported_to_the_owner_of_the_memory",
            "f26_a_deregistered_key_opens_nothing",
            "rxe_an_invalidation_of_what_cannot_be_invalidated",
        ],
    ),
    (
        "a requester whose packets are lost or never answered stops without a completion",
        &[
            "f03_an_interface_that_goes_down_and_up",
            "f28_a_peer_that_never_receives",
            "f28_a_wire_that_doubles_packets",
            "f28_a_wire_that_loses_packets",
            "f28_a_wire_that_reorders_packets",
            "f28_a_wire_that_spoils_packets",
            "f28_a_silent_peer_gets_everything_outstanding_flushed_in_order",
            "remote_memory_is_written_read_and_counted",
            "selftest",
        ],
    ),
    (
        "a full queue pair, one without a receive, or one that is reset at work keeps a processor in the kernel (rxe_do_task)",
        &[
            "a_reset_queue_pair_starts_again",
            "f22_a_full_send_queue_takes_no_more_until_requests_complete",
            "infinite_rnr_retries_wait_for_a_receive",
        ],
    ),
    (
        "the kernel logs what users do wrong",
        &[
            "a_message_that_is_longer_than_the_receive",
            "a_receive_into_memory_that_is_not_registered",
            "calls_in_any_order",
            "f13_locked_memory",
            "f20_killed_during_traffic",
            "f23_a_storm_without_a_reader",
            "f23_an_overrun_loses_completions_and_no_memory",
            "f25_a_peer_that_is_destroyed_during_traffic",
            "f28_a_connection_that_is_gone_is_noticed",
            "f28_an_unreachable_peer",
        ],
    ),
    (
        "registered memory is kept out of children, not copied for them",
        &["f18_registered_memory_stays_the_parents"],
    ),
    (
        "without newer commands more system calls are made",
        &[
            "a_bare_process_is_ready_to_send_after_few_system_calls",
            "an_ordinary_program_is_ready_to_send_after_few_system_calls",
        ],
    ),
    (
        "limits are others, and shared receive queues have no numbers",
        &[
            "rxe_has_the_limits_of_its_headers",
            "sizes_are_granted_at_least_and_a_query_says_so",
        ],
    ),
];

/// Excludes the tests from a suite for this kernel, and says so.
pub(super) fn leave_out(mut suite: Suite, kernel: &str) -> Suite {
    if kernel != KERNEL {
        return suite;
    }
    for (why, tests) in LACKING {
        println!("left out: {} ({why})", tests.join(", "));
        for test in tests {
            suite = suite.leave_out(test);
        }
    }
    suite
}

/// Whether the kernel has what a test or an example needs.
pub(crate) fn has(kernel: &str, name: &str) -> bool {
    kernel != KERNEL || !LACKING.iter().any(|(_, tests)| tests.contains(&name))
}
