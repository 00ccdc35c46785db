/* Keys with signatures and encryption: prints the requests that set them up, as they stand in the
   ring, what passes through them, and what is found wrong. The same over any library. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <endian.h>

#define MEMORY ((char *)0x700000000000)
#define LENGTH (1 << 20)
#define THERE (MEMORY + (1 << 19))
#define SAY(...) printf(__VA_ARGS__)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_qp_ex *ex;
static struct mlx5dv_qp_ex *dv;
static struct mlx5dv_qp ring;
static struct mlx5dv_mkey *key;
static uint32_t block, psv, data_key;
static struct mlx5dv_crypto_attr *encryption;

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

/* A connection to itself. */
static int connect(int all)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = all, .pd = pd,
		.cap = { .max_send_wr = 32, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 1,
			 .max_inline_data = 256 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ,
	};
	struct mlx5dv_qp_init_attr vendor = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
		.send_ops_flags = MLX5DV_QP_EX_WITH_MKEY_CONFIGURE,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .path_mtu = IBV_MTU_1024,
		.timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1,
		.max_dest_rd_atomic = 1, .ah_attr = { .port_num = 1 },
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	struct mlx5dv_obj obj = { .qp = { .out = &ring } };
	struct ibv_port_attr port;

	qp = mlx5dv_create_qp(context, &init, &vendor);
	if (!qp || ibv_query_port(context, 1, &port))
		return -1;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			  IBV_QP_ACCESS_FLAGS))
		return -1;
	attr.qp_state = IBV_QPS_RTR;
	attr.dest_qp_num = qp->qp_num;
	attr.ah_attr.dlid = port.lid;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return -1;
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		return -1;
	obj.qp.in = qp;
	ex = ibv_qp_to_qp_ex(qp);
	dv = mlx5dv_qp_ex_from_ibv_qp_ex(ex);
	block = 0;
	return mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP);
}

/* Completions until none has come for long. */
static int completions(int wanted)
{
	struct ibv_wc wc;
	int found = 0;

	for (long i = 0; i < 5000000 && found < wanted; i++)
		if (ibv_poll_cq(cq, 1, &wc) > 0) {
			/* A failed one says no more of itself. */
			SAY(" (%d: %d, %d)", (int)wc.wr_id, wc.status,
			    wc.status ? -1 : (int)wc.opcode);
			found++;
		}
	return found;
}

static uint32_t word(const void *from)
{
	uint32_t raw;

	memcpy(&raw, from, 4);
	return be32toh(raw);
}

/* A word of the ring, counted from the beginning of a request. */
static uint32_t at(uint32_t from, int byte)
{
	uint32_t step = from + byte / 64;

	return word((char *)ring.sq.buf + step % ring.sq.wqe_cnt * ring.sq.stride + byte % 64);
}

static int units(uint32_t from)
{
	return at(from, 4) & 0x3f;
}

static int sets_psv(uint32_t from)
{
	return (at(from, 0) & 0xff) == 0x20;
}

enum name { NONE, PSV, DATA_KEY };

/* What a word names: a PSV in a request that sets it; in byte stream formats PSVs and keys. */
static enum name names(uint32_t from, int byte)
{
	int begin = units(from) * 16 - (at(from, 20) & 0xffff) * 16;

	if (sets_psv(from))
		return byte == 16 ? PSV : NONE;
	if (byte < begin || byte < 64)
		return NONE;
	begin = byte - (byte - begin) % 64;
	if (at(from, begin) >> 24 & 1)
		return byte - begin == 32 ? DATA_KEY : NONE;
	return byte - begin == 8 || byte - begin == 12 ? PSV : NONE;
}

