"""Writes from mlx5_0 to mlx5_1 over one queue pair for each leaf given as SHARE:CAP (Mb/s, 0 for none)."""
import sys
import time

from pyverbs.addr import AHAttr
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.providers.mlx5.mlx5dv import Mlx5QP
from pyverbs.providers.mlx5.mlx5dv_sched import (
    Mlx5dvSchedAttr,
    Mlx5dvSchedLeaf,
    Mlx5dvSchedNode,
)
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

# Numbers of infiniband/verbs.h and mlx5dv.h, whose names moved between versions of pyverbs.
LOCAL_WRITE, REMOTE_WRITE = 1, 2
TYPE_RC, OPCODE_RDMA_WRITE, SIGNALED, MTU_4096 = 2, 0, 2, 5
BW_SHARE, MAX_AVERAGE_BW = 1, 2

SIZE = 2 << 20
DEPTH = 16


class Side:
    def __init__(self, name):
        self.context = Context(name=name)
        self.pd = PD(self.context)
        self.lid = self.context.query_port(1).lid
        self.mr = MR(self.pd, SIZE, LOCAL_WRITE | REMOTE_WRITE)

    def queue(self):
        cq = CQ(self.context, 2 * DEPTH)
        capabilities = QPCap(max_send_wr=DEPTH, max_recv_wr=1)
        return cq, QP(self.pd, QPInitAttr(qp_type=TYPE_RC, scq=cq, rcq=cq, cap=capabilities))


def connect(qp, number, lid):
    attributes = QPAttr(port_num=1)
    attributes.qp_access_flags = LOCAL_WRITE | REMOTE_WRITE
    attributes.path_mtu = MTU_4096
    attributes.dest_qp_num = number
    attributes.ah_attr = AHAttr(port_num=1, dlid=lid, is_global=0)
    attributes.min_rnr_timer = 12
    attributes.timeout = 14
    attributes.retry_cnt = 7
    attributes.rnr_retry = 7
    qp.to_rts(attributes)


def main():
    seconds, leaves = float(sys.argv[1]), [word.split(":") for word in sys.argv[2:]]
    near, far = Side("mlx5_0"), Side("mlx5_1")
    root = Mlx5dvSchedNode(near.context, Mlx5dvSchedAttr())
    queues = []
    for share, cap in leaves:
        cq, qp = near.queue()
        far_cq, far_qp = far.queue()
        connect(qp, far_qp.qp_num, far.lid)
        connect(far_qp, qp.qp_num, near.lid)
        flags = BW_SHARE | (MAX_AVERAGE_BW if int(cap) else 0)
        attributes = Mlx5dvSchedAttr(root, bw_share=int(share), max_avg_bw=int(cap), flags=flags)
        leaf = Mlx5dvSchedLeaf(near.context, attributes)
        Mlx5QP.modify_qp_sched_elem(qp, req_sched_leaf=leaf)
        write = SendWR(
            opcode=OPCODE_RDMA_WRITE,
            num_sge=1,
            sg=[SGE(near.mr.buf, SIZE, near.mr.lkey)],
            send_flags=SIGNALED,
        )
        write.set_wr_rdma(far.mr.rkey, far.mr.buf)
        queues.append((cq, qp, write, far_cq, far_qp, leaf))
    print("queues", *[qp.qp_num for _, qp, *_ in queues], flush=True)
    outstanding = [0] * len(queues)
    end = time.monotonic() + seconds
    while time.monotonic() < end or any(outstanding):
        running = time.monotonic() < end
        for i, (cq, qp, write, *_) in enumerate(queues):
            while running and outstanding[i] < DEPTH:
                qp.post_send(write)
                outstanding[i] += 1
            count, completions = cq.poll(DEPTH)
            for completion in completions or []:
                assert completion.status == 0, completion
            outstanding[i] -= count
        time.sleep(0.002)
    # A leaf goes after the queue pair that sits on it.
    for cq, qp, _, far_cq, far_qp, leaf in queues:
        for thing in (qp, far_qp, leaf, cq, far_cq):
            thing.close()
    root.close()
    print("done", flush=True)


main()
