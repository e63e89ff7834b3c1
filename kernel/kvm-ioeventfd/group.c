// SPDX-License-Identifier: GPL-2.0-only
/*
 * The groups of all VMs: how registrations are added and removed.
 */

#include <linux/delay.h>
#include <linux/hashtable.h>
#include <linux/module.h>

#include "internal.h"

#define IG_GROUP_BITS 10
/* How many groups without items all VMs together keep. */
#define IG_KEPT_MAX 1024

static DEFINE_SPINLOCK(ig_groups_lock);
static DEFINE_HASHTABLE(ig_groups, IG_GROUP_BITS);
static unsigned int ig_kept;

static u64 ig_group_hash(struct kvm *kvm, enum kvm_bus bus, gpa_t address)
{
	return (unsigned long)kvm / L1_CACHE_BYTES ^ address << 2 ^ bus;
}

static void ig_put_item(struct ig_item *item)
{
	eventfd_ctx_put(item->eventfd);
	if (item->ring)
		ig_ring_put(item->ring);
}

static void ig_put_items(struct hlist_head *head)
{
	struct ig_item *item;

	hlist_for_each_entry(item, head, node)
		ig_put_item(item);
}

/* The group is on no bus any more, and no vCPU is in it. */
static void ig_free_group(struct ig_group *group)
{
	struct ig_chunk *chunk, *next;
	bool is_kept = !group->count;
	int i;

	spin_lock(&ig_groups_lock);
	hash_del(&group->node);
	ig_kept -= is_kept;
	spin_unlock(&ig_groups_lock);
	ig_put_items(&group->wildcards);
	for (i = 0; group->values && i < 1 << IG_VALUE_BITS; i++)
		ig_put_items(&group->values[i]);
	for (chunk = group->chunks; chunk; chunk = next) {
		next = chunk->next;
		kfree(chunk);
	}
	if (group->destroyed)
		*group->destroyed = true;
	kfree(group->values);
	kfree(group);
	if (!is_kept)
		module_put(THIS_MODULE);
}

void ig_destructor(struct kvm_io_device *dev)
{
	ig_free_group(container_of(dev, struct ig_group, dev));
}

/*
 * The group of this address and length, or NULL. An error if a registration with
 * another length leaves no room for it.
 */
static struct ig_group *ig_find(const struct ig_request *request)
{
	struct ig_group *group, *found = NULL;
	u64 hash = ig_group_hash(request->kvm, request->bus, request->address);

	lockdep_assert_held(&request->kvm->slots_lock);
	spin_lock(&ig_groups_lock);
	hash_for_each_possible(ig_groups, group, node, hash) {
		if (group->kvm != request->kvm || group->bus != request->bus ||
		    group->address != request->address)
			continue;
		if (group->length != request->length) {
			if (group->count && (!group->length || !request->length))
				found = ERR_PTR(-EEXIST);
		} else if (!IS_ERR(found)) {
			found = group;
		}
	}
	spin_unlock(&ig_groups_lock);
	return found;
}

/* The list for the item, or NULL if the group has no values. */
static struct hlist_head *ig_head(struct ig_group *group,
				  const struct ig_request *request)
{
	if (request->wildcard)
		return &group->wildcards;
	return group->values ? ig_bucket(group->values, request->value) : NULL;
}

/* The item with this value, if `any` with any eventfd. */
static struct ig_item *ig_find_item(struct ig_group *group,
				    const struct ig_request *request, bool any)
{
	struct hlist_head *head = ig_head(group, request);
	struct ig_item *item;

	if (!head)
		return NULL;
	ig_for_each(item, head, group->kvm)
		if ((request->wildcard || item->value == request->value) &&
		    (any || item->eventfd == request->eventfd))
			return item;
	return NULL;
}

/* Whether KVM, or in a mixed group the caller, could not tell the two apart. */
static bool ig_collides(struct ig_group *group, const struct ig_request *request)
{
	if (!group->count)
		return false;
	if (request->mixed && group->mixed)
		return ig_find_item(group, request, false);
	return request->mixed || group->mixed || request->wildcard ||
	       !hlist_empty(&group->wildcards) ||
	       ig_find_item(group, request, true);
}

static int ig_add_chunk(struct ig_group *group)
{
	struct ig_chunk *chunk = kmalloc(sizeof(*chunk), GFP_KERNEL_ACCOUNT);
	int i;

	if (!chunk)
		return -ENOMEM;
	chunk->next = group->chunks;
	group->chunks = chunk;
	for (i = 0; i < ARRAY_SIZE(chunk->items); i++)
		hlist_add_head(&chunk->items[i].node, &group->spare);
	return 0;
}

static int ig_add_item(struct ig_group *group, const struct ig_request *request)
{
	struct hlist_head *values;
	struct ig_item *item;

	if (hlist_empty(&group->spare) && ig_add_chunk(group))
		return -ENOMEM;
	if (!request->wildcard && !group->values) {
		values = kcalloc(1 << IG_VALUE_BITS, sizeof(*values), GFP_KERNEL_ACCOUNT);
		if (!values)
			return -ENOMEM;
		smp_store_release(&group->values, values);
	}
	item = hlist_entry(group->spare.first, struct ig_item, node);
	hlist_del(&item->node);
	item->eventfd = request->eventfd;
	item->ring = request->ring;
	if (request->ring) {
		item->tag = request->tag;
		item->length = request->length;
	} else if (request->wildcard) {
		item->payload = request->payload;
	} else {
		item->value = request->value;
	}
	hlist_add_head_rcu(&item->node, ig_head(group, request));
	group->count++;
	return 0;
}

