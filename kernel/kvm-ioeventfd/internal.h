/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IG_INTERNAL_H
#define IG_INTERNAL_H

#include <linux/eventfd.h>
#include <linux/hash.h>
#include <linux/kvm_host.h>
#include <linux/rculist.h>

#include <kvm/iodev.h>

/* Buckets of a group with values. */
#define IG_VALUE_BITS 8

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
	/* Where a wildcard's value goes, or NULL. */
	void __user *payload;
	/* It shares the address with other eventfds, and wildcards with values. */
	bool mixed;
};

/* One registration. */
struct ig_item {
	struct hlist_node node;
	struct eventfd_ctx *eventfd;
	union {
		u64 value;
		/* A wildcard's. */
		void __user *payload;
	};
};

/* Items are allocated by many, and freed with their group. */
struct ig_chunk {
	struct ig_chunk *next;
	struct ig_item items[15];
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
void ig_destructor(struct kvm_io_device *dev);

/* main.c: takes the place of KVM's own function. */
int ig_ioeventfd(struct kvm *kvm, struct kvm_ioeventfd *args);

/* hook.c: functions that KVM has and does not export. */
int ig_kvm_ioeventfd(struct kvm *kvm, struct kvm_ioeventfd *args);
int ig_register_dev(struct ig_group *group);
void ig_unregister_dev(struct ig_group *group);

int ig_hook(void);
void ig_unhook(void);

#endif
