#!/usr/bin/env python3
"""Posts a table of work requests with rdma-core, between two queue pairs of one device. post.py DEVICE TABLE"""

import ctypes
import json
import os
import sys

from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.providers.mlx5.mlx5dv import Mlx5DVDCInitAttr, Mlx5DVQPInitAttr, Mlx5QP
from pyverbs.qp import QP, DataBuffer, QPAttr, QPCap, QPInitAttr, QPInitAttrEx
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr, SrqInitAttrEx
from pyverbs.wr import SGE, RecvWR, SendWR
from pyverbs.xrcd import XRCD, XRCDInitAttr
import pyverbs.enums as e
import pyverbs.providers.mlx5.mlx5_enums as dve

MEMORY = 0x200000000000
LENGTH = 1 << 20
TARGET = LENGTH // 2
QKEY = 0x11111111
# Of targets of dynamic connections.
ACCESS_KEY = 0x0123456789abcdef

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
# That have reads and atomics.
RELIABLE = ("RC", "XRC", "DC")
# All that initiators of dynamic connections have: places are as large as the largest of them needs.
OPERATIONS = (e.IBV_QP_EX_WITH_RDMA_WRITE | e.IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | e.IBV_QP_EX_WITH_SEND |
              e.IBV_QP_EX_WITH_SEND_WITH_IMM | e.IBV_QP_EX_WITH_RDMA_READ | e.IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
              e.IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | e.IBV_QP_EX_WITH_SEND_WITH_INV | e.IBV_QP_EX_WITH_LOCAL_INV |
              e.IBV_QP_EX_WITH_BIND_MW)


def memory():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    # PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS
    assert libc.mmap(MEMORY, LENGTH, 3, 0x32, -1, 0) == MEMORY
    view = (ctypes.c_ubyte * LENGTH).from_address(MEMORY)
    view[:] = bytes(at * 7 % 251 for at in range(LENGTH))


class Side:
    def __init__(self, ctx, pd, case, shared):
        self.channel = CompChannel(ctx)
        self.cq = CQ(ctx, 4096, None, self.channel, 0)
        self.srq = None
        if shared:
            attr = SrqInitAttr(SrqAttr(case["max_recv_wr"], case["max_recv_sge"]))
            self.srq = SRQ(pd, attr)
        cap = QPCap(case["max_send_wr"], case["max_recv_wr"], case["max_send_sge"], case["max_recv_sge"],
                    case["max_inline"])
        init = QPInitAttr(sq_sig_all=0, qp_type=TYPES[case["transport"]], scq=self.cq, rcq=self.cq, srq=self.srq, cap=cap)
        self.qp = QP(pd, init)
        self.caps = [init.cap.max_send_wr, init.cap.max_send_sge, init.cap.max_inline_data,
                     init.cap.max_recv_wr, init.cap.max_recv_sge]
        self.receives = self.caps[3:]
        if shared:
            # Not what a query tells: that counts requests which libmlx5 keeps for itself.
            self.receives = [attr.max_wr, attr.max_sge]

    def post_recv(self, wr):
        (self.srq or self.qp).post_recv(wr)

    def srq_number(self):
        return self.srq.get_srq_num() if self.srq else 0


class Initiator(Side):
    def __init__(self, ctx, pd, case):
        self.channel = CompChannel(ctx)
        self.cq = CQ(ctx, 4096, None, self.channel, 0)
        self.srq = None
        cap = QPCap(case["max_send_wr"], 0, case["max_send_sge"], 0, case["max_inline"])
        init = QPInitAttrEx(qp_type=e.IBV_QPT_XRC_SEND, comp_mask=e.IBV_QP_INIT_ATTR_PD, pd=pd, scq=self.cq, cap=cap, sq_sig_all=0)
        self.qp = QP(ctx, init)
        self.caps = [init.max_send_wr, init.max_send_sge, init.max_inline_data, 0, 0]


class Target(Side):
    def __init__(self, ctx, pd, case, domain):
        self.channel = CompChannel(ctx)
        self.cq = CQ(ctx, 4096, None, self.channel, 0)
        attr = SrqInitAttrEx(max_wr=case["max_recv_wr"], max_sge=case["max_recv_sge"])
        attr.srq_type = e.IBV_SRQT_XRC
        attr.pd, attr.xrcd, attr.cq = pd, domain, self.cq
        attr.comp_mask = (e.IBV_SRQ_INIT_ATTR_TYPE | e.IBV_SRQ_INIT_ATTR_PD | e.IBV_SRQ_INIT_ATTR_CQ |
                          e.IBV_SRQ_INIT_ATTR_XRCD)
        self.srq = SRQ(ctx, attr)
        self.receives = [attr.max_wr, attr.max_sge]
        init = QPInitAttrEx(qp_type=e.IBV_QPT_XRC_RECV, comp_mask=e.IBV_QP_INIT_ATTR_XRCD, pd=pd, xrcd=domain)
        self.qp = QP(ctx, init)


