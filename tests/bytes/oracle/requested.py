#!/usr/bin/env python3
"""Runs a program and says what it asked of the RDMA drivers, as JSON lines among its own. requested.py PROGRAM ARGUMENT…"""

import ctypes
import json
import os
import signal
import struct
import sys

# _IOWR(0x1b, 1, struct ib_uverbs_ioctl_hdr)
RDMA_VERBS_IOCTL = 0xc0181b01
HEADER = struct.Struct("<HHHHQII")
ATTRIBUTE = struct.Struct("<HHHHQ")

TRACEME, GETREGS, SYSCALL, SETOPTIONS = 0, 12, 24, 0x4200
# A stop for a system call is told from others by its signal; the program ends with this one.
OPTIONS = 0x00000001 | 0x00100000
CALL = signal.SIGTRAP | 0x80
SYS_IOCTL = 16
# Places in struct user_regs_struct of x86-64.
RAX, RSI, RDX, ORIG_RAX = 10, 13, 12, 15

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def ptrace(request, pid=0, data=None):
    if libc.ptrace(request, pid, None, data) < 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request}")


def asked(memory, address):
    """A command with its attributes, those of up to eight bytes in themselves."""
    length, kind, method, count, _, _, _ = HEADER.unpack(os.pread(memory, HEADER.size, address))
    raw = os.pread(memory, length - HEADER.size, address + HEADER.size)
    attributes = {}
    for number, size, _, _, data in ATTRIBUTE.iter_unpack(raw[:count * ATTRIBUTE.size]):
        try:
            content = struct.pack("<Q", data)[:size] if size <= 8 else os.pread(memory, size, data)
        except OSError:
            # Room for an answer that does not stand in memory yet.
            continue
        attributes[number] = content.hex()
    return {"object": kind, "method": method, "attributes": attributes}


def main():
    pid = os.fork()
    if not pid:
        ptrace(TRACEME)
        os.execvp(sys.argv[1], sys.argv[1:])
    os.waitpid(pid, 0)
    ptrace(SETOPTIONS, pid, OPTIONS)
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    registers = (ctypes.c_uint64 * 27)()
    pending, inside, passed = None, False, 0
    while True:
        ptrace(SYSCALL, pid, passed)
        passed = 0
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            sys.exit(os.waitstatus_to_exitcode(status))
        if os.WSTOPSIG(status) != CALL:
            passed = os.WSTOPSIG(status)
            continue
        inside = not inside
        if not inside and pending is None:
            continue
        ptrace(GETREGS, pid, ctypes.addressof(registers))
        if inside:
            if registers[ORIG_RAX] == SYS_IOCTL and registers[RSI] & 0xffffffff == RDMA_VERBS_IOCTL:
                pending = asked(memory, registers[RDX])
        else:
            if registers[RAX] == 0:
                print(json.dumps(pending), flush=True)
            pending = None


main()