/* The requests that were put since the last time. What runs differ in has a name. */
static void requests(int count)
{
	uint32_t from = block;

	for (int i = 0; i < count; i++, from += (units(from) + 3) / 4)
		if (sets_psv(from) && !psv)
			psv = at(from, 16);
	for (; count; count--) {
		SAY("  ");
		for (int byte = 0; byte < units(block) * 16; byte += 4) {
			uint32_t value = at(block, byte);

			if (byte == 4)
				SAY(" %u", units(block));
			else if (value == mr->lkey)
				SAY(" MR");
			else if (value == key->lkey)
				SAY(" KEY");
			else if (names(block, byte) == DATA_KEY)
				SAY(" DEK%d", value - data_key);
			else if (names(block, byte) == PSV && value & 0xffffff)
				SAY(" %x:PSV%d", value >> 24, (value & 0xffffff) - psv);
			else
				SAY(" %x", value);
		}
		SAY("\n");
		block += (units(block) + 3) / 4;
	}
}

struct change {
	int flags, setters, pieces;
	uint32_t reset;
	struct mlx5dv_sig_block_attr *attr;
};

static void put(struct change c)
{
	struct mlx5dv_mkey_conf_attr conf = { .conf_flags = c.reset };
	struct ibv_sge list[5];

	for (int i = 0; i < 5; i++)
		list[i] = (struct ibv_sge){ (uintptr_t)MEMORY + i * 16640, 16640, mr->lkey };
	ex->wr_flags = c.flags | IBV_SEND_INLINE;
	mlx5dv_wr_mkey_configure(dv, key, c.setters, &conf);
	if (c.pieces) {
		mlx5dv_wr_set_mkey_access_flags(dv, IBV_ACCESS_LOCAL_WRITE |
						IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
		mlx5dv_wr_set_mkey_layout_list(dv, c.pieces, list);
	}
	if (c.attr)
		mlx5dv_wr_set_mkey_sig_block(dv, c.attr);
	if (encryption)
		mlx5dv_wr_set_mkey_crypto(dv, encryption);
}

/* Changes the key, and prints the requests that this takes. */
static void change(const char *name, int flags, int pieces, uint32_t reset,
		   struct mlx5dv_sig_block_attr *attr, int count)
{
	static int id;
	int setters = (pieces ? 2 : 0) + (attr ? 1 : 0) + (encryption ? 1 : 0);
	struct change c = { flags, setters, pieces, reset, attr };

	ibv_wr_start(ex);
	ex->wr_id = ++id;
	put(c);
	SAY("%s: %d", name, ibv_wr_complete(ex));
	completions(flags & IBV_SEND_SIGNALED ? 1 : 0);
	SAY("\n");
	requests(count);
}

static struct mlx5dv_sig_crc crcs[] = {
	{ MLX5DV_SIG_CRC_TYPE_CRC32, UINT32_MAX }, { MLX5DV_SIG_CRC_TYPE_CRC32C, UINT32_MAX },
	{ MLX5DV_SIG_CRC_TYPE_CRC64_XP10, UINT64_MAX }, { MLX5DV_SIG_CRC_TYPE_CRC32, 0 },
	{ MLX5DV_SIG_CRC_TYPE_CRC64_XP10, 0 },
};

static struct mlx5dv_sig_t10dif difs[] = {
	{ MLX5DV_SIG_T10DIF_CRC, 0, 0xabcd, 0x01234567, MLX5DV_SIG_T10DIF_FLAG_REF_REMAP },
	{ MLX5DV_SIG_T10DIF_CSUM, 0xffff, 0x1122, 7,
	  MLX5DV_SIG_T10DIF_FLAG_REF_REMAP | MLX5DV_SIG_T10DIF_FLAG_APP_ESCAPE },
	{ MLX5DV_SIG_T10DIF_CRC, 0, 0xabcd, 9, MLX5DV_SIG_T10DIF_FLAG_APP_REF_ESCAPE },
};

static struct mlx5dv_sig_block_domain crc(int which, int size)
{
	return (struct mlx5dv_sig_block_domain){
		.sig_type = MLX5DV_SIG_TYPE_CRC, .sig.crc = &crcs[which], .block_size = size };
}

static struct mlx5dv_sig_block_domain dif(int which, int size)
{
	return (struct mlx5dv_sig_block_domain){
		.sig_type = MLX5DV_SIG_TYPE_T10DIF, .sig.dif = &difs[which], .block_size = size };
}

#define SIGNALED IBV_SEND_SIGNALED

static void all_kinds(void)
{
	struct mlx5dv_sig_block_domain mem, wire;
	struct mlx5dv_sig_block_attr attr = { .mem = &mem, .check_mask = 0xf0 };

	change("rights and layout", SIGNALED, 1, 0, NULL, 1);
	mem = crc(1, MLX5DV_BLOCK_SIZE_512);
	change("CRC32C of memory", SIGNALED, 1, 0, &attr, 2);
	change("kept", SIGNALED, 0, 0, NULL, 1);
	change("kept, with a layout", SIGNALED, 4, 0, NULL, 1);
	attr.wire = &wire;
	wire = crc(1, MLX5DV_BLOCK_SIZE_512);
	change("CRC32C of both", SIGNALED | IBV_SEND_FENCE, 4, 0, &attr, 3);
	wire = crc(0, MLX5DV_BLOCK_SIZE_512);
	change("another one of the wire", SIGNALED, 0, 0, &attr, 3);
	for (int size = MLX5DV_BLOCK_SIZE_512; size <= MLX5DV_BLOCK_SIZE_4160; size++) {
		mem = crc(2, size);
		wire = crc(4, size);
		change("CRC64 of two seeds", 0, 2, 0, &attr, 3);
		wire = dif(0, size);
		change("and a T10-DIF", SIGNALED, 0, 0, &attr, 3);
	}
	mem = dif(0, MLX5DV_BLOCK_SIZE_520);
	attr.check_mask = 0xff;
	for (int i = 0; i < 3; i++) {
		wire = dif(i, MLX5DV_BLOCK_SIZE_520);
		change("two T10-DIFs", SIGNALED, 0, 0, &attr, 3);
	}
	attr.flags = MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK;
	attr.copy_mask = 0x3c;
	change("parts copied", SIGNALED, 0, 0, &attr, 3);
	attr.mem = NULL;
	attr.flags = 0;
	wire = crc(3, MLX5DV_BLOCK_SIZE_4096);
	change("CRC32 of the wire", SIGNALED, 0, 0, &attr, 2);
	change("reset", SIGNALED, 0, MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR, NULL, 1);
	change("still without", SIGNALED, 0, 0, NULL, 1);
}

static void checked(void)
{
	struct mlx5dv_mkey_err found = {};

	SAY(", check %d", mlx5dv_mkey_check(key, &found));
	SAY(" type %d", found.err_type);
	if (found.err_type)
		SAY(" expected %lx actual %lx at %ld", (long)found.err.sig.expected_value,
		    (long)found.err.sig.actual_value, (long)found.err.sig.offset);
}

static void show(const char *bytes, int from)
{
	SAY(", %d:", from);
	for (int i = 0; i < 12; i++)
		SAY(" %02x", (unsigned char)bytes[from + i]);
}

/* From the key's beginning to plain memory, or back. */
static void transfer(int write, int length)
{
	ibv_wr_start(ex);
	ex->wr_id = 100;
	ex->wr_flags = IBV_SEND_SIGNALED;
	if (write)
		ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)THERE);
	else
		ibv_wr_rdma_read(ex, mr->rkey, (uintptr_t)THERE);
	ibv_wr_set_sge(ex, key->lkey, 0, length);
	SAY(" %d", ibv_wr_complete(ex));
	completions(1);
	block++;
}