def dynamic(kind, key=0):
    attr = Mlx5DVDCInitAttr(dc_type=kind, dct_access_key=key)
    return Mlx5DVQPInitAttr(comp_mask=dve.MLX5DV_QP_INIT_ATTR_MASK_DC, dc_init_attr=attr)


class DcInitiator(Side):
    def __init__(self, ctx, pd, case):
        self.channel = CompChannel(ctx)
        self.cq = CQ(ctx, 4096, None, self.channel, 0)
        self.srq = None
        cap = QPCap(case["max_send_wr"], 0, case["max_send_sge"], 0, case["max_inline"])
        init = QPInitAttrEx(qp_type=e.IBV_QPT_DRIVER, comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                            pd=pd, scq=self.cq, rcq=self.cq, cap=cap, sq_sig_all=0, send_ops_flags=OPERATIONS)
        self.qp = Mlx5QP(ctx, init, dynamic(dve.MLX5DV_DCTYPE_DCI))
        self.caps = [init.max_send_wr, init.max_send_sge, init.max_inline_data, 0, 0]


class DcTarget(Side):
    def __init__(self, ctx, pd, case):
        self.channel = CompChannel(ctx)
        self.cq = CQ(ctx, 4096, None, self.channel, 0)
        attr = SrqInitAttr(SrqAttr(case["max_recv_wr"], case["max_recv_sge"]))
        self.srq = SRQ(pd, attr)
        self.receives = [attr.max_wr, attr.max_sge]
        init = QPInitAttrEx(qp_type=e.IBV_QPT_DRIVER, comp_mask=e.IBV_QP_INIT_ATTR_PD, pd=pd, scq=self.cq, rcq=self.cq,
                            srq=self.srq, cap=QPCap(0, 0, 0, 0, 0), sq_sig_all=0)
        self.qp = Mlx5QP(ctx, init, dynamic(dve.MLX5DV_DCTYPE_DCT, ACCESS_KEY))


def address(ctx, flow_label):
    attr = ctx.query_port(1)
    if attr.link_layer == e.IBV_LINK_LAYER_ETHERNET:
        index = 1
        gr = GlobalRoute(dgid=ctx.query_gid(1, index), sgid_index=index, hop_limit=64, flow_label=flow_label)
        return AHAttr(gr=gr, is_global=1, port_num=1)
    return AHAttr(dlid=attr.lid, port_num=1)


def connect(ctx, side, other, transport):
    attr = QPAttr(port_num=1)
    attr.qkey = QKEY
    attr.qp_access_flags = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
    if transport in RELIABLE:
        attr.qp_access_flags |= e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC
    attr.dest_qp_num = other.qp.qp_num
    attr.path_mtu = e.IBV_MTU_1024
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 8
    attr.min_rnr_timer = 12
    attr.timeout, attr.retry_cnt, attr.rnr_retry = 14, 7, 7
    attr.rq_psn = attr.sq_psn = 0
    attr.ah_attr = address(ctx, 0)
    if isinstance(side, DcTarget):
        side.qp.to_rtr(attr)
    else:
        side.qp.to_rts(attr)


def chained(requests):
    chain = None
    for wr in reversed(requests):
        if chain is not None:
            wr.next_wr = chain
        chain = wr
    return chain


def request(which, keys, receiver, ah, is_xrc):
    flags = 0
    for name in ("fence", "signaled", "solicited", "inline"):
        flags |= getattr(e, "IBV_SEND_" + name.upper()) if which[name] else 0
    pieces = [SGE(MEMORY + offset, length, keys.lkey) for offset, length in which["sges"]]
    wr = SendWR(opcode=VERBS[which["verb"]], num_sge=len(pieces), sg=pieces, send_flags=flags,
                imm_data=which["words"][0] & 0xffffffff)
    if "RDMA" in which["verb"]:
        wr.set_wr_rdma(keys.rkey, MEMORY + which["remote"])
    if "ATOMIC" in which["verb"]:
        wr.set_wr_atomic(keys.rkey, MEMORY + which["remote"], which["words"][0], which["words"][1])
    if ah is not None:
        wr.set_wr_ud(ah, receiver.qp.qp_num, QKEY)
    if is_xrc:
        wr.set_qp_type_xrc(receiver.srq_number())
    return wr


