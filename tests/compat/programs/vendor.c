/* Prints what functions of mlx5dv.h, and verbs that only such devices have, return on the first
   device, and what arrives there in a frame that the second one sends. The same over any library. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char memory[8192] __attribute__((aligned(4096)));
static struct ibv_context *context, *other;
static struct ibv_pd *pd;
static struct ibv_mr *mr;

#define SAY(...) printf(__VA_ARGS__)
/* One number for what is not supported: this library has no other. */
#define ERRNO(made) ((made) ? 0 : errno == EPROTONOSUPPORT ? EOPNOTSUPP : errno)

static struct ibv_context *opened(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct mlx5dv_context_attr attr = { .flags = MLX5DV_CONTEXT_FLAGS_DEVX };
	struct ibv_context *found = NULL;

	for (int i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			found = mlx5dv_open_device(list[i], &attr);
	ibv_free_device_list(list);
	return found;
}

static int routed(void)
{
	struct ibv_gid_entry entry;

	for (int i = 0; i < 16; i++)
		if (!ibv_query_gid_ex(context, 1, i, &entry, 0) &&
		    entry.gid_type == IBV_GID_TYPE_ROCE_V2)
			return i;
	return 0;
}

/* A connection to itself. */
static struct ibv_qp *connected(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .path_mtu = IBV_MTU_1024,
		.timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 64 } },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	if (!qp || ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				 IBV_QP_ACCESS_FLAGS))
		return NULL;
	attr.qp_state = IBV_QPS_RTR;
	attr.dest_qp_num = qp->qp_num;
	attr.ah_attr.grh.sgid_index = routed();
	ibv_query_gid(context, 1, routed(), &attr.ah_attr.grh.dgid);
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return NULL;
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		return NULL;
	return qp;
}

static void queue_pairs(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr plain = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = connected(cq), *datagrams = ibv_create_qp(pd, &plain);
	uint8_t in[16] = { 0x05, 0x0b }, out[0x110] = {}, port, active;

	if (!qp || !datagrams) {
		SAY("no queue pairs: %d\n", errno);
		return;
	}
	SAY("source port %d", mlx5dv_modify_qp_udp_sport(qp, 0xc123));
	in[9] = qp->qp_num >> 16, in[10] = qp->qp_num >> 8, in[11] = qp->qp_num;
	SAY(" %d", mlx5dv_devx_qp_query(qp, in, sizeof(in), out, sizeof(out)));
	SAY(" %02x%02x, of datagrams %d\n", out[0x52], out[0x53],
	    mlx5dv_modify_qp_udp_sport(datagrams, 0xc123));
	SAY("port of a bond %d", mlx5dv_query_qp_lag_port(qp, &port, &active));
	SAY(" %d\n", mlx5dv_modify_qp_lag_port(qp, 1));
	ibv_destroy_qp(qp);
	ibv_destroy_qp(datagrams);
}

static void keys(void)
{
	struct mlx5dv_mkey_init_attr attr = { .pd = pd, .max_entries = 5 };
	struct mlx5dv_mkey_err found;
	struct mlx5dv_mkey *key;

	SAY("keys: of nothing %d", ERRNO(mlx5dv_create_mkey(&attr)));
	attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT |
			    MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE;
	SAY(", with signatures %d", ERRNO(mlx5dv_create_mkey(&attr)));
	attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT |
			    MLX5DV_MKEY_INIT_ATTR_FLAGS_CRYPTO;
	SAY(", with encryption %d", ERRNO(mlx5dv_create_mkey(&attr)));
	attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
	key = mlx5dv_create_mkey(&attr);
	if (!key)
		return;
	SAY(", entries %d, same %d, variant %d", attr.max_entries, key->lkey == key->rkey,
	    key->lkey & 0xff);
	SAY(", check %d", mlx5dv_mkey_check(key, &found));
	SAY(", destroy %d\n", mlx5dv_destroy_mkey(key));
}

