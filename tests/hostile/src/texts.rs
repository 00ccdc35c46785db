//! What is parsed without a kernel: firmware structures, texts, messages of peers, files.

use std::fs;
use std::io::{self, Cursor, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use uverbs::exchange::{Exchange, Offer, Untimed};
use uverbs::gid::Guid;
use uverbs::{Gid, QueuePairEndpoint};
use uverbs_core::discover::{self, Target};
use uverbs_mlx5::prm::{self, GeneralCaps, Mailbox, QosCaps, bit, field, word};

use crate::cli;
use crate::tape::Tape;

/// Reads arbitrary bytes as every firmware structure, and writes fields anywhere.
///
/// # Panics
/// If a field that was written is not read back, or its neighbours change.
pub fn prm_words(bytes: &[u8]) {
    let mailbox = Mailbox::from(bytes.to_vec());
    let _ = (
        mailbox.status().to_string(),
        mailbox.syndrome(),
        mailbox.opcode(),
    );
    let general = GeneralCaps::parse(&mailbox);
    let qos = QosCaps::parse(&mailbox);
    let _ = format!("{mailbox:?} {general:?} {qos:?}");
    let _ = uverbs_mlx5::sched::Limits::of(&general, &qos);

    let tape = Tape::new(bytes);
    let mut words = tape.take(64);
    for _ in 0..16 {
        if tape.is_empty() {
            break;
        }
        let byte = usize::from(tape.byte()) / 4 * 4;
        let (one, other) = (u32::from(tape.byte()) % 32, u32::from(tape.byte()) % 32);
        let (high, low) = (one.max(other), one.min(other));
        let (place, width) = match tape.byte() % 3 {
            0 => (field(byte, high, low), high - low + 1),
            1 => (bit(byte, high), 1),
            _ => (word(byte), 32),
        };
        let value = tape.word();
        let before = words.clone();
        let fits = place.set(&mut words, value);
        if fits {
            assert_eq!(place.get(&words), value & (u32::MAX >> (32 - width)));
            let old = place.get(&before);
            assert!(place.set(&mut words, old));
        }
        assert_eq!(words, before, "the rest is as it was");
        if fits {
            place.set(&mut words, value);
        }
        let wide = prm::Wide(byte);
        if wide.set(&mut words, tape.long()) {
            let _ = wide.get(&words);
        }
    }
}

/// Parses texts from peers and users: what is understood must be written such that it is understood
/// again.
///
/// # Panics
/// If it is not.
pub fn texts(bytes: &[u8]) {
    if let Some(bytes) = bytes.first_chunk()
        && let Some(endpoint) = QueuePairEndpoint::from_bytes(bytes)
    {
        // Without an address, its bytes are ignored.
        let again = QueuePairEndpoint::from_bytes(&endpoint.to_bytes());
        assert_eq!(again, Some(endpoint));
        assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(gid) = text.parse::<Gid>() {
        assert_eq!(gid.to_string().parse::<Gid>().ok(), Some(gid));
    }
    if let Ok(guid) = text.parse::<Guid>() {
        assert_eq!(guid.to_string().parse::<Guid>().ok(), Some(guid));
    }
    if let Ok(endpoint) = text.parse::<QueuePairEndpoint>() {
        assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
    }
}

/// A peer that sends the given bytes, and accepts everything.
struct Peer<'a>(Cursor<&'a [u8]>);

impl Read for Peer<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Peer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs the library's exchange, and those of `uverbs pingpong` and `uverbs bench`, with a peer that
/// sends anything.
///
/// # Panics
/// If an invalid test, a number that no queue pair has, or memory beyond the address space, is
/// accepted from it.
pub fn exchange(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    let peer = || Peer(Cursor::new(rest));
    let mut talk = Exchange::new(Untimed(peer()), Duration::from_secs(60));
    if let Ok(heard) = talk.offer(&Offer::default()) {
        check_offer(&heard);
        let _ = talk.ready();
    }
    if let Ok(heard) = Offer::from_bytes(rest) {
        check_offer(&heard);
    }
    let sane = |peers: &[QueuePairEndpoint]| {
        assert!(!peers.is_empty());
        assert!(peers.iter().all(|peer| (1..1 << 24).contains(&peer.qp_num)));
        Ok(())
    };
    let count = if kind & 2 == 0 { 1 } else { cli::SHARED };
    match kind % 2 {
        0 => {
            let _ = cli::serve(&mut peer(), &[], count, sane);
            let _ = cli::call(&mut peer(), &[], count, sane);
        }
        _ => cli::bench_message(rest),
    }
}

fn check_offer(heard: &Offer) {
    let bytes = heard.to_bytes().expect("it was in bounds");
    let again = Offer::from_bytes(&bytes).expect("it was understood");
    assert_eq!(again, *heard);
    for endpoint in &heard.endpoints {
        assert!(endpoint.qp_num < 1 << 24);
    }
    for memory in &heard.memory {
        assert!(memory.at(memory.length).is_ok());
        assert!(memory.address.checked_add(memory.length).is_some());
    }
}

static COUNT: AtomicU64 = AtomicU64::new(0);

/// Reads a tree from a file of any content, in both formats.
///
/// # Panics
/// If the result is a tree that no device could have.
pub fn sched_file(bytes: &[u8]) {
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("uverbs-tree-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    for end in ["json", "toml"] {
        let path = path.with_extension(end);
        if fs::write(&path, bytes).is_err() {
            return;
        }
        let tree = cli::read_tree(&path);
        let _ = fs::remove_file(&path);
        if let Ok(tree) = tree {
            assert!(uverbs_mlx5::sched::Limits::none().check(&tree).is_ok());
            let _ = tree.to_string();
        }
    }
}

/// Discovers devices in a sysfs tree with any content and no device nodes.
///
/// # Panics
/// If a device without a node can be opened.
pub fn sysfs_devices(bytes: &[u8]) {
    let tape = Tape::new(bytes);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("uverbs-devices-{}-{number}", std::process::id());
    let root = std::env::temp_dir().join(name);
    for file in [
        "class/infiniband_verbs/uverbs0/ibdev",
        "class/infiniband_verbs/uverbs0/dev",
        "class/infiniband_verbs/uverbs0/abi_version",
        "class/infiniband_verbs/uverbs1/ibdev",
        "class/infiniband_verbs/uverbs1/dev",
        "class/infiniband_verbs/abi_version",
        "class/infiniband/rxe0/node_type",
        "class/infiniband/rxe0/node_guid",
        "class/infiniband/rxe0/sys_image_guid",
        "class/infiniband/rxe0/fw_ver",
        "class/infiniband/rxe0/device/modalias",
        "class/infiniband/rxe0/ports/1/state",
    ] {
        let content = match tape.byte() {
            0xff => continue,
            0xfe => b"rxe0\n".to_vec(),
            0xfd => b"231:192\n".to_vec(),
            len => tape.take(usize::from(len % 64)),
        };
        let path = root.join(file);
        let made = path.parent().map(fs::create_dir_all);
        if !matches!(made, Some(Ok(()))) || fs::write(path, content).is_err() {
            break;
        }
    }
    let mut options = discover::Options::default();
    options.netlink = false;
    options.sysfs_root.clone_from(&root);
    options.dev_root = root.join("dev");
    if let Ok(devices) = discover::list(&options) {
        for device in devices {
            let _ = format!("{device:?} {:?}", device.driver_id());
            let _ = discover::find(&device.name, &options);
        }
    }
    for name in ["rxe0", "uverbs0", "uverbs1"] {
        let _ = discover::find(name, &options);
        assert!(discover::open(Target::Name(name.to_owned()), &options).is_err());
    }
    let _ = fs::remove_dir_all(root);
}
