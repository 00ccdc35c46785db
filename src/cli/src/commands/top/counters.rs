//! What counters count, by their names in the kernel.

/// Packets that a port sent: the InfiniBand counter, then rxe's.
pub(super) const SENT: [&str; 2] = ["port_xmit_packets", "sent_pkts"];

/// Packets that a port received: the InfiniBand counter, then rxe's.
pub(super) const RECEIVED: [&str; 2] = ["port_rcv_packets", "rcvd_pkts"];

/// Data that a port sent and received, in units of [`WORD_BITS`].
pub(super) const SENT_WORDS: &str = "port_xmit_data";
pub(super) const RECEIVED_WORDS: &str = "port_rcv_data";

/// Bits of the unit of the counters of data.
pub(super) const WORD_BITS: f64 = 32.0;

/// Of every InfiniBand port: `drivers/infiniband/core/sysfs.c`.
const OF_PORTS: [&str; 12] = [
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "port_rcv_constraint_errors",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_discards",
    "symbol_error",
];

/// Of mlx5: `drivers/infiniband/hw/mlx5/counters.c`. Flushed completions follow from another error.
const OF_MLX5: [&str; 16] = [
    "duplicate_request",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "req_cqe_error",
    "req_remote_access_errors",
    "req_remote_invalid_request",
    "resp_cqe_error",
    "resp_local_length_error",
    "resp_remote_access_errors",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "rx_icrc_encapsulated",
];

/// Of rxe: `drivers/infiniband/sw/rxe/rxe_hw_counters.c`.
const OF_RXE: [&str; 10] = [
    "completer_retry_err",
    "duplicate_request",
    "link_downed",
    "out_of_seq_request",
    "rcvd_rnr_err",
    "rcvd_seq_err",
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
    "send_err",
    "send_rnr_err",
];

/// Whether a counter counts errors, or packets that had to be sent again. Counters of other drivers
/// do not count as such.
pub(super) fn is_error(name: &str) -> bool {
    [&OF_PORTS[..], &OF_MLX5, &OF_RXE]
        .iter()
        .any(|names| names.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_known_by_their_whole_names() {
        for name in ["symbol_error", "out_of_sequence", "send_rnr_err"] {
            assert!(is_error(name), "{name}");
        }
        for name in [
            "port_xmit_wait",
            "np_cnp_sent",
            "req_cqe_flush_error",
            "ack_deferred",
            "interrupts_err",
        ] {
            assert!(!is_error(name), "{name}");
        }
    }
}