static void data(void)
{
	struct mlx5dv_sig_block_domain side = crc(1, MLX5DV_BLOCK_SIZE_512);
	struct mlx5dv_sig_block_attr attr = { .mem = &side, .check_mask = 0xf0 };

	for (int i = 0; i < 1024; i++)
		THERE[i] = i * 7;
	change("memory with CRC32C", SIGNALED, 1, 0, &attr, 2);
	SAY("read");
	transfer(0, 1024);
	show(MEMORY, 508);
	show(MEMORY, 1020);
	checked();
	memset(THERE, 0, 2048);
	SAY("\nwrite");
	transfer(1, 1024);
	show(THERE, 508);
	checked();
	MEMORY[516 + 513] ^= 1;
	SAY("\nwrong");
	transfer(1, 1024);
	checked();
	checked();
	SAY("\nagain");
	transfer(1, 1024);
	checked();
	SAY("\n");
	change("told", SIGNALED, 0, 0, NULL, 2);
	SAY("and again");
	transfer(1, 1024);
	checked();
	SAY("\n");
	side = dif(0, MLX5DV_BLOCK_SIZE_512);
	attr = (struct mlx5dv_sig_block_attr){ .wire = &side, .check_mask = 0xff };
	change("a wire with T10-DIF", SIGNALED, 1, 0, &attr, 2);
	SAY("write");
	transfer(1, 1040);
	show(THERE, 508);
	show(THERE, 1028);
	checked();
	SAY("\nread");
	transfer(0, 1040);
	checked();
	for (int part = 512; part < 520; part += 2) {
		char kept = THERE[520 + part];

		THERE[520 + part] ^= 0x40;
		SAY("\nwrong %d", part);
		transfer(0, 1040);
		THERE[520 + part] = kept;
		checked();
		SAY("\n");
		change("told", SIGNALED, 0, 0, NULL, 2);
	}
}

