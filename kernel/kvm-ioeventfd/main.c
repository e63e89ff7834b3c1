// SPDX-License-Identifier: GPL-2.0-only
/*
 * KVM_IOEVENTFD: the checks, with KVM's errors in KVM's order, and the VMs that
 * keep KVM's own ioeventfds.
 */

#include <linux/module.h>
#include <linux/uaccess.h>

#include "internal.h"

/* With these a wildcard's value goes to the VMM's memory. */
#define IG_PASSING (KVM_IOEVENTFD_FLAG_PAYLOAD | KVM_IOEVENTFD_FLAG_RING)
#define IG_FLAGS (KVM_IOEVENTFD_VALID_FLAG_MASK | KVM_IOEVENTFD_FLAG_MIXED | \
		  IG_PASSING)

/*
 * A VM that had ioeventfds of KVM's when the module was loaded keeps to them
 * until it has removed the last. The lock keeps the answer true for a call.
 */
static DEFINE_MUTEX(ig_kvms_own);

static bool ig_has_kvms_own(struct kvm *kvm)
{
	return !list_empty_careful(&kvm->ioeventfds);
}

static enum kvm_bus ig_bus(u32 flags)
{
	if (flags & KVM_IOEVENTFD_FLAG_PIO)
		return KVM_PIO_BUS;
	return flags & KVM_IOEVENTFD_FLAG_VIRTIO_CCW_NOTIFY ?
	       KVM_VIRTIO_CCW_NOTIFY_BUS : KVM_MMIO_BUS;
}

static void __user *ig_payload(const struct kvm_ioeventfd *args)
{
	u64 address;

	memcpy(&address, args->pad + KVM_IOEVENTFD_PAYLOAD_IN_PAD, sizeof(address));
	return u64_to_user_ptr(address);
}

static struct kvm_ioeventfd_ring_pad ig_ring_pad(const struct kvm_ioeventfd *args)
{
	struct kvm_ioeventfd_ring_pad pad;

	memcpy(&pad, args->pad + KVM_IOEVENTFD_RING_IN_PAD, sizeof(pad));
	return pad;
}

/* The eventfd may be an error. It has no ring yet. */
static struct ig_request ig_request(struct kvm *kvm, enum kvm_bus bus,
				    const struct kvm_ioeventfd *args)
{
	bool wildcard = !(args->flags & KVM_IOEVENTFD_FLAG_DATAMATCH);

	return (struct ig_request) {
		.kvm = kvm,
		.bus = bus,
		.address = args->addr,
		.length = args->len,
		.eventfd = eventfd_ctx_fdget(args->fd),
		.wildcard = wildcard,
		.value = wildcard ? 0 : args->datamatch,
		.mixed = args->flags & KVM_IOEVENTFD_FLAG_MIXED,
		.payload = args->flags & KVM_IOEVENTFD_FLAG_PAYLOAD ?
			   ig_payload(args) : NULL,
	};
}

/* Without a length an MMIO address is also on the bus that needs no decoding. */
static bool ig_is_fast(enum kvm_bus bus, const struct kvm_ioeventfd *args)
{
	return bus == KVM_MMIO_BUS && !args->len;
}

static int ig_assign_on(struct kvm *kvm, enum kvm_bus bus,
			const struct kvm_ioeventfd *args)
{
	struct ig_request request = ig_request(kvm, bus, args);
	struct kvm_ioeventfd_ring_pad pad = ig_ring_pad(args);
	int ret;

	if (IS_ERR(request.eventfd))
		return PTR_ERR(request.eventfd);
	if (args->flags & KVM_IOEVENTFD_FLAG_RING) {
		request.tag = pad.tag;
		request.ring = ig_ring_get(kvm, &pad);
	}
	if (IS_ERR(request.ring)) {
		eventfd_ctx_put(request.eventfd);
		return PTR_ERR(request.ring);
	}
	ret = ig_add(&request);
	if (!ret)
		return 0;
	if (request.ring)
		ig_ring_put(request.ring);
	eventfd_ctx_put(request.eventfd);
	return ret;
}

