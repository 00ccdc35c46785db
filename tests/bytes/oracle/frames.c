/* What src/bin/post_frames.rs posts, posted by libmlx5: frames DEVICE */

#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As in src/bin/post_frames.rs. */
#define COUNT 96
#define LENGTH 65536
#define HEADER 54
#define OPTIONS 5
#define INLINE 200

static uint64_t state = 1;

static uint32_t draw(uint32_t below)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33) % below;
}

static void check(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int n = 0; list && list[n]; n++)
		if (!strcmp(ibv_get_device_name(list[n]), name))
			return ibv_open_device(list[n]);
	return NULL;
}

/* Ethernet, IPv4 and TCP from and to addresses that nobody has. */
static void header(uint8_t *bytes, uint32_t options)
{
	static const uint8_t plain[HEADER] = {
		2, 0, 0, 0, 9, 9, 2, 0, 0, 0, 9, 8, 8, 0,
		0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 9, 8, 7, 10, 9, 8, 6,
		0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 1, 0, 0, 0, 0, 0,
	};

	memcpy(bytes, plain, HEADER);
	bytes[46] = (5 + options) << 4;
	memset(bytes + HEADER, 1, 4 * OPTIONS);
}

int main(int argc, char **argv)
{
	struct ibv_context *context = argc == 2 ? open_device(argv[1]) : NULL;
	check(context != NULL, "frames DEVICE");
	uint8_t *memory = aligned_alloc(4096, LENGTH), tso[HEADER + 4 * OPTIONS];
	for (int at = 0; at < LENGTH; at++)
		memory[at] = at * 7 % 251;
	header(memory, 0);

	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, LENGTH, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	check(mr && cq, "objects");
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RAW_PACKET, .pd = pd, .max_tso_header = sizeof(tso),
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 3, .max_recv_sge = 1,
			 .max_inline_data = INLINE },
	};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
	check(qp != NULL, "ibv_create_qp_ex");
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT), "INIT");
	attr.qp_state = IBV_QPS_RTR;
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "RTR");
	attr.qp_state = IBV_QPS_RTS;
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "RTS");

	for (int n = 0; n < COUNT; n++) {
		uint32_t kind = draw(3), pieces = 1 + draw(3), options = draw(OPTIONS + 1), segment = 100 + draw(900);
		struct ibv_sge list[3];
		struct ibv_send_wr *bad, wr = { .sg_list = list, .send_flags = IBV_SEND_SIGNALED };

		if (draw(2))
			wr.send_flags |= IBV_SEND_IP_CSUM;
		if (kind == 1)
			pieces = 1;
		for (uint32_t at = 0; at < pieces; at++) {
			uint32_t offset = draw(LENGTH / 2), length = 1 + draw(400);

			if (kind != 2 && !at) {
				offset = 0;
				length = kind == 1 ? 60 + length % (INLINE - 60) : 60 + length;
			}
			list[at] = (struct ibv_sge){ .addr = (uintptr_t)memory + offset, .length = length, .lkey = mr->lkey };
		}
		wr.num_sge = pieces;
		wr.opcode = IBV_WR_SEND;
		if (kind == 1)
			wr.send_flags |= IBV_SEND_INLINE;
		if (kind == 2) {
			header(tso, options);
			wr.opcode = IBV_WR_TSO;
			wr.tso.hdr = tso;
			wr.tso.hdr_sz = HEADER + 4 * options;
			wr.tso.mss = segment;
		}
		check(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
		struct ibv_wc wc;
		int got;
		while (!(got = ibv_poll_cq(cq, 1, &wc)))
			;
		check(got == 1 && wc.status == IBV_WC_SUCCESS, "completion");
	}
	printf("{\"lkey\": %u, \"memory\": %llu}\n", mr->lkey, (unsigned long long)(uintptr_t)memory);
	check(!ibv_destroy_qp(qp), "ibv_destroy_qp");
	return 0;
}