static void refused(void)
{
	struct mlx5dv_crypto_login_attr login = {};
	struct mlx5dv_dek_init_attr dek = { .pd = pd };
	struct mlx5dv_steering_anchor_attr anchor = { .ft_type = MLX5DV_FLOW_TABLE_TYPE_RDMA_RX };
	struct ibv_ah_attr path = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 64 } };
	uint64_t change = 0;
	struct ibv_ah *ah;
	uint32_t number;

	SAY("reserved numbers %d", mlx5dv_reserved_qpn_alloc(context, &number));
	SAY(", login %d", mlx5dv_crypto_login(context, &login));
	SAY(", logout %d", mlx5dv_crypto_logout(context));
	SAY(", data key %d\n", ERRNO(mlx5dv_dek_create(context, &dek)));
	path.grh.sgid_index = routed();
	ibv_query_gid(context, 1, routed(), &path.grh.dgid);
	ah = ibv_create_ah(pd, &path);
	SAY("path of a queue pair %d\n", ah ? mlx5dv_map_ah_to_qp(ah, 5) : -1);
	if (ah)
		ibv_destroy_ah(ah);
	SAY("headers %d", ERRNO(mlx5dv_create_flow_action_modify_header(context, 8, &change,
									MLX5DV_FLOW_TABLE_TYPE_NIC_RX)));
	SAY(" %d", ERRNO(mlx5dv_create_flow_action_packet_reformat(
			    context, 0, NULL,
			    MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TUNNEL_TO_L2,
			    MLX5DV_FLOW_TABLE_TYPE_NIC_RX)));
	SAY(", anchor %d\n", ERRNO(mlx5dv_create_steering_anchor(context, &anchor)));
}

/* An object of the firmware, which is asked about without waiting. */
static void firmware(void)
{
	uint8_t in[0x110] = { 0x02, 0x00 }, out[16] = {}, query[16] = { 0x02, 0x01 };
	struct mlx5dv_pd own;
	struct mlx5dv_obj obj = { .pd = { .in = pd, .out = &own } };
	struct mlx5dv_devx_cmd_comp *done = mlx5dv_devx_create_cmd_comp(context);
	struct mlx5dv_devx_event_channel *channel;
	uint16_t kinds[] = { 9 };
	struct {
		struct mlx5dv_devx_async_cmd_hdr header;
		uint8_t out[0x50];
	} reply = {};
	struct mlx5dv_devx_obj *key;

	SAY("domain %d", mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD));
	in[16] = 0x40, in[18] = 0x86, in[19] = 0x00;
	in[20] = in[21] = in[22] = 0xff;
	in[29] = own.pdn >> 16, in[30] = own.pdn >> 8, in[31] = own.pdn;
	in[0x47] = 4;
	key = mlx5dv_devx_obj_create(context, in, sizeof(in), out, sizeof(out));
	SAY(", object %d", ERRNO(key));
	if (!key || !done)
		return;
	memcpy(query + 8, out + 8, 4);
	SAY(", query %d", mlx5dv_devx_obj_query_async(key, query, sizeof(query), sizeof(reply.out), 77,
						      done));
	SAY(", reply %d", mlx5dv_devx_get_async_cmd_comp(done, &reply.header, sizeof(reply)));
	SAY(" of %d, status %d, free %d", (int)reply.header.wr_id, reply.out[0],
	    reply.out[16] >> 6 & 1);
	SAY(", destroy %d\n", mlx5dv_devx_obj_destroy(key));
	mlx5dv_devx_destroy_cmd_comp(done);
	channel = mlx5dv_devx_create_event_channel(context,
						   MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA);
	SAY("events %d", ERRNO(channel));
	if (!channel)
		return;
	SAY(" %d\n", mlx5dv_devx_subscribe_devx_event(channel, NULL, sizeof(kinds), kinds, 5));
	mlx5dv_devx_destroy_event_channel(channel);
}

