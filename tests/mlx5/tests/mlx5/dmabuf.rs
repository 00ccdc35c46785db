//! Memory of another device, registered as a dmabuf: that of a graphics device without hardware
//! (the kernel's `vgem`). The driver maps it by work requests, which of the functions here those on
//! InfiniBand support.

use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use drm::Device;
use drm::buffer::DrmFourcc;
use drm::control::Device as _;
use drm::control::dumbbuffer::DumbBuffer;
use uverbs::memory::DmabufRange;
use uverbs::owned::{self, Finished, Memory, Work};
use uverbs::{AccessFlags, CompletionQueue, ErrorKind, QpType};
use verbs_tests::{Pair, until};

/// What peers may do.
const ALL: AccessFlags = AccessFlags::REMOTE_WRITE
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_ATOMIC);

/// The graphics device.
struct Card(File);

impl AsFd for Card {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Device for Card {}
impl drm::control::Device for Card {}

/// Memory of a graphics device.
struct Picture {
    card: Card,
    buffer: DumbBuffer,
    dmabuf: OwnedFd,
}

/// Bytes of a picture.
const LEN: usize = 128 * 128 * 4;

impl Picture {
    fn new() -> Self {
        let nodes = fs::read_dir("/dev/dri").expect("a graphics device: the kernel's vgem");
        let mut nodes = nodes.map(|node| node.unwrap().path());
        let is_card = |path: &std::path::PathBuf| path.to_string_lossy().contains("/card");
        let path = nodes.find(is_card).expect("/dev/dri/cardN");
        let card = Card(File::options().read(true).write(true).open(path).unwrap());
        let buffer = card
            .create_dumb_buffer((128, 128), DrmFourcc::Xrgb8888, 32)
            .unwrap();
        let flags = drm::CLOEXEC | drm::RDWR;
        let dmabuf = card
            .buffer_to_prime_fd(drm::buffer::Buffer::handle(&buffer), flags)
            .unwrap();
        Self {
            card,
            buffer,
            dmabuf,
        }
    }

    fn bytes(&mut self) -> Vec<u8> {
        self.card
            .map_dumb_buffer(&mut self.buffer)
            .unwrap()
            .to_vec()
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        let mut map = self.card.map_dumb_buffer(&mut self.buffer).unwrap();
        map[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn part(&self, offset: u64, length: u64, iova: u64) -> DmabufRange<'_> {
        DmabufRange {
            fd: self.dmabuf.as_fd(),
            offset,
            length,
            iova,
        }
    }
}

fn finished(qp: &mut owned::QueuePair, cq: &mut CompletionQueue) -> Finished {
    let done = until("a completion", || {
        let done = cq.poll().unwrap()?;
        Some(qp.complete(done).expect("a request of this queue"))
    });
    assert!(done.status().is_success(), "{done:?}");
    done
}

#[test]
fn ib_memory_of_another_device_is_written_read_and_sent() {
    let Pair { a, b } = Pair::new(QpType::Rc);
    let (mut qp, mut cq) = (owned::QueuePair::new(a.qp), a.cq);
    let (mut peer, mut peer_cq) = (owned::QueuePair::new(b.qp), b.cq);
    let mut picture = Picture::new();
    picture.put(0, &vec![0x11; LEN]);
    // From the middle of one page to that of another, at an address of its own.
    let (offset, length) = (0x1800, 0x3000);
    let range = picture.part(offset, length, 0x70_0000_0800);
    let exposed = b.pd.expose_dmabuf(&range, ALL).unwrap();
    let remote = exposed.remote();
    assert_eq!(remote.start().address, 0x70_0000_0800);
    assert!(!exposed.is_local() && !exposed.write(0, &[1]) && exposed.load(0).is_none());

    // The peer writes to it, and reads it.
    let [mut text, answer, got] = a.pd.buffers::<3>(0x2000).unwrap();
    for (byte, at) in text.iter_mut().zip(0_u32..) {
        *byte = (at % 251).to_le_bytes()[0];
    }
    let sent = text.to_vec();
    qp.post(Work::write(remote.at(0x400).unwrap()).memory(text))
        .unwrap();
    let text = finished(&mut qp, &mut cq).into_memory();
    let mut expected = vec![0x11; LEN];
    expected[0x1c00..0x3c00].copy_from_slice(&sent);
    assert!(picture.bytes() == expected, "what was written");
    picture.put(0x1c00, b"by the processor");
    expected[0x1c00..0x1c10].copy_from_slice(b"by the processor");
    qp.post(Work::read(remote.at(0x400).unwrap()).memory(answer))
        .unwrap();
    let done = finished(&mut qp, &mut cq);
    assert!(
        done.bytes() == Some(&expected[0x1c00..0x3c00]),
        "what was read"
    );

    // This side sends it: the end of one page and the start of the next.
    qp.recv(got, 5).unwrap();
    let part = Memory::Exposed(exposed.clone(), 0x700..0x900);
    peer.post(Work::send().memory(part)).unwrap();
    finished(&mut peer, &mut peer_cq);
    let done = finished(&mut qp, &mut cq);
    assert_eq!(done.bytes(), Some(&expected[0x1f00..0x2100]));

    // Its end is that of the range, not of the page.
    verbs_tests::requests_fail();
    verbs_tests::model_may_report("memory key");
    let beyond = remote.start();
    let beyond = uverbs::Remote {
        address: beyond.address + length - 8,
        ..beyond
    };
    qp.post(Work::write(beyond).memory(text)).unwrap();
    let done = until("a completion", || {
        let done = cq.poll().unwrap()?;
        Some(qp.complete(done).expect("a request of this queue"))
    });
    assert_eq!(done.status(), uverbs::WcStatus::RemoteAccess, "{done:?}");
    assert!(picture.bytes() == expected, "nothing was written beyond");
}

#[test]
fn dmabufs_that_cannot_be_registered_are_refused() {
    let Pair { b, .. } = Pair::new(QpType::Rc);
    let picture = Picture::new();
    let whole = LEN as u64;
    for (offset, length, iova) in [
        // Beyond its end.
        (0x1000, whole, 0x1000),
        (whole, 0x1000, 0),
        (u64::MAX - 0xfff, 0x2000, 0),
        // Another place in the page.
        (0x1800, 0x1000, 0),
    ] {
        let error =
            b.pd.expose_dmabuf(&picture.part(offset, length, iova), ALL)
                .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    // No dmabuf.
    let file = File::open("/dev/null").unwrap();
    let range = DmabufRange {
        fd: file.as_fd(),
        ..picture.part(0, 0x1000, 0)
    };
    let error = b.pd.expose_dmabuf(&range, ALL).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[test]
fn ib_a_dmabuf_stays_until_its_last_request_ends() {
    let Pair { a, b } = Pair::new(QpType::Rc);
    let (mut qp, mut cq) = (owned::QueuePair::new(a.qp), a.cq);
    let mut peer = owned::QueuePair::new(b.qp);
    let mut picture = Picture::new();
    picture.put(0, b"kept");
    let exposed =
        b.pd.expose_dmabuf(&picture.part(0, 0x1000, 0), ALL)
            .unwrap();
    let context = b.pd.context().clone();
    let [got] = a.pd.buffers::<1>(64).unwrap();
    qp.recv(got, 1).unwrap();
    // The queue has all that is left of it.
    peer.post(Work::send().memory(Memory::Exposed(exposed, 0..4)))
        .unwrap();
    drop(picture);
    assert_eq!(finished(&mut qp, &mut cq).bytes(), Some(&b"kept"[..]));
    drop(peer);
    assert_eq!(context.leaked(), 0);
}
