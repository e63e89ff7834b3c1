// SPDX-License-Identifier: GPL-2.0-only
/*
 * A guest's write: which items of a group match, and their signals.
 */

#include <linux/uaccess.h>
#include <linux/version.h>
#if __has_include(<linux/unaligned.h>)
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

#include "internal.h"

static struct ig_group *ig_of(struct kvm_io_device *dev)
{
	return container_of(dev, struct ig_group, dev);
}

static bool ig_is_at(struct ig_group *group, gpa_t address, int length)
{
	return address == group->address &&
	       (!group->length || length == group->length);
}

static void ig_signal(struct ig_item *item)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
	eventfd_signal(item->eventfd);
#else
	eventfd_signal(item->eventfd, 1);
#endif
}

/* A length that no value has is not a group's. */
static u64 ig_value(const void *written, int length)
{
	switch (length) {
	case 1:
		return *(const u8 *)written;
	case 2:
		return get_unaligned((const u16 *)written);
	case 4:
		return get_unaligned((const u32 *)written);
	default:
		return get_unaligned((const u64 *)written);
	}
}

/*
 * The VMM's thread executes the guest's write, so the address is its own. The
 * eventfd's lock orders the store before the signal.
 */
static int ig_store(struct ig_item *item, u64 value, int length)
{
	switch (length) {
	case 1:
		return put_user(value, (u8 __user *)item->payload);
	case 2:
		return put_user(value, (u16 __user *)item->payload);
	case 4:
		return put_user(value, (u32 __user *)item->payload);
	default:
		return put_user(value, (u64 __user *)item->payload);
	}
}

/* Appends the value to the item's ring, which may be full. */
static __always_inline bool ig_append(struct ig_item *item, u64 value)
{
	struct ig_ring *ring = item->ring;
	struct kvm_ioeventfd_ring *shared = ring->shared;
	struct kvm_ioeventfd_ring_entry *entry;

	spin_lock(&ring->lock);
	/*
	 * The VMM's head may be any number. The acquire keeps the stores after the
	 * VMM's loads of the same entry.
	 */
	if (ring->tail - smp_load_acquire(&shared->head) > ring->mask) {
		spin_unlock(&ring->lock);
		return false;
	}
	entry = &shared->entries[ring->tail & ring->mask];
	*entry = (struct kvm_ioeventfd_ring_entry) {
		.value = value,
		.tag = item->tag,
		.length = item->length,
	};
	smp_store_release(&shared->tail, ++ring->tail);
	spin_unlock(&ring->lock);
	return true;
}

/* The item of a group for one. The group may be without it. */
static struct ig_item *ig_only(struct ig_group *group, struct kvm *kvm)
{
	struct ig_item *item;

	/* A guest that has seen that an ASSIGN is done finds its item. */
	smp_rmb();
	ig_for_each(item, &group->wildcards, kvm)
		return item;
	return NULL;
}

static int ig_write_payload(struct kvm_vcpu *vcpu, struct kvm_io_device *dev,
			    gpa_t address, int length, const void *written)
{
	struct ig_group *group = ig_of(dev);
	struct ig_item *item;

	if (!ig_is_at(group, address, length))
		return -EOPNOTSUPP;
	item = ig_only(group, vcpu->kvm);
	if (!item || ig_store(item, ig_value(written, length), length))
		return -EOPNOTSUPP;
	ig_signal(item);
	return 0;
}

static int ig_write_ring(struct kvm_vcpu *vcpu, struct kvm_io_device *dev,
			 gpa_t address, int length, const void *written)
{
	struct ig_group *group = ig_of(dev);
	struct ig_item *item;

	if (!ig_is_at(group, address, length))
		return -EOPNOTSUPP;
	item = ig_only(group, vcpu->kvm);
	if (!item || !ig_append(item, ig_value(written, length)))
		return -EOPNOTSUPP;
	ig_signal(item);
	return 0;
}

static int ig_write_wildcard(struct kvm_vcpu *vcpu, struct kvm_io_device *dev,
			     gpa_t address, int length, const void *written)
{
	struct ig_group *group = ig_of(dev);
	struct ig_item *item;

	if (!ig_is_at(group, address, length))
		return -EOPNOTSUPP;
	item = ig_only(group, vcpu->kvm);
	if (!item)
		return -EOPNOTSUPP;
	ig_signal(item);
	return 0;
}

static int ig_write_value(struct kvm_vcpu *vcpu, struct kvm_io_device *dev,
			  gpa_t address, int length, const void *written)
{
	struct ig_group *group = ig_of(dev);
	struct ig_item *item;
	u64 value;

	if (!ig_is_at(group, address, length))
		return -EOPNOTSUPP;
	value = ig_value(written, length);
	smp_rmb();
	ig_for_each(item, ig_bucket(group->values, value), vcpu->kvm) {
		if (item->value == value) {
			ig_signal(item);
			return 0;
		}
	}
	return -EOPNOTSUPP;
}

/* Whether the VMM has the value of a wildcard, if it wants it. */
static bool ig_pass(struct ig_item *item, const void *written, int length)
{
	if (item->ring)
		return ig_append(item, ig_value(written, length));
	return !item->payload || !ig_store(item, ig_value(written, length), length);
}

static int ig_write_mixed(struct kvm_vcpu *vcpu, struct kvm_io_device *dev,
			  gpa_t address, int length, const void *written)
{
	struct ig_group *group = ig_of(dev);
	struct hlist_head *values;
	struct ig_item *item;
	int ret = -EOPNOTSUPP;
	bool passed = true;
	u64 value;

	if (!ig_is_at(group, address, length))
		return -EOPNOTSUPP;
	smp_rmb();
	ig_for_each(item, &group->wildcards, vcpu->kvm) {
		if (!ig_pass(item, written, length)) {
			passed = false;
			continue;
		}
		ig_signal(item);
		ret = 0;
	}
	values = READ_ONCE(group->values);
	if (!values)
		return passed ? ret : -EOPNOTSUPP;
	value = ig_value(written, length);
	ig_for_each(item, ig_bucket(values, value), vcpu->kvm) {
		if (item->value == value) {
			ig_signal(item);
			ret = 0;
		}
	}
	return passed ? ret : -EOPNOTSUPP;
}

static const struct kvm_io_device_ops ig_wildcard_ops = {
	.write = ig_write_wildcard,
	.destructor = ig_destructor,
};

static const struct kvm_io_device_ops ig_payload_ops = {
	.write = ig_write_payload,
	.destructor = ig_destructor,
};

static const struct kvm_io_device_ops ig_ring_ops = {
	.write = ig_write_ring,
	.destructor = ig_destructor,
};

static const struct kvm_io_device_ops ig_value_ops = {
	.write = ig_write_value,
	.destructor = ig_destructor,
};

static const struct kvm_io_device_ops ig_mixed_ops = {
	.write = ig_write_mixed,
	.destructor = ig_destructor,
};

const struct kvm_io_device_ops *ig_ops(const struct ig_request *request)
{
	if (request->mixed)
		return &ig_mixed_ops;
	if (!request->wildcard)
		return &ig_value_ops;
	if (request->ring)
		return &ig_ring_ops;
	return request->payload ? &ig_payload_ops : &ig_wildcard_ops;
}