static int ig_deassign_on(struct kvm *kvm, enum kvm_bus bus,
			  const struct kvm_ioeventfd *args)
{
	struct ig_request request = ig_request(kvm, bus, args);
	int ret;

	if (IS_ERR(request.eventfd))
		return PTR_ERR(request.eventfd);
	ret = ig_remove(&request);
	eventfd_ctx_put(request.eventfd);
	return ret;
}

/* Where a value of the guest's may go. */
static int ig_check_passing(const struct kvm_ioeventfd *args)
{
	const void __user *payload = ig_payload(args);

	if (!args->len || args->flags & KVM_IOEVENTFD_FLAG_DATAMATCH)
		return -EINVAL;
	if ((args->flags & IG_PASSING) == IG_PASSING)
		return -EINVAL;
	if (args->flags & KVM_IOEVENTFD_FLAG_RING)
		return 0;
	if (!IS_ALIGNED((unsigned long)payload, args->len))
		return -EINVAL;
	return payload && access_ok(payload, args->len) ? 0 : -EFAULT;
}

static int ig_assign(struct kvm *kvm, const struct kvm_ioeventfd *args)
{
	enum kvm_bus bus = ig_bus(args->flags);
	int ret;

	if (args->len > 8 || (args->len && !is_power_of_2(args->len)))
		return -EINVAL;
	if (args->addr + args->len < args->addr)
		return -EINVAL;
	if (args->flags & ~IG_FLAGS)
		return -EINVAL;
	if (!args->len && args->flags & KVM_IOEVENTFD_FLAG_DATAMATCH)
		return -EINVAL;
	if (args->flags & IG_PASSING) {
		ret = ig_check_passing(args);
		if (ret)
			return ret;
	}

	ret = ig_assign_on(kvm, bus, args);
	if (!ret && ig_is_fast(bus, args)) {
		ret = ig_assign_on(kvm, KVM_FAST_MMIO_BUS, args);
		if (ret)
			ig_deassign_on(kvm, bus, args);
	}
	return ret;
}

static int ig_deassign(struct kvm *kvm, const struct kvm_ioeventfd *args)
{
	enum kvm_bus bus = ig_bus(args->flags);
	int ret = ig_deassign_on(kvm, bus, args);

	if (ig_is_fast(bus, args))
		ig_deassign_on(kvm, KVM_FAST_MMIO_BUS, args);
	return ret;
}

/* Leaves the call to KVM, if the VM still has ioeventfds of KVM's. */
static bool ig_is_kvms(struct kvm *kvm, struct kvm_ioeventfd *args, int *ret)
{
	bool is_kvms;

	mutex_lock(&ig_kvms_own);
	is_kvms = ig_has_kvms_own(kvm);
	if (is_kvms)
		*ret = ig_kvm_ioeventfd(kvm, args);
	mutex_unlock(&ig_kvms_own);
	return is_kvms;
}

int ig_ioeventfd(struct kvm *kvm, struct kvm_ioeventfd *args)
{
	int ret;

	/* ENOENT is DEASSIGN's: the ioeventfd may be the module's. */
	if (unlikely(ig_has_kvms_own(kvm)) && ig_is_kvms(kvm, args, &ret) &&
	    ret != -ENOENT)
		return ret;
	if (args->flags & KVM_IOEVENTFD_FLAG_DEASSIGN)
		return ig_deassign(kvm, args);
	return ig_assign(kvm, args);
}

static int __init ig_init(void)
{
	return ig_hook();
}

static void __exit ig_exit(void)
{
	ig_unhook();
}

module_init(ig_init);
module_exit(ig_exit);
MODULE_DESCRIPTION("ioeventfds of KVM by address, with their values in a hash");
MODULE_LICENSE("GPL");