/* What comes of a change that is not right. */
static void refused(const char *name, struct mlx5dv_sig_block_attr *attr, int twice, int pieces)
{
	struct change c = { 0, 3 + twice, pieces, 0, attr };

	ibv_wr_start(ex);
	put(c);
	if (twice)
		mlx5dv_wr_set_mkey_sig_block(dv, attr);
	SAY(" %s %d", name, ibv_wr_complete(ex));
}

static void refusals(struct mlx5dv_mkey *plain)
{
	struct mlx5dv_sig_block_domain mem = crc(0, 0), wire = crc(1, 0);
	struct mlx5dv_sig_block_attr attr = { .mem = &mem };
	struct mlx5dv_sig_crc odd = { MLX5DV_SIG_CRC_TYPE_CRC32, 5 };
	struct mlx5dv_sig_t10dif odd_dif = { .bg = 1 };

	SAY("refused:");
	refused("twice", &attr, 1, 1);
	attr.mem = NULL;
	refused("no side", &attr, 0, 1);
	attr.mem = &mem;
	attr.flags = 2;
	refused("flags", &attr, 0, 1);
	attr.flags = 0;
	attr.comp_mask = 1;
	refused("mask", &attr, 0, 1);
	attr.comp_mask = 0;
	mem.block_size = 5;
	refused("size", &attr, 0, 1);
	mem.block_size = 0;
	mem.sig_type = 2;
	refused("type", &attr, 0, 1);
	mem.sig_type = MLX5DV_SIG_TYPE_CRC;
	mem.sig.crc = &odd;
	refused("seed", &attr, 0, 1);
	mem.sig_type = MLX5DV_SIG_TYPE_T10DIF;
	mem.sig.dif = &odd_dif;
	refused("guard", &attr, 0, 1);
	odd_dif.bg = 0;
	odd_dif.flags = 8;
	refused("rules", &attr, 0, 1);
	mem = crc(0, 0);
	attr.wire = &wire;
	attr.flags = MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK;
	refused("copy", &attr, 0, 1);
	key = plain;
	attr.flags = 0;
	refused("plain", &attr, 0, 1);
	SAY("\n");
}

static struct mlx5dv_dek *imported(void)
{
	/* Of IEEE Std 1619-2007. */
	static const char *text = "27182818284590452353602874713526"
				  "31415926535897932384626433832795";
	struct mlx5dv_dek_init_attr attr = {
		.key_size = MLX5DV_CRYPTO_KEY_SIZE_128, .has_keytag = 1, .pd = pd,
		.key_purpose = MLX5DV_CRYPTO_KEY_PURPOSE_AES_XTS, .opaque = "opaque!",
		.comp_mask = MLX5DV_DEK_INIT_ATTR_CRYPTO_LOGIN,
	};
	struct mlx5dv_dek_attr found = {};
	struct mlx5dv_dek *dek;
	unsigned int byte;

