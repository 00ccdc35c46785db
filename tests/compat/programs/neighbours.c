/* Prints where frames go from the first IPv4 address of a device to each of those that it is given.
   The same over any library. */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

static void ask(struct ibv_context *context, int index, const char *to)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh.sgid_index = index };
	uint8_t mac[6] = { 0 };
	uint16_t vlan = 7;
	int answer;

	memcpy(attr.grh.dgid.raw, mapped, 12);
	inet_pton(AF_INET, to, attr.grh.dgid.raw + 12);
	answer = ibv_resolve_eth_l2_from_gid(context, &attr, mac, &vlan);
	printf("%s: %d", to, answer);
	if (!answer)
		printf(" %02x:%02x:%02x:%02x:%02x:%02x, VLAN %d, without %d", mac[0], mac[1], mac[2],
		       mac[3], mac[4], mac[5], vlan,
		       ibv_resolve_eth_l2_from_gid(context, &attr, mac, NULL));
	printf("\n");
}

int main(int count, char **to)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;
	struct ibv_gid_entry entry;

	for (int at = 0; list && list[at] && count > 1; at++)
		if (!strcmp(ibv_get_device_name(list[at]), to[1]))
			context = ibv_open_device(list[at]);
	if (!context)
		return 1;
	for (int index = 0; index < 16; index++) {
		if (ibv_query_gid_ex(context, 1, index, &entry, 0) ||
		    entry.gid_type != IBV_GID_TYPE_ROCE_V2 || memcmp(entry.gid.raw, mapped, 12))
			continue;
		for (int at = 2; at < count; at++)
			ask(context, index, to[at]);
		return 0;
	}
	return 2;
}
