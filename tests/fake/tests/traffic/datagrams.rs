//! Datagrams, and the ways to take completions.

use adversary::device::Device as _;
use adversary::mlx5::Cards;
use uverbs::completion::WcOpcode;
use uverbs::owned::{self, Work};
use uverbs::{
    AddressHandle, AddressVector, CompletionQueue, ProtectionDomain, QpType, WorkCompletion,
};

/// Bytes before each message, for a global route that packets within a subnet do not have.
const ROUTE: usize = 40;
const QKEY: u32 = 0x1234;

struct Side {
    cards: Cards,
    pd: ProtectionDomain,
    cq: CompletionQueue,
    qp: owned::QueuePair,
    address: AddressHandle,
}

fn side(version: u8) -> Side {
    let cards = Cards::new(version);
    let context = cards.open(0, None).unwrap();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(32).unwrap();
    let prepared = pd
        .queue_pair(QpType::Ud, &cq, &cq)
        .qkey(QKEY)
        .max_send_wr(8)
        .max_recv_wr(8)
        .max_inline_data(32)
        .build()
        .unwrap();
    let qp = owned::QueuePair::new(prepared.activate().unwrap());
    let address = pd.create_ah(&AddressVector::local(1, 1)).unwrap();
    Side {
        cards,
        pd,
        cq,
        qp,
        address,
    }
}

#[test]
fn a_datagram_says_where_it_came_from() {
    for version in [1, 0] {
        let mut side = side(version);
        let number = side.qp.qp_num();
        for round in 0..30_u32 {
            let [mut message, room] = side.pd.buffers::<2>(256).unwrap();
            let length = (round as usize * 37) % 200;
            for (at, byte) in message[..length].iter_mut().enumerate() {
                *byte = u8::try_from(at).unwrap();
            }
            side.qp.recv(room, 2).unwrap();
            let work = Work::send_imm(round)
                .memory((message, length))
                .user_data(1)
                .to(&side.address, number, QKEY);
            side.qp.post(work).unwrap();
            side.cards.run();
            let mut ended = Vec::new();
            while let Some(completion) = side.cq.poll().unwrap() {
                let reported = *completion;
                ended.push((side.qp.complete(completion).unwrap(), reported));
            }
            ended.sort_by_key(|(done, _)| done.user_data());
            let [(sent, _), (received, completion)] = &ended[..] else {
                panic!("{ended:?}");
            };
            assert!(sent.status().is_success() && received.status().is_success());
            assert_eq!(received.opcode(), WcOpcode::Recv);
            assert_eq!((received.imm(), completion.src_qp), (Some(round), number));
            assert_eq!((completion.slid, completion.has_grh()), (1, false));
            assert_eq!(received.len(), ROUTE + length);
            let expected: Vec<u8> = (0..length).map(|at| u8::try_from(at).unwrap()).collect();
            assert_eq!(received.bytes().unwrap()[ROUTE..], expected);
        }
    }
}

/// One by one, with the time, and several at once.
#[test]
fn completions_are_the_same_however_they_are_taken() {
    for version in [1, 0] {
        let mut side = side(version);
        let number = side.qp.qp_num();
        let post = |side: &mut Side, count: u64| {
            for user_data in 0..count {
                let work = Work::send().user_data(user_data);
                let work = work.to(&side.address, number, QKEY);
                side.qp.post_inline(work, &[b"message"]).unwrap();
            }
            side.cards.run();
        };
        for round in 0..20 {
            post(&mut side, 4);
            for expected in 0..2 {
                let (completion, stamp) = side.cq.poll_stamped().unwrap().unwrap();
                assert_eq!(stamp, None, "the queue was created without");
                assert_eq!(completion.qp_num, number);
                let done = side.qp.complete(completion).unwrap();
                assert_eq!(done.user_data(), expected, "{round}");
            }
            let completion = side.cq.poll().unwrap().unwrap();
            assert_eq!(side.qp.complete(completion).unwrap().user_data(), 2);
            let (completion, _) = side.cq.poll_stamped().unwrap().unwrap();
            assert_eq!(side.qp.complete(completion).unwrap().user_data(), 3);
            assert!(side.cq.poll_stamped().unwrap().is_none());
            assert!(side.cq.poll().unwrap().is_none());
        }
        let mut out = [WorkCompletion::default(); 3];
        for taken in [[3, 3, 2, 0], [3, 3, 2, 0]] {
            post(&mut side, 8);
            for count in taken {
                assert_eq!(side.cq.poll_into(&mut out), Ok(count));
                let all = out[..count].iter();
                assert!(
                    all.clone()
                        .all(|one| one.is_success() && one.qp_num == number)
                );
            }
            // Their memory is the library's to give back; there was none.
            assert!(side.qp.reset().unwrap().is_empty());
            side.qp.reactivate().unwrap();
        }
    }
}