static void objects(struct ibv_cq *cq)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 15, .max_sge = 1 } };
	struct ibv_alloc_dm_attr memory_attr = { .length = 4096 };
	struct ibv_wq_init_attr wq_attr = {
		.wq_type = IBV_WQT_RQ, .max_wr = 16, .max_sge = 2, .pd = pd, .cq = cq,
	};
	struct ibv_ah_attr path = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 64 } };
	struct mlx5dv_srq srq = { .comp_mask = MLX5DV_SRQ_MASK_SRQN };
	struct mlx5dv_rwq rwq = {};
	struct mlx5dv_dm dm = {};
	struct mlx5dv_ah ah = {};
	struct mlx5dv_obj obj = {};
	union ibv_gid gid;

	obj.srq.in = ibv_create_srq(pd, &init), obj.srq.out = &srq;
	if (obj.srq.in && !mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ))
		SAY("shared queue: stride %u, head %u, whole %d, number %d\n", srq.stride, srq.head,
		    !(srq.tail & (srq.tail + 1)), srq.buf && srq.dbrec && srq.srqn);
	obj.rwq.in = ibv_create_wq(context, &wq_attr), obj.rwq.out = &rwq;
	if (obj.rwq.in && !mlx5dv_init_obj(&obj, MLX5DV_OBJ_RWQ))
		SAY("work queue: stride %u, %u entries, there %d\n", rwq.stride, rwq.wqe_cnt,
		    rwq.buf && rwq.dbrec);
	obj.dm.in = ibv_alloc_dm(context, &memory_attr), obj.dm.out = &dm;
	if (!obj.dm.in)
		SAY("memory of the device: %d\n", errno);
	else if (!mlx5dv_init_obj(&obj, MLX5DV_OBJ_DM))
		SAY("memory of the device: %lu bytes, there %d\n", (unsigned long)dm.length, !!dm.buf);
	path.grh.sgid_index = routed();
	ibv_query_gid(context, 1, routed(), &gid);
	path.grh.dgid = gid;
	obj.ah.in = ibv_create_ah(pd, &path), obj.ah.out = &ah;
	if (obj.ah.in && !mlx5dv_init_obj(&obj, MLX5DV_OBJ_AH))
		SAY("path: address %d, hops %u, source %u\n", !memcmp(ah.av->rgid, &gid, 16),
		    ah.av->hop_limit, be32toh(ah.av->grh_gid_fl) >> 20 & 0xff);
	if (obj.srq.in)
		SAY("destroyed %d", ibv_destroy_srq(obj.srq.in));
	if (obj.rwq.in)
		SAY(" %d", ibv_destroy_wq(obj.rwq.in));
	if (obj.dm.in)
		SAY(" %d", ibv_free_dm(obj.dm.in));
	SAY(" %d\n", ibv_destroy_ah(obj.ah.in));
}

static int send_frame(const uint8_t *frame, int length)
{
	struct ibv_pd *domain = ibv_alloc_pd(other);
	struct ibv_cq *cq = ibv_create_cq(other, 4, NULL, NULL, 0);
	struct ibv_mr *region = ibv_reg_mr(domain, memory + 4096, 4096, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RAW_PACKET, .sq_sig_all = 1,
		.cap = { .max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(domain, &init);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_sge sge = { (uintptr_t)memory + 4096, length, region ? region->lkey : 0 };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_wc wc = {};
	int found;

	if (!qp || ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT))
		return -1;
	attr.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE))
		return -2;
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE))
		return -3;
	memcpy(memory + 4096, frame, length);
	if (ibv_post_send(qp, &wr, &bad))
		return -4;
	while (!(found = ibv_poll_cq(cq, 1, &wc)))
		;
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	ibv_dereg_mr(region);
	ibv_dealloc_pd(domain);
	return found == 1 ? wc.status : -5;
}

