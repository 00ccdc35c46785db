#!/usr/bin/env python3
"""Posts a table of work requests with rdma-core, between two queue pairs of one device. post.py DEVICE TABLE"""

import ctypes
import json
import sys

from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR
import pyverbs.enums as e

MEMORY = 0x200000000000
LENGTH = 1 << 20
TARGET = LENGTH // 2
RECEIVED = 9040
QKEY = 0x11111111

VERBS = {
    "SEND": e.IBV_WR_SEND,
    "SEND_WITH_IMM": e.IBV_WR_SEND_WITH_IMM,
    "RDMA_WRITE": e.IBV_WR_RDMA_WRITE,
    "RDMA_WRITE_WITH_IMM": e.IBV_WR_RDMA_WRITE_WITH_IMM,
    "RDMA_READ": e.IBV_WR_RDMA_READ,
    "ATOMIC_CMP_AND_SWP": e.IBV_WR_ATOMIC_CMP_AND_SWP,
    "ATOMIC_FETCH_AND_ADD": e.IBV_WR_ATOMIC_FETCH_AND_ADD,
}
TYPES = {"RC": e.IBV_QPT_RC, "UC": e.IBV_QPT_UC, "UD": e.IBV_QPT_UD}


def memory():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    # PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS
    assert libc.mmap(MEMORY, LENGTH, 3, 0x32, -1, 0) == MEMORY
    view = (ctypes.c_ubyte * LENGTH).from_address(MEMORY)
    view[:] = bytes(at * 7 % 251 for at in range(LENGTH))


class Side:
    def __init__(self, ctx, pd, case):
        self.cq = CQ(ctx, 4096)
        cap = QPCap(case["max_send_wr"], case["max_recv_wr"], case["max_send_sge"], case["max_recv_sge"],
                    case["max_inline"])
        init = QPInitAttr(sq_sig_all=0, qp_type=TYPES[case["transport"]], scq=self.cq, rcq=self.cq, cap=cap)
        self.qp = QP(pd, init)
        self.caps = [init.cap.max_send_wr, init.cap.max_send_sge, init.cap.max_inline_data,
                     init.cap.max_recv_wr, init.cap.max_recv_sge]


def address(ctx, port):
    attr = ctx.query_port(1)
    if attr.link_layer == e.IBV_LINK_LAYER_ETHERNET:
        index = 1
        gr = GlobalRoute(dgid=ctx.query_gid(1, index), sgid_index=index, hop_limit=64, flow_label=0x12345)
        return AHAttr(gr=gr, is_global=1, port_num=1)
    return AHAttr(dlid=attr.lid, port_num=1)


def connect(ctx, side, other, transport):
    attr = QPAttr(port_num=1)
    attr.qkey = QKEY
    attr.qp_access_flags = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
    if transport == "RC":
        attr.qp_access_flags |= e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC
    attr.dest_qp_num = other.qp.qp_num
    attr.path_mtu = e.IBV_MTU_1024
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 8
    attr.min_rnr_timer = 12
    attr.timeout, attr.retry_cnt, attr.rnr_retry = 14, 7, 7
    attr.rq_psn = attr.sq_psn = 0
    attr.ah_attr = address(ctx, 1)
    side.qp.to_rts(attr)


def request(which, keys, peer, ah):
    flags = 0
    for name in ("fence", "signaled", "solicited", "inline"):
        flags |= getattr(e, "IBV_SEND_" + name.upper()) if which[name] else 0
    pieces = [SGE(MEMORY + offset, length, keys.lkey) for offset, length in which["pieces"]]
    wr = SendWR(opcode=VERBS[which["verb"]], num_sge=len(pieces), sg=pieces, send_flags=flags,
                imm_data=which["words"][0] & 0xffffffff)
    if "RDMA" in which["verb"]:
        wr.set_wr_rdma(keys.rkey, MEMORY + which["remote"])
    if "ATOMIC" in which["verb"]:
        wr.set_wr_atomic(keys.rkey, MEMORY + which["remote"], which["words"][0], which["words"][1])
    if ah is not None:
        wr.set_wr_ud(ah, peer, QKEY)
    return wr


def wait(cq, count):
    while count:
        got, completions = cq.poll(count)
        for wc in completions:
            assert wc.status == e.IBV_WC_SUCCESS, (wc.status, wc.vendor_err, wc.opcode)
        count -= got


def run(ctx, pd, keys, case):
    sender, receiver = Side(ctx, pd, case), Side(ctx, pd, case)
    print(json.dumps({"qpn": sender.qp.qp_num, "peer": receiver.qp.qp_num, "lkey": keys.lkey, "rkey": keys.rkey,
                      "caps": sender.caps}), flush=True)
    connect(ctx, sender, receiver, case["transport"])
    connect(ctx, receiver, sender, case["transport"])
    ah = AH(pd, attr=address(ctx, 1)) if case["transport"] == "UD" else None
    for batch in case["batches"]:
        received = sum(1 for one in batch if one["verb"] in ("SEND", "SEND_WITH_IMM", "RDMA_WRITE_WITH_IMM"))
        for _ in range(received):
            receiver.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(MEMORY + TARGET, RECEIVED, keys.lkey)]))
        chain = None
        for one in reversed(batch):
            wr = request(one, keys, receiver.qp.qp_num, ah)
            if chain is not None:
                wr.next_wr = chain
            keep = getattr(run, "keep", [])
            keep.append(wr)
            run.keep = keep
            chain = wr
        sender.qp.post_send(chain)
        wait(sender.cq, sum(one["signaled"] for one in batch))
        wait(receiver.cq, received)


def main():
    device, path = sys.argv[1:]
    with open(path) as file:
        table = json.load(file)
    memory()
    ctx = Context(name=device)
    pd = PD(ctx)
    access = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC
    keys = MR(pd, LENGTH, access, address=MEMORY)
    for case in table["cases"]:
        run(ctx, pd, keys, case)


main()
