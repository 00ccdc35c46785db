"""Brings about asynchronous events on mlx5_0 and takes each from the context, as any program does."""
from pyverbs.addr import AHAttr
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

# Numbers of infiniband/verbs.h, whose names moved between versions of pyverbs.
LOCAL_WRITE, REMOTE_WRITE = 1, 2
TYPE_RC, RDMA_WRITE, SEND, SIGNALED, MTU_4096 = 2, 0, 2, 2, 5
STATE_ERR, MASK_STATE, SRQ_LIMIT_MASK = 6, 1, 2
CQ_ERR, QP_FATAL, QP_REQ_ERR, QP_ACCESS_ERR, COMM_EST, SQ_DRAINED, PATH_MIG, PATH_MIG_ERR = range(8)
PORT_ACTIVE, PORT_ERR, LID_CHANGE, PKEY_CHANGE = 9, 10, 11, 12
SRQ_LIMIT_REACHED, LAST_WQE, CLIENT_REREGISTER = 15, 16, 17

SIZE = 4096


class Side:
    def __init__(self, name):
        self.context = Context(name=name)
        self.pd = PD(self.context)
        self.lid = self.context.query_port(1).lid
        self.mr = MR(self.pd, SIZE, LOCAL_WRITE | REMOTE_WRITE)

    def pair(self, entries=64, srq=None):
        cq = CQ(self.context, entries)
        capabilities = QPCap(max_send_wr=64, max_recv_wr=0 if srq else 16)
        init = QPInitAttr(qp_type=TYPE_RC, scq=cq, rcq=cq, cap=capabilities, srq=srq)
        return cq, QP(self.pd, init)

    def segment(self):
        return [SGE(self.mr.buf, 8, self.mr.lkey)]

    def send(self, qp):
        qp.post_send(SendWR(opcode=SEND, num_sge=1, sg=self.segment(), send_flags=SIGNALED))

    def write(self, qp, to, address):
        write = SendWR(opcode=RDMA_WRITE, num_sge=1, sg=self.segment(), send_flags=SIGNALED)
        write.set_wr_rdma(to.mr.rkey, address)
        qp.post_send(write)


def path(number, lid):
    attributes = QPAttr(port_num=1)
    attributes.qp_access_flags = LOCAL_WRITE | REMOTE_WRITE
    attributes.path_mtu = MTU_4096
    attributes.dest_qp_num = number
    attributes.ah_attr = AHAttr(port_num=1, dlid=lid, is_global=0)
    attributes.min_rnr_timer = 1
    attributes.timeout = 10
    attributes.retry_cnt = 1
    attributes.rnr_retry = 1
    return attributes


def connect(near_qp, far_qp, near, far):
    near_qp.to_rts(path(far_qp.qp_num, far.lid))
    far_qp.to_rts(path(near_qp.qp_num, near.lid))


def ask(line):
    with open("/dev/virtio-ports/testbed.connectx", "r+b", buffering=0) as model:
        model.write(line.encode() + b"\n")
        answer = model.readline()
    assert answer == b"ok\n", (line, answer)


def main():
    near, far = Side("mlx5_0"), Side("mlx5_1")

    def expect(what, kind):
        event = near.context.get_async_event()
        assert event.event_type == kind, f"{what}: {event.event_type} instead of {kind}"
        event.ack()
        print(what, flush=True)

    # The receiver takes its first message before it may send.
    _, receiver = near.pair()
    _, sender = far.pair()
    receiver.to_rtr(path(sender.qp_num, far.lid))
    receiver.post_recv(RecvWR(sg=near.segment(), num_sge=1))
    sender.to_rts(path(receiver.qp_num, near.lid))
    far.send(sender)
    expect("communication established", COMM_EST)

    srq = SRQ(near.pd, SrqInitAttr(SrqAttr(max_wr=16)))
    for _ in range(4):
        srq.post_recv(RecvWR(sg=near.segment(), num_sge=1))
    _, receiver = near.pair(srq=srq)
    _, sender = far.pair()
    connect(receiver, sender, near, far)
    srq.modify(SrqAttr(srq_limit=4), SRQ_LIMIT_MASK)
    far.send(sender)
    expect("SRQ limit reached", SRQ_LIMIT_REACHED)
    failed = QPAttr(qp_state=STATE_ERR)
    receiver.modify(failed, MASK_STATE)
    expect("last WQE reached", LAST_WQE)

    # More completions than the queue has room for, and nobody takes them.
    _, crowded = near.pair(entries=7)
    _, other = far.pair()
    connect(crowded, other, near, far)
    for _ in range(40):
        near.write(crowded, far, far.mr.buf)
    expect("CQ error", CQ_ERR)

    _, target = near.pair()
    _, intruder = far.pair()
    connect(target, intruder, near, far)
    far.write(intruder, near, near.mr.buf + (1 << 30))
    expect("access error", QP_ACCESS_ERR)

    ask("link 0 down")
    expect("port error", PORT_ERR)
    ask("link 0 up")
    expect("port active", PORT_ACTIVE)

    # A change of GIDs is not among these: the kernel tells of those that it finds changed by itself.
    _, qp = near.pair()
    for name, kind in [
        ("path-migrated", PATH_MIG),
        ("path-failed", PATH_MIG_ERR),
        ("sq-drained", SQ_DRAINED),
        ("qp-fatal", QP_FATAL),
        ("request-error", QP_REQ_ERR),
        ("lid-change", LID_CHANGE),
        ("pkey-change", PKEY_CHANGE),
        ("client-reregister", CLIENT_REREGISTER),
    ]:
        ask(f"event 0 {name} {qp.qp_num:x}")
        expect(name, kind)
    print("done", flush=True)


main()