/* A tagged frame, in a queue that strips tags and in one that does not, by a rule with a mark. */
static void frames(void)
{
	static const uint8_t frame[64] = { 0x02, 0xc9, 3, 0xfe, 1, 2, 0x02, 0xc9, 3, 0xfe, 1, 3,
					   0x81, 0, 0x20, 7, 0x12, 0x34, 5, 6, 7 };
	struct ibv_cq_init_attr_ex cq_attr = {
		.cqe = 16,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG,
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &cq_attr);
	struct ibv_wq_init_attr wq_attr = {
		.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = pd,
		.cq = cq ? ibv_cq_ex_to_cq(cq) : NULL,
	};
	struct ibv_wq *wq = cq ? ibv_create_wq(context, &wq_attr) : NULL;
	struct ibv_wq_attr ready = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY };
	struct ibv_wq_attr options = { .attr_mask = IBV_WQ_ATTR_FLAGS };
	struct ibv_rwq_ind_table_init_attr table_attr = { .ind_tbl = &wq };
	struct ibv_rwq_ind_table *table = wq ? ibv_create_rwq_ind_table(context, &table_attr) : NULL;
	uint8_t key[40] = { 1, 2, 3 };
	struct ibv_qp_init_attr_ex qp_attr = {
		.qp_type = IBV_QPT_RAW_PACKET, .pd = pd, .rwq_ind_tbl = table,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.rx_hash_conf = { IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key, IBV_RX_HASH_SRC_IPV4 },
	};
	struct ibv_qp *qp = table ? ibv_create_qp_ex(context, &qp_attr) : NULL;
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
		struct ibv_flow_spec_action_tag tag;
		struct ibv_flow_spec_counter_action count;
	} __attribute__((packed, aligned(8))) rule = {
		.attr = { .type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(rule), .num_of_specs = 3, .port = 1 },
		.eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.eth) },
		.tag = { .type = IBV_FLOW_SPEC_ACTION_TAG, .size = sizeof(rule.tag), .tag_id = 0x1234 },
		.count = { .type = IBV_FLOW_SPEC_ACTION_COUNT, .size = sizeof(rule.count) },
	};
	struct ibv_sge sge = { (uintptr_t)memory, 256, mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_poll_cq_attr poll = {};
	struct ibv_counters_init_attr counters_attr = {};
	struct ibv_counters *counters = ibv_create_counters(context, &counters_attr);
	struct ibv_counter_attach_attr what = { .counter_desc = IBV_COUNTER_PACKETS };
	uint64_t counted = 0;
	struct ibv_flow *flow;

	SAY("counters %d", ERRNO(counters));
	if (counters)
		SAY(" %d\n", ibv_attach_counters_point_flow(counters, &what, NULL));
	rule.count.counters = counters;
	if (!qp) {
		SAY("no queue pair over a table: %d\n", errno);
		return;
	}
	memcpy(rule.eth.val.dst_mac, frame, 6);
	memset(rule.eth.mask.dst_mac, 0xff, 6);
	flow = ibv_create_flow(qp, (void *)&rule);
	SAY("rule %d, ready %d", ERRNO(flow), ibv_modify_wq(wq, &ready));
	options.flags_mask = options.flags = IBV_WQ_FLAGS_PCI_WRITE_END_PADDING;
	SAY(", padding %d", ibv_modify_wq(wq, &options));
	options.flags_mask = options.flags = 1 << 20;
	SAY(", no option %d\n", ibv_modify_wq(wq, &options));
	for (int strips = 0; strips < 2 && flow; strips++) {
		options.flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING;
		options.flags = strips ? IBV_WQ_FLAGS_CVLAN_STRIPPING : 0;
		SAY("strips %d: %d", strips, ibv_modify_wq(wq, &options));
		SAY(" %d", ibv_post_wq_recv(wq, &wr, &bad));
		SAY(" %d", send_frame(frame, sizeof(frame)));
		for (int i = 0; i < 2000 && ibv_start_poll(cq, &poll) == ENOENT; i++)
			usleep(1000);
		SAY(", status %d, %u bytes", cq->status, ibv_wc_read_byte_len(cq));
		if (strips)
			SAY(", VLAN %x", ibv_wc_read_cvlan(cq));
		SAY(", mark %x, rest %d\n", ibv_wc_read_flow_tag(cq),
		    !memcmp(memory + (strips ? 12 : 16), frame + 16, 4));
		ibv_end_poll(cq);
	}
	if (counters)
		SAY("counted %d: %lu, in use %d\n",
		    ibv_read_counters(counters, &counted, 1, IBV_READ_COUNTERS_ATTR_PREFER_CACHED),
		    (unsigned long)counted, ibv_destroy_counters(counters));
	SAY("table %d", ibv_destroy_rwq_ind_table(table) != 0);
	SAY(" %d", ibv_destroy_flow(flow));
	SAY(" %d", ibv_destroy_qp(qp));
	SAY(" %d", ibv_destroy_rwq_ind_table(table));
	SAY(" %d", ibv_destroy_wq(wq));
	SAY(" %d", ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	SAY(" %d\n", counters ? ibv_destroy_counters(counters) : -1);
	cq_attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	cq_attr.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	cq = ibv_create_cq_ex(context, &cq_attr);
	SAY("may overrun %d", ERRNO(cq));
	SAY(" %d\n", cq ? ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) : -1);
}

int main(void)
{
	struct ibv_cq *cq;

	setvbuf(stdout, NULL, _IOLBF, 0);
	context = opened("mlx5_0"), other = opened("mlx5_1");
	pd = context ? ibv_alloc_pd(context) : NULL;
	mr = pd ? ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE) : NULL;
	cq = context ? ibv_create_cq(context, 16, NULL, NULL, 0) : NULL;
	if (!mr || !other || !cq)
		return 1;
	queue_pairs(cq);
	keys();
	refused();
	firmware();
	objects(cq);
	frames();
	SAY("ended %d", ibv_destroy_cq(cq));
	SAY(" %d", ibv_dereg_mr(mr));
	SAY(" %d", ibv_dealloc_pd(pd));
	SAY(" %d %d\n", ibv_close_device(context), ibv_close_device(other));
	return 0;
}
