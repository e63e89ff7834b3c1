/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IG_INTERNAL_H
#define IG_INTERNAL_H

#include <linux/eventfd.h>
#include <linux/hash.h>
#include <linux/kvm_host.h>
#include <linux/rculist.h>

#include <kvm/iodev.h>

#include "kvm_ioeventfd.h"

/* Buckets of a group with values. */
#define IG_VALUE_BITS 8

struct ig_ring;

/* What an ASSIGN or DEASSIGN names, on one bus. */
struct ig_request {
	struct kvm *kvm;
	enum kvm_bus bus;
	gpa_t address;
	int length;
	struct eventfd_ctx *eventfd;
	bool wildcard;
	/* Unless it is a wildcard. */
	u64 value;
	/* Where a wildcard's value goes: one of the two, or neither. */
	void __user *payload;
	struct ig_ring *ring;
	/* In the ring. */
	u32 tag;
	/* It shares the address with other eventfds, and wildcards with values. */
	bool mixed;
};

/* One registration. */
struct ig_item {
	struct hlist_node node;
	struct eventfd_ctx *eventfd;
	/* A wildcard's, or NULL. */
	struct ig_ring *ring;
	union {
		u64 value;
		/* Of a wildcard without a ring. */
		void __user *payload;
		/* Of a wildcard with a ring: what is stored with each value. */
		struct {
			u32 tag;
			u32 length;
		};
	};
};

/* The VMM's memory to which the items that have it append values. */
struct ig_ring {
	/* One vCPU appends at a time. */
	spinlock_t lock;
	/* The VMM may write the tail in its memory, but not this one. */
	u32 tail;
	u32 mask;
	struct kvm_ioeventfd_ring *shared;

	struct kvm *kvm;
	/* How many items have it, under a lock of ring.c. */
	unsigned int users;
	struct hlist_node node;
	int pages_count;
	struct page *pages[];
};

/* Items are allocated by many, and freed with their group. */
struct ig_chunk {
	struct ig_chunk *next;
	struct ig_item items[12];
};

/*
 * All registrations of one address and length on one bus of one VM: one device
 * on KVM's bus.
 *
 * Items are added and removed under kvm->slots_lock, and vCPUs read them in
 * kvm->srcu, as they read KVM's bus. So adding an item waits for no vCPU, and
 * removing one waits for all that may still signal it.
 */
struct ig_group {
	struct kvm_io_device dev;
	gpa_t address;
	int length;
	enum kvm_bus bus;
	struct kvm *kvm;
	struct hlist_head wildcards;
	/* A hash, made with the first value and freed with the group. */
	struct hlist_head *values;

	/* Whether all items are, or none. */
	bool mixed;
	/* The items. Without any the group may be kept for the next one. */
	unsigned int count;
	struct hlist_head spare;
	struct ig_item first;
	struct ig_chunk *chunks;
	struct hlist_node node;
	/* Set when the device's destructor has run. */
	bool *destroyed;
};

static inline struct hlist_head *ig_bucket(struct hlist_head *values, u64 value)
{
	return &values[hash_64(value, IG_VALUE_BITS)];
}

#define ig_for_each(item, head, kvm) \
	hlist_for_each_entry_rcu(item, head, node, \
				 srcu_read_lock_held(&(kvm)->srcu) || \
				 lockdep_is_held(&(kvm)->slots_lock))

/* write.c: what the device of a group does that begins with this item. */
const struct kvm_io_device_ops *ig_ops(const struct ig_request *request);

/* group.c */
int ig_add(const struct ig_request *request);
int ig_remove(const struct ig_request *request);
void ig_remove_kept(void);
void ig_destructor(struct kvm_io_device *dev);

/* ring.c */
struct ig_ring *ig_ring_get(struct kvm *kvm, const struct kvm_ioeventfd_ring_pad *pad);
void ig_ring_put(struct ig_ring *ring);

/* main.c: takes the place of KVM's own function. */
int ig_ioeventfd(struct kvm *kvm, struct kvm_ioeventfd *args);

/* hook.c: functions that KVM has and does not export. */
int ig_kvm_ioeventfd(struct kvm *kvm, struct kvm_ioeventfd *args);
int ig_register_dev(struct ig_group *group);
void ig_unregister_dev(struct ig_group *group);

int ig_hook(void);
void ig_unhook(void);

#endif