	for (int i = 0; i < 32; i++) {
		sscanf(text + 2 * i, "%2x", &byte);
		attr.key[i] = byte;
	}
	memcpy(attr.key + 32, "the tag", 8);
	dek = mlx5dv_dek_create(context, &attr);
	if (!dek)
		return NULL;
	SAY("key of data: query %d", mlx5dv_dek_query(dek, &found));
	SAY(" state %d opaque %s\n", found.state, found.opaque);
	return dek;
}

static int encrypted(void)
{
	struct mlx5dv_mkey_init_attr attr = { .pd = pd, .max_entries = 4 };
	struct mlx5dv_sig_block_domain mem = crc(1, 0), wire = dif(0, 0);
	struct mlx5dv_sig_block_attr one = { .mem = &mem, .check_mask = 0xf0 };
	struct mlx5dv_sig_block_attr both = { .mem = &mem, .wire = &wire, .check_mask = 0xf0 };
	struct mlx5dv_dek *dek = imported();
	struct mlx5dv_crypto_attr crypto = { .encrypt_on_tx = true, .dek = dek };
	struct mlx5dv_mkey *plain, *signs;
	struct mlx5dv_mkey_err found;

	attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT |
			    MLX5DV_MKEY_INIT_ATTR_FLAGS_CRYPTO;
	plain = mlx5dv_create_mkey(&attr);
	attr.create_flags |= MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE;
	signs = mlx5dv_create_mkey(&attr);
	if (!dek || !plain || !signs) {
		SAY("no encryption: %d\n", errno);
		return -1;
	}
	memcpy(crypto.keytag, "the tag", 8);
	key = plain;
	psv = 0;
	SAY("of encryption: check %d\n", mlx5dv_mkey_check(key, &found));
	for (int i = 0; i < 1024; i++)
		MEMORY[i] = i;
	encryption = &crypto;
	/* Its number is in the request. */
	change("encrypted wire", SIGNALED, 1, 0, NULL, 0);
	data_key = at(block, units(block) * 16 - 32);
	requests(1);
	SAY("write");
	transfer(1, 1024);
	show(THERE, 0);
	show(THERE, 512);
	memset(MEMORY, 0, 1024);
	SAY("\nread");
	transfer(0, 1024);
	show(MEMORY, 508);
	SAY("\n");
	crypto.encrypt_on_tx = false;
	crypto.data_unit_size = MLX5DV_BLOCK_SIZE_4096;
	memcpy(crypto.initial_tweak, "0123456789abcdef", 16);
	change("encrypted memory", SIGNALED, 0, 0, NULL, 1);
	encryption = NULL;
	change("kept", SIGNALED, 1, 0, NULL, 1);
	SAY("write");
	transfer(1, 4096);
	show(THERE, 0);
	SAY("\n");
	/* Both: the software device refuses what libraries may ask. */
	key = signs;
	encryption = &crypto;
	change("both", 0, 1, 0, &one, 2);
	completions(2);
	encryption = NULL;
	change("signatures", 0, 0, 0, &both, 3);
	change("none", 0, 0, 0, NULL, 1);
	encryption = &crypto;
	crypto.signature_crypto_order = MLX5DV_SIGNATURE_CRYPTO_ORDER_SIGNATURE_AFTER_CRYPTO_ON_TX;
	change("memory, behind", 0, 0, 0, NULL, 1);
	crypto.encrypt_on_tx = true;
	crypto.signature_crypto_order = MLX5DV_SIGNATURE_CRYPTO_ORDER_SIGNATURE_BEFORE_CRYPTO_ON_TX;
	change("wire, before", 0, 4, 0, &both, 3);
	encryption = NULL;
	change("reset", 0, 0, MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR, NULL, 1);
	completions(9);
	encryption = &crypto;
	SAY("refused:");
	crypto.signature_crypto_order = MLX5DV_SIGNATURE_CRYPTO_ORDER_SIGNATURE_AFTER_CRYPTO_ON_TX;
	change(" order", 0, 0, 0, &both, 0);
	crypto.signature_crypto_order = 2;
	change(" other order", 0, 0, 0, NULL, 0);
	crypto.signature_crypto_order = 0;
	crypto.data_unit_size = 5;
	change(" unit", 0, 0, 0, NULL, 0);
	crypto.data_unit_size = 0;
	crypto.crypto_standard = 1;
	change(" standard", 0, 0, 0, NULL, 0);
	encryption = NULL;
	SAY("destroy %d", mlx5dv_destroy_mkey(plain));
	SAY(" %d", mlx5dv_destroy_mkey(signs));
	SAY(" %d\n", mlx5dv_dek_destroy(dek));
	return 0;
}

