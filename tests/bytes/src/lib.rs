//! The same work requests, posted by this library and by libmlx5, on a software ConnectX that
//! records what it is given.
//!
//! A [`Table`] of requests is generated at random with a fixed seed. `post-table` posts it with
//! this library, `oracle/post.py` with rdma-core (pyverbs); [`trace`] reads the device's trace of
//! each and makes them comparable. Both run under `oracle/requested.py`, which records what they
//! request of the kernel ([`requests`]). `post-qos` and `oracle/qos.c` request rates and scheduling
//! elements, `post-frames` and `oracle/frames.c` post raw packets with checksums and segmentation.
//! `uverbs rings` and `oracle/rings.c`, which people with an adapter run, show the rings for one
//! small table from the host's side: they are the same, line by line.
//!
//! Compared are: send requests; receive requests with their whole room; doorbells with the values
//! written, and the doorbell records and consumer indexes that the device finds then; arming of
//! completion queues; granted sizes; what the firmware is told to create and to modify; the
//! commands to the kernel that lead to it, with their driver data; and every firmware command for
//! rates of queue pairs, entries of the rate table, scheduling elements, and queues attached to
//! them.
//!
//! `cargo xtask test --level connectx` compares a small table on 6.12: InfiniBand, and RoCE with
//! BlueFlame (requests that are copied with their doorbells). With `UVERBS_BYTES=6.1,6.12,newest`
//! in the environment it compares large ones on these kernels, each with and without BlueFlame.
//!
//! libmlx5 has no call for masked atomics: they are not compared.
//!
//! # Known differences, and why
//!
//! The test counts these differences. One that is no longer seen is also an error, except for those
//! of records and of BlueFlame, which depend on timing.
//!
//! | what | libmlx5 | here |
//! |---|---|---|
//! | numbers, keys, addresses, page lists | its own | their own; replaced or left out |
//! | behind inline data, or a header, that ends within a unit | what was there before | zeros; never read |
//! | the second operand of fetch-and-add | what was there before | zeros; never read |
//! | the order of places of a shared queue when they are reused | as they complete | lowest first. Each request names the next, which is checked |
//! | behind the end of a list in a shared queue | what was there before, in its order | the same, in another order |
//! | a scatter/gather entry without a length in a shared queue | a length of 0, which the device takes for 2 GiB | left out; the tables have none |
//! | places of a shared queue | more than were requested, so that receives which found absent memory can wait and be used again | what was requested; such a receive completes with an error |
//! | queues of an XRC target | memory and a UAR page, sizes of 0 | a doorbell record and the default sizes: it has no queues, and the kernel reads none of them |
//! | record of a DC target | none | one, which the kernel does not read either |
//! | flag of scatter to completions, and what the kernel makes of it | set | not set unless requested: messages are copied to addresses that need not be this process's |
//! | records beside a doorbell | as the device finds them, which may be later than the doorbell | the same; what must be there however late it looks is checked |
//! | requests that are copied with their doorbell | as far as they have arrived when the device looks, otherwise it reads the queue | the same, counted with the records |
//! | which of a doorbell's two buffers is first | the one that its last queue pair left | the first |

pub mod generate;
pub mod requests;
pub mod table;
pub mod trace;

pub use table::Table;