static int ig_add_group(const struct ig_request *request)
{
	struct ig_group *group = kzalloc(sizeof(*group), GFP_KERNEL_ACCOUNT);
	u64 hash = ig_group_hash(request->kvm, request->bus, request->address);
	int ret;

	if (!group)
		return -ENOMEM;
	group->kvm = request->kvm;
	group->bus = request->bus;
	group->address = request->address;
	group->length = request->length;
	group->mixed = request->mixed;
	kvm_iodevice_init(&group->dev, ig_ops(request));
	hlist_add_head(&group->first.node, &group->spare);
	ret = ig_add_item(group, request);
	if (!ret)
		ret = ig_register_dev(group);
	if (ret) {
		kfree(group->values);
		kfree(group);
		return ret;
	}
	kvm_get_bus(group->kvm, group->bus)->ioeventfd_count++;
	__module_get(THIS_MODULE);
	spin_lock(&ig_groups_lock);
	hash_add(ig_groups, &group->node, hash);
	spin_unlock(&ig_groups_lock);
	return 0;
}

/* KVM asks this for each registration, even if it is no further device here. */
static bool ig_is_full(struct ig_group *group)
{
	struct kvm_io_bus *bus = kvm_get_bus(group->kvm, group->bus);

	return bus->dev_count - bus->ioeventfd_count >= NR_IOBUS_DEVS;
}

/* Removes the group's device, and with it an item that is left. */
static void ig_remove_group(struct ig_group *group)
{
	struct kvm *kvm = group->kvm;
	enum kvm_bus bus_index = group->bus;
	struct kvm_io_bus *bus;
	bool destroyed = false;

	group->destroyed = &destroyed;
	ig_unregister_dev(group);
	/* Linux 6.1 leaves the device to its owner. */
	if (!destroyed)
		ig_free_group(group);
	/* Without memory KVM has removed the bus with all its devices. */
	bus = kvm_get_bus(kvm, bus_index);
	if (bus)
		bus->ioeventfd_count--;
}

/* Whether the group is to stay without items. If so, it has no reference to the module. */
static bool ig_keep(void)
{
	bool keep;

	spin_lock(&ig_groups_lock);
	keep = ig_kept < IG_KEPT_MAX;
	ig_kept += keep;
	spin_unlock(&ig_groups_lock);
	return keep;
}

static void ig_use_again(void)
{
	__module_get(THIS_MODULE);
	spin_lock(&ig_groups_lock);
	ig_kept--;
	spin_unlock(&ig_groups_lock);
}

/* Takes the request's references to the eventfd and the ring if it succeeds. */
int ig_add(const struct ig_request *request)
{
	struct ig_group *group;
	int ret;

	mutex_lock(&request->kvm->slots_lock);
	group = ig_find(request);
	/* A vCPU may be in a function of the other kind. */
	if (!IS_ERR_OR_NULL(group) && !group->count &&
	    group->dev.ops != ig_ops(request)) {
		ig_remove_group(group);
		group = NULL;
	}
	if (IS_ERR(group))
		ret = PTR_ERR(group);
	else if (!group)
		ret = ig_add_group(request);
	else if (ig_collides(group, request))
		ret = -EEXIST;
	else if (ig_is_full(group))
		ret = -ENOSPC;
	else
		ret = ig_add_item(group, request);
	if (!ret && group && group->count == 1)
		ig_use_again();
	mutex_unlock(&request->kvm->slots_lock);
	return ret;
}

int ig_remove(const struct ig_request *request)
{
	struct ig_item *item = NULL;
	struct ig_group *group;

	mutex_lock(&request->kvm->slots_lock);
	group = ig_find(request);
	if (!IS_ERR_OR_NULL(group))
		item = ig_find_item(group, request, false);
	if (item && group->count == 1 && !ig_keep()) {
		ig_remove_group(group);
	} else if (item) {
		hlist_del_rcu(&item->node);
		group->count--;
		/* After this no vCPU has the item. */
		synchronize_srcu_expedited(&group->kvm->srcu);
		ig_put_item(item);
		hlist_add_head(&item->node, &group->spare);
		if (!group->count)
			module_put(THIS_MODULE);
	}
	mutex_unlock(&request->kvm->slots_lock);
	return item ? 0 : -ENOENT;
}

/*
 * Removes the groups without items. There are no others and no calls, but a VM may
 * end, and with it its groups.
 */
void ig_remove_kept(void)
{
	struct ig_group *group;
	struct kvm *kvm;
	int bucket;

	do {
		kvm = NULL;
		spin_lock(&ig_groups_lock);
		hash_for_each(ig_groups, bucket, group, node) {
			kvm = group->kvm;
			break;
		}
		if (kvm && !kvm_get_kvm_safe(kvm))
			group = NULL;
		spin_unlock(&ig_groups_lock);
		if (kvm && group) {
			mutex_lock(&kvm->slots_lock);
			ig_remove_group(group);
			mutex_unlock(&kvm->slots_lock);
			kvm_put_kvm(kvm);
		} else if (kvm) {
			msleep(1);
		}
	} while (kvm);
}