int main(void)
{
	struct mlx5dv_context caps = { .comp_mask = MLX5DV_CONTEXT_MASK_SIGNATURE_OFFLOAD |
						    MLX5DV_CONTEXT_MASK_CRYPTO_OFFLOAD };
	struct mlx5dv_mkey_init_attr attr = { .max_entries = 5 };
	struct mlx5dv_sig_block_domain mem = crc(0, 0);
	struct mlx5dv_sig_block_attr both = { .mem = &mem, .wire = &mem };
	struct mlx5dv_mkey *plain, *keys[3];
	struct mlx5dv_mkey_err found;

	context = opened("mlx5_0");
	if (!context || mmap(MEMORY, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS |
			     MAP_FIXED, -1, 0) != MEMORY)
		return 1;
	SAY("caps %d", mlx5dv_query_device(context, &caps));
	SAY(" %lx, encryption %x by %x, keys %d", (long)caps.comp_mask, caps.crypto_caps.flags,
	    caps.crypto_caps.crypto_engines, caps.crypto_caps.log_max_num_deks);
	SAY(", blocks %lx, kinds %x, guards %x, CRCs %x\n", (long)caps.sig_caps.block_size,
	    caps.sig_caps.block_prot, caps.sig_caps.t10dif_bg, caps.sig_caps.crc_type);
	attr.pd = pd = ibv_alloc_pd(context);
	mr = ibv_reg_mr(pd, MEMORY, LENGTH, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			IBV_ACCESS_REMOTE_READ);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	if (!mr || !cq || connect(0))
		return 2;
	attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
	plain = mlx5dv_create_mkey(&attr);
	attr.create_flags |= MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE;
	for (int i = 0; i < 3; i++) {
		keys[i] = key = mlx5dv_create_mkey(&attr);
		if (!plain || !key) {
			SAY("no keys: %d\n", errno);
			return 0;
		}
	}
	SAY("keys: entries %d, same %d, check %d", attr.max_entries, key->lkey == key->rkey,
	    mlx5dv_mkey_check(key, &found));
	SAY(" %d, of a plain one %d\n", found.err_type, mlx5dv_mkey_check(plain, &found));
	key = keys[0];
	all_kinds();
	psv = 0;
	key = keys[1];
	data();
	key = keys[2];
	refusals(plain);
	if (encrypted())
		return 4;
	/* A queue whose requests all complete. */
	SAY("destroy %d", ibv_destroy_qp(qp));
	if (connect(1))
		return 3;
	psv = 0;
	key = keys[0];
	SAY(", all complete\n");
	change("first", 0, 1, 0, &both, 3);
	SAY("completions:");
	SAY(" %d\n", completions(2));
	SAY("destroy %d", ibv_destroy_qp(qp));
	for (int i = 0; i < 3; i++)
		SAY(" %d", mlx5dv_destroy_mkey(keys[i]));
	SAY(" %d", mlx5dv_destroy_mkey(plain));
	SAY(" %d", ibv_destroy_cq(cq));
	SAY(" %d", ibv_dereg_mr(mr));
	SAY(" %d", ibv_dealloc_pd(pd));
	SAY(" %d\n", ibv_close_device(context));
	return 0;
}