def post_dynamic(qp, requests, keys, target, ah):
    qp.wr_start()
    for which in requests:
        verb, remote, words = which["verb"], MEMORY + which["remote"], which["words"]
        # These calls turn it round, those of lists do not.
        immediate = int.from_bytes((words[0] & 0xffffffff).to_bytes(4, "little"), "big")
        qp.wr_id = 0
        qp.wr_flags = 0
        for name in ("fence", "signaled", "solicited"):
            qp.wr_flags |= getattr(e, "IBV_SEND_" + name.upper()) if which[name] else 0
        if verb == "SEND":
            qp.wr_send()
        elif verb == "SEND_WITH_IMM":
            qp.wr_send_imm(immediate)
        elif verb == "RDMA_WRITE":
            qp.wr_rdma_write(keys.rkey, remote)
        elif verb == "RDMA_WRITE_WITH_IMM":
            qp.wr_rdma_write_imm(keys.rkey, remote, immediate)
        elif verb == "RDMA_READ":
            qp.wr_rdma_read(keys.rkey, remote)
        elif verb == "ATOMIC_CMP_AND_SWP":
            qp.wr_atomic_cmp_swp(keys.rkey, remote, words[0], words[1])
        else:
            qp.wr_atomic_fetch_add(keys.rkey, remote, words[0])
        qp.wr_set_dc_addr(ah, target, ACCESS_KEY)
        pieces = [(MEMORY + offset, length) for offset, length in which["sges"]]
        if which["inline"]:
            qp.wr_set_inline_data_list(len(pieces), [DataBuffer(*piece) for piece in pieces])
        else:
            qp.wr_set_sge_list(len(pieces), [SGE(*piece, keys.lkey) for piece in pieces])
    qp.wr_complete()


def wait(cq, count):
    while count:
        got, completions = cq.poll(count)
        for wc in completions:
            assert wc.status == e.IBV_WC_SUCCESS, (wc.status, wc.vendor_err, wc.opcode)
        count -= got


def run(ctx, pd, keys, case):
    is_xrc = case["transport"] == "XRC"
    if is_xrc:
        domain = XRCD(ctx, XRCDInitAttr(e.IBV_XRCD_INIT_ATTR_FD | e.IBV_XRCD_INIT_ATTR_OFLAGS, os.O_CREAT, -1))
        sender, receiver = Initiator(ctx, pd, case), Target(ctx, pd, case, domain)
    elif case["transport"] == "DC":
        sender, receiver = DcInitiator(ctx, pd, case), DcTarget(ctx, pd, case)
    else:
        sender, receiver = Side(ctx, pd, case, False), Side(ctx, pd, case, case["shared"])
    connect(ctx, sender, receiver, case["transport"])
    connect(ctx, receiver, sender, case["transport"])
    # A target of dynamic connections has its number only now.
    print(json.dumps({"qpn": sender.qp.qp_num, "peer": receiver.qp.qp_num, "lkey": keys.lkey, "rkey": keys.rkey,
                      "srq": receiver.srq_number(), "xrc": is_xrc, "caps": sender.caps, "receives": receiver.receives}), flush=True)
    ah = AH(pd, attr=address(ctx, 0x12345)) if case["transport"] in ("UD", "DC") else None
    for batch in case["batches"]:
        received = [one for one in batch["requests"]
                    if one["verb"] in ("SEND", "SEND_WITH_IMM", "RDMA_WRITE_WITH_IMM")]
        if batch["notify"] is not None:
            receiver.cq.req_notify(batch["notify"])
        receives = [RecvWR(num_sge=len(one["receive"]),
                           sg=[SGE(MEMORY + offset, length, keys.lkey) for offset, length in one["receive"]])
                    for one in received]
        if receives:
            receiver.post_recv(chained(receives))
        if case["transport"] == "DC":
            post_dynamic(sender.qp, batch["requests"], keys, receiver.qp.qp_num, ah)
        else:
            requests = [request(one, keys, receiver, ah, is_xrc) for one in batch["requests"]]
            sender.qp.post_send(chained(requests))
        if batch["notify"] is not None:
            receiver.channel.get_cq_event(receiver.cq)
            receiver.cq.ack_events(1)
        wait(sender.cq, sum(one["signaled"] for one in batch["requests"]))
        wait(receiver.cq, len(received))


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
